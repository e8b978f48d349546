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

package status

import (
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/features"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
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

// isAnotherContainer returns true if the main container of that name in newStatuses is not the one
// that has terminated: that one was removed from the pod, and another one was added under its name.
// It has not been restarted and, if it has started at all, has an ID of its own.
func isAnotherContainer(terminated *v1.ContainerStatus, newStatuses *v1.PodStatus) bool {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return false
	}
	status, ok := podutil.GetContainerStatus(newStatuses.ContainerStatuses, terminated.Name)
	return ok && status.RestartCount == 0 && status.ContainerID != terminated.ContainerID
}

// countDynamicStatuses returns the number of container statuses in a pod that may have more of them
// than containers, because those of removed containers are kept.
func countDynamicStatuses(status *v1.PodStatus) int {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return 0
	}
	return len(status.ContainerStatuses) + len(status.InitContainerStatuses) + len(status.EphemeralContainerStatuses)
}

// isRemoved returns true if the container was removed from the pod: it is never ready, although its
// readiness is probed until it has stopped.
func isRemoved(pod *v1.Pod, containerName string) bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) && kubecontainer.GetContainerSpec(pod, containerName) == nil
}
