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

package kuberuntime

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// startWait is how long a sync waits for the containers that it starts in a running pod. It is much
// more than a start takes, so that nearly every start is reported by the sync that began it. What
// takes longer, like a pull, a postStart hook or a runtime that hangs, does not hold up the removals,
// restarts and resizes that come meanwhile.
const startWait = time.Second

var _ kubecontainer.BackgroundStartRuntime = &kubeGenericRuntimeManager{}

// containerStarts knows the starts of containers in running pods that are in flight, or have ended
// since the last sync of the pod. No container is started while there is one of its name. The zero
// value is ready to use.
type containerStarts struct {
	lock sync.Mutex
	pods map[types.UID]map[string]*containerStart // by pod and container name
}

// containerStart is the start of a container.
type containerStart struct {
	container *v1.Container
	run       func(ctx context.Context)

	cancel context.CancelFunc
	// done is closed when the start has ended.
	done chan struct{}

	// The lock of containerStarts is held for these.
	results []*kubecontainer.SyncResult
	// isLeft is set when nothing waits for the start any more.
	isLeft bool
	// isOutdated is set when the start was cancelled because the container is not to be, or not like
	// this, any more.
	isOutdated bool
	// isSkipped is set when a sync did not start the container because of this start.
	isSkipped bool
}

func (s *containerStart) hasEnded() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *containerStart) abandon() {
	s.isOutdated = true
	s.cancel()
}

func (s *containerStarts) add(podUID types.UID, start *containerStart) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.pods == nil {
		s.pods = map[types.UID]map[string]*containerStart{}
	}
	if s.pods[podUID] == nil {
		s.pods[podUID] = map[string]*containerStart{}
	}
	s.pods[podUID][start.container.Name] = start
}

// addResult adds the result to the start of the container that is in flight, or to that of the sync,
// which the start is part of then.
func (s *containerStarts) addResult(podUID types.UID, container *v1.Container, result *kubecontainer.SyncResult, syncResult *kubecontainer.PodSyncResult) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if start := s.pods[podUID][container.Name]; start != nil && start.container == container {
		start.results = append(start.results, result)
		return
	}
	syncResult.AddSyncResult(result)
}

// end makes the start one that has ended, and returns whether something still waits for it.
func (s *containerStarts) end(start *containerStart) (isAwaited bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	start.cancel()
	close(start.done)
	return !start.isLeft
}

// take returns the results of the starts in the pod that have ended, and forgets those. The others
// are left to end without a sync that waits for them. It also returns whether there may be something
// to start that the sync did not start because of them: in place of what was abandoned, or again.
func (s *containerStarts) take(podUID types.UID) (results []*kubecontainer.SyncResult, incomplete bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	starts := s.pods[podUID]
	for _, name := range slices.Sorted(maps.Keys(starts)) {
		start := starts[name]
		if !start.hasEnded() {
			start.isLeft = true
			continue
		}
		if !start.isOutdated {
			results = append(results, start.results...)
		}
		incomplete = incomplete || start.isOutdated || start.isSkipped
		delete(starts, name)
	}
	if len(starts) == 0 {
		delete(s.pods, podUID)
	}
	return results, incomplete
}

// ended returns the results that take would return.
func (s *containerStarts) ended(podUID types.UID) (results []*kubecontainer.SyncResult) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, start := range s.pods[podUID] {
		if start.hasEnded() && !start.isOutdated {
			results = append(results, start.results...)
		}
	}
	return results
}

// any returns true if a start in the pod is in flight, or was since the last sync.
func (s *containerStarts) any(podUID types.UID) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return len(s.pods[podUID]) > 0
}

// withoutStarting returns the indices without those of containers that were being started when the
// status of the pod was taken: it may not show them yet.
func (s *containerStarts) withoutStarting(pod *v1.Pod, containersToStart []int) []int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.DeleteFunc(containersToStart, func(idx int) bool {
		start := s.pods[pod.UID][pod.Spec.Containers[idx].Name]
		if start != nil {
			start.isSkipped = true
		}
		return start != nil
	})
}

// abandonOutdated cancels the starts of containers that were removed from the pod, or replaced, or
// have another image.
func (s *containerStarts) abandonOutdated(pod *v1.Pod) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for name, start := range s.pods[pod.UID] {
		spec := kubecontainer.GetContainerSpec(pod, name)
		if !kubecontainer.IsSameContainer(spec, start.container) || spec.Image != start.container.Image {
			start.abandon()
		}
	}
}

// abandonAll cancels the starts in the pod and returns them. The caller waits for them.
func (s *containerStarts) abandonAll(podUID types.UID) []*containerStart {
	s.lock.Lock()
	defer s.lock.Unlock()
	starts := slices.Collect(maps.Values(s.pods[podUID]))
	for _, start := range starts {
		start.abandon()
		start.isLeft = false
	}
	return starts
}

// forget drops what is known of the starts in the pod.
func (s *containerStarts) forget(podUID types.UID) {
	s.lock.Lock()
	defer s.lock.Unlock()
	delete(s.pods, podUID)
}

