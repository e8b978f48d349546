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

package describe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDescribeRemovedContainers(t *testing.T) {
	running := corev1.ContainerStatus{Name: "main", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	unallocated := corev1.ContainerStatus{Name: "new", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "Unallocated"}}}
	stopping := running
	stopping.Name, stopping.ContainerID, stopping.Image, stopping.ImageID = "stopping", "test://1", "image:1", "sha256:1"
	stopped := corev1.ContainerStatus{
		Name: "stopped", ContainerID: "test://2", Image: "image:2", ImageID: "sha256:2", RestartCount: 3,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 137}},
	}
	tests := map[string]struct {
		statuses []corev1.ContainerStatus
		want     []string
	}{
		"none was removed": {
			statuses: []corev1.ContainerStatus{running, unallocated},
		},
		"one still runs, one has stopped": {
			statuses: []corev1.ContainerStatus{stopped, running, stopping},
			want: []string{
				"Removed Containers:",
				"  stopped:",
				"    Container ID:   test://2",
				"    Image:          image:2",
				"    Image ID:       sha256:2",
				"    State:          Terminated",
				"      Reason:       Error",
				"      Exit Code:    137",
				"      Started:      Mon, 01 Jan 0001 00:00:00 +0000",
				"      Finished:     Mon, 01 Jan 0001 00:00:00 +0000",
				"    Ready:          False",
				"    Restart Count:  3",
				"  stopping:",
				"    Container ID:   test://1",
				"    Image:          image:1",
				"    Image ID:       sha256:1",
				"    State:          Running",
				"      Started:      Mon, 01 Jan 0001 00:00:00 +0000",
				"    Ready:          True",
				"    Restart Count:  0",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := describePod(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "pod"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}, {Name: "new", Image: "image"}}},
				Status:     corev1.PodStatus{ContainerStatuses: tc.statuses},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			// The section ends where the next one begins.
			var got []string
			if _, section, found := strings.Cut(out, "\nRemoved Containers:\n"); found {
				got = append(got, "Removed Containers:")
				for _, line := range strings.Split(section, "\n") {
					if !strings.HasPrefix(line, " ") {
						break
					}
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected removed containers (-want +got):\n%s\nin\n%s", diff, out)
			}
		})
	}
}
