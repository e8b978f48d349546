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

package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	statustest "k8s.io/kubernetes/pkg/kubelet/status/testing"
	"k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/test/utils/ktesting"
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

func enableDynamicContainers(t *testing.T) {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.InPlacePodVerticalScaling:    true,
		features.NodeDeclaredFeatures:         true,
		features.KubeletAllocatedPodsEndpoint: true,
		features.DynamicContainers:            true,
	})
}

// The cached status of a kubelet may be newer than that in the API, where the name is free.
func TestContainerOfAReusedNameMayStart(t *testing.T) {
	spec := &v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "w"}}}
	statusOf := func(id string, restarts int32, state v1.ContainerState) *v1.PodStatus {
		return &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "w", ContainerID: id, RestartCount: restarts, State: state}}}
	}
	running, waiting := v1.ContainerState{Running: &v1.ContainerStateRunning{}}, v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
	terminated := statusOf("test://old", 0, v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}})
	for name, tc := range map[string]struct {
		disabled bool
		status   *v1.PodStatus
		want     bool
	}{
		"another one waits":                    {status: statusOf("", 0, waiting), want: true},
		"another one runs":                     {status: statusOf("test://new", 0, running), want: true},
		"the same one runs":                    {status: statusOf("test://old", 0, running)},
		"the same one waits":                   {status: statusOf("test://old", 0, waiting)},
		"the same one was restarted":           {status: statusOf("test://new", 1, running)},
		"another one runs, with the gate off":  {disabled: true, status: statusOf("test://new", 0, running)},
		"another one waits, with the gate off": {disabled: true, status: statusOf("", 0, waiting)},
	} {
		t.Run(name, func(t *testing.T) {
			if !tc.disabled {
				enableDynamicContainers(t)
			}
			err := checkContainerStateTransition(terminated, tc.status, spec)
			assert.Equal(t, tc.want, err == nil, "allowed: %v", err)
		})
	}
}

// The statuses of removed containers are kept: there may be many more of them than containers.
func TestTerminationMessagesShareTheLimitOfThePod(t *testing.T) {
	enableDynamicContainers(t)
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}
	status := &v1.PodStatus{}
	for i := range 12 {
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{
			Name:  fmt.Sprintf("w%d", i),
			State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Message: strings.Repeat("x", 4096)}},
		})
	}
	normalizeStatus(pod, status)
	total := 0
	for _, s := range status.ContainerStatuses {
		total += len(s.State.Terminated.Message)
	}
	assert.LessOrEqual(t, total, kubecontainer.MaxPodTerminationMessageLogLength)
	again := status.DeepCopy()
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "added"})
	assert.Equal(t, status, normalizeStatus(pod, again), "the same status of the pod in the API is the same")
}

func TestRemovedContainerNeverBecomesReady(t *testing.T) {
	enableDynamicContainers(t)
	logger, _ := ktesting.NewTestContext(t)
	podManager := kubepod.NewBasicPodManager()
	m := NewManager(&fake.Clientset{}, podManager, &statustest.FakePodDeletionSafetyProvider{}, util.NewPodStartupLatencyTracker()).(*manager)
	pod := getTestPod()
	pod.Spec.Containers = []v1.Container{{Name: "main"}}
	podManager.AddPod(pod)
	m.SetPodStatus(logger, pod, v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{
		{Name: "main", ContainerID: "test://main", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
		{Name: "w", ContainerID: "test://w", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
	}})
	for _, id := range []string{"main", "w"} {
		m.SetContainerReadiness(logger, pod.UID, kubecontainer.ContainerID{Type: "test", ID: id}, true)
	}
	got, _ := m.GetPodStatus(pod.UID)
	assert.True(t, got.ContainerStatuses[0].Ready, "main")
	assert.False(t, got.ContainerStatuses[1].Ready, "removed container")
}
