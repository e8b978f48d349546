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

package kubelet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// A pod that the kubelet has not admitted, or rejects, has no allocated spec. The desired one must
// not be passed off as such.
func TestGetAllocatedPodByNameNeverReturnsDesiredPod(t *testing.T) {
	enableDynamicContainers(t)
	tests := map[string]map[string]string{
		"pod of the API server": nil,
		"static pod":            {kubetypes.ConfigSourceAnnotationKey: kubetypes.FileSource},
	}
	for name, annotations := range tests {
		t.Run(name, func(t *testing.T) {
			tCtx := ktesting.Init(t)
			testKubelet := newTestKubelet(t, false)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{
				NodeName:   testKubeletHostname,
				Containers: []v1.Container{{Name: "main", Image: "i", Resources: cpuRequest("1")}},
			})
			pod.Annotations = annotations
			kl.podManager.SetPods([]*v1.Pod{pod})

			got, err := kl.GetAllocatedPodByName("ns", "p")
			require.NoError(t, err)
			assert.Nil(t, got, "nothing is allocated")

			require.NoError(t, kl.allocationManager.SetAllocatedResources(tCtx.Logger(), pod))
			desired := pod.DeepCopy()
			desired.Spec.Containers[0].Resources = cpuRequest("2")
			kl.podManager.UpdatePod(desired)

			got, err = kl.GetAllocatedPodByName("ns", "p")
			require.NoError(t, err)
			require.NotNil(t, got)
			assert.Equal(t, pod.UID, got.UID)
			assert.Equal(t, pod.Spec.Containers, got.Spec.Containers)

			got, err = kl.GetAllocatedPodByName("ns", "other")
			require.NoError(t, err)
			assert.Nil(t, got, "no such pod")
		})
	}
}

func TestTranslatePodUID(t *testing.T) {
	testKubelet := newTestKubelet(t, false)
	defer testKubelet.Cleanup()
	kl := testKubelet.kubelet
	static := podWithUIDNameNsSpec("static-uid", "p", "ns", v1.PodSpec{})
	static.Annotations = map[string]string{kubetypes.ConfigSourceAnnotationKey: kubetypes.FileSource}
	mirror := podWithUIDNameNsSpec("mirror-uid", "p", "ns", v1.PodSpec{})
	mirror.Annotations = map[string]string{
		kubetypes.ConfigSourceAnnotationKey: kubetypes.ApiserverSource,
		kubetypes.ConfigMirrorAnnotationKey: "static-uid",
	}
	kl.podManager.SetPods([]*v1.Pod{static, mirror})
	for uid, want := range map[types.UID]types.UID{"mirror-uid": "static-uid", "static-uid": "static-uid", "other": "other"} {
		assert.Equal(t, want, kl.TranslatePodUID(uid))
	}
}
