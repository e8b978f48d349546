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
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-base/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

const (
	// containerSpecHashAnnotation tells containers of the same name apart, see specHash.
	containerSpecHashAnnotation = "io.kubernetes.container.specHash"
	// containerTTYAnnotation is set on containers with a terminal: who attaches to one that was
	// removed must know.
	containerTTYAnnotation = "io.kubernetes.container.tty"

	reasonRemoved containerKillReason = "Removed"

	// A kill that failed is tried again after minKillRetryDelay, which doubles with every failure
	// up to maxKillRetryDelay.
	minKillRetryDelay = time.Second
	maxKillRetryDelay = 30 * time.Second
)

var _ kubecontainer.RemovedContainerRuntime = &kubeGenericRuntimeManager{}

// removedContainers knows the containers that were removed from their pods and are not deleted
// from the runtime yet. The zero value is ready to use.
type removedContainers struct {
	lock sync.Mutex
	pods map[types.UID]map[string]*removedContainer // by pod and container ID
}

// removedContainer is a container that was removed from its pod.
type removedContainer struct {
	lock    sync.Mutex
	killing bool
	// released is set when the node's resource managers have taken back what the container had.
	released bool
	// preStopDone is set when the preStop hook is started, and closed when nothing waits for it
	// any more.
	preStopDone chan struct{}

	// deletion is held while the container is deleted from the runtime.
	deletion sync.Mutex
	deleted  bool
}

// get returns the removed container, or nil if the container was not removed.
func (r *removedContainers) get(podUID types.UID, id string) *removedContainer {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.pods[podUID][id]
}

// update makes the containers the known removed ones of the pod. One that is being killed stays
// known even if it is not among them.
func (r *removedContainers) update(podUID types.UID, containers []*kubecontainer.Status) {
	r.lock.Lock()
	defer r.lock.Unlock()
	known := r.pods[podUID]
	updated := map[string]*removedContainer{}
	for id, container := range known {
		if container.isKilling() {
			updated[id] = container
		}
	}
	for _, status := range containers {
		if updated[status.ID.ID] = known[status.ID.ID]; updated[status.ID.ID] == nil {
			updated[status.ID.ID] = &removedContainer{}
		}
	}
	if len(updated) == 0 {
		delete(r.pods, podUID)
		return
	}
	if r.pods == nil {
		r.pods = map[types.UID]map[string]*removedContainer{}
	}
	r.pods[podUID] = updated
}

// forget drops what is known of pods that are gone.
func (r *removedContainers) forget(isGone func(types.UID) bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for uid := range r.pods {
		if isGone(uid) {
			delete(r.pods, uid)
		}
	}
}

func (c *removedContainer) isKilling() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.killing
}

// setKilling returns false if the container is being killed, or not, already.
func (c *removedContainer) setKilling(killing bool) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	changed := c.killing != killing
	c.killing = killing
	return changed
}

// startPreStop returns true if the caller has to run the preStop hook and to close done when it is
// over. Otherwise the hook was started before, and done is closed when it is over.
func (c *removedContainer) startPreStop() (done chan struct{}, run bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.preStopDone != nil {
		return c.preStopDone, false
	}
	c.preStopDone = make(chan struct{})
	return c.preStopDone, true
}

// specHash returns the hash of the container's immutable spec to record with the container. It
// carries the version of the kubelet, because the hashes of two versions are not comparable: the
// newer one knows more fields.
func specHash(container *v1.Container) string {
	return version.Get().GitVersion + "/" + kubecontainer.HashImmutableContainerSpec(container)
}

// isOtherSpec returns true if the recorded hash is certainly that of another container.
func isOtherSpec(recorded, current string) bool {
	kubeletVersion, _, _ := strings.Cut(current, "/")
	return strings.HasPrefix(recorded, kubeletVersion+"/") && recorded != current
}

