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

package server

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// hasContainer returns true if there may be logs of a container of that name: if
// it is in the spec of the pod, or if it was removed from there and the status of
// the pod still lists it.
func hasContainer(pod *v1.Pod, name string) bool {
	if kubecontainer.GetContainerSpec(pod, name) != nil {
		return true
	}
	return utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) &&
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.Name == name })
}
