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

package pod

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/features"
)

// validateLogContainer returns the container whose logs are asked for. Besides
// the containers in the spec, removed containers have logs for as long as the
// status of the pod lists them.
func validateLogContainer(container string, pod *api.Pod) (string, error) {
	if removedContainerStatus(pod, container) != nil {
		return container, nil
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) && len(container) > 0 && !podHasContainerWithName(pod, container) {
		// It may have been there before, so this is not a bad request.
		return "", &errors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure,
			Code:   http.StatusNotFound,
			Reason: metav1.StatusReasonNotFound,
			Message: fmt.Sprintf("container %s is not valid for pod %s: neither spec nor status list it; "+
				"the logs of a removed container are kept for as long as status.containerStatuses lists it", container, pod.Name),
		}}
	}
	return validateContainer(container, pod)
}

// validateStreamContainer returns the container to run a command in or to attach
// to. A removed container can be used until it has terminated.
func validateStreamContainer(container string, pod *api.Pod) (string, error) {
	status := removedContainerStatus(pod, container)
	switch {
	case status == nil:
		return validateContainer(container, pod)
	case status.State.Running != nil:
		return container, nil
	case status.State.Terminated != nil:
		return "", errors.NewBadRequest(fmt.Sprintf("container %s was removed from pod %s and has terminated; only its logs are left", container, pod.Name))
	default:
		return "", errors.NewBadRequest(fmt.Sprintf("container %s was removed from pod %s and does not run", container, pod.Name))
	}
}

// removedContainerStatus returns the status of a container that is not in the
// spec of the pod any more, or nil if there is none of that name.
func removedContainerStatus(pod *api.Pod, container string) *api.ContainerStatus {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) || podHasContainerWithName(pod, container) {
		return nil
	}
	return containerStatus(pod, container)
}

func containerStatus(pod *api.Pod, container string) *api.ContainerStatus {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s api.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[i]
}

// allocatedPort returns the first port of the first container that the node has
// allocated, or "" if there is none. A container that was added to the spec must
// not take over requests before the node has accepted it.
func allocatedPort(pod *api.Pod) string {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return ""
	}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		status := containerStatus(pod, container.Name)
		if len(container.Ports) == 0 || status == nil ||
			status.State.Waiting != nil && status.State.Waiting.Reason == v1.ContainerReasonUnallocated {
			continue
		}
		return strconv.Itoa(int(container.Ports[0].ContainerPort))
	}
	return ""
}
