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

package pods

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/test/integration/framework"
)

// Two managers that each apply a container of their own do not touch that of the other.
func TestDynamicApplyByTwoManagers(t *testing.T) {
	client, _ := startDynamicServer(t, true)
	ns := framework.CreateNamespaceOrDie(client, "dynamic-apply", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	pod := createRunningPod(t, client, ns.Name, dynamicNode)

	// apply applies containers, each given as <name>=<image>.
	apply := func(manager string, containers ...string) (*v1.Pod, error) {
		var list []string
		for _, c := range containers {
			name, image, _ := strings.Cut(c, "=")
			list = append(list, fmt.Sprintf(`{"name":%q,"image":%q}`, name, image))
		}
		config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"containers":[%s]}}`, pod.Name, strings.Join(list, ","))
		return client.CoreV1().Pods(ns.Name).Patch(t.Context(), pod.Name, types.ApplyYAMLPatchType, []byte(config),
			metav1.PatchOptions{FieldManager: manager}, "dynamic")
	}
	steps := []struct {
		name       string
		manager    string
		containers []string
		want       []string
	}{
		{"ray adds its own", "ray", []string{"ray=image"}, []string{"a", "b", "ray"}},
		{"slurm adds its own", "slurm", []string{"slurm=image"}, []string{"a", "b", "ray", "slurm"}},
		{"ray changes the image of its own", "ray", []string{"ray=image:2"}, []string{"a", "b", "ray", "slurm"}},
		{"ray swaps its own", "ray", []string{"ray2=image"}, []string{"a", "b", "slurm", "ray2"}},
		{"slurm removes its own", "slurm", nil, []string{"a", "b", "ray2"}},
	}
	for _, step := range steps {
		got, err := apply(step.manager, step.containers...)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, containerNames(got)); diff != "" {
			t.Fatalf("%s: unexpected containers (-want +got):\n%s", step.name, diff)
		}
		for _, entry := range got.ManagedFields {
			if entry.Manager != step.manager {
				continue
			}
			if entry.Subresource != "dynamic" || entry.Operation != metav1.ManagedFieldsOperationApply {
				t.Errorf("%s: fields are managed by %s of subresource %q, want Apply of dynamic", step.name, entry.Operation, entry.Subresource)
			}
			// The rest of the container is defaulted, and owned by nobody.
			for _, reset := range []string{"f:status", "f:ownerReferences", "f:finalizers"} {
				if strings.Contains(string(entry.FieldsV1.Raw), reset) {
					t.Errorf("%s: manager owns %s", step.name, reset)
				}
			}
		}
	}

	if _, err := apply("slurm", "ray2=other"); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "ray"`) {
		t.Errorf("a container of another manager changed: got %v, want a conflict that names the manager", err)
	}
	if _, err := apply("slurm", "ray2=image"); err != nil {
		t.Errorf("a container shared as it is: %v", err)
	}
	got, err := apply("ray")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "ray2"}, containerNames(got)); diff != "" {
		t.Errorf("a container that another manager applies, too, was removed (-want +got):\n%s", diff)
	}
}
