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

package kuberuntime

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/kubernetes/pkg/features"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/test/utils/ktesting"
	"k8s.io/utils/ptr"
)

// schedulingTimeout is how long to wait for what is only a matter of scheduling.
const schedulingTimeout = 30 * time.Second

func TestComputePodActionsForRemovedContainers(t *testing.T) {
	tCtx := ktesting.Init(t)
	_, _, m, err := createTestRuntimeManager(tCtx)
	require.NoError(t, err)

	removeFromSpec := func(pod *v1.Pod, names ...string) {
		var kept []v1.Container
		for _, c := range pod.Spec.Containers {
			if !sets.New(names...).Has(c.Name) {
				kept = append(kept, c)
			}
		}
		pod.Spec.Containers = kept
	}

	for name, tc := range map[string]struct {
		makePod              func() (*v1.Pod, *kubecontainer.PodStatus)
		mutate               func(*v1.Pod, *kubecontainer.PodStatus)
		restartAllContainers bool
		wantKilled           []string
		wantStarted          []int
		wantInitStarted      []int
		wantKillPod          bool
		wantCreateSandbox    bool
	}{
		"a running container that is not in the spec is killed": {
			makePod:    makeBasePodAndStatus,
			mutate:     func(pod *v1.Pod, _ *kubecontainer.PodStatus) { removeFromSpec(pod, "foo2") },
			wantKilled: []string{"foo2"},
		},
		"a container in unknown state that is not in the spec is killed": {
			makePod: makeBasePodAndStatus,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				removeFromSpec(pod, "foo2")
				status.ContainerStatuses[1].State = kubecontainer.ContainerStateUnknown
			},
			wantKilled: []string{"foo2"},
		},
		"an exited container that is not in the spec is left alone": {
			makePod: makeBasePodAndStatus,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				removeFromSpec(pod, "foo2")
				status.ContainerStatuses[1].State = kubecontainer.ContainerStateExited
			},
		},
		"every instance of a removed container is killed": {
			makePod: makeBasePodAndStatus,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				removeFromSpec(pod, "foo2", "foo3")
				status.ContainerStatuses[2].Name = "foo2"
			},
			wantKilled: []string{"foo2", "foo2"},
		},
		"ephemeral containers are not taken for removed ones": {
			makePod: makeBasePodAndStatusWithInitAndEphemeralContainers,
			mutate:  func(pod *v1.Pod, _ *kubecontainer.PodStatus) {},
		},
		"a full swap starts the new container and runs no init container again": {
			makePod: makeBasePodAndStatusWithInitContainers,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				// The init containers have been garbage collected.
				_, running := makeBasePodAndStatus()
				status.ContainerStatuses = running.ContainerStatuses
				status.ActiveContainerStatuses = running.ContainerStatuses
				pod.Spec.Containers = []v1.Container{{Name: "new", Image: "busybox"}}
			},
			wantKilled:  []string{"foo1", "foo2", "foo3"},
			wantStarted: []int{0},
		},
		"a full swap runs no init container again after the old ones have exited": {
			makePod: makeBasePodAndStatusWithInitContainers,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				_, exited := makeBasePodAndStatus()
				for i := range exited.ContainerStatuses {
					exited.ContainerStatuses[i].State = kubecontainer.ContainerStateExited
				}
				status.ContainerStatuses = exited.ContainerStatuses
				status.ActiveContainerStatuses = exited.ContainerStatuses
				pod.Spec.Containers = []v1.Container{{Name: "new", Image: "busybox"}}
			},
			wantStarted: []int{0},
		},
		"the pod is not killed while a removed container is the last one that runs": {
			makePod: makeBasePodAndStatus,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				pod.Spec.RestartPolicy = v1.RestartPolicyNever
				removeFromSpec(pod, "foo2", "foo3")
				status.ContainerStatuses[0].State = kubecontainer.ContainerStateExited
				status.ContainerStatuses[2].State = kubecontainer.ContainerStateExited
			},
			wantKilled: []string{"foo2"},
		},
		"the pod is killed when the last removed container has stopped too": {
			makePod: makeBasePodAndStatus,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				pod.Spec.RestartPolicy = v1.RestartPolicyNever
				removeFromSpec(pod, "foo2", "foo3")
				for i := range status.ContainerStatuses {
					status.ContainerStatuses[i].State = kubecontainer.ContainerStateExited
				}
			},
			wantKillPod: true,
		},
		"a removed container is killed before the pod has initialized": {
			makePod: makeBasePodAndStatusWithInitContainers,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				status.ContainerStatuses[2].State = kubecontainer.ContainerStateRunning
				status.ContainerStatuses = append(status.ContainerStatuses, &kubecontainer.Status{
					ID: kubecontainer.ContainerID{ID: "id9"}, Name: "removed", State: kubecontainer.ContainerStateRunning,
				})
			},
			wantKilled: []string{"removed"},
		},
		"a removed container is killed when all containers restart": {
			makePod:              makeBasePodAndStatus,
			mutate:               func(pod *v1.Pod, _ *kubecontainer.PodStatus) { removeFromSpec(pod, "foo2") },
			restartAllContainers: true,
			wantKilled:           []string{"foo2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tCtx := ktesting.Init(t)
			pod, status := tc.makePod()
			tc.mutate(pod, status)
			if tc.restartAllContainers {
				featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
					features.ContainerRestartRules:                true,
					features.NodeDeclaredFeatures:                 true,
					features.RestartAllContainersOnContainerExits: true,
				})
			}

			actions := m.computePodActions(tCtx, pod, status, tc.restartAllContainers)

			var killed []string
			for _, s := range actions.RemovedContainersToKill {
				killed = append(killed, s.Name)
			}
			assert.Equal(t, tc.wantKilled, killed, "removed containers to kill")
			assert.Empty(t, actions.ContainersToKill, "containers of the spec to kill")
			assert.ElementsMatch(t, tc.wantStarted, actions.ContainersToStart, "containers to start")
			assert.ElementsMatch(t, tc.wantInitStarted, actions.InitContainersToStart, "init containers to start")
			assert.Equal(t, tc.wantKillPod, actions.KillPod, "KillPod")
			assert.Equal(t, tc.wantCreateSandbox, actions.CreateSandbox, "CreateSandbox")
		})
	}
}

