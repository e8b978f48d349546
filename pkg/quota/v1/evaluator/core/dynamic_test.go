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
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

func TestPodEvaluatorHandlesDynamic(t *testing.T) {
	with := func(name, cpu string) api.Container {
		return api.Container{Name: name, Resources: api.ResourceRequirements{Requests: api.ResourceList{api.ResourceCPU: resource.MustParse(cpu)}}}
	}
	pod := func(deadline *int64, containers ...api.Container) *api.Pod {
		return &api.Pod{Spec: api.PodSpec{ActiveDeadlineSeconds: deadline, Containers: containers}}
	}
	tests := []struct {
		name     string
		old, new *api.Pod
		want     bool
	}{
		{name: "added", old: pod(nil, with("a", "1")), new: pod(nil, with("a", "1"), with("b", "1")), want: true},
		{name: "added in place of another", old: pod(nil, with("a", "1"), with("b", "1")), new: pod(nil, with("a", "1"), with("c", "1")), want: true},
		{name: "resized", old: pod(nil, with("a", "1")), new: pod(nil, with("a", "2")), want: true},
		{name: "scope changes", old: pod(nil, with("a", "1")), new: pod(ptr.To[int64](60), with("a", "1")), want: true},
		{name: "removed and scope changes", old: pod(nil, with("a", "1"), with("b", "1")), new: pod(ptr.To[int64](60), with("a", "1")), want: true},
		{name: "removed", old: pod(nil, with("a", "1"), with("b", "1")), new: pod(nil, with("b", "1"))},
		{name: "reordered", old: pod(nil, with("a", "1"), with("b", "2")), new: pod(nil, with("b", "2"), with("a", "1"))},
	}
	evaluator := NewPodEvaluator(nil, clock.RealClock{})
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			attr := admission.NewAttributesRecord(tc.new, tc.old, api.Kind("Pod").WithVersion("version"), "ns", "p",
				api.Resource("pods").WithVersion("version"), "dynamic", admission.Update, nil, false, nil)
			if got := evaluator.Handles(attr); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// What the node said of an older spec does not make a newer one free of charge.
func TestPodUsageOfInfeasiblePods(t *testing.T) {
	container := func(name, cpu string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	for name, tc := range map[string]struct {
		enabled            bool
		observedGeneration int64
		want               string
	}{
		"the node refused this spec":              {true, 2, "1"},
		"the node refused an older one":           {true, 1, "100"},
		"the node refused an older one, gate off": {false, 1, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, feature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				features.KubeletAllocatedPodsEndpoint: tc.enabled,
				features.DynamicContainers:            tc.enabled,
			})
			a := container("a", "1")
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Generation: 2},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{a, container("big", "99")}},
				Status: corev1.PodStatus{
					Phase:             corev1.PodRunning,
					ContainerStatuses: []corev1.ContainerStatus{{Name: "a", AllocatedResources: a.Resources.Requests, Resources: &a.Resources}},
					Conditions: []corev1.PodCondition{{
						Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, ObservedGeneration: tc.observedGeneration,
					}},
				},
			}
			usage, err := PodUsageFunc(pod, clock.RealClock{})
			if err != nil {
				t.Fatal(err)
			}
			if got := usage[corev1.ResourceRequestsCPU]; got.Cmp(resource.MustParse(tc.want)) != 0 {
				t.Errorf("requests.cpu: got %s, want %s", got.String(), tc.want)
			}
		})
	}
}
