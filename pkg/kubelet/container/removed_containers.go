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

package container

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// MaxRemovedContainerStatuses is the number of terminated containers whose status, with the
// container in the runtime, is kept in a pod after they were removed from its spec.
const MaxRemovedContainerStatuses = 10

// RemovedContainerRuntime is implemented by runtimes that take care of the containers that were
// removed from the spec of a pod while it runs.
type RemovedContainerRuntime interface {
	// SplitRemovedContainers returns podStatus with the statuses of the containers that do not
	// belong to the spec of the pod any more moved to RemovedContainerStatuses. It does not change
	// podStatus. A container that was found to be removed once stays so, even if one of the same
	// name and spec is added later. Those that are being started are set apart, too.
	SplitRemovedContainers(pod *v1.Pod, podStatus *PodStatus) *PodStatus
	// KillRemovedContainers starts to kill the removed containers in podStatus that may run and
	// does not wait for them. Those that are being started are not started any more.
	KillRemovedContainers(ctx context.Context, pod *v1.Pod, podStatus *PodStatus)
	// GetActuatedResources returns the resources that the container of that name was given when it
	// was created or last resized. They are known until it has stopped, and over restarts of the
	// kubelet.
	GetActuatedResources(podUID types.UID, containerName string) (v1.ResourceRequirements, bool)
	// DeleteRemovedContainers starts to delete what is left in the runtime of containers that were
	// removed from the pod and have exited, with their logs, and does not wait for it.
	DeleteRemovedContainers(ctx context.Context, pod *v1.Pod, containers []*Status)
}

// IsRegularContainer returns true if the container of that name in a pod with this spec is a main
// container, or was one until it was removed from the spec.
func IsRegularContainer(spec *v1.PodSpec, name string) bool {
	if isMainContainer(spec, name) {
		// An ephemeral container of that name waits until this one is removed.
		return true
	}
	for i := range spec.InitContainers {
		if spec.InitContainers[i].Name == name {
			return false
		}
	}
	for i := range spec.EphemeralContainers {
		if spec.EphemeralContainers[i].Name == name {
			return false
		}
	}
	return true
}

func isMainContainer(spec *v1.PodSpec, name string) bool {
	return slices.ContainsFunc(spec.Containers, func(c v1.Container) bool { return c.Name == name })
}

// IsRegular returns true if the status is that of a main container of a pod with this spec, or of
// one that was removed from it, even if an ephemeral container was added under its name.
func (s *Status) IsRegular(spec *v1.PodSpec) bool {
	// The hash is recorded of main containers only.
	return s.SpecHash != "" || IsRegularContainer(spec, s.Name)
}

// SplitRemovedContainers returns podStatus with the statuses of the containers that were removed
// from the pod moved to RemovedContainerStatuses: those whose name is not in its spec, main
// containers whose name is only that of an ephemeral one, and those that isRemoved (which may be
// nil) knows of. It does not change podStatus.
func SplitRemovedContainers(pod *v1.Pod, podStatus *PodStatus, isRemoved func(*Status) bool) *PodStatus {
	if podStatus == nil {
		return nil
	}
	removed := func(status *Status) bool {
		return GetContainerSpec(pod, status.Name) == nil || status.SpecHash != "" && !isMainContainer(&pod.Spec, status.Name) ||
			isRemoved != nil && isRemoved(status)
	}
	if !slices.ContainsFunc(podStatus.ContainerStatuses, removed) {
		return podStatus
	}
	split := *podStatus
	split.ContainerStatuses = nil
	split.RemovedContainerStatuses = slices.Clone(podStatus.RemovedContainerStatuses)
	for _, status := range podStatus.ContainerStatuses {
		if removed(status) {
			split.RemovedContainerStatuses = append(split.RemovedContainerStatuses, status)
		} else {
			split.ContainerStatuses = append(split.ContainerStatuses, status)
		}
	}
	return &split
}

// KeptRemovedContainers returns what is left of the containers that were removed from the pod: the
// newest instance of each that may still run and of the MaxRemovedContainerStatuses that finished
// last, to be reported; and all other instances, which have exited, to be deleted. A container
// that was created and never started is not reported. What has exited of a container whose name is
// in the spec again is in neither: it is deleted before that one starts.
func KeptRemovedContainers(pod *v1.Pod, podStatus *PodStatus) (reported, expired []*Status) {
	removed := slices.Clone(podStatus.RemovedContainerStatuses)
	slices.SortStableFunc(removed, func(a, b *Status) int { return b.CreatedAt.Compare(a.CreatedAt) })

	seen := map[string]bool{}
	var exited []*Status
	for _, status := range removed {
		switch {
		case status.MayRun():
			reported = append(reported, status)
		case GetContainerSpec(pod, status.Name) != nil:
		case status.State == ContainerStateExited && !seen[status.Name]:
			exited = append(exited, status)
		default:
			expired = append(expired, status)
		}
		seen[status.Name] = true
	}

	slices.SortStableFunc(exited, func(a, b *Status) int { return b.FinishedAt.Compare(a.FinishedAt) })
	if len(exited) > MaxRemovedContainerStatuses {
		expired = append(expired, exited[MaxRemovedContainerStatuses:]...)
		exited = exited[:MaxRemovedContainerStatuses]
	}
	return append(reported, exited...), expired
}

// AllContainerStatuses returns the statuses of all containers of the pod, removed and starting ones
// included.
func (podStatus *PodStatus) AllContainerStatuses() []*Status {
	return slices.Concat(podStatus.ContainerStatuses, podStatus.RemovedContainerStatuses, podStatus.StartingContainerStatuses)
}

// IsRemovalInProgress returns true if a container that was removed from the pod may still run.
func (podStatus *PodStatus) IsRemovalInProgress() bool {
	return slices.ContainsFunc(podStatus.RemovedContainerStatuses, (*Status).MayRun)
}

// MayRun returns true if the container runs or is in a state from which nobody knows whether it
// does.
func (s *Status) MayRun() bool {
	return s.State == ContainerStateRunning || s.State == ContainerStateUnknown
}

// HashImmutableContainerSpec returns a hash of what cannot be changed in a container for as long as
// it exists: two containers of the same name with different hashes are not the same container. The
// hash may depend on the version of the kubelet.
func HashImmutableContainerSpec(container *v1.Container) string {
	c := immutableContainerSpec(container)
	hash := fnv.New64a()
	// Encoding an API type cannot fail, and neither can writing to a hash.
	_ = json.NewEncoder(hash).Encode(&c)
	return strconv.FormatUint(hash.Sum64(), 16)
}

// IsSameContainer returns true if a container can become the other one without being replaced. It
// returns false if either is nil.
func IsSameContainer(a, b *v1.Container) bool {
	if a == nil || b == nil {
		return false
	}
	a1, b1 := immutableContainerSpec(a), immutableContainerSpec(b)
	return apiequality.Semantic.DeepEqual(&a1, &b1)
}

// immutableContainerSpec returns the container without what can be changed in a running pod, and
// without the pull policy, which a running process does not depend on.
func immutableContainerSpec(container *v1.Container) v1.Container {
	c := *container
	c.Image, c.ImagePullPolicy = "", ""
	c.Resources = v1.ResourceRequirements{Claims: container.Resources.Claims}
	c.ResizePolicy = nil
	return c
}
