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

package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// handlesDynamic returns true for updates through pods/dynamic that may need more quota than the pod has: those that add
// containers or change resources, and those that move the pod into another scope. An update that only removes containers
// needs none, and must not be refused because a container that stays lacks a request which a newer quota asks for.
func handlesDynamic(a admission.Attributes) bool {
	if a.GetOperation() != admission.Update {
		return false
	}
	pod, err := toExternalPodOrError(a.GetObject())
	if err != nil {
		return false
	}
	oldPod, err := toExternalPodOrError(a.GetOldObject())
	if err != nil {
		return false
	}
	return IsTerminating(oldPod) != IsTerminating(pod) ||
		!equality.Semantic.DeepEqual(pod.Spec.Resources, oldPod.Spec.Resources) ||
		addsOrResizes(pod.Spec.Containers, oldPod.Spec.Containers) ||
		addsOrResizes(pod.Spec.InitContainers, oldPod.Spec.InitContainers)
}

func addsOrResizes(containers, oldContainers []corev1.Container) bool {
	old := make(map[string]*corev1.Container, len(oldContainers))
	for i := range oldContainers {
		old[oldContainers[i].Name] = &oldContainers[i]
	}
	for i := range containers {
		oldContainer, found := old[containers[i].Name]
		if !found || !equality.Semantic.DeepEqual(containers[i].Resources, oldContainer.Resources) {
			return true
		}
	}
	return false
}

// withoutOldVerdict returns the pod without the condition that its resize is pending if the condition is about an older
// spec. That the node cannot do what was asked for then must not make free of charge what is asked for now.
func withoutOldVerdict(pod *corev1.Pod) *corev1.Pod {
	if !feature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return pod
	}
	isOld := func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending && c.ObservedGeneration < pod.Generation
	}
	if !slices.ContainsFunc(pod.Status.Conditions, isOld) {
		return pod
	}
	result := *pod
	result.Status.Conditions = slices.DeleteFunc(slices.Clone(pod.Status.Conditions), isOld)
	return &result
}
