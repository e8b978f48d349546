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

package admission

import corev1 "k8s.io/api/core/v1"

// isSignificantContainersUpdate determines whether an update to a list of containers should trigger a policy
// evaluation: whether a container was added, or one that stays has a significant update. Containers are matched by
// name, as they can be added, removed and reordered while the pod runs: at the same index there may be another
// container with the same image. A container that is only removed takes nothing but privileges away.
func isSignificantContainersUpdate(containers, oldContainers []corev1.Container) bool {
	old := make(map[string]*corev1.Container, len(oldContainers))
	for i := range oldContainers {
		old[oldContainers[i].Name] = &oldContainers[i]
	}
	for i := range containers {
		oldContainer, found := old[containers[i].Name]
		if !found || isSignificantContainerUpdate(&containers[i], oldContainer) {
			return true
		}
	}
	return false
}
