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

package status

import (
	v1 "k8s.io/api/core/v1"
)

// isUnallocated returns true if the status is that of a container that was added to a running pod
// and has not been allocated: it does not count for the pod.
func isUnallocated(status *v1.ContainerStatus) bool {
	return status.State.Waiting != nil && status.State.Waiting.Reason == v1.ContainerReasonUnallocated
}

// isInSpec returns true if the pod has a main container of that name.
func isInSpec(podSpec *v1.PodSpec, name string) bool {
	for i := range podSpec.Containers {
		if podSpec.Containers[i].Name == name {
			return true
		}
	}
	return false
}
