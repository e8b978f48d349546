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

package podcmd

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podWithRemovedContainers has the containers a and b, and the statuses of removed containers x and y.
func podWithRemovedContainers() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "init"}},
			Containers:     []v1.Container{{Name: "a", TTY: true}, {Name: "b"}},
		},
		Status: v1.PodStatus{
			InitContainerStatuses: []v1.ContainerStatus{{Name: "init"}},
			ContainerStatuses:     []v1.ContainerStatus{{Name: "b"}, {Name: "y", Image: "image-of-y"}, {Name: "a"}, {Name: "x", Image: "image-of-x"}},
		},
	}
}

func TestRemovedContainerStatuses(t *testing.T) {
	var got []string
	for _, status := range RemovedContainerStatuses(podWithRemovedContainers()) {
		got = append(got, status.Name)
	}
	if diff := cmp.Diff([]string{"y", "x"}, got); diff != "" {
		t.Errorf("unexpected removed containers (-want +got):\n%s", diff)
	}
}

func TestFindContainerOrRemovedByName(t *testing.T) {
	type result struct {
		container *v1.Container
		fieldPath string
	}
	tests := map[string]result{
		"a":    {&v1.Container{Name: "a", TTY: true}, "spec.containers{a}"},
		"init": {&v1.Container{Name: "init"}, "spec.initContainers{init}"},
		"x":    {&v1.Container{Name: "x", Image: "image-of-x"}, "spec.containers{x}"},
		"gone": {},
		"":     {},
	}
	for name, want := range tests {
		t.Run("container "+name, func(t *testing.T) {
			container, fieldPath := FindContainerOrRemovedByName(podWithRemovedContainers(), name)
			if diff := cmp.Diff(want, result{container, fieldPath}, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("unexpected container (-want +got):\n%s", diff)
			}
		})
	}
}

// A removed container is only found when it is named: it is never the default.
func TestFindOrDefaultContainerByNameWithRemovedContainers(t *testing.T) {
	tests := map[string]struct {
		annotation, name string
		want, wantErr    string
	}{
		"the default is the first container of the spec":  {want: "a"},
		"a container of the spec is named":                {name: "b", want: "b"},
		"a removed container is named":                    {name: "x", want: "x"},
		"a removed container is named, not the annotated": {name: "x", annotation: "b", want: "x"},
		"a removed container is annotated":                {annotation: "x", wantErr: "container x is not valid for pod pod out of: a, b, init (init)"},
		"an unknown container is named":                   {name: "gone", wantErr: "container gone is not valid for pod pod out of: a, b, init (init)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := podWithRemovedContainers()
			pod.Annotations = map[string]string{DefaultContainerAnnotationName: tc.annotation}
			got, err := FindOrDefaultContainerByName(pod, tc.name, true, &bytes.Buffer{})
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Fatalf("want error %q, got container %v and error %v", tc.wantErr, got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Name != tc.want {
				t.Errorf("want container %s, got %s", tc.want, got.Name)
			}
		})
	}
}
