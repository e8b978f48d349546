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

package lifecycle

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// ExceedsNodeAllocatable is the reason of a change to an allocated pod that asks for more of a
// resource than the node has to give, whatever else runs on it.
const ExceedsNodeAllocatable = "ExceedsNodeAllocatable"

// addedContainers returns the pod with only those of its main containers that are added to the
// allocated pod, or nil if none is.
func (a *PodAdmitAttributes) addedContainers() *v1.Pod {
	if a.AllocatedPod == nil {
		return nil
	}
	allocated := containersByName(a.AllocatedPod)
	var added []v1.Container
	for i := range a.Pod.Spec.Containers {
		if c := &a.Pod.Spec.Containers[i]; !kubecontainer.IsSameContainer(allocated[c.Name], c) {
			added = append(added, *c)
		}
	}
	if len(added) == 0 {
		return nil
	}
	pod := *a.Pod
	pod.Spec.InitContainers, pod.Spec.EphemeralContainers, pod.Spec.Containers = nil, nil, added
	return &pod
}

// withRemovedContainers returns the pod to admit together with the containers that it has no longer
// and that hold their resources until they have stopped: those that are removed by this change, and
// those that still run after an earlier one.
func (a *PodAdmitAttributes) withRemovedContainers() *v1.Pod {
	if a.AllocatedPod == nil {
		return a.Pod
	}
	containers := containersByName(a.Pod)
	var removed []v1.Container
	for _, c := range a.AllocatedPod.Spec.Containers {
		if _, ok := containers[c.Name]; !ok {
			removed = append(removed, c)
		}
	}
	removed = append(removed, a.stoppingContainers()...)
	if len(removed) == 0 {
		return a.Pod
	}
	pod := *a.Pod
	pod.Spec.Containers = append(append([]v1.Container{}, a.Pod.Spec.Containers...), removed...)
	return &pod
}

// stoppingContainers returns the containers that still run after they were removed from what is
// allocated to the pod.
func (a *PodAdmitAttributes) stoppingContainers() []v1.Container {
	allocated := containersByName(a.AllocatedPod)
	var stopping []v1.Container
	for _, c := range resourcehelper.RemovedContainers(a.Pod) {
		if _, ok := allocated[c.Name]; !ok {
			stopping = append(stopping, c)
		}
	}
	return stopping
}

func containersByName(pod *v1.Pod) map[string]*v1.Container {
	containers := make(map[string]*v1.Container, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		containers[pod.Spec.Containers[i].Name] = &pod.Spec.Containers[i]
	}
	return containers
}

// exceededAllocatable returns the first of the reasons that will be there whatever else runs on the
// node, and when all that is being stopped has stopped, or nil. It only looks at changes of an
// allocated pod.
func (a *PodAdmitAttributes) exceededAllocatable(reasons []PredicateFailureReason) *InsufficientResourceError {
	if a.AllocatedPod == nil {
		return nil
	}
	for _, reason := range reasons {
		insufficient, ok := reason.(*InsufficientResourceError)
		if !ok {
			continue
		}
		requested := insufficient.Requested
		for _, c := range a.stoppingContainers() {
			request := c.Resources.Requests[insufficient.ResourceName]
			if insufficient.ResourceName == v1.ResourceCPU {
				requested -= request.MilliValue()
			} else {
				requested -= request.Value()
			}
		}
		if requested > insufficient.Capacity {
			return insufficient
		}
	}
	return nil
}
