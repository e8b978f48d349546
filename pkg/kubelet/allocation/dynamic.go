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

package allocation

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// AllocatesPodSpec returns true if the containers of the pod, and not only their resources, take
// effect once they are allocated. The spec of a static pod is never allocated: it comes from the
// node itself and does not pass the validation of the pods/dynamic subresource.
func AllocatesPodSpec(pod *v1.Pod) bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) && !kubetypes.IsStaticPod(pod)
}

// allocatedSpec returns the part of the pod spec to record as allocated, or nil if only the
// resources of the pod are allocated.
func allocatedSpec(pod *v1.Pod) *v1.PodSpec {
	if !AllocatesPodSpec(pod) {
		return nil
	}
	return pod.Spec.DeepCopy()
}

// updateContainersFromAllocation overwrites the main containers, and the images of the init
// containers, with the allocated ones. It copies the pod if that makes a difference, unless
// alreadyUpdated says that the pod is a copy. Returns the pod, and whether it is an updated copy.
func updateContainersFromAllocation(pod *v1.Pod, allocated state.PodResourceInfo, alreadyUpdated bool) (*v1.Pod, bool) {
	updated := alreadyUpdated
	copyOnce := func() {
		if !updated {
			pod = pod.DeepCopy()
			updated = true
		}
	}

	if containers := allocatedContainers(pod, allocated); !apiequality.Semantic.DeepEqual(containers, pod.Spec.Containers) {
		copyOnce()
		pod.Spec.Containers = (&v1.PodSpec{Containers: containers}).DeepCopy().Containers
	}

	if allocated.AllocatedSpec == nil {
		return pod, updated
	}
	for i := range pod.Spec.InitContainers {
		c := findContainer(allocated.AllocatedSpec.InitContainers, pod.Spec.InitContainers[i].Name)
		if c != nil && c.Image != pod.Spec.InitContainers[i].Image {
			copyOnce()
			pod.Spec.InitContainers[i].Image = c.Image
		}
	}
	return pod, updated
}

// allocatedContainers returns the allocated main containers of the pod. A record written while the
// feature was off knows the names and the resources of the containers only; the containers with
// these names are taken from the pod.
func allocatedContainers(pod *v1.Pod, allocated state.PodResourceInfo) []v1.Container {
	if allocated.AllocatedSpec != nil {
		return allocated.AllocatedSpec.Containers
	}
	var containers []v1.Container
	for _, c := range pod.Spec.Containers {
		if _, ok := allocated.ContainerResources[c.Name]; ok {
			containers = append(containers, c)
		}
	}
	if len(containers) == 0 {
		// A pod always has a main container: this record says nothing about them.
		return pod.Spec.Containers
	}
	return containers
}

func findContainer(containers []v1.Container, name string) *v1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}

// containersDiffer returns true if the two pods have different main containers, by name.
func containersDiffer(a, b *v1.Pod) bool {
	return hasAddedContainer(a, b) || hasAddedContainer(b, a)
}

// hasAddedContainer returns true if newPod has a main container that oldPod does not have.
func hasAddedContainer(oldPod, newPod *v1.Pod) bool {
	for i := range newPod.Spec.Containers {
		if findContainer(oldPod.Spec.Containers, newPod.Spec.Containers[i].Name) == nil {
			return true
		}
	}
	return false
}

// resourcesDiffer returns true if a container that both pods have, one of their memory-backed
// volumes, or the pods themselves ask for different resources.
func resourcesDiffer(allocatedPod, pod *v1.Pod) bool {
	if !apiequality.Semantic.DeepEqual(allocatedPod.Spec.Resources, pod.Spec.Resources) ||
		IsMemoryBackedVolumeResizeRequested(allocatedPod, pod) {
		return true
	}
	differ := func(allocated, desired []v1.Container) bool {
		for i := range desired {
			c := findContainer(allocated, desired[i].Name)
			if c != nil && !apiequality.Semantic.DeepEqual(c.Resources, desired[i].Resources) {
				return true
			}
		}
		return false
	}
	return differ(allocatedPod.Spec.Containers, pod.Spec.Containers) ||
		differ(allocatedPod.Spec.InitContainers, pod.Spec.InitContainers)
}

// needsAdmission returns true if the node must be asked whether the change from allocatedPod to
// pod fits. A change of images, or the removal of a container, asks the node for nothing, and may
// be what relieves it: pressure on the node must not hold it up. Resource managers that pin what
// they give to a Guaranteed pod have a say in removals too.
func needsAdmission(allocatedPod, pod *v1.Pod) bool {
	if !AllocatesPodSpec(pod) {
		return true
	}
	if hasAddedContainer(allocatedPod, pod) || resourcesDiffer(allocatedPod, pod) {
		return true
	}
	return hasAddedContainer(pod, allocatedPod) && pod.Status.QOSClass == v1.PodQOSGuaranteed
}

// removedGuaranteedRequest returns true if a main container that is allocated, but no longer in
// the pod, has a request for the resource.
func removedGuaranteedRequest(allocatedPod, pod *v1.Pod, resourceName v1.ResourceName) bool {
	for i := range allocatedPod.Spec.Containers {
		c := &allocatedPod.Spec.Containers[i]
		if request := c.Resources.Requests[resourceName]; findContainer(pod.Spec.Containers, c.Name) == nil && !request.IsZero() {
			return true
		}
	}
	return false
}

// isResize returns true if the change from allocatedPod to pod is reported as a resize, by
// conditions and events. With the allocation of the whole pod spec this is not every change.
func isResize(allocatedPod, pod *v1.Pod) bool {
	return !AllocatesPodSpec(pod) || containersDiffer(allocatedPod, pod) || resourcesDiffer(allocatedPod, pod)
}

// isPodTerminating returns true if the pod is deleted or terminal: nothing is allocated any more.
func isPodTerminating(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil || podutil.IsPodTerminal(pod)
}

// disallowAddedContainers returns true, and a message that says why, if a container cannot be
// added to the allocated pod on this node, whatever else the node gives up.
func disallowAddedContainers(runtime kubecontainer.Runtime, pod, allocatedPod *v1.Pod) (bool, string) {
	if !AllocatesPodSpec(pod) {
		return false, ""
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if findContainer(allocatedPod.Spec.Containers, c.Name) == nil && runtime.GetContainerSwapBehavior(pod, c) != kubetypes.NoSwap {
			return true, fmt.Sprintf("Container %q cannot be added: adding containers to pods that may use swap is not supported.", c.Name)
		}
	}
	return false, ""
}

// logBlockedImages logs the image updates that wait until the rest of the change is allocated.
func logBlockedImages(logger klog.Logger, allocatedPod, pod *v1.Pod, reason, message string) {
	if !AllocatesPodSpec(pod) {
		return
	}
	for c := range podutil.ContainerIter(&pod.Spec, podutil.InitContainers|podutil.Containers) {
		for allocated := range podutil.ContainerIter(&allocatedPod.Spec, podutil.InitContainers|podutil.Containers) {
			if allocated.Name == c.Name && allocated.Image != c.Image {
				logger.Info("Image update is blocked until the pod can be resized", "pod", klog.KObj(pod), "containerName", c.Name,
					"allocatedImage", allocated.Image, "image", c.Image, "reason", reason, "message", message)
			}
		}
	}
}
