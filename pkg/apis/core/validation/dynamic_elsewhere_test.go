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

package validation

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	podtest "k8s.io/kubernetes/pkg/api/pod/testing"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/features"
)

// Who tries to change containers in the wrong place is told where it can be done.
func TestContainerChangesOutsideOfDynamic(t *testing.T) {
	rename := change("side", func(c *core.Container) { c.Name = "other" })
	addInit := podtest.SetInitContainers(podtest.MakeContainer("init"))
	reorder := func(pod *core.Pod) { slices.Reverse(pod.Spec.Containers) }

	tests := map[string]struct {
		update podtest.Tweak
		// wantHint is true if the error has to name pods/dynamic when the feature is on.
		wantHint bool
	}{
		"a container is added":           {add(podtest.MakeContainer("new")), true},
		"a container is removed":         {remove("side"), true},
		"a container is renamed":         {rename, true},
		"a container is replaced":        {tweaks(remove("main"), add(podtest.MakeContainer("new"))), true},
		"an init container is added":     {addInit, false},
		"containers are reordered":       {reorder, false},
		"an environment variable is set": {change("main", env("A", cpuOf("main"))), false},
	}
	for name, tc := range tests {
		for _, enabled := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "/feature on", false: "/feature off"}[enabled], func(t *testing.T) {
				featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
					features.KubeletAllocatedPodsEndpoint: enabled,
					features.DynamicContainers:            enabled,
				})
				errs := ValidatePodUpdate(runningPod(tc.update), runningPod(), PodValidationOptions{})
				if len(errs) == 0 {
					t.Fatal("want an error, got none")
				}
				hint := slices.ContainsFunc(errs, func(err *field.Error) bool {
					return err.Type == field.ErrorTypeForbidden && err.Field == "spec.containers" &&
						strings.Contains(err.Detail, "may not add or remove containers, unless") &&
						strings.Contains(err.Detail, "pods/dynamic") && strings.Contains(err.Detail, "--subresource=dynamic")
				})
				if want := enabled && tc.wantHint; hint != want {
					t.Errorf("want an error that names pods/dynamic: %v, got: %v", want, errs.ToAggregate())
				}
			})
		}
	}
}

// An ephemeral container must not take the name of a removed container that may still run.
func TestAddedEphemeralContainerNames(t *testing.T) {
	for name, tc := range map[string]struct {
		enabled bool
		name    string
		want    []string
	}{
		"a free name":                               {true, "debugger", nil},
		"the name of a removed container":           {true, "gone", []string{"spec.ephemeralContainers[0].name"}},
		"the name of a removed container, gate off": {false, "gone", nil},
	} {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				features.KubeletAllocatedPodsEndpoint: tc.enabled,
				features.DynamicContainers:            tc.enabled,
			})
			oldPod := runningPod()
			oldPod.Status.ContainerStatuses = append(oldPod.Status.ContainerStatuses, core.ContainerStatus{Name: "gone"})
			newPod := oldPod.DeepCopy()
			ctr := debugger("")
			ctr.Name = tc.name
			newPod.Spec.EphemeralContainers = []core.EphemeralContainer{ctr}
			var got []string
			for _, err := range ValidatePodEphemeralContainersUpdate(newPod, oldPod, PodValidationOptions{}) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected fields in error (-want +got):\n%s", diff)
			}

			// What is there already stays acceptable.
			if errs := ValidatePodEphemeralContainersUpdate(newPod, newPod, PodValidationOptions{}); len(errs) > 0 {
				t.Errorf("unexpected errors without a change: %v", errs)
			}
		})
	}
}

// A removed container whose resources were never reported does not keep the others from being resized.
func TestResizeWhileRemovedContainerRuns(t *testing.T) {
	for name, enabled := range map[string]bool{"gate on": true, "gate off": false} {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				features.KubeletAllocatedPodsEndpoint: enabled,
				features.DynamicContainers:            enabled,
			})
			oldPod := runningPod(change("main", func(c *core.Container) {
				c.Resources = podtest.MakeResourceRequirements(map[string]string{"cpu": "1"}, nil)
			}))
			oldPod.Status.QOSClass = core.PodQOSBurstable
			removed := core.ContainerStatus{Name: "gone", State: core.ContainerState{Running: &core.ContainerStateRunning{}}}
			oldPod.Status.ContainerStatuses = append([]core.ContainerStatus{removed}, oldPod.Status.ContainerStatuses...)
			newPod := oldPod.DeepCopy()
			change("main", func(c *core.Container) {
				c.Resources = podtest.MakeResourceRequirements(map[string]string{"cpu": "2"}, nil)
			})(newPod)
			errs := ValidatePodResize(newPod, oldPod, PodValidationOptions{})
			if enabled && len(errs) > 0 || !enabled && len(errs) != 1 {
				t.Errorf("unexpected errors: %v", errs)
			}
		})
	}
}
