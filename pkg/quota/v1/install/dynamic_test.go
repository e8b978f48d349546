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

package install

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestUpdateFilterOfDynamicContainers(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	terminated := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
	type statuses map[string]v1.ContainerState
	pod := func(s statuses, names ...string) *v1.Pod {
		p := &v1.Pod{Status: v1.PodStatus{Phase: v1.PodRunning}}
		for _, name := range names {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name})
		}
		for name, state := range s {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{Name: name, State: state})
		}
		return p
	}
	tests := []struct {
		name     string
		old, new *v1.Pod
		want     bool
	}{
		{name: "container added", old: pod(nil, "a"), new: pod(nil, "a", "b"), want: true},
		{name: "container removed", old: pod(nil, "a", "b"), new: pod(nil, "a"), want: true},
		{name: "containers swapped", old: pod(nil, "a", "b"), new: pod(nil, "a", "c"), want: true},
		{name: "containers reordered", old: pod(nil, "a", "b"), new: pod(nil, "b", "a")},
		{name: "removed container stops", old: pod(statuses{"b": running}, "a"), new: pod(statuses{"b": terminated}, "a"), want: true},
		{name: "status of a removed container that never stopped goes away", old: pod(statuses{"b": running}, "a"), new: pod(nil, "a"), want: true},
		{name: "status of a stopped container goes away", old: pod(statuses{"b": terminated}, "a"), new: pod(nil, "a")},
		{name: "container of the pod stops", old: pod(statuses{"a": running}, "a"), new: pod(statuses{"a": terminated}, "a")},
		{name: "nothing changes", old: pod(statuses{"a": running}, "a"), new: pod(statuses{"a": running}, "a")},
	}
	filter := DefaultUpdateFilter()
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := filter(v1.SchemeGroupVersion.WithResource("pods"), tc.old, tc.new); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
