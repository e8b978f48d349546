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

package allocation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/events"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// AllocatesPodSpec returns true if the containers of the pod, and not only their resources, take
// effect once they are allocated. The spec of a static pod is never allocated: it comes from the
// node itself and does not pass the validation of the pods/dynamic subresource.
func AllocatesPodSpec(pod *v1.Pod) bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) && !kubetypes.IsStaticPod(pod)
}

// allocatedSpec returns the part of the pod spec to record as allocated, or nil if only the
// resources of the pod are allocated.
func allocatedSpec(pod *v1.Pod) *v1.PodSpec {
	if !AllocatesPodSpec(pod) {
		return nil
	}
	return pod.Spec.DeepCopy()
}

// flushInterval is how long it may take until a kubelet without this feature would know of an
// allocation, and until an allocation is written that could not be written before.
const flushInterval = 5 * time.Second

// flushAllocations completes what is on disk until the context is done.
func (m *manager) flushAllocations(ctx context.Context) {
	allocated, ok := m.allocated.(*state.PodCheckpointState)
	if !ok {
		return
	}
	logger := klog.FromContext(ctx)
	go wait.UntilWithContext(ctx, func(context.Context) {
		if err := allocated.Flush(); err != nil {
			logger.Error(err, "Allocations are not saved completely; will retry", "retryAfter", flushInterval)
		}
	}, flushInterval)
}

// saveAllocation saves what is allocated to the pod.
func (m *manager) saveAllocation(logger klog.Logger, pod *v1.Pod) error {
	info := ResourceInfoForPod(pod)
	info.AllocatedSpec = allocatedSpec(pod)
	start := time.Now()
	err := m.allocated.SetPodResourceInfo(logger, pod.UID, info)
	result := "success"
	if err != nil {
		result = "error"
	}
	metrics.AllocationCheckpointDuration.WithLabelValues(result).Observe(metrics.SinceInSeconds(start))
	return err
}

// updateContainersFromAllocation overwrites the main containers, and the images of the init
// containers, with the allocated ones. It copies the pod if that makes a difference, unless
// alreadyUpdated says that the pod is a copy. Returns the pod, and whether it is an updated copy.
func updateContainersFromAllocation(pod *v1.Pod, allocated state.PodResourceInfo, alreadyUpdated bool) (*v1.Pod, bool) {
	updated := alreadyUpdated
	copyOnce := func() {
		if !updated {
			pod = pod.DeepCopy()
			updated = true
		}
	}

	if containers := allocatedContainers(pod, allocated); !apiequality.Semantic.DeepEqual(containers, pod.Spec.Containers) {
		copyOnce()
		pod.Spec.Containers = (&v1.PodSpec{Containers: containers}).DeepCopy().Containers
	}

	if allocated.AllocatedSpec == nil {
		return pod, updated
	}
	for i := range pod.Spec.InitContainers {
		c := findContainer(allocated.AllocatedSpec.InitContainers, pod.Spec.InitContainers[i].Name)
		if c != nil && c.Image != pod.Spec.InitContainers[i].Image {
			copyOnce()
			pod.Spec.InitContainers[i].Image = c.Image
		}
	}
	return pod, updated
}

// allocatedContainers returns the allocated main containers of the pod. A record written while the
// feature was off knows the names and the resources of the containers only; the containers with
// these names are taken from the pod, and so is every other one that has been started.
func allocatedContainers(pod *v1.Pod, allocated state.PodResourceInfo) []v1.Container {
	if allocated.AllocatedSpec != nil {
		return allocated.AllocatedSpec.Containers
	}
	var containers []v1.Container
	for _, c := range pod.Spec.Containers {
		if _, ok := allocated.ContainerResources[c.Name]; ok || wasCreated(pod, c.Name) {
			containers = append(containers, c)
		}
	}
	if len(containers) == 0 {
		// A pod always has a main container: this record says nothing about them.
		return pod.Spec.Containers
	}
	return containers
}

