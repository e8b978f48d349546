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

package resource

import (
	v1 "k8s.io/api/core/v1"
)

// RemovedContainers returns the main containers that are in the status of the pod and have not
// stopped, although they are no longer in its spec: the node has not removed them yet, or they are
// being stopped. They have a name and resources, taken from their status. A container that was
// added and removed before the node allocated it is not among them: it never got anything.
func RemovedContainers(pod *v1.Pod) []v1.Container {
	var removed []v1.Container
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.State.Terminated != nil || isUnallocated(status) || isInSpec(pod, status.Name) {
			continue
		}
		container := v1.Container{Name: status.Name}
		container.Resources.Requests = containerActuatedRequests(&container, status, false)
		container.Resources.Limits = containerActuatedLimits(&container, status, false)
		removed = append(removed, container)
	}
	return removed
}

func isUnallocated(status *v1.ContainerStatus) bool {
	return status.State.Waiting != nil && status.State.Waiting.Reason == v1.ContainerReasonUnallocated
}

func isInSpec(pod *v1.Pod, name string) bool {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return true
		}
	}
	return false
}

// countedContainers returns the main containers whose resources are in use or asked for: those in
// the spec, and if the status counts, those that were removed from it and have not stopped.
func countedContainers(pod *v1.Pod, opts PodResourcesOptions) []v1.Container {
	if !opts.UseStatusResources {
		return pod.Spec.Containers
	}
	removed := RemovedContainers(pod)
	if len(removed) == 0 {
		return pod.Spec.Containers
	}
	return append(append([]v1.Container{}, pod.Spec.Containers...), removed...)
}

// allocatedWithRemovedContainers completes the resources that the status reports as allocated to
// the pod as a whole, which do not have those of removed containers that have not stopped.
func allocatedWithRemovedContainers(pod *v1.Pod, opts PodResourcesOptions) v1.ResourceList {
	if len(RemovedContainers(pod)) == 0 {
		return pod.Status.AllocatedResources
	}
	return max(pod.Status.AllocatedResources, aggregateContainerResourcesByFn(pod, opts, containerAllocatedRequests))
}
