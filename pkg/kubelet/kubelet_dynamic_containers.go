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

package kubelet

import (
	"context"
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// unallocatedContainers returns the main containers of the pod in the API that are not in the
// allocated pod.
func (kl *Kubelet) unallocatedContainers(allocatedPod *v1.Pod) []v1.Container {
	pod, ok := kl.podManager.GetPodByUID(allocatedPod.UID)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(pod.Spec.Containers), func(c v1.Container) bool {
		return kubecontainer.GetContainerSpec(allocatedPod, c.Name) != nil
	})
}

// addDynamicContainerStatuses completes the API status s of the allocated pod with the statuses of
// the containers that are not in its spec: those that were removed from it, and those that were
// added in the API and are not allocated yet. They are never ready.
func (kl *Kubelet) addDynamicContainerStatuses(ctx context.Context, allocatedPod *v1.Pod, podStatus *kubecontainer.PodStatus, oldPodStatus, s *v1.PodStatus) {
	if !allocation.AllocatesPodSpec(allocatedPod) {
		return
	}
	kl.allocationManager.ObserveContainers(podStatus)

	unallocated := kl.unallocatedContainers(allocatedPod)
	reported, _ := kubecontainer.KeptRemovedContainers(allocatedPod, podStatus)
	// What kept a container that was removed since from starting must not be reported of it, nor
	// of a later one of that name.
	for i := range oldPodStatus.ContainerStatuses {
		if name := oldPodStatus.ContainerStatuses[i].Name; kubecontainer.GetContainerSpec(allocatedPod, name) == nil {
			kl.reasonCache.Remove(allocatedPod.UID, name)
		}
	}
	if len(unallocated) == 0 && len(reported) == 0 {
		return
	}

	// The conversion looks up containers by name: one of each is all that it needs of the spec.
	var specs []v1.Container
	for _, status := range reported {
		if !slices.ContainsFunc(specs, func(c v1.Container) bool { return c.Name == status.Name }) {
			specs = append(specs, v1.Container{Name: status.Name, Image: status.Image})
		}
	}
	removedStatus := *podStatus
	removedStatus.ContainerStatuses = reported
	statuses := kl.convertToAPIContainerStatuses(ctx, allocatedPod, &removedStatus, oldPodStatus.ContainerStatuses, specs, nil, false, false, false)
	for i := range statuses {
		started := false
		statuses[i].Started, statuses[i].Ready = &started, false
		statuses[i].Resources, statuses[i].AllocatedResources = nil, nil
		if statuses[i].State.Terminated != nil {
			continue
		}
		// What may still run keeps its resources until it has stopped.
		if old, ok := podutil.GetContainerStatus(oldPodStatus.ContainerStatuses, statuses[i].Name); ok {
			started = statuses[i].State.Running != nil && old.Started != nil && *old.Started
			statuses[i].Resources, statuses[i].AllocatedResources = old.Resources, old.AllocatedResources
		}
		if statuses[i].Resources == nil {
			// It was removed before they were reported.
			statuses[i].Resources, statuses[i].AllocatedResources = kl.actuatedResources(allocatedPod.UID, statuses[i].Name)
		}
	}
	// A container that was added under the name of one that still runs starts when that one has
	// stopped. Until then the name stands for what runs.
	s.ContainerStatuses = slices.DeleteFunc(s.ContainerStatuses, func(status v1.ContainerStatus) bool {
		_, removed := podutil.GetContainerStatus(statuses, status.Name)
		return removed
	})

	for _, c := range unallocated {
		if _, removed := podutil.GetContainerStatus(statuses, c.Name); removed {
			continue
		}
		started := false
		statuses = append(statuses, v1.ContainerStatus{
			Name:    c.Name,
			Image:   c.Image,
			State:   v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: v1.ContainerReasonUnallocated}},
			Started: &started,
		})
	}

	s.ContainerStatuses = append(s.ContainerStatuses, statuses...)
	sort.Sort(kubetypes.SortedContainerStatuses(s.ContainerStatuses))
}

// actuatedResources returns the resources that a container runs with, and its requests, or nil if
// they are not known.
func (kl *Kubelet) actuatedResources(podUID types.UID, containerName string) (*v1.ResourceRequirements, v1.ResourceList) {
	runtime, ok := kl.containerRuntime.(kubecontainer.RemovedContainerRuntime)
	if !ok {
		return nil, nil
	}
	resources, ok := runtime.GetActuatedResources(podUID, containerName)
	if !ok {
		return nil, nil
	}
	return &resources, resources.Requests
}

// dynamicPodPhase returns the phase of a pod whose allocated containers alone would put it into
// the given phase. A pod that has run does not go back to Pending while an added container is
// pulled or started, and does not end before what was removed from it has stopped.
func dynamicPodPhase(phase v1.PodPhase, pod *v1.Pod, podStatus *kubecontainer.PodStatus, oldPodStatus *v1.PodStatus, podIsTerminal bool) v1.PodPhase {
	if podIsTerminal || !allocation.AllocatesPodSpec(pod) {
		return phase
	}
	switch phase {
	case v1.PodPending:
		if oldPodStatus.Phase == v1.PodRunning && kubecontainer.HasAnyActiveRegularContainerStarted(&pod.Spec, podStatus) {
			return v1.PodRunning
		}
	case v1.PodSucceeded, v1.PodFailed:
		if podStatus.IsRemovalInProgress() {
			return v1.PodRunning
		}
	}
	return phase
}

// hasRun returns true if main containers of the pod were started before the one that is looked at:
// the init containers are not what it waits for.
func hasRun(pod *v1.Pod, podStatus *kubecontainer.PodStatus) bool {
	return allocation.AllocatesPodSpec(pod) && kubecontainer.HasAnyActiveRegularContainerStarted(&pod.Spec, podStatus)
}
