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

package nodedeclaredfeatures

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/apis/core"
)

func TestDynamicAdmission(t *testing.T) {
	declares := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "declares"}, Status: corev1.NodeStatus{DeclaredFeatures: []string{"DynamicContainers"}}}
	old := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}}

	tests := map[string]struct {
		node     string
		old, new []string
		// wantErr is a part of the error, empty if the update is admitted.
		wantErr string
	}{
		"a container is added on a node that declares the feature":      {"declares", []string{"a"}, []string{"a", "b"}, ""},
		"a container is removed on a node that declares the feature":    {"declares", []string{"a", "b"}, []string{"b"}, ""},
		"a container is added on a node that does not declare it":       {"old", []string{"a"}, []string{"a", "b"}, `requires features DynamicContainers which are not available on node "old"`},
		"a container is removed on a node that does not declare it":     {"old", []string{"a", "b"}, []string{"b"}, `requires features DynamicContainers which are not available on node "old"`},
		"a container is replaced on a node that does not declare it":    {"old", []string{"a"}, []string{"b"}, `requires features DynamicContainers which are not available on node "old"`},
		"containers are reordered on a node that does not declare it":   {"old", []string{"a", "b"}, []string{"b", "a"}, ""},
		"a container is removed on a node that does not exist any more": {"gone", []string{"a", "b"}, []string{"b"}, `node "gone" not found`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, err := NewPlugin()
			if err != nil {
				t.Fatal(err)
			}
			plugin.nodeDeclaredFeatureGateEnabled = true
			factory := informers.NewSharedInformerFactory(fake.NewClientset(declares, old), 0)
			plugin.SetExternalKubeInformerFactory(factory)
			stop := make(chan struct{})
			defer close(stop)
			factory.Start(stop)
			factory.WaitForCacheSync(stop)

			pod := func(generation int64, names []string) *core.Pod {
				pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns", Generation: generation}, Spec: core.PodSpec{NodeName: tc.node}}
				for _, name := range names {
					pod.Spec.Containers = append(pod.Spec.Containers, core.Container{Name: name})
				}
				return pod
			}
			err = plugin.Validate(context.Background(), admission.NewAttributesRecord(pod(2, tc.new), pod(1, tc.old),
				core.Kind("Pod").WithVersion("version"), "ns", "pod", core.Resource("pods").WithVersion("version"), "dynamic",
				admission.Update, &metav1.UpdateOptions{}, false, nil), nil)
			if tc.wantErr == "" && err != nil {
				t.Errorf("unexpected error: %v", err)
			}
			if tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("want an error with %q, got %v", tc.wantErr, err)
			}
		})
	}
}