// wasCreated returns true if the pod reports an instance of the container.
func wasCreated(pod *v1.Pod, name string) bool {
	status, ok := podutil.GetContainerStatus(pod.Status.ContainerStatuses, name)
	return ok && status.ContainerID != ""
}

// recoverAllocation returns the pod as it is allocated by its own account if it runs and there is no
// record of what was allocated to it: without the containers that it reports as unallocated, and
// with the resources that it reports as allocated. A change that is pending would otherwise be taken
// as part of the pod, which does not fit on the node then, and is stopped.
func (m *manager) recoverAllocation(pod *v1.Pod) *v1.Pod {
	if !AllocatesPodSpec(pod) || pod.Status.Phase != v1.PodRunning || m.HasPodAllocatedResources(pod.UID) {
		return pod
	}
	pod = pod.DeepCopy()
	var containers []v1.Container
	for _, c := range pod.Spec.Containers {
		status, ok := podutil.GetContainerStatus(pod.Status.ContainerStatuses, c.Name)
		if ok && status.State.Waiting != nil && status.State.Waiting.Reason == v1.ContainerReasonUnallocated {
			continue
		}
		if ok && status.Resources != nil && status.AllocatedResources != nil {
			c.Resources.Requests = status.AllocatedResources
			c.Resources.Limits = status.Resources.Limits
		}
		containers = append(containers, c)
	}
	if len(containers) > 0 {
		pod.Spec.Containers = containers
	}
	return pod
}

func findContainer(containers []v1.Container, name string) *v1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}

// addedContainers returns the main containers of newPod that are not in oldPod.
func addedContainers(oldPod, newPod *v1.Pod) []*v1.Container {
	var added []*v1.Container
	for i := range newPod.Spec.Containers {
		c := &newPod.Spec.Containers[i]
		if !kubecontainer.IsSameContainer(findContainer(oldPod.Spec.Containers, c.Name), c) {
			added = append(added, c)
		}
	}
	return added
}

// retainedContainers calls f with the main and init containers that are in both pods.
func retainedContainers(allocatedPod, pod *v1.Pod, f func(allocated, desired *v1.Container)) {
	for _, lists := range [][2][]v1.Container{
		{allocatedPod.Spec.InitContainers, pod.Spec.InitContainers},
		{allocatedPod.Spec.Containers, pod.Spec.Containers},
	} {
		for i := range lists[1] {
			if allocated := findContainer(lists[0], lists[1][i].Name); allocated != nil {
				f(allocated, &lists[1][i])
			}
		}
	}
}

// resourcesDiffer returns true if a container that both pods have, one of their memory-backed
// volumes, or the pods themselves ask for different resources.
func resourcesDiffer(allocatedPod, pod *v1.Pod) bool {
	differ := !apiequality.Semantic.DeepEqual(allocatedPod.Spec.Resources, pod.Spec.Resources) ||
		IsMemoryBackedVolumeResizeRequested(allocatedPod, pod)
	retainedContainers(allocatedPod, pod, func(allocated, desired *v1.Container) {
		differ = differ || !apiequality.Semantic.DeepEqual(allocated.Resources, desired.Resources)
	})
	return differ
}

// isResize returns true if the change from allocatedPod to pod is reported as a resize, by
// conditions and events: containers are added or removed, or resources change.
func isResize(allocatedPod, pod *v1.Pod) bool {
	return len(addedContainers(allocatedPod, pod)) > 0 || len(addedContainers(pod, allocatedPod)) > 0 ||
		resourcesDiffer(allocatedPod, pod)
}