// split returns podStatus with the statuses of the containers whose start is in flight moved to
// StartingContainerStatuses: a container that runs its postStart hook does not count as running. It
// does not change podStatus.
func (s *containerStarts) split(podUID types.UID, podStatus *kubecontainer.PodStatus) *kubecontainer.PodStatus {
	s.lock.Lock()
	defer s.lock.Unlock()
	isStarting := func(status *kubecontainer.Status) bool {
		start := s.pods[podUID][status.Name]
		return start != nil && !start.hasEnded() && status.State != kubecontainer.ContainerStateExited
	}
	if !slices.ContainsFunc(podStatus.ContainerStatuses, isStarting) {
		return podStatus
	}
	split := *podStatus
	split.ContainerStatuses = nil
	split.StartingContainerStatuses = slices.Clone(podStatus.StartingContainerStatuses)
	for _, status := range podStatus.ContainerStatuses {
		if isStarting(status) {
			split.StartingContainerStatuses = append(split.StartingContainerStatuses, status)
		} else {
			split.ContainerStatuses = append(split.ContainerStatuses, status)
		}
	}
	return &split
}

// EndedStarts implements kubecontainer.BackgroundStartRuntime.
func (m *kubeGenericRuntimeManager) EndedStarts(podUID types.UID) kubecontainer.PodSyncResult {
	return kubecontainer.PodSyncResult{SyncResults: m.containerStarts.ended(podUID)}
}

// HasStarts implements kubecontainer.BackgroundStartRuntime.
func (m *kubeGenericRuntimeManager) HasStarts(podUID types.UID) bool {
	return m.containerStarts.any(podUID)
}

// startsInBackground returns true if the syncs of the pod do not wait for what takes long: it runs.
func startsInBackground(pod *v1.Pod, podStatus *kubecontainer.PodStatus) bool {
	return allocation.AllocatesPodSpec(pod) && kubecontainer.HasAnyActiveRegularContainerStarted(&pod.Spec, podStatus)
}

// startContainers starts the containers of the pod and adds the results of all starts that have
// ended to that of the sync. Containers that are added to a pod that runs, or restarted in it, start
// side by side: only the first start is in the order of the spec. The sync waits for them, but not
// longer than startWait: what takes longer goes on, and requests a sync when it has ended.
func (m *kubeGenericRuntimeManager) startContainers(ctx context.Context, pod *v1.Pod, podStatus *kubecontainer.PodStatus, starts []*containerStart, result *kubecontainer.PodSyncResult) {
	if startsInBackground(pod, podStatus) {
		for _, start := range starts {
			// What is started goes on when the sync is cancelled, until the pod is killed.
			m.startInBackground(context.WithoutCancel(ctx), pod.UID, start)
		}
		waitForStarts(ctx, starts)
	} else {
		for _, start := range starts {
			start.run(ctx)
		}
	}
	m.takeEndedStarts(ctx, pod.UID, result)
}

// waitForStarts waits until the starts have ended, but not longer than startWait.
func waitForStarts(ctx context.Context, starts []*containerStart) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for _, start := range starts {
		select {
		case <-start.done:
		case <-ctx.Done():
		}
	}
}

func (m *kubeGenericRuntimeManager) startInBackground(ctx context.Context, podUID types.UID, start *containerStart) {
	startCtx, cancel := context.WithCancel(ctx)
	start.cancel, start.done = cancel, make(chan struct{})
	m.containerStarts.add(podUID, start)
	go func() {
		defer utilruntime.HandleCrashWithContext(ctx)
		defer func() {
			if isAwaited := m.containerStarts.end(start); !isAwaited {
				m.runtimeHelper.RequestPodSync(ctx, podUID)
			}
		}()
		start.run(startCtx)
	}()
}

// takeEndedStarts adds the results of the starts in the pod that have ended to that of the sync.
func (m *kubeGenericRuntimeManager) takeEndedStarts(ctx context.Context, podUID types.UID, result *kubecontainer.PodSyncResult) {
	results, incomplete := m.containerStarts.take(podUID)
	result.AddSyncResult(results...)
	if incomplete {
		// What is due now was not started by this sync, whose status may be from before its end.
		m.runtimeHelper.RequestPodSync(ctx, podUID)
	}
}

// cancelStarts cancels the starts in the pod that are in flight. It returns false if there were none
// since the last sync; otherwise a sync of the pod is requested when all have ended.
func (m *kubeGenericRuntimeManager) cancelStarts(ctx context.Context, podUID types.UID) bool {
	starts := m.containerStarts.abandonAll(podUID)
	m.takeEndedStarts(ctx, podUID, &kubecontainer.PodSyncResult{})
	return len(starts) > 0
}

// withStarted cancels the starts in the pod that are in flight, and returns the pod, when they have
// ended, with what they started. One that does not end, because its postStart hook or the queue of
// pulls does not heed the context, is not waited for: it cannot start anything any more, because the
// calls of the runtime do.
func (m *kubeGenericRuntimeManager) withStarted(ctx context.Context, runningPod kubecontainer.Pod) kubecontainer.Pod {
	starts := m.containerStarts.abandonAll(runningPod.ID)
	if len(starts) == 0 {
		return runningPod
	}
	waitForStarts(ctx, starts)
	m.containerStarts.forget(runningPod.ID)
	current, err := m.GetPod(ctx, runningPod.ID)
	if err != nil {
		// They are killed with the sandbox.
		klog.FromContext(ctx).Error(err, "Failed to get the containers that were started last", "pod", klog.KRef(runningPod.Namespace, runningPod.Name))
		return runningPod
	}
	containers := slices.Clone(runningPod.Containers)
	for _, c := range current.Containers {
		if c.State == kubecontainer.ContainerStateRunning && runningPod.FindContainerByID(c.ID) == nil {
			containers = append(containers, c)
		}
	}
	runningPod.Containers = containers
	return runningPod
}
