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

package node

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// removedContainers remembers the containers that were removed from the spec of
// pods and may still run. A node must keep access to what they refer to until
// they are gone, because it may have to start them again: a removal takes effect
// only when the node has allocated it.
//
// What was removed before this process started is not known to it, as nothing in
// the API has the spec of a removed container.
//
// It is not safe for concurrent use: pod events arrive one at a time.
type removedContainers struct {
	byPod map[types.UID]map[string]removedContainer
}

type removedContainer struct {
	corev1.Container
	// generation is the first generation of the pod without the container.
	generation int64
}

// observe records an update to a pod. It returns true if the references of the
// pod may have changed: if a container was added to or removed from the spec, or
// if one that was removed before is gone now.
func (r *removedContainers) observe(oldPod, pod *corev1.Pod) bool {
	if oldPod.UID != pod.UID {
		r.forget(oldPod)
		return true
	}
	names := make(map[string]bool, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		names[pod.Spec.Containers[i].Name] = true
	}

	changed := false
	for name, removed := range r.byPod[pod.UID] {
		if names[name] || removed.isGone(pod) {
			changed = true
			delete(r.byPod[pod.UID], name)
		}
	}
	if len(r.byPod[pod.UID]) == 0 {
		r.forget(pod)
	}

	for i := range oldPod.Spec.Containers {
		old := &oldPod.Spec.Containers[i]
		if names[old.Name] {
			delete(names, old.Name)
			continue
		}
		changed = true
		if removed := (removedContainer{Container: *old, generation: pod.Generation}); !removed.isGone(pod) {
			r.add(pod.UID, removed)
		}
	}
	// The names that are left were added.
	return changed || len(names) > 0
}

func (r *removedContainers) add(uid types.UID, removed removedContainer) {
	if r.byPod == nil {
		r.byPod = make(map[types.UID]map[string]removedContainer)
	}
	if r.byPod[uid] == nil {
		r.byPod[uid] = make(map[string]removedContainer)
	}
	r.byPod[uid][removed.Name] = removed
}

// forget drops everything that is known about a pod.
func (r *removedContainers) forget(pod *corev1.Pod) {
	delete(r.byPod, pod.UID)
}

// addTo returns the pod with the removed containers that may still run, to find
// everything that the node may read. The given pod is not changed.
func (r *removedContainers) addTo(pod *corev1.Pod) *corev1.Pod {
	removed := r.byPod[pod.UID]
	if len(removed) == 0 {
		return pod
	}
	result := *pod
	result.Spec.Containers = append([]corev1.Container{}, pod.Spec.Containers...)
	for _, c := range removed {
		result.Spec.Containers = append(result.Spec.Containers, c.Container)
	}
	return &result
}

// isGone returns true if the node is done with the container: it has seen the
// removal, has nothing left to allocate, and the container does not run.
func (c *removedContainer) isGone(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	if pod.Status.ObservedGeneration < c.generation {
		return false
	}
	for i := range pod.Status.Conditions {
		if condition := &pod.Status.Conditions[i]; condition.Type == corev1.PodResizePending && condition.Status == corev1.ConditionTrue {
			return false
		}
	}
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == c.Name && status.State.Terminated == nil {
			return false
		}
	}
	return true
}