// asksForMore returns true if the change from allocatedPod to pod takes anything from the node that
// the pod does not have. What does not is never held up by the state of the node: it may be what
// relieves it.
func asksForMore(allocatedPod, pod *v1.Pod) bool {
	more := len(addedContainers(allocatedPod, pod)) > 0
	retainedContainers(allocatedPod, pod, func(allocated, desired *v1.Container) {
		more = more || grows(&allocated.Resources, &desired.Resources)
	})
	if allocatedPod.Spec.Resources != nil || pod.Spec.Resources != nil {
		allocated, desired := &v1.ResourceRequirements{}, &v1.ResourceRequirements{}
		if allocatedPod.Spec.Resources != nil {
			allocated = allocatedPod.Spec.Resources
		}
		if pod.Spec.Resources != nil {
			desired = pod.Spec.Resources
		}
		more = more || grows(allocated, desired)
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if !VolHasMemoryBackedEmptyDirSizeLimit(volume) {
			continue
		}
		for j := range allocatedPod.Spec.Volumes {
			allocated := &allocatedPod.Spec.Volumes[j]
			if allocated.Name == volume.Name && VolHasMemoryBackedEmptyDirSizeLimit(allocated) {
				more = more || volume.EmptyDir.SizeLimit.Cmp(*allocated.EmptyDir.SizeLimit) > 0
			}
		}
	}
	return more
}

// grows returns true if a request or a limit is higher than it was, or a limit is gone.
func grows(allocated, desired *v1.ResourceRequirements) bool {
	for name, request := range desired.Requests {
		if request.Cmp(allocated.Requests[name]) > 0 {
			return true
		}
	}
	for name, limit := range allocated.Limits {
		if desiredLimit, ok := desired.Limits[name]; !ok || desiredLimit.Cmp(limit) > 0 {
			return true
		}
	}
	return false
}

// isPodTerminating returns true if the pod is deleted or terminal: nothing is allocated any more.
func isPodTerminating(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil || podutil.IsPodTerminal(pod)
}

// allocatePodSpec allocates the pod in place of allocatedPod, from which it differs: all of the
// change, or nothing if it does not fit or cannot be saved. Returns true if it is allocated, or an
// error if it could not be saved, which is to be tried again.
func (m *manager) allocatePodSpec(ctx context.Context, allocatedPod, pod *v1.Pod) (bool, error) {
	logger := klog.FromContext(ctx)
	if isPodTerminating(pod) {
		return false, nil
	}

	resize := isResize(allocatedPod, pod)
	if resize {
		if fit, reason, message := m.canAllocateChange(ctx, allocatedPod, pod); !fit {
			m.setPending(logger, allocatedPod, pod, reason, message)
			return false, nil
		}
	}

	if err := m.SetAllocatedResources(logger, pod); err != nil {
		err = fmt.Errorf("the change could not be saved on the node, which will try again: %w", err)
		if resize {
			m.setPending(logger, allocatedPod, pod, v1.PodReasonDeferred, err.Error())
		} else {
			logBlockedImages(logger, allocatedPod, pod, v1.PodReasonDeferred, err.Error())
		}
		m.ticker.Reset(initialRetryDelay)
		return false, err
	}

	var added []string
	for _, c := range addedContainers(allocatedPod, pod) {
		added = append(added, c.Name)
	}
	m.latency.allocated(pod.UID, added)

	m.statusManager.ClearPodResizePendingCondition(pod.UID, metrics.DeferredResizeResolutionAccepted)
	if resize {
		// Clear any errors that may have been surfaced from a previous resize and update the
		// generation of the resize in-progress condition.
		m.statusManager.ClearPodResizeInProgressCondition(pod.UID)
		m.statusManager.SetPodResizeInProgressCondition(pod.UID, "", "", pod.Generation)

		msg := events.PodResizeStartedMsg(logger, pod, pod.Generation)
		m.recorder.WithLogger(logger).Eventf(pod, v1.EventTypeNormal, events.ResizeStarted, "%s", msg)
	}
	return true, nil
}