// addSpecAnnotations records what must be known of the container when its spec is not in the pod
// any more, if it is a main container that can be removed.
func addSpecAnnotations(annotations map[string]string, container *v1.Container, pod *v1.Pod) {
	if !allocation.AllocatesPodSpec(pod) || !kubecontainer.IsRegularContainer(&pod.Spec, container.Name) {
		return
	}
	annotations[containerSpecHashAnnotation] = specHash(container)
	if container.TTY {
		annotations[containerTTYAnnotation] = "true"
	}
}

// SplitRemovedContainers implements kubecontainer.RemovedContainerRuntime. Containers whose name
// is not in the spec are split off whether or not the DynamicContainers feature is enabled: they
// must not outlive their removal because the feature was switched off meanwhile.
func (m *kubeGenericRuntimeManager) SplitRemovedContainers(pod *v1.Pod, podStatus *kubecontainer.PodStatus) *kubecontainer.PodStatus {
	if podStatus == nil {
		return nil
	}
	hashes := map[string]string{}
	if allocation.AllocatesPodSpec(pod) {
		for i := range pod.Spec.Containers {
			hashes[pod.Spec.Containers[i].Name] = specHash(&pod.Spec.Containers[i])
		}
	}
	split := kubecontainer.SplitRemovedContainers(pod, podStatus, func(status *kubecontainer.Status) bool {
		hash, ok := hashes[status.Name]
		return ok && (m.removedContainers.get(pod.UID, status.ID.ID) != nil || isOtherSpec(status.SpecHash, hash))
	})
	m.removedContainers.update(pod.UID, split.RemovedContainerStatuses)
	return m.containerStarts.split(pod.UID, split)
}

// KillRemovedContainers implements kubecontainer.RemovedContainerRuntime. The containers are
// killed side by side, in the background: one may use all of its grace period, and neither the
// other containers of the pod nor a later sync depend on it. When it has exited, the PLEG triggers
// the sync that reports it.
func (m *kubeGenericRuntimeManager) KillRemovedContainers(ctx context.Context, pod *v1.Pod, podStatus *kubecontainer.PodStatus) {
	m.containerStarts.abandonOutdated(pod)
	logger := klog.FromContext(ctx)
	for _, status := range podStatus.RemovedContainerStatuses {
		container := m.removedContainers.get(pod.UID, status.ID.ID)
		if container == nil {
			continue
		}
		if !status.MayRun() {
			m.releaseRemovedContainer(ctx, pod, status, container)
			continue
		}
		if !container.setKilling(true) {
			continue
		}
		logger.V(2).Info("Killing container that was removed from the pod", "pod", klog.KObj(pod), "podUID", pod.UID,
			"containerName", status.Name, "containerID", status.ID)
		// The kill goes on when the sync is cancelled because the pod is deleted.
		go m.killRemovedContainer(context.WithoutCancel(ctx), pod, status, container)
	}
}

// releaseRemovedContainer releases, once, what the node's resource managers gave to the container.
func (m *kubeGenericRuntimeManager) releaseRemovedContainer(ctx context.Context, pod *v1.Pod, status *kubecontainer.Status, container *removedContainer) {
	container.lock.Lock()
	defer container.lock.Unlock()
	if container.released {
		return
	}
	logger := klog.FromContext(ctx)
	if err := m.internalLifecycle.PostStopContainer(logger, status.ID.ID); err != nil {
		logger.Error(err, "Internal container post-stop lifecycle hook failed for removed container",
			"containerName", status.Name, "pod", klog.KObj(pod))
		return
	}
	container.released = true
}

// killRemovedContainer kills the container, and tries again until that succeeds or the pod is gone.
func (m *kubeGenericRuntimeManager) killRemovedContainer(ctx context.Context, pod *v1.Pod, status *kubecontainer.Status, container *removedContainer) {
	logger := klog.FromContext(ctx)
	defer utilruntime.HandleCrashWithContext(ctx)
	defer m.runtimeHelper.RequestPodRelist(logger, pod.UID)
	defer container.setKilling(false)
	message := fmt.Sprintf("Container %s was removed from the pod", status.Name)
	for delay := minKillRetryDelay; ; delay = min(2*delay, maxKillRetryDelay) {
		err := m.killContainer(ctx, pod, status.ID, status.Name, message, reasonRemoved, nil, nil)
		if err == nil {
			return
		}
		logger.Error(err, "Failed to kill container that was removed from the pod, will try again", "pod", klog.KObj(pod), "podUID", pod.UID,
			"containerName", status.Name, "containerID", status.ID, "delay", delay)
		time.Sleep(delay)
		if m.removedContainers.get(pod.UID, status.ID.ID) != container {
			return
		}
	}
}

