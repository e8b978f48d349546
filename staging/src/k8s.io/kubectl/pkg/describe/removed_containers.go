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

package describe

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/cmd/util/podcmd"
)

// describeRemovedContainers writes what is known about main containers that are
// in the status of the pod, but not in its spec any more.
func describeRemovedContainers(pod *corev1.Pod, w PrefixWriter) {
	removed := podcmd.RemovedContainerStatuses(pod)
	if len(removed) == 0 {
		return
	}
	w.Write(LEVEL_0, "Removed Containers:\n")
	for _, status := range removed {
		w.Write(LEVEL_1, "%s:\n", status.Name)
		w.Write(LEVEL_2, "Container ID:\t%s\n", status.ContainerID)
		w.Write(LEVEL_2, "Image:\t%s\n", status.Image)
		w.Write(LEVEL_2, "Image ID:\t%s\n", status.ImageID)
		describeContainerState(*status, w)
	}
}