// setPending reports why the pod is not allocated.
func (m *manager) setPending(logger klog.Logger, allocatedPod, pod *v1.Pod, reason, message string) {
	logBlockedImages(logger, allocatedPod, pod, reason, message)
	if m.statusManager.SetPodResizePendingCondition(pod.UID, reason, message, pod.Generation) {
		eventType := events.ResizeDeferred
		if reason == v1.PodReasonInfeasible {
			eventType = events.ResizeInfeasible
		}
		msg := events.PodResizePendingMsg(logger, pod, reason, message, pod.Generation)
		m.recorder.WithLogger(logger).Eventf(pod, v1.EventTypeWarning, eventType, "%s", msg)
	}
}

// infeasibleReasons are the reasons of admission handlers for which a change will be refused for as
// long as the kubelet runs, with the label that metrics have for them.
var infeasibleReasons = map[string]string{
	lifecycle.ExceedsNodeAllocatable:             "exceeds_node_allocatable",
	lifecycle.AppArmorNotAdmittedReason:          "apparmor",
	lifecycle.PodFeatureUnsupported:              "feature_unsupported",
	lifecycle.PodLevelResourcesNotAdmittedReason: "pod_level_resources_unsupported",
}

// canAllocateChange asks the admission handlers whether the change from allocatedPod to pod can be
// allocated. If it cannot, it returns a reason, which is Infeasible if that will not change, and a
// message that names the containers which are concerned.
func (m *manager) canAllocateChange(ctx context.Context, allocatedPod, pod *v1.Pod) (bool, string, string) {
	logger := klog.FromContext(ctx)
	more := asksForMore(allocatedPod, pod)
	attrs := &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.ResizeOperation, AllocatedPod: allocatedPod}
	if more {
		attrs.OtherPods = slices.DeleteFunc(m.GetAllocatedPods(), func(p *v1.Pod) bool { return p.UID == pod.UID })
	}
	for _, handler := range m.admitHandlers {
		// Whether the change is possible at all does not depend on how much it asks for.
		if _, ok := handler.(*podResizesAdmitHandler); !ok && !more {
			continue
		}
		result := handler.Admit(ctx, attrs)
		if result.Admit {
			continue
		}
		reason := result.Reason
		if label, ok := infeasibleReasons[reason]; ok {
			metrics.PodInfeasibleResizes.WithLabelValues(label).Inc()
			reason = v1.PodReasonInfeasible
		}
		message := fmt.Sprintf("%s (%s)", result.Message, describeChange(allocatedPod, pod))
		logger.Info("Change of the pod cannot be allocated", "pod", klog.KObj(pod), "podUID", pod.UID, "reason", result.Reason, "message", message)
		return false, reason, message
	}
	return true, "", ""
}

// maxDescribedContainers bounds the messages of conditions and events.
const maxDescribedContainers = 10

