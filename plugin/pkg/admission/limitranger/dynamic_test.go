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

package limitranger

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	api "k8s.io/kubernetes/pkg/apis/core"
)

func TestDynamicUpdate(t *testing.T) {
	with := func(name, cpu string) api.Container {
		c := api.Container{Name: name}
		if cpu != "" {
			c.Resources = getResourceRequirements(getComputeResourceList(cpu, ""), getComputeResourceList(cpu, ""))
		}
		return c
	}
	cpu := func(quantity string) api.ResourceList { return getComputeResourceList(quantity, "") }
	none := api.ResourceList{}
	maxOne := createLimitRange(api.LimitTypeContainer, none, cpu("1"), none, none, none)
	minOne := createLimitRange(api.LimitTypeContainer, cpu("1"), none, none, none, none)
	podMaxTwo := createLimitRange(api.LimitTypePod, none, cpu("2"), none, none, none)
	podMinTwo := createLimitRange(api.LimitTypePod, cpu("2"), none, none, none, none)
	defaults := createLimitRange(api.LimitTypeContainer, none, none, cpu("500m"), cpu("500m"), none)

	tests := []struct {
		name      string
		limit     corev1.LimitRange
		old, new  []api.Container
		want      []api.Container
		wantError string
	}{
		{name: "added container within the limit", limit: maxOne, old: []api.Container{with("main", "1")}, new: []api.Container{with("main", "1"), with("w", "1")}},
		{name: "added container above the limit", limit: maxOne, old: []api.Container{with("main", "1")}, new: []api.Container{with("main", "1"), with("w", "2")},
			wantError: "maximum cpu usage per Container is 1, but limit is 2"},
		{name: "added container takes the place of one of its size", limit: maxOne, old: []api.Container{with("main", "1"), with("x", "2")}, new: []api.Container{with("main", "1"), with("w", "2")},
			wantError: "maximum cpu usage per Container is 1, but limit is 2"},
		{name: "resized container above the limit", limit: maxOne, old: []api.Container{with("main", "1")}, new: []api.Container{with("main", "2")},
			wantError: "maximum cpu usage per Container is 1, but limit is 2"},
		{name: "container that was above the limit before may stay", limit: maxOne, old: []api.Container{with("main", "2")}, new: []api.Container{with("w", "1"), with("main", "2")}},
		{name: "removal beside a container that was below the minimum before", limit: minOne, old: []api.Container{with("main", "500m"), with("x", "1")}, new: []api.Container{with("main", "500m")}},
		{name: "added container takes the pod above the limit", limit: podMaxTwo, old: []api.Container{with("main", "1")}, new: []api.Container{with("main", "1"), with("w", "1500m")},
			wantError: "maximum cpu usage per Pod is 2, but limit is 2500m"},
		{name: "removal takes the pod below the minimum", limit: podMinTwo, old: []api.Container{with("main", "1"), with("x", "1")}, new: []api.Container{with("main", "1")},
			wantError: "minimum cpu usage per Pod is 2, but request is 1"},
		{name: "pod that was below the minimum before keeps its resources", limit: podMinTwo, old: []api.Container{with("main", "1")}, new: []api.Container{with("main", "1")}},
		{name: "only the added container gets defaults", limit: defaults, old: []api.Container{with("main", "")}, new: []api.Container{with("w", ""), with("main", "")},
			want: []api.Container{with("w", "500m"), with("main", "")}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			handler, factory, err := newHandlerForTest(newMockClientForTest([]corev1.LimitRange{tc.limit}))
			if err != nil {
				t.Fatal(err)
			}
			factory.Start(t.Context().Done())

			oldPod := &api.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "test"}, Spec: api.PodSpec{Containers: tc.old}}
			pod := &api.Pod{ObjectMeta: *oldPod.ObjectMeta.DeepCopy(), Spec: api.PodSpec{Containers: tc.new}}
			want := pod.DeepCopy()
			if tc.want != nil {
				want.Spec.Containers = tc.want
			}
			attr := admission.NewAttributesRecord(pod, oldPod, api.Kind("Pod").WithVersion("version"), "test", "p",
				api.Resource("pods").WithVersion("version"), "dynamic", admission.Update, &metav1.UpdateOptions{}, false, nil)
			if err := handler.Admit(t.Context(), attr, nil); err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			if diff := cmp.Diff(want, pod); diff != "" {
				t.Errorf("unexpected pod (-want +got):\n%s", diff)
			}
			err = handler.Validate(t.Context(), attr, nil)
			switch {
			case tc.wantError == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)):
				t.Errorf("want an error with %q, got: %v", tc.wantError, err)
			}
		})
	}
}
