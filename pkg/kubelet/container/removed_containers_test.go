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

package container

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestKeptRemovedContainers(t *testing.T) {
	start := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	container := func(name, id string, state State, created, finished int) *Status {
		return &Status{
			ID: ContainerID{Type: "test", ID: id}, Name: name, State: state,
			CreatedAt: start.Add(time.Duration(created) * time.Second), FinishedAt: start.Add(time.Duration(finished) * time.Second),
		}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers:      []v1.Container{{Name: "init"}},
		Containers:          []v1.Container{{Name: "main"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
	}}
	ids := func(statuses []*Status) []string {
		var ids []string
		for _, s := range statuses {
			ids = append(ids, s.ID.ID)
		}
		return ids
	}

	var many []*Status
	var newest, oldest []string
	for i := range 13 {
		// The first to be created are the last to finish.
		id := fmt.Sprintf("w%d", i)
		many = append(many, container(id, id, ContainerStateExited, i, 100-i))
		if i < MaxRemovedContainerStatuses {
			newest = append(newest, id)
		} else {
			oldest = append(oldest, id)
		}
	}

	for name, tc := range map[string]struct {
		statuses     []*Status
		wantReported []string
		wantExpired  []string
	}{
		"containers of the spec are not removed ones": {
			statuses: []*Status{
				container("init", "1", ContainerStateExited, 1, 2),
				container("main", "2", ContainerStateRunning, 2, 0),
				container("debug", "3", ContainerStateExited, 3, 4),
			},
		},
		"running and exited ones are reported": {
			statuses: []*Status{
				container("a", "1", ContainerStateRunning, 1, 0),
				container("b", "2", ContainerStateExited, 2, 3),
				container("c", "3", ContainerStateUnknown, 2, 3),
			},
			wantReported: []string{"3", "1", "2"},
		},
		"one that never started leaves nothing": {
			statuses:    []*Status{container("a", "1", ContainerStateCreated, 1, 0)},
			wantExpired: []string{"1"},
		},
		"only the newest instance of a name is reported": {
			statuses: []*Status{
				container("a", "1", ContainerStateExited, 1, 9),
				container("a", "2", ContainerStateExited, 2, 3),
			},
			wantReported: []string{"2"},
			wantExpired:  []string{"1"},
		},
		"one whose name is in the spec again is reported while it runs": {
			statuses: []*Status{
				container("main", "old1", ContainerStateExited, 1, 2),
				container("main", "old2", ContainerStateRunning, 3, 0),
				container("main", "2", ContainerStateRunning, 4, 0),
			},
			wantReported: []string{"old2"},
		},
		"ten are kept, by finish time": {
			statuses:     many,
			wantReported: newest,
			wantExpired:  oldest,
		},
		"running ones do not count": {
			statuses:     append(many[:len(many):len(many)], container("r", "r", ContainerStateRunning, 0, 0)),
			wantReported: append([]string{"r"}, newest...),
			wantExpired:  oldest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			podStatus := SplitRemovedContainers(pod, &PodStatus{ContainerStatuses: tc.statuses}, func(s *Status) bool { return strings.HasPrefix(s.ID.ID, "old") })
			reported, expired := KeptRemovedContainers(pod, podStatus)
			if diff := cmp.Diff(tc.wantReported, ids(reported)); diff != "" {
				t.Errorf("reported (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantExpired, ids(expired)); diff != "" {
				t.Errorf("expired (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSplitRemovedContainersLeavesItsArgument(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}
	podStatus := &PodStatus{ContainerStatuses: []*Status{{Name: "w"}, {Name: "main"}}}
	first := SplitRemovedContainers(pod, podStatus, nil)
	again := SplitRemovedContainers(pod, first, nil)
	for name, got := range map[string]*PodStatus{"first": first, "again": again} {
		want := &PodStatus{ContainerStatuses: []*Status{{Name: "main"}}, RemovedContainerStatuses: []*Status{{Name: "w"}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s split (-want +got):\n%s", name, diff)
		}
	}
	if len(podStatus.ContainerStatuses) != 2 || podStatus.RemovedContainerStatuses != nil {
		t.Errorf("the argument was changed: %v", podStatus)
	}
}

func TestSameContainer(t *testing.T) {
	container := v1.Container{Name: "w", Image: "a", Command: []string{"run"}, Env: []v1.EnvVar{{Name: "A", Value: "1"}}}
	for name, tc := range map[string]struct {
		change func(*v1.Container)
		same   bool
	}{
		"nothing":     {func(*v1.Container) {}, true},
		"image":       {func(c *v1.Container) { c.Image = "b" }, true},
		"pull policy": {func(c *v1.Container) { c.ImagePullPolicy = v1.PullAlways }, true},
		"resources": {func(c *v1.Container) {
			c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		}, true},
		"claims":       {func(c *v1.Container) { c.Resources.Claims = []v1.ResourceClaim{{Name: "gpu"}} }, false},
		"command":      {func(c *v1.Container) { c.Command = []string{"other"} }, false},
		"env":          {func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "A", Value: "2"}} }, false},
		"probe":        {func(c *v1.Container) { c.LivenessProbe = &v1.Probe{} }, false},
		"volume mount": {func(c *v1.Container) { c.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := *container.DeepCopy()
			tc.change(&changed)
			if got := IsSameContainer(&container, &changed); got != tc.same {
				t.Errorf("IsSameContainer: got %v, want %v", got, tc.same)
			}
			if got := HashImmutableContainerSpec(&container) == HashImmutableContainerSpec(&changed); got != tc.same {
				t.Errorf("same hash: got %v, want %v", got, tc.same)
			}
		})
	}
}
