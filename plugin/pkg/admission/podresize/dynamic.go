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

package podresize

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kubernetes/pkg/apis/core"
)

// asksForMore returns true if an update through pods/dynamic adds a container,
// or asks for more cpu or memory. Any other update, such as one that removes
// containers or changes an image, must not be refused because of its node: a
// pod may well be larger than its node after the node has shrunk.
func asksForMore(pod, oldPod *core.Pod) bool {
	if pod.Spec.Resources != nil && (oldPod.Spec.Resources == nil || resourcesGrow(pod.Spec.Resources, oldPod.Spec.Resources)) {
		return true
	}
	return containersAskForMore(pod.Spec.Containers, oldPod.Spec.Containers) ||
		containersAskForMore(pod.Spec.InitContainers, oldPod.Spec.InitContainers)
}

func containersAskForMore(containers, oldContainers []core.Container) bool {
	old := make(map[string]*core.Container, len(oldContainers))
	for i := range oldContainers {
		old[oldContainers[i].Name] = &oldContainers[i]
	}
	for i := range containers {
		oldContainer, found := old[containers[i].Name]
		if !found || resourcesGrow(&containers[i].Resources, &oldContainer.Resources) {
			return true
		}
	}
	return false
}

// resourcesGrow returns true if a request grows or is added.
func resourcesGrow(resources, oldResources *core.ResourceRequirements) bool {
	if apiequality.Semantic.DeepEqual(resources, oldResources) {
		return false
	}
	for name, quantity := range resources.Requests {
		if oldQuantity, found := oldResources.Requests[name]; !found || quantity.Cmp(oldQuantity) > 0 {
			return true
		}
	}
	return false
}
