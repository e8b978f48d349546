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

package polymorphichelpers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubectl/pkg/cmd/util/podcmd"
)

// Logs of a removed container are there for who names it.
func TestLogsOfRemovedContainers(t *testing.T) {
	tests := map[string]struct {
		annotation, container string
		allContainers         bool
		// want are the field paths of the containers whose logs are read.
		want    []string
		wantErr string
	}{
		"a removed container is named":                       {container: "removed", want: []string{"spec.containers{removed}"}},
		"a removed container is annotated as default":        {annotation: "removed", want: []string{"spec.containers{foo-2-c1}"}},
		"the default is a container of the spec":             {want: []string{"spec.containers{foo-2-c1}"}},
		"all containers are those of the spec":               {allContainers: true, want: []string{"spec.containers{foo-2-c1}", "spec.containers{foo-2-c2}"}},
		"a container that neither spec nor status has named": {container: "gone", wantErr: "container gone is not valid for pod foo-two-containers out of: foo-2-c1, foo-2-c2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := testPodWithTwoContainers()
			pod.Annotations = map[string]string{podcmd.DefaultContainerAnnotationName: tc.annotation}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "removed"}, {Name: "foo-2-c1"}, {Name: "foo-2-c2"}}
			got, err := logsForObjectWithClient(fake.NewClientset(pod).CoreV1(), pod, &corev1.PodLogOptions{Container: tc.container}, 0, tc.allContainers, false)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("want error %q, got %v", tc.wantErr, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			paths := map[string]bool{}
			for ref := range got {
				paths[ref.FieldPath] = true
			}
			if len(paths) != len(tc.want) {
				t.Errorf("want %v, got %v", tc.want, paths)
			}
			for _, want := range tc.want {
				if !paths[want] {
					t.Errorf("want %v, got %v", tc.want, paths)
				}
			}
		})
	}
}