// stopRecorder is a runtime whose StopContainer does not return until it is released.
type stopRecorder struct {
	internalapi.RuntimeService
	release chan struct{}

	lock  sync.Mutex
	stops map[string]int64 // container ID -> grace period in seconds
	count int
	err   error
}

func (r *stopRecorder) StopContainer(_ context.Context, containerID string, timeout int64) error {
	r.lock.Lock()
	if r.stops == nil {
		r.stops = map[string]int64{}
	}
	r.stops[containerID] = timeout
	r.count++
	err := r.err
	r.lock.Unlock()
	<-r.release
	return err
}

func (r *stopRecorder) seen() (map[string]int64, int) {
	r.lock.Lock()
	defer r.lock.Unlock()
	stops := map[string]int64{}
	for id, timeout := range r.stops {
		stops[id] = timeout
	}
	return stops, r.count
}

// makeRemovedContainers makes a pod with n running containers, and returns it without them in its
// spec, with what the runtime knows about them.
func makeRemovedContainers(t *testing.T, n int) (*kubeGenericRuntimeManager, *stopRecorder, *v1.Pod, *kubecontainer.PodStatus) {
	tCtx := ktesting.Init(t)
	fakeRuntime, _, m, err := createTestRuntimeManager(tCtx)
	require.NoError(t, err)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "12345678", Name: "foo", Namespace: "new"},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](17)},
	}
	for i := range n {
		pod.Spec.Containers = append(pod.Spec.Containers, makeTestContainer(fmt.Sprintf("w%d", i), "busybox"))
	}
	_, containers := makeAndSetFakePod(tCtx, m, fakeRuntime, pod)
	podStatus := &kubecontainer.PodStatus{ID: pod.UID}
	for _, c := range containers {
		podStatus.ContainerStatuses = append(podStatus.ContainerStatuses, &kubecontainer.Status{
			ID:    kubecontainer.ContainerID{Type: "test", ID: c.Id},
			Name:  c.Metadata.Name,
			State: kubecontainer.ContainerStateRunning,
		})
	}
	pod.Spec.Containers = []v1.Container{makeTestContainer("main", "busybox")}
	recorder := &stopRecorder{RuntimeService: fakeRuntime, release: make(chan struct{})}
	m.runtimeService = recorder
	return m, recorder, pod, podStatus
}

