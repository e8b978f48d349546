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

package install

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// hasContainersChanged returns true if main containers were added to or removed from the pod, or one that was removed has
// stopped since: that is when it no longer counts. It does not ask for the feature gate, which the quota controller may not
// have been told of; without the feature neither ever happens.
func hasContainersChanged(oldPod, newPod *v1.Pod) bool {
	names := containerNames(newPod)
	if !names.Equal(containerNames(oldPod)) {
		return true
	}
	for i := range oldPod.Status.ContainerStatuses {
		oldStatus := &oldPod.Status.ContainerStatuses[i]
		if names.Has(oldStatus.Name) || oldStatus.State.Terminated != nil {
			continue
		}
		newStatus, found := podutil.GetContainerStatus(newPod.Status.ContainerStatuses, oldStatus.Name)
		if !found || newStatus.State.Terminated != nil {
			return true
		}
	}
	return false
}

func containerNames(pod *v1.Pod) sets.Set[string] {
	names := sets.New[string]()
	for i := range pod.Spec.Containers {
		names.Insert(pod.Spec.Containers[i].Name)
	}
	return names
}
