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
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// maxRemovedContainers is the number of removed containers per pod that are
// remembered. More are only there if containers come and go while the node does
// not report; it then loses access to what the oldest ones refer to.
const maxRemovedContainers = 100

// removedContainers remembers the containers that were removed from the spec of
// pods and may still run. A node must keep access to what they refer to until
// they are gone, because it may have to start them again: a removal takes effect
// only when the node has allocated it.
//
// What was removed before this process started is not known to it, as nothing in
// the API has the spec of a removed container: the node has no access then.
//
// It is not safe for concurrent use: pod events arrive one at a time.
type removedContainers struct {
	byPod map[types.UID][]removedContainer
}

type removedContainer struct {
	name string
	// env and envFrom are all in a container that refers to other objects.
	env     []corev1.EnvVar
	envFrom []corev1.EnvFromSource
	// generation is the first generation of the pod without the container.
	generation int64
	// containerID is the last one known before the removal, empty if there was none.
	containerID string
}

// observe records an update to a pod. It returns true if the references of the
// pod may have changed: if a container that has some was added to or removed from
// the spec, or if one that was removed before is gone now.
func (r *removedContainers) observe(oldPod, pod *corev1.Pod) bool {
	if oldPod.UID != pod.UID {
		r.forget(oldPod)
		return true
	}
	known := len(r.byPod[pod.UID])
	removed := slices.DeleteFunc(r.byPod[pod.UID], func(c removedContainer) bool { return c.isGone(pod) })
	changed := len(removed) != known

	if oldPod.Generation != pod.Generation {
		added := make(map[string]*corev1.Container, len(pod.Spec.Containers))
		for i := range pod.Spec.Containers {
			if c := &pod.Spec.Containers[i]; hasReferences(c) {
				added[c.Name] = c
			}
		}
		for i := range oldPod.Spec.Containers {
			old := &oldPod.Spec.Containers[i]
			if !hasReferences(old) {
				continue
			}
			// A container cannot change what it refers to, so another one of the same name is another
			// container. In between, there was an update without it, which this process did not see.
			if c := added[old.Name]; c != nil && apiequality.Semantic.DeepEqual(c.Env, old.Env) && apiequality.Semantic.DeepEqual(c.EnvFrom, old.EnvFrom) {
				delete(added, old.Name)
				continue
			}
			changed = true
			c := removedContainer{name: old.Name, env: old.Env, envFrom: old.EnvFrom, generation: pod.Generation}
			if status := containerStatus(oldPod, old.Name); status != nil {
				c.containerID = status.ContainerID
			}
			if !c.isGone(pod) {
				removed = append(removed, c)
			}
		}
		changed = changed || len(added) > 0
	}

	if excess := len(removed) - maxRemovedContainers; excess > 0 {
		removed = slices.Delete(removed, 0, excess)
	}
	if len(removed) == 0 {
		r.forget(pod)
		return changed
	}
	if r.byPod == nil {
		r.byPod = make(map[types.UID][]removedContainer)
	}
	r.byPod[pod.UID] = removed
	return changed
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
	result.Spec.Containers = slices.Clone(pod.Spec.Containers)
	for _, c := range removed {
		result.Spec.Containers = append(result.Spec.Containers, corev1.Container{Name: c.name, Env: c.env, EnvFrom: c.envFrom})
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
	status := containerStatus(pod, c.name)
	if status == nil || status.State.Terminated != nil {
		return true
	}
	// The status may be that of the next container of this name.
	hasSuccessor := slices.ContainsFunc(pod.Spec.Containers, func(other corev1.Container) bool { return other.Name == c.name })
	return hasSuccessor && (status.State.Running == nil || status.ContainerID != c.containerID)
}

// hasReferences returns true if the container gives access to objects beyond what the pod does.
func hasReferences(c *corev1.Container) bool {
	return len(c.EnvFrom) > 0 || slices.ContainsFunc(c.Env, func(env corev1.EnvVar) bool {
		return env.ValueFrom != nil && (env.ValueFrom.SecretKeyRef != nil || env.ValueFrom.ConfigMapKeyRef != nil)
	})
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}
