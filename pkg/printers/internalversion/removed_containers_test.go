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

package internalversion

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/printers"
)

// The columns show how the containers of the spec do, whatever was there before.
func TestPrintPodWithRemovedContainers(t *testing.T) {
	running := func(name string, restarts int32) api.ContainerStatus {
		return api.ContainerStatus{Name: name, Ready: true, RestartCount: restarts, State: api.ContainerState{Running: &api.ContainerStateRunning{}}}
	}
	stopped := func(name, reason string, exitCode, restarts int32) api.ContainerStatus {
		return api.ContainerStatus{Name: name, RestartCount: restarts, State: api.ContainerState{Terminated: &api.ContainerStateTerminated{Reason: reason, ExitCode: exitCode}}}
	}
	waiting := func(name, reason string) api.ContainerStatus {
		return api.ContainerStatus{Name: name, State: api.ContainerState{Waiting: &api.ContainerStateWaiting{Reason: reason}}}
	}
	// columns are READY, STATUS and RESTARTS.
	type columns struct{ Ready, Status, Restarts any }
	tests := map[string]struct {
		containers    []string
		statuses      []api.ContainerStatus
		want, wantOff columns
	}{
		"nothing was removed": {
			containers: []string{"a", "b"},
			statuses:   []api.ContainerStatus{running("a", 1), running("b", 2)},
			want:       columns{"2/2", "Running", "3"},
			wantOff:    columns{"2/2", "Running", "3"},
		},
		"a removed container still runs": {
			containers: []string{"a"},
			statuses:   []api.ContainerStatus{running("a", 1), running("x", 2)},
			want:       columns{"1/1", "Running", "1"},
			wantOff:    columns{"2/1", "Running", "3"},
		},
		"a removed container has failed": {
			containers: []string{"a"},
			statuses:   []api.ContainerStatus{stopped("x", "Error", 137, 5), running("a", 0)},
			want:       columns{"1/1", "Running", "0"},
			wantOff:    columns{"1/1", "Error", "5"},
		},
		"a removed container has completed, one of the spec crashes": {
			containers: []string{"a"},
			statuses:   []api.ContainerStatus{stopped("x", "Completed", 0, 0), waiting("a", "CrashLoopBackOff")},
			want:       columns{"0/1", "CrashLoopBackOff", "0"},
			wantOff:    columns{"0/1", "Completed", "0"},
		},
		"a container is not allocated yet": {
			containers: []string{"a", "new"},
			statuses:   []api.ContainerStatus{running("a", 0), waiting("new", "Unallocated")},
			want:       columns{"1/2", "Unallocated", "0"},
			wantOff:    columns{"1/2", "Unallocated", "0"},
		},
	}
	for name, tc := range tests {
		for _, enabled := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "/feature on", false: "/feature off"}[enabled], func(t *testing.T) {
				featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
					features.KubeletAllocatedPodsEndpoint: enabled,
					features.DynamicContainers:            enabled,
				})
				pod := &api.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Status: api.PodStatus{Phase: api.PodRunning, ContainerStatuses: tc.statuses}}
				for _, name := range tc.containers {
					pod.Spec.Containers = append(pod.Spec.Containers, api.Container{Name: name})
				}
				rows, err := printPod(pod, printers.GenerateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				want := tc.want
				if !enabled {
					want = tc.wantOff
				}
				if diff := cmp.Diff(want, columns{rows[0].Cells[1], rows[0].Cells[2], rows[0].Cells[3]}); diff != "" {
					t.Errorf("unexpected columns (-want +got):\n%s", diff)
				}
			})
		}
	}
}
