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
	"math"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// GetActuatedResources implements kubecontainer.RemovedContainerRuntime.
func (m *kubeGenericRuntimeManager) GetActuatedResources(podUID types.UID, containerName string) (v1.ResourceRequirements, bool) {
	return m.actuatedState.GetContainerResources(podUID, containerName)
}

// podWithRunningContainers returns the pod with the removed containers that may still run, and with
// the resources they have: the cgroup of the pod must have room for them until they have stopped.
func (m *kubeGenericRuntimeManager) podWithRunningContainers(pod *v1.Pod, podStatus *kubecontainer.PodStatus) *v1.Pod {
	if !allocation.AllocatesPodSpec(pod) || podStatus == nil || !podStatus.IsRemovalInProgress() {
		return pod
	}
	all := *pod
	all.Spec.Containers = slices.Clone(pod.Spec.Containers)
	for _, status := range podStatus.RemovedContainerStatuses {
		if resources, ok := m.actuatedState.GetContainerResources(pod.UID, status.Name); ok && status.MayRun() {
			all.Spec.Containers = append(all.Spec.Containers, v1.Container{Name: status.Name, Resources: resources})
		}
	}
	return &all
}

// podCgroupIsOutdated returns true if the cgroup of the pod was not made for the containers that
// run and are to be started: it has no room for an added one, or still has some for one that was
// removed and has stopped.
func (m *kubeGenericRuntimeManager) podCgroupIsOutdated(pod *v1.Pod, podStatus *kubecontainer.PodStatus, containersToStart []int) bool {
	if !allocation.AllocatesPodSpec(pod) {
		return false
	}
	return slices.ContainsFunc(containersToStart, func(idx int) bool {
		_, ok := m.actuatedState.GetContainerResources(pod.UID, pod.Spec.Containers[idx].Name)
		return !ok
	}) || len(m.stoppedActuatedContainers(pod, podStatus)) > 0
}

// hasUnactuatedContainers returns true if there are containers in a pod that runs for which its cgroup
// was not made yet.
func (m *kubeGenericRuntimeManager) hasUnactuatedContainers(pod *v1.Pod, podStatus *kubecontainer.PodStatus) bool {
	if !startsInBackground(pod, podStatus) {
		return false
	}
	info, ok := m.actuatedState.GetPodResourceInfo(pod.UID)
	return ok && slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool {
		_, ok := info.ContainerResources[c.Name]
		return !ok
	})
}

// stoppedActuatedContainers returns the names of the containers that have actuated resources and
// were removed and have stopped.
func (m *kubeGenericRuntimeManager) stoppedActuatedContainers(pod *v1.Pod, podStatus *kubecontainer.PodStatus) []string {
	if !allocation.AllocatesPodSpec(pod) {
		return nil
	}
	info, _ := m.actuatedState.GetPodResourceInfo(pod.UID)
	var stopped []string
	for name := range info.ContainerResources {
		mayRun := slices.ContainsFunc(podStatus.RemovedContainerStatuses, func(status *kubecontainer.Status) bool {
			return status.Name == name && status.MayRun()
		})
		if !mayRun && kubecontainer.GetContainerSpec(pod, name) == nil {
			stopped = append(stopped, name)
		}
	}
	return stopped
}

// recordPodCgroup records for which containers the cgroup of the pod is made now.
func (m *kubeGenericRuntimeManager) recordPodCgroup(logger klog.Logger, pod *v1.Pod, podStatus *kubecontainer.PodStatus, containersToStart []int) {
	if !m.podCgroupIsOutdated(pod, podStatus, containersToStart) {
		return
	}
	stopped := m.stoppedActuatedContainers(pod, podStatus)
	info, _ := m.actuatedState.GetPodResourceInfo(pod.UID)
	// The state hands out its own map.
	containers := map[string]v1.ResourceRequirements{}
	for name, resources := range info.ContainerResources {
		if !slices.Contains(stopped, name) {
			containers[name] = resources
		}
	}
	allocated := allocation.ResourceInfoForPod(pod).ContainerResources
	for _, idx := range containersToStart {
		name := pod.Spec.Containers[idx].Name
		if _, ok := containers[name]; !ok {
			containers[name] = allocated[name]
		}
	}
	info.ContainerResources = containers
	if err := m.actuatedState.SetPodResourceInfo(logger, pod.UID, info); err != nil {
		logger.Error(err, "Failed to record the actuated resources of the pod", "pod", klog.KObj(pod))
	}
}

// podCgroupConfig returns the configuration of the pod's cgroup. What it does not say, because pods
// do not have cgroups of their own, is not limited.
func podCgroupConfig(pcm cm.PodContainerManager, pod *v1.Pod, resource v1.ResourceName) (*cm.ResourceConfig, error) {
	config, err := pcm.GetPodCgroupConfig(pod, resource)
	if err != nil {
		return nil, err
	}
	complete := &cm.ResourceConfig{}
	if config != nil {
		*complete = *config
	}
	unlimited := int64(-1)
	switch {
	case resource == v1.ResourceMemory && complete.Memory == nil:
		complete.Memory = &unlimited
	case resource == v1.ResourceCPU && complete.CPUQuota == nil:
		complete.CPUQuota = &unlimited
	}
	if resource == v1.ResourceCPU && complete.CPUShares == nil {
		shares := uint64(cm.MinShares)
		complete.CPUShares = &shares
	}
	return complete, nil
}

// unsetLimit returns the value to write for a limit of the pod's cgroup that the pod does not have.
// In a pod whose containers do not change, the cgroup does not have such a limit either; a
// container without limit that is added lifts the limit of the pod.
func unsetLimit(pod *v1.Pod, current *int64) *int64 {
	if !allocation.AllocatesPodSpec(pod) {
		return current
	}
	unlimited := int64(-1)
	return &unlimited
}

// refreshPodMemoryUsage replaces the memory usage of the pod, which is some seconds old and may
// include a container that was removed and has stopped since, with the current one.
func (m *kubeGenericRuntimeManager) refreshPodMemoryUsage(pod *v1.Pod, stats *statsapi.PodStats) {
	if !allocation.AllocatesPodSpec(pod) || stats.Memory == nil {
		return
	}
	if usage, err := m.containerManager.NewPodContainerManager().GetPodCgroupMemoryUsage(pod); err == nil {
		stats.Memory.UsageBytes = &usage
	}
}

// comparableLimit returns a limit of a cgroup so that no limit is the highest one. A memory cgroup of
// version 1 without limit says that its limit is the highest one that is a multiple of the page size.
func comparableLimit(pod *v1.Pod, limit int64) int64 {
	if allocation.AllocatesPodSpec(pod) && (limit < 0 || limit > math.MaxInt64-int64(os.Getpagesize())) {
		return math.MaxInt64
	}
	return limit
}
