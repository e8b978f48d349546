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

package podresize

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/apis/core"
)

func TestDynamicAdmission(t *testing.T) {
	node := func(name, os string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: os}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
			}},
		}
	}
	container := func(name, image, cpu string) core.Container {
		c := core.Container{Name: name, Image: image}
		if cpu != "" {
			c.Resources.Requests = core.ResourceList{core.ResourceCPU: resource.MustParse(cpu)}
		}
		return c
	}
	type containers = []core.Container

	tests := map[string]struct {
		node     string
		old, new containers
		// wantErr is a part of the error, empty if the update is admitted.
		wantErr string
	}{
		"a container that fits is added":           {"linux", containers{container("a", "i", "1")}, containers{container("b", "i", "3"), container("a", "i", "1")}, ""},
		"a container that never fits is added":     {"linux", containers{container("a", "i", "1")}, containers{container("b", "i", "4"), container("a", "i", "1")}, "node didn't have enough allocatable resources: cpu, requested: 5000, allocatable: 4000"},
		"a container is added on a windows node":   {"windows", containers{container("a", "i", "")}, containers{container("a", "i", ""), container("b", "i", "")}, "only supported on linux nodes"},
		"a container is added on a missing node":   {"missing", containers{container("a", "i", "")}, containers{container("a", "i", ""), container("b", "i", "")}, `node "missing" not found`},
		"a container grows beyond the node":        {"linux", containers{container("a", "i", "1")}, containers{container("a", "i", "5")}, "node didn't have enough allocatable resources"},
		"a pod larger than its node loses a part":  {"linux", containers{container("a", "i", "5"), container("b", "i", "3")}, containers{container("a", "i", "5")}, ""},
		"a pod larger than its node shrinks":       {"linux", containers{container("a", "i", "6")}, containers{container("a", "i", "5")}, ""},
		"a pod larger than its node gets an image": {"linux", containers{container("a", "i", "6")}, containers{container("a", "j", "6")}, ""},
		"a pod larger than its node is reordered":  {"linux", containers{container("a", "i", "6"), container("b", "i", "1")}, containers{container("b", "i", "1"), container("a", "i", "6")}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, err := NewPlugin()
			if err != nil {
				t.Fatal(err)
			}
			plugin.inPlacePodVerticalScalingEnabled = true
			client := fake.NewClientset(node("linux", "linux"), node("windows", "windows"))
			factory := informers.NewSharedInformerFactory(client, 0)
			plugin.SetExternalKubeInformerFactory(factory)
			stop := make(chan struct{})
			defer close(stop)
			factory.Start(stop)
			factory.WaitForCacheSync(stop)

			pod := func(generation int64, ctrs containers) *core.Pod {
				return &core.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns", Generation: generation},
					Spec:       core.PodSpec{NodeName: tc.node, Containers: ctrs},
				}
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
