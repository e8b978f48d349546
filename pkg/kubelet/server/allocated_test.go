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

package server

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/test/utils/ktesting"
)

func (*fakeKubelet) TranslatePodUID(podUID types.UID) types.UID {
	if podUID == "mirror-uid" {
		return "static-uid"
	}
	return podUID
}

// Clients of the API know a static pod by the UID of its mirror pod only.
func TestAllocatedPodByMirrorUID(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.KubeletAllocatedPodsEndpoint, true)
	fw := newServerTest(ktesting.Init(t))
	defer fw.testHTTPServer.Close()
	fw.fakeKubelet.allocatedPodByNameFunc = func(namespace, name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "static-uid"}}
	}
	for uid, want := range map[string]int{"mirror-uid": http.StatusOK, "static-uid": http.StatusOK, "other-uid": http.StatusNotFound} {
		resp, err := http.Get(fw.testHTTPServer.URL + "/allocatedPods/ns/p/" + uid)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		if resp.StatusCode != want {
			t.Errorf("UID %s: got status %d, want %d", uid, resp.StatusCode, want)
		}
	}
}

// The API server tells a kubelet that has allocated nothing for a pod from a kubelet without the
// endpoint by the text of the 404, see pkg/registry/core/pod/rest/allocated.go.
func TestAllocatedPodNotFoundText(t *testing.T) {
	const podNotFound = "pod not found"
	for name, enabled := range map[string]bool{"endpoint enabled": true, "endpoint disabled": false} {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.KubeletAllocatedPodsEndpoint, enabled)
			fw := newServerTest(ktesting.Init(t))
			defer fw.testHTTPServer.Close()
			fw.fakeKubelet.allocatedPodByNameFunc = func(string, string) *v1.Pod { return nil }

			for _, path := range []string{"/allocatedPods/ns/p", "/allocatedPods/ns/p/uid"} {
				resp, err := http.Get(fw.testHTTPServer.URL + path)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, http.StatusNotFound, resp.StatusCode)
				if got := strings.TrimSpace(string(body)) == podNotFound; got != enabled {
					t.Errorf("GET %s: got text %q, want %q: %v", path, body, podNotFound, enabled)
				}
			}
		})
	}
}
