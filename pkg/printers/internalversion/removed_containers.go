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

package internalversion

import (
	"slices"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/features"
)

// isRemovedContainer returns true for the status of a main container that is not
// in the spec of the pod any more. It is kept for a while to look at, and counts
// for nothing: neither for READY nor for STATUS nor for RESTARTS.
func isRemovedContainer(pod *api.Pod, status *api.ContainerStatus) bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) &&
		!slices.ContainsFunc(pod.Spec.Containers, func(c api.Container) bool { return c.Name == status.Name })
}