// withRemovedContainer returns the pod with the container, without which no event about it would be
// recorded: events of containers that are not in the spec are dropped.
func withRemovedContainer(pod *v1.Pod, container *v1.Container) *v1.Pod {
	if kubecontainer.GetContainerSpec(pod, container.Name) != nil {
		return pod
	}
	with := *pod
	with.Spec.Containers = append(slices.Clone(pod.Spec.Containers), *container)
	return &with
}

// executePreStopHookOnce is executePreStopHook for a container that may be killed by its removal
// and by the deletion of its pod at the same time. The second one waits for the hook that the
// first one runs.
func (m *kubeGenericRuntimeManager) executePreStopHookOnce(ctx context.Context, pod *v1.Pod, containerID kubecontainer.ContainerID, containerSpec *v1.Container, gracePeriod int64) int64 {
	container := m.removedContainers.get(pod.UID, containerID.ID)
	if container == nil {
		return m.executePreStopHook(ctx, pod, containerID, containerSpec, gracePeriod)
	}
	done, run := container.startPreStop()
	if run {
		defer close(done)
		return m.executePreStopHook(ctx, pod, containerID, containerSpec, gracePeriod)
	}
	start := time.Now()
	select {
	case <-done:
	case <-time.After(time.Duration(gracePeriod) * time.Second):
	}
	return int64(time.Since(start).Seconds())
}

// DeleteRemovedContainers implements kubecontainer.RemovedContainerRuntime.
func (m *kubeGenericRuntimeManager) DeleteRemovedContainers(ctx context.Context, pod *v1.Pod, containers []*kubecontainer.Status) {
	if len(containers) == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer utilruntime.HandleCrashWithContext(ctx)
		for _, status := range containers {
			if err := m.deleteRemovedContainer(ctx, pod, status); err != nil {
				klog.FromContext(ctx).Error(err, "Failed to delete container that was removed from the pod, the next sync will try again",
					"pod", klog.KObj(pod), "containerName", status.Name, "containerID", status.ID)
			}
		}
	}()
}

// deleteRemovedContainer deletes an exited container with its logs, and with its log directory if
// that holds nothing else.
func (m *kubeGenericRuntimeManager) deleteRemovedContainer(ctx context.Context, pod *v1.Pod, status *kubecontainer.Status) error {
	container := m.removedContainers.get(pod.UID, status.ID.ID)
	if container == nil {
		// It is not in the runtime any more.
		return nil
	}
	container.deletion.Lock()
	defer container.deletion.Unlock()
	if container.deleted {
		return nil
	}
	if err := m.removeContainerLog(ctx, status.ID.ID); err != nil {
		return err
	}
	// The directory goes before the container: for as long as the container exists, no other one
	// of its name is started, which would need the directory. It is not empty, and stays, while
	// there are logs of another instance.
	_ = m.osInterface.Remove(BuildContainerLogsDirectory(m.podLogsDirectory, pod.Namespace, pod.Name, pod.UID, status.Name))
	if err := m.removeContainer(ctx, status.ID.ID, true); err != nil {
		return err
	}
	container.deleted = true
	return nil
}

// withoutRemovedInstances returns the indices without those of containers whose name still belongs
// to a removed container that may run.
func withoutRemovedInstances(pod *v1.Pod, podStatus *kubecontainer.PodStatus, containersToStart []int) []int {
	return slices.DeleteFunc(containersToStart, func(idx int) bool {
		return isNameInUse(podStatus, pod.Spec.Containers[idx].Name)
	})
}

