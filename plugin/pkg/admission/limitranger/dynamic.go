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

package limitranger

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

type limitFunc func(limitRange *corev1.LimitRange, kind string, obj runtime.Object) error

// defaultAdded restricts the function that sets defaults to the containers that an update through pods/dynamic adds. The
// others may be older than the LimitRange, and cannot be given requests and limits that they did not have without changing
// the QoS class of the pod. Other requests are left to the function as they are.
//
// The annotation that says which defaults were set is not written: it would grow with every container that comes and goes.
func defaultAdded(a admission.Attributes, mutate limitFunc) limitFunc {
	pod, oldPod, ok := dynamicUpdate(a)
	if !ok {
		return mutate
	}
	added := validation.DiffContainers(&pod.Spec, &oldPod.Spec).Added
	return func(limitRange *corev1.LimitRange, kind string, _ runtime.Object) error {
		partial := &api.Pod{}
		for _, i := range added {
			partial.Spec.Containers = append(partial.Spec.Containers, *pod.Spec.Containers[i].DeepCopy())
		}
		if err := mutate(limitRange, kind, partial); err != nil {
			return err
		}
		for n, i := range added {
			pod.Spec.Containers[i].Resources = partial.Spec.Containers[n].Resources
		}
		return nil
	}
}

// validateChanged restricts the function that enforces limits to what an update through pods/dynamic changes: the limits
// of containers to those that are added or resized, and those of pods to updates that change the sum. Otherwise a
// LimitRange that is newer than the pod would keep even its containers from being removed.
func validateChanged(a admission.Attributes, validate limitFunc) limitFunc {
	pod, oldPod, ok := dynamicUpdate(a)
	if !ok {
		return validate
	}
	changed := &api.Pod{Spec: api.PodSpec{
		Containers:     changedContainers(pod.Spec.Containers, oldPod.Spec.Containers),
		InitContainers: changedContainers(pod.Spec.InitContainers, oldPod.Spec.InitContainers),
	}}
	sumChanges := len(changed.Spec.Containers) > 0 || len(changed.Spec.InitContainers) > 0 ||
		len(validation.DiffContainers(&pod.Spec, &oldPod.Spec).Removed) > 0 ||
		!apiequality.Semantic.DeepEqual(pod.Spec.Resources, oldPod.Spec.Resources)

	return func(limitRange *corev1.LimitRange, kind string, obj runtime.Object) error {
		if err := validate(withLimits(limitRange, func(t corev1.LimitType) bool { return t == corev1.LimitTypeContainer }), kind, changed); err != nil {
			return err
		}
		if !sumChanges {
			return nil
		}
		return validate(withLimits(limitRange, func(t corev1.LimitType) bool { return t != corev1.LimitTypeContainer }), kind, obj)
	}
}

// dynamicUpdate returns the pods of an update through pods/dynamic, and false for all other requests.
func dynamicUpdate(a admission.Attributes) (pod, oldPod *api.Pod, ok bool) {
	if a.GetSubresource() != "dynamic" || a.GetOperation() != admission.Update {
		return nil, nil, false
	}
	pod, isPod := a.GetObject().(*api.Pod)
	oldPod, isOldPod := a.GetOldObject().(*api.Pod)
	return pod, oldPod, isPod && isOldPod
}

// changedContainers returns the containers that are new, or have other resources than the old one of that name.
func changedContainers(containers, oldContainers []api.Container) []api.Container {
	old := make(map[string]*api.Container, len(oldContainers))
	for i := range oldContainers {
		old[oldContainers[i].Name] = &oldContainers[i]
	}
	var changed []api.Container
	for i := range containers {
		oldContainer, found := old[containers[i].Name]
		if !found || !apiequality.Semantic.DeepEqual(containers[i].Resources, oldContainer.Resources) {
			changed = append(changed, containers[i])
		}
	}
	return changed
}

// withLimits returns the LimitRange with only those limits whose type is wanted.
func withLimits(limitRange *corev1.LimitRange, wanted func(corev1.LimitType) bool) *corev1.LimitRange {
	result := *limitRange
	result.Spec.Limits = nil
	for _, limit := range limitRange.Spec.Limits {
		if wanted(limit.Type) {
			result.Spec.Limits = append(result.Spec.Limits, limit)
		}
	}
	return &result
}
