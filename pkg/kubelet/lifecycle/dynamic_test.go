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

package lifecycle

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/test/utils/ktesting"

	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

func podWith(containers ...v1.Container) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: containers}, Status: v1.PodStatus{Phase: v1.PodRunning}}
}

func requesting(name, cpu string) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}
}

// confinedContainers refuses pods with AppArmor profiles, as on a host without it.
type confinedContainers struct{}

func (confinedContainers) ValidateHost() error { return nil }
func (confinedContainers) Validate(pod *v1.Pod) error {
	for _, c := range pod.Spec.Containers {
		if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			return errors.New("not enabled on the host: " + c.Name)
		}
	}
	return nil
}

func TestAppArmorOfAddedContainers(t *testing.T) {
	confined := func(name string) v1.Container {
		return v1.Container{Name: name, SecurityContext: &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}}
	}
	for name, tc := range map[string]struct {
		allocated, pod *v1.Pod
		want           bool
	}{
		"resize without added containers":               {allocated: podWith(confined("main")), pod: podWith(confined("main")), want: true},
		"removed container":                             {allocated: podWith(confined("main"), confined("w")), pod: podWith(confined("main")), want: true},
		"added container without a profile":             {allocated: podWith(confined("main")), pod: podWith(confined("main"), v1.Container{Name: "w"}), want: true},
		"profile of another container of the same name": {allocated: podWith(v1.Container{Name: "main"}), pod: podWith(confined("main"))},
		"added container with a profile":                {allocated: podWith(confined("main")), pod: podWith(confined("main"), confined("w"))},
		"only resources are allocated":                  {pod: podWith(confined("main"), confined("w")), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			attrs := &PodAdmitAttributes{Pod: tc.pod, AllocatedPod: tc.allocated, Operation: ResizeOperation}
			result := NewAppArmorAdmitHandler(confinedContainers{}).Admit(context.Background(), attrs)
			assert.Equal(t, tc.want, result.Admit, result.Message)
		})
	}
}

func TestCapacityForChangesOfContainers(t *testing.T) {
	stopping := podWith(requesting("main", "1"), requesting("new", "1"))
	stopping.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "gone", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		AllocatedResources: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1900m")},
	}}
	large := stopping.DeepCopy()
	large.Status.ContainerStatuses[0].AllocatedResources[v1.ResourceCPU] = resource.MustParse("3")
	allocated := podWith(requesting("main", "1"), requesting("w", "2"))
	for name, tc := range map[string]struct {
		allocated, pod *v1.Pod
		want           string
	}{
		"fits":                                    {allocated: allocated, pod: podWith(requesting("main", "1"), requesting("w", "2"), requesting("new", "500m"))},
		"does not fit beside the other pod":       {allocated: allocated, pod: podWith(requesting("main", "1"), requesting("w", "2"), requesting("new", "1")), want: OutOfCPU},
		"does not fit on the node":                {allocated: allocated, pod: podWith(requesting("main", "1"), requesting("w", "2"), requesting("new", "2")), want: ExceedsNodeAllocatable},
		"not beside what it replaces":             {allocated: allocated, pod: podWith(requesting("main", "1"), requesting("new", "1")), want: OutOfCPU},
		"not beside what is being stopped":        {allocated: podWith(requesting("main", "1")), pod: stopping, want: OutOfCPU},
		"only resources are allocated":            {pod: stopping},
		"not on the node before that has stopped": {allocated: podWith(requesting("main", "1")), pod: large, want: OutOfCPU},
		"only resources are allocated, too large": {pod: podWith(requesting("main", "5")), want: OutOfCPU},
	} {
		t.Run(name, func(t *testing.T) {
			_, tCtx := ktesting.NewTestContext(t)
			getNode := func(context.Context, bool) (*v1.Node, error) {
				return &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{
					v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("10"),
				}}}, nil
			}
			updatePluginResources := func(*schedulerframework.NodeInfo, *PodAdmitAttributes) error { return nil }
			handler := NewPredicateAdmitHandler(getNode, NewAdmissionFailureHandlerStub(), updatePluginResources)
			other := podWith(requesting("other", "500m"))
			before := tc.pod.DeepCopy()
			result := handler.Admit(tCtx, &PodAdmitAttributes{Pod: tc.pod, AllocatedPod: tc.allocated, OtherPods: []*v1.Pod{other}, Operation: ResizeOperation})
			assert.Equal(t, tc.want, result.Reason, result.Message)
			assert.Equal(t, before, tc.pod, "the pod is not changed")
		})
	}
}