// isNameInUse returns true if a removed container of that name may run.
func isNameInUse(podStatus *kubecontainer.PodStatus, name string) bool {
	return slices.ContainsFunc(podStatus.RemovedContainerStatuses, func(status *kubecontainer.Status) bool {
		return status.Name == name && status.MayRun()
	})
}

// releaseNames makes the containers to start afresh that have the name of a removed container: what
// is left of that one is deleted first. It returns the containers that can be started now.
func (m *kubeGenericRuntimeManager) releaseNames(ctx context.Context, pod *v1.Pod, podStatus *kubecontainer.PodStatus, backOff *flowcontrol.Backoff, containersToStart []int) []int {
	if !allocation.AllocatesPodSpec(pod) {
		return containersToStart
	}
	return slices.DeleteFunc(withoutRemovedInstances(pod, podStatus, containersToStart), func(idx int) bool {
		return !m.releaseName(ctx, pod, podStatus, backOff, &pod.Spec.Containers[idx])
	})
}

// releaseEphemeralNames is releaseNames for ephemeral containers. They are not allocated: one that
// has the name of a main container waits until the removal of that one is.
func (m *kubeGenericRuntimeManager) releaseEphemeralNames(ctx context.Context, pod *v1.Pod, podStatus *kubecontainer.PodStatus, backOff *flowcontrol.Backoff, containersToStart []int) []int {
	if !allocation.AllocatesPodSpec(pod) {
		return containersToStart
	}
	return slices.DeleteFunc(containersToStart, func(idx int) bool {
		container := (*v1.Container)(&pod.Spec.EphemeralContainers[idx].EphemeralContainerCommon)
		return kubecontainer.IsRegularContainer(&pod.Spec, container.Name) || isNameInUse(podStatus, container.Name) ||
			!m.releaseName(ctx, pod, podStatus, backOff, container)
	})
}

// releaseName makes the container start afresh unless it is restarted. It returns false if what is
// left of a removed container of its name cannot be deleted.
func (m *kubeGenericRuntimeManager) releaseName(ctx context.Context, pod *v1.Pod, podStatus *kubecontainer.PodStatus, backOff *flowcontrol.Backoff, container *v1.Container) bool {
	if podStatus.FindContainerStatusByName(container.Name) != nil {
		return true
	}
	backOff.DeleteEntry(GetBackoffKey(pod, container))
	for _, status := range podStatus.RemovedContainerStatuses {
		if status.Name != container.Name {
			continue
		}
		if err := m.deleteRemovedContainer(ctx, pod, status); err != nil {
			klog.FromContext(ctx).Error(err, "Container is not started: failed to delete the removed container of the same name",
				"pod", klog.KObj(pod), "containerName", container.Name, "containerID", status.ID)
			return false
		}
	}
	return true
}

// withoutRemovedContainers returns the containers that the garbage collection of containers is in
// charge of. Of those that were removed from pods that still run, the kubelet keeps exactly those
// whose status it reports.
func (cgc *containerGC) withoutRemovedContainers(evictUnits containersByEvictUnit) containersByEvictUnit {
	removed := &cgc.manager.removedContainers
	removed.forget(cgc.podStateProvider.ShouldPodContentBeRemoved)
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return evictUnits
	}
	for key := range evictUnits {
		evictUnits[key] = slices.DeleteFunc(evictUnits[key], func(c containerGCInfo) bool { return removed.get(key.uid, c.id) != nil })
		if len(evictUnits[key]) == 0 {
			delete(evictUnits, key)
		}
	}
	return evictUnits
}

// activeStatuses returns the statuses of the containers that the evented PLEG knows of a sandbox if
// it is the active one of its pod. Without them the pod would not be known to have started after a
// swap of all its containers.
func activeStatuses(sandbox *runtimeapi.PodSandboxStatus, statuses []*kubecontainer.Status) []*kubecontainer.Status {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) || sandbox.State != runtimeapi.PodSandboxState_SANDBOX_READY {
		return nil
	}
	return slices.Clone(statuses)
}
