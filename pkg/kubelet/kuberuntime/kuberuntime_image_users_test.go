/*
Copyright The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package kuberuntime

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/features"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/test/utils/ktesting"
)

func TestImageIsLookedUpOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		featureOff bool
		image      runtimeapi.Image
		lookups    int
	}{
		"no user":            {image: runtimeapi.Image{Id: "sha256:1"}, lookups: 1},
		"user ID":            {image: runtimeapi.Image{Id: "sha256:1", Uid: &runtimeapi.Int64Value{Value: 2}, Username: "whatever"}, lookups: 1},
		"root's user ID":     {image: runtimeapi.Image{Id: "sha256:1", Uid: &runtimeapi.Int64Value{}}, lookups: 1},
		"user name":          {image: runtimeapi.Image{Id: "sha256:1", Username: "someone"}, lookups: 1},
		"feature turned off": {featureOff: true, image: runtimeapi.Image{Id: "sha256:1", Username: "someone"}, lookups: 2},
	} {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				features.KubeletAllocatedPodsEndpoint: true,
				features.DynamicContainers:            !tc.featureOff,
			})
			tCtx := ktesting.Init(t)
			_, images, m, err := createTestRuntimeManager(tCtx)
			require.NoError(t, err)
			images.Images["image"] = &tc.image
			wantUID, wantName, err := m.getImageUser(tCtx, "image")
			require.NoError(t, err)

			images.Called = nil
			ref, err := m.GetImageRef(tCtx, kubecontainer.ImageSpec{Image: "image"})
			require.NoError(t, err)
			uid, userName, err := m.getImageUserByRef(tCtx, "image", ref)
			require.NoError(t, err)
			assert.Equal(t, wantUID, uid)
			assert.Equal(t, wantName, userName)
			assert.Len(t, images.Called, tc.lookups)

			// Meanwhile another image was pulled under the name.
			images.Images["image"] = &runtimeapi.Image{Id: "sha256:2", Username: "another"}
			uid, userName, err = m.getImageUserByRef(tCtx, "image", "sha256:2")
			require.NoError(t, err)
			assert.Nil(t, uid)
			assert.Equal(t, "another", userName)
		})
	}
}
