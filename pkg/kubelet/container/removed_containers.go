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

package container

import (
	v1 "k8s.io/api/core/v1"
)

// IsRegularContainer returns true if the container of that name in a pod with this spec is a main
// container, or was one until it was removed from the spec.
func IsRegularContainer(spec *v1.PodSpec, name string) bool {
	for i := range spec.InitContainers {
		if spec.InitContainers[i].Name == name {
			return false
		}
	}
	for i := range spec.EphemeralContainers {
		if spec.EphemeralContainers[i].Name == name {
			return false
		}
	}
	return true
}

// RemovedContainerStatuses returns the statuses of the pod's containers that are not in its spec,
// in the order of podStatus.
func RemovedContainerStatuses(pod *v1.Pod, podStatus *PodStatus) []*Status {
	if podStatus == nil {
		return nil
	}
	var removed []*Status
	for _, status := range podStatus.ContainerStatuses {
		if GetContainerSpec(pod, status.Name) == nil {
			removed = append(removed, status)
		}
	}
	return removed
}

// MayRun returns true if the container runs or is in a state from which nobody knows whether it
// does.
func (s *Status) MayRun() bool {
	return s.State == ContainerStateRunning || s.State == ContainerStateUnknown
}
