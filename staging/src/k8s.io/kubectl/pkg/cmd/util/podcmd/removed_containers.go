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

package podcmd

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// RemovedContainerStatuses returns the statuses of main containers that are not
// in the spec of the pod any more: they may still run, and their logs are kept
// for as long as the status is. They are in the order of the pod status, into
// which they point.
func RemovedContainerStatuses(pod *v1.Pod) []*v1.ContainerStatus {
	var removed []*v1.ContainerStatus
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if container, _ := FindContainerByName(pod, status.Name); container == nil {
			removed = append(removed, status)
		}
	}
	return removed
}

// FindContainerOrRemovedByName is FindContainerByName for users who name a
// container themselves: it also finds removed containers, of which only name and
// image are known. The server decides what can be done with them.
func FindContainerOrRemovedByName(pod *v1.Pod, name string) (*v1.Container, string) {
	for _, status := range RemovedContainerStatuses(pod) {
		if status.Name == name {
			return &v1.Container{Name: name, Image: status.Image}, fmt.Sprintf("spec.containers{%s}", name)
		}
	}
	return FindContainerByName(pod, name)
}
