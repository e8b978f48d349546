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

package kubelet

import (
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// specForAttach returns the spec of a container that runs, to know whether it has
// a TTY. If it was removed from the pod, the allocation has the spec for as long as
// the removal is not allocated; after that, the client has to know.
func (kl *Kubelet) specForAttach(pod *v1.Pod, name string, clientHasTTY bool) *v1.Container {
	spec := kubecontainer.GetContainerSpec(pod, name)
	if spec != nil || !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return spec
	}
	allocatedPod, _ := kl.allocationManager.UpdatePodFromAllocation(pod)
	if spec := kubecontainer.GetContainerSpec(allocatedPod, name); spec != nil {
		return spec
	}
	return &v1.Container{Name: name, TTY: clientHasTTY}
}