func TestKillRemovedContainersSideBySideAndOnce(t *testing.T) {
	tCtx := ktesting.Init(t)
	m, runtime, pod, podStatus := makeRemovedContainers(t, 5)

	// None of the kills returns, and still all of them are under way.
	m.killRemovedContainers(tCtx, pod, podStatus.ContainerStatuses)
	require.Eventually(t, func() bool { _, n := runtime.seen(); return n == 5 }, schedulingTimeout, time.Millisecond, "not all containers are killed side by side")

	// A sync meanwhile does not kill them again.
	m.killRemovedContainers(tCtx, pod, podStatus.ContainerStatuses)
	close(runtime.release)
	require.Eventually(t, func() bool {
		m.removedContainerKills.lock.Lock()
		defer m.removedContainerKills.lock.Unlock()
		return m.removedContainerKills.containers.Len() == 0
	}, schedulingTimeout, time.Millisecond, "kills are still tracked after they ended")
	stops, n := runtime.seen()
	assert.Equal(t, 5, n, "number of StopContainer calls")
	for id, gracePeriod := range stops {
		assert.Equal(t, int64(17), gracePeriod, "grace period of %s", id)
	}
}

func TestKillRemovedContainerIsTriedAgainAfterFailure(t *testing.T) {
	tCtx := ktesting.Init(t)
	m, runtime, pod, podStatus := makeRemovedContainers(t, 1)
	close(runtime.release)
	runtime.err = fmt.Errorf("runtime is not well")

	for want := 1; want <= 2; want++ {
		m.killRemovedContainers(tCtx, pod, podStatus.ContainerStatuses)
		require.Eventually(t, func() bool {
			_, n := runtime.seen()
			m.removedContainerKills.lock.Lock()
			defer m.removedContainerKills.lock.Unlock()
			return n == want && m.removedContainerKills.containers.Len() == 0
		}, schedulingTimeout, time.Millisecond, "kill %d", want)
	}
}

// A removed container used to make every kill of its pod fail with "failed to get containerSpec",
// so that the pod stayed in Terminating for as long as the container ran.
func TestKillPodWithRemovedContainer(t *testing.T) {
	tCtx := ktesting.Init(t)
	m, runtime, pod, podStatus := makeRemovedContainers(t, 2)
	close(runtime.release)

	runningPod := kubecontainer.Pod{ID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}
	for _, s := range podStatus.ContainerStatuses {
		runningPod.Containers = append(runningPod.Containers, &kubecontainer.Container{ID: s.ID, Name: s.Name, State: s.State})
	}
	for _, result := range m.killContainersWithSyncResult(tCtx, pod, runningPod, ptr.To[int64](3)) {
		assert.NoError(t, result.Error, "kill %v", result.Target)
	}
	stops, _ := runtime.seen()
	assert.Len(t, stops, 2)
	for id, gracePeriod := range stops {
		assert.Equal(t, int64(3), gracePeriod, "grace period of %s", id)
	}
}

func TestSidecarsWaitForRemovedContainers(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "sidecar", RestartPolicy: &always}},
		Containers:     []v1.Container{{Name: "main"}},
	}}
	ordering := newTerminationOrdering(pod, []string{"sidecar", "main", "removed"})
	done := make(chan struct{})
	go func() {
		defer close(done)
		ordering.waitForTurn("sidecar", 60)
	}()
	ordering.containerTerminated("main")
	select {
	case <-done:
		t.Fatal("the sidecar did not wait for the removed container")
	case <-time.After(50 * time.Millisecond):
	}
	ordering.containerTerminated("removed")
	select {
	case <-done:
	case <-time.After(schedulingTimeout):
		t.Fatal("the sidecar still waits after the removed container has terminated")
	}
}

func TestPodResizeIsInProgressWhileRemovedContainerRuns(t *testing.T) {
	pod, podStatus := makeBasePodAndStatus()
	assert.False(t, isRemovalInProgress(pod, podStatus), "all containers are in the spec")
	pod.Spec.Containers = pod.Spec.Containers[1:]
	assert.True(t, isRemovalInProgress(pod, podStatus), "a removed container runs")
	podStatus.ContainerStatuses[0].State = kubecontainer.ContainerStateExited
	assert.False(t, isRemovalInProgress(pod, podStatus), "the removed container has stopped")
}
