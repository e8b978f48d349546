/*
Copyright 2026 The Kubernetes Authors.

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

package status

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/test/utils/ktesting"

	"k8s.io/client-go/kubernetes/fake"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	statustest "k8s.io/kubernetes/pkg/kubelet/status/testing"
	"k8s.io/kubernetes/pkg/kubelet/util"
)

func unallocatedStatus(name string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: v1.ContainerReasonUnallocated}}}
}

func TestUnallocatedContainersDoNotCountForReadiness(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}, {Name: "w"}}}}
	ready := v1.ContainerStatus{Name: "main", Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
	for name, tc := range map[string]struct {
		w    v1.ContainerStatus
		want v1.ConditionStatus
	}{
		"unallocated": {w: unallocatedStatus("w"), want: v1.ConditionTrue},
		"waiting for another reason": {
			w:    v1.ContainerStatus{Name: "w", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
			want: v1.ConditionFalse,
		},
		"running and not ready": {
			w:    v1.ContainerStatus{Name: "w", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
			want: v1.ConditionFalse,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cond := GenerateContainersReadyCondition(pod, &v1.PodStatus{}, []v1.ContainerStatus{ready, tc.w}, v1.PodRunning)
			assert.Equal(t, tc.want, cond.Status, cond.Message)
		})
	}
}

func TestTerminatePodLeavesUnallocatedContainers(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	m := NewManager(&fake.Clientset{}, kubepod.NewBasicPodManager(), &statustest.FakePodDeletionSafetyProvider{}, util.NewPodStartupLatencyTracker()).(*manager)
	pod := getTestPod()
	pod.Spec.Containers = []v1.Container{{Name: "main"}, {Name: "w"}}
	pod.Status = v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{
		{Name: "main", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
		unallocatedStatus("w"),
	}}

	m.TerminatePod(logger, pod)

	got, ok := m.GetPodStatus(pod.UID)
	assert.True(t, ok)
	assert.NotNil(t, got.ContainerStatuses[0].State.Terminated, "a container that ran is reported as terminated")
	assert.Equal(t, unallocatedStatus("w"), got.ContainerStatuses[1], "a container that never ran")
}

func TestNameOfRemovedContainerMayStartAgain(t *testing.T) {
	terminated := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "w", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}}
	waiting := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{unallocatedStatus("w")}}
	spec := &v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "w"}}}
	assert.Error(t, checkContainerStateTransition(terminated, waiting, spec), "container of the spec")
	spec.Containers[0].Name = "main"
	assert.NoError(t, checkContainerStateTransition(terminated, waiting, spec), "removed container")
}