// describeChange says which containers ask for what in the change from allocatedPod to pod.
func describeChange(allocatedPod, pod *v1.Pod) string {
	var parts []string
	for _, c := range addedContainers(allocatedPod, pod) {
		parts = append(parts, fmt.Sprintf("added container %q: %s", c.Name, describeRequests(c.Resources.Requests)))
	}
	retainedContainers(allocatedPod, pod, func(allocated, desired *v1.Container) {
		if !apiequality.Semantic.DeepEqual(allocated.Resources, desired.Resources) {
			parts = append(parts, fmt.Sprintf("container %q: %s, allocated %s", desired.Name,
				describeRequests(desired.Resources.Requests), describeRequests(allocated.Resources.Requests)))
		}
	})
	for _, c := range addedContainers(pod, allocatedPod) {
		parts = append(parts, fmt.Sprintf("removed container %q: %s until it has stopped", c.Name, describeRequests(c.Resources.Requests)))
	}
	for _, c := range resourcehelper.RemovedContainers(pod) {
		if findContainer(allocatedPod.Spec.Containers, c.Name) == nil {
			parts = append(parts, fmt.Sprintf("container %q that is being stopped: %s", c.Name, describeRequests(c.Resources.Requests)))
		}
	}
	if !apiequality.Semantic.DeepEqual(allocatedPod.Spec.Resources, pod.Spec.Resources) && pod.Spec.Resources != nil {
		parts = append(parts, "pod: "+describeRequests(pod.Spec.Resources.Requests))
	}
	if len(parts) == 0 {
		return "volumes of the pod"
	}
	if more := len(parts) - maxDescribedContainers; more > 0 {
		parts = append(parts[:maxDescribedContainers], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

func describeRequests(requests v1.ResourceList) string {
	if len(requests) == 0 {
		return "no requests"
	}
	var parts []string
	for name, quantity := range requests {
		parts = append(parts, fmt.Sprintf("%s %s", name, quantity.String()))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// disallowContainerChanges returns true, with a message and the label that metrics have for the
// reason, if containers cannot be added to or removed from the pod on this node, however much of
// its resources is free.
func (h *podResizesAdmitHandler) disallowContainerChanges(pod, allocatedPod *v1.Pod) (bool, string, string) {
	if !AllocatesPodSpec(pod) {
		return false, "", ""
	}
	added, removed := addedContainers(allocatedPod, pod), addedContainers(pod, allocatedPod)
	if len(added) == 0 && len(removed) == 0 {
		return false, "", ""
	}

	for _, c := range added {
		if h.containerRuntime.GetContainerSwapBehavior(pod, c) != kubetypes.NoSwap {
			return true, fmt.Sprintf("Container %q cannot be added: adding containers that may use swap is not supported", c.Name), "swap_limitation"
		}
	}
	for _, c := range removed {
		if h.containerRuntime.GetContainerSwapBehavior(allocatedPod, c) != kubetypes.NoSwap {
			return true, fmt.Sprintf("Container %q cannot be removed: removing containers that may use swap is not supported", c.Name), "swap_limitation"
		}
	}

	// The managers of exclusive resources neither give any to a container of a running pod, nor take
	// them back from one.
	nodeConfig := h.containerManager.GetNodeConfig()
	if v1qos.GetPodQOS(pod) != v1.PodQOSGuaranteed {
		return false, "", ""
	}
	podLevel := utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResourceManagers) && resourcehelper.IsPodLevelResourcesSet(pod)
	for _, manager := range []struct {
		static   bool
		resource v1.ResourceName
		label    string
	}{
		{nodeConfig.CPUManagerPolicy == string(cpumanager.PolicyStatic), v1.ResourceCPU, "guaranteed_pod_cpu_manager_static_policy"},
		{nodeConfig.MemoryManagerPolicy == string(memorymanager.PolicyTypeStatic), v1.ResourceMemory, "guaranteed_pod_memory_manager_static_policy"},
	} {
		if !manager.static {
			continue
		}
		for _, c := range slices.Concat(added, removed) {
			if request := c.Resources.Requests[manager.resource]; podLevel || !request.IsZero() {
				return true, fmt.Sprintf("Container %q cannot be added to or removed from a Guaranteed pod alongside the static policy for %s", c.Name, manager.resource), manager.label
			}
		}
	}
	return false, "", ""
}

// ObserveContainers implements Manager.
func (m *manager) ObserveContainers(podStatus *kubecontainer.PodStatus) {
	m.latency.observe(podStatus)
}

// notePending records when the update of the pod was seen that is to be allocated.
func (m *manager) notePending(podUID types.UID) {
	if pod, ok := m.getPodByUID(podUID); ok && AllocatesPodSpec(pod) {
		m.latency.updated(podUID, pod.Generation)
	}
}

// logBlockedImages logs the image updates that wait until the rest of the change is allocated.
func logBlockedImages(logger klog.Logger, allocatedPod, pod *v1.Pod, reason, message string) {
	retainedContainers(allocatedPod, pod, func(allocated, desired *v1.Container) {
		if allocated.Image != desired.Image {
			logger.Info("Image update is blocked until the pod can be allocated", "pod", klog.KObj(pod), "containerName", desired.Name,
				"allocatedImage", allocated.Image, "image", desired.Image, "reason", reason, "message", message)
		}
	})
}
