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

package types

import (
	v1 "k8s.io/api/core/v1"
)

// AddedContainers returns a pod that has only the main containers that an update
// adds, matched by name. It tells a feature that depends on immutable fields of
// containers what the update asks for: a node that ran the pod before need not be
// able to run these. A nil oldPodInfo has no update, and so adds nothing.
func AddedContainers(oldPodInfo, newPodInfo *PodInfo) *PodInfo {
	added := &PodInfo{Spec: &v1.PodSpec{}}
	if oldPodInfo == nil {
		return added
	}
	old := make(map[string]bool, len(oldPodInfo.Spec.Containers))
	for i := range oldPodInfo.Spec.Containers {
		old[oldPodInfo.Spec.Containers[i].Name] = true
	}
	for i := range newPodInfo.Spec.Containers {
		if !old[newPodInfo.Spec.Containers[i].Name] {
			added.Spec.Containers = append(added.Spec.Containers, newPodInfo.Spec.Containers[i])
		}
	}
	return added
}
