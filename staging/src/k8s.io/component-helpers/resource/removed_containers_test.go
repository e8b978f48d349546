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

package resource

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func cpu(quantity string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(quantity)}
}

func specContainer(name, request string) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: cpu(request), Limits: cpu(request)}}
}

func containerStatus(name, request string, state v1.ContainerState) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: name, State: state, AllocatedResources: cpu(request),
		Resources: &v1.ResourceRequirements{Requests: cpu(request), Limits: cpu(request)},
	}
}

func TestResourcesOfRemovedContainers(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	waiting := func(reason string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
	}
	terminated := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
	main := specContainer("main", "1")
	mainStatus := containerStatus("main", "1", running)
	podLevel := func(status *v1.PodStatus, request string) {
		status.AllocatedResources = cpu(request)
		status.Resources = &v1.ResourceRequirements{Requests: cpu(request), Limits: cpu(request)}
	}
	infeasible := v1.PodCondition{Type: v1.PodResizePending, Reason: v1.PodReasonInfeasible}

	for name, tc := range map[string]struct {
		spec       []v1.Container
		init       []v1.Container
		statuses   []v1.ContainerStatus
		podLevel   string
		infeasible bool
		// want are the requests and limits by the spec, wantWithStatus by spec and status.
		want, wantWithStatus string
	}{
		"nothing removed": {
			spec: []v1.Container{main}, statuses: []v1.ContainerStatus{mainStatus},
			want: "1", wantWithStatus: "1",
		},
		"removed and running": {
			spec: []v1.Container{main}, statuses: []v1.ContainerStatus{mainStatus, containerStatus("w", "4", running)},
			want: "1", wantWithStatus: "5",
		},
		"removed while it waits to be restarted": {
			spec: []v1.Container{main}, statuses: []v1.ContainerStatus{mainStatus, containerStatus("w", "4", waiting("CrashLoopBackOff"))},
			want: "1", wantWithStatus: "5",
		},
		"removed and stopped": {
			spec: []v1.Container{main}, statuses: []v1.ContainerStatus{mainStatus, containerStatus("w", "4", terminated)},
			want: "1", wantWithStatus: "1",
		},
		"removed before it was allocated": {
			spec: []v1.Container{main}, statuses: []v1.ContainerStatus{mainStatus, {Name: "w", State: waiting(v1.ContainerReasonUnallocated)}},
			want: "1", wantWithStatus: "1",
		},
		"swapped for another one": {
			spec: []v1.Container{main, specContainer("y", "4")}, statuses: []v1.ContainerStatus{mainStatus, containerStatus("x", "4", running)},
			want: "5", wantWithStatus: "9",
		},
		"removed, with another one that is not allocated": {
			spec:     []v1.Container{main, specContainer("y", "4")},
			statuses: []v1.ContainerStatus{mainStatus, containerStatus("x", "2", running), {Name: "y", State: waiting(v1.ContainerReasonUnallocated)}},
			want:     "5", wantWithStatus: "7",
		},
		"removed, with another one that is never allocated": {
			spec:       []v1.Container{main, specContainer("y", "40")},
			statuses:   []v1.ContainerStatus{mainStatus, containerStatus("x", "2", running), {Name: "y", State: waiting(v1.ContainerReasonUnallocated)}},
			infeasible: true,
			want:       "41", wantWithStatus: "3",
		},
		"removed is not added to the peak of the init containers": {
			spec: []v1.Container{main}, init: []v1.Container{specContainer("init", "10")},
			statuses: []v1.ContainerStatus{mainStatus, containerStatus("w", "4", running)},
			want:     "10", wantWithStatus: "10",
		},
		"removal not allocated, resources of the pod": {
			spec: []v1.Container{main}, statuses: []v1.ContainerStatus{mainStatus, containerStatus("w", "4", running)}, podLevel: "5",
			want: "1", wantWithStatus: "5",
		},
		"removal allocated, resources of the pod": {
			spec: []v1.Container{main}, statuses: []v1.ContainerStatus{mainStatus, containerStatus("w", "4", running)}, podLevel: "1",
			want: "1", wantWithStatus: "5",
		},
		"removal allocated, next change infeasible, resources of the pod": {
			spec: []v1.Container{main, specContainer("y", "40")}, podLevel: "1", infeasible: true,
			statuses: []v1.ContainerStatus{mainStatus, containerStatus("w", "4", running), {Name: "y", State: waiting(v1.ContainerReasonUnallocated)}},
			want:     "41", wantWithStatus: "5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{
				Spec:   v1.PodSpec{Containers: tc.spec, InitContainers: tc.init},
				Status: v1.PodStatus{ContainerStatuses: tc.statuses},
			}
			if tc.podLevel != "" {
				podLevel(&pod.Status, tc.podLevel)
			}
			if tc.infeasible {
				pod.Status.Conditions = []v1.PodCondition{infeasible}
			}
			before := pod.DeepCopy()
			for _, removed := range RemovedContainers(pod) {
				if status := findContainerStatus(pod, removed.Name); status.AllocatedResources == nil {
					t.Errorf("container %q counts, and has nothing", removed.Name)
				}
			}
			for _, opts := range []struct {
				PodResourcesOptions
				want string
			}{
				{PodResourcesOptions{InPlacePodLevelResourcesVerticalScalingEnabled: true}, tc.want},
				{PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}, tc.wantWithStatus},
			} {
				if diff := cmp.Diff(cpu(opts.want), PodRequests(pod, opts.PodResourcesOptions)); diff != "" {
					t.Errorf("requests, status counts: %t (-want +got):\n%s", opts.UseStatusResources, diff)
				}
				if tc.podLevel != "" || tc.infeasible {
					continue // limits are as the status of the pod has them
				}
				if diff := cmp.Diff(cpu(opts.want), PodLimits(pod, opts.PodResourcesOptions)); diff != "" {
					t.Errorf("limits, status counts: %t (-want +got):\n%s", opts.UseStatusResources, diff)
				}
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}
