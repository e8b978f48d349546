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
	"fmt"
	"io"
	"net/http"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// Logs of a removed container are there for as long as its status is.
func TestLogsOfRemovedContainers(t *testing.T) {
	tests := map[string]struct {
		container       string
		want, wantIfOff int
	}{
		"a container of the spec":                      {"main", http.StatusOK, http.StatusOK},
		"a removed container":                          {"removed", http.StatusOK, http.StatusNotFound},
		"a container that neither spec nor status has": {"gone", http.StatusNotFound, http.StatusNotFound},
	}
	for name, tc := range tests {
		for _, enabled := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s (gate=%v)", name, enabled), func(t *testing.T) {
				featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
					features.KubeletAllocatedPodsEndpoint: enabled,
					features.DynamicContainers:            enabled,
				})
				fw := newServerTest(ktesting.Init(t))
				defer fw.testHTTPServer.Close()
				fw.fakeKubelet.podByNameFunc = func(namespace, name string) (*v1.Pod, bool) {
					return &v1.Pod{
						ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
						Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
						Status:     v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "main"}, {Name: "removed"}}},
					}, true
				}
				setGetContainerLogsFunc(fw, t, getPodName("pod", "ns"), tc.container, &v1.PodLogOptions{}, "output")

				resp, err := http.Get(fw.testHTTPServer.URL + "/containerLogs/ns/pod/" + tc.container)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				want := tc.want
				if !enabled {
					want = tc.wantIfOff
				}
				if resp.StatusCode != want || (want == http.StatusOK) != (string(body) == "output") {
					t.Errorf("want code %d, got %d with %q", want, resp.StatusCode, body)
				}
			})
		}
	}
}
