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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	podtest "k8s.io/kubernetes/pkg/api/pod/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
)

// enableDynamicContainers turns the gate on together with the gates that it depends on.
func enableDynamicContainers(t *testing.T) {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.InPlacePodVerticalScaling:    true,
		features.NodeDeclaredFeatures:         true,
		features.KubeletAllocatedPodsEndpoint: true,
		features.DynamicContainers:            true,
	})
}

// dynamicTestPod returns a running pod to which containers can be added.
func dynamicTestPod(tweaks ...podtest.Tweak) *api.Pod {
	pod := podtest.MakePod("pod",
		podtest.SetResourceVersion("1"),
		podtest.SetGeneration(3),
		podtest.SetNodeName("node"),
		podtest.SetContainers(podtest.MakeContainer("a"), podtest.MakeContainer("b")),
		podtest.SetStatus(api.PodStatus{
			Phase:             api.PodRunning,
			Conditions:        []api.PodCondition{{Type: api.PodInitialized, Status: api.ConditionTrue}},
			ContainerStatuses: []api.ContainerStatus{{Name: "a"}, {Name: "b"}},
		}))
	for _, tweak := range tweaks {
		tweak(pod)
	}
	return pod
}

func TestDynamicStrategyPrepareForUpdate(t *testing.T) {
	ctrA, ctrB, ctrC := podtest.MakeContainer("a"), podtest.MakeContainer("b"), podtest.MakeContainer("c")
	tests := map[string]struct {
		old    []podtest.Tweak
		update podtest.Tweak
		// want changes a copy of the old pod into what is to be stored.
		want podtest.Tweak
	}{
		"nothing changes": {
			update: func(pod *api.Pod) {},
			want:   func(pod *api.Pod) {},
		},
		"adding a container bumps the generation": {
			update: podtest.SetContainers(ctrA, ctrB, ctrC),
			want: func(pod *api.Pod) {
				pod.Generation = 4
				pod.Spec.Containers = []api.Container{ctrA, ctrB, ctrC}
			},
		},
		"removing a container bumps the generation": {
			update: podtest.SetContainers(ctrB),
			want: func(pod *api.Pod) {
				pod.Generation = 4
				pod.Spec.Containers = []api.Container{ctrB}
			},
		},
		"labels and annotations change and do not bump the generation": {
			update: func(pod *api.Pod) {
				pod.Labels = map[string]string{"l": "1"}
				pod.Annotations = map[string]string{"a": "1"}
			},
			want: func(pod *api.Pod) {
				pod.Labels = map[string]string{"l": "1"}
				pod.Annotations = map[string]string{"a": "1"}
			},
		},
		"status, finalizers and owner references are reset": {
			old: []podtest.Tweak{func(pod *api.Pod) {
				pod.Finalizers = []string{"example.com/old"}
				pod.OwnerReferences = []metav1.OwnerReference{{Name: "old"}}
			}},
			update: func(pod *api.Pod) {
				pod.Spec.Containers = []api.Container{ctrA}
				pod.Status = api.PodStatus{Phase: api.PodFailed}
				pod.Finalizers = []string{"example.com/new"}
				pod.OwnerReferences = nil
			},
			want: func(pod *api.Pod) {
				pod.Generation = 4
				pod.Spec.Containers = []api.Container{ctrA}
			},
		},
		"the AppArmor annotation of a removed container goes with it": {
			old: []podtest.Tweak{podtest.SetAnnotations(map[string]string{
				api.DeprecatedAppArmorAnnotationKeyPrefix + "a": api.DeprecatedAppArmorAnnotationValueUnconfined,
				api.DeprecatedAppArmorAnnotationKeyPrefix + "b": api.DeprecatedAppArmorAnnotationValueUnconfined,
				"keep": "me",
			})},
			update: podtest.SetContainers(ctrB),
			want: func(pod *api.Pod) {
				pod.Generation = 4
				pod.Spec.Containers = []api.Container{ctrB}
				delete(pod.Annotations, api.DeprecatedAppArmorAnnotationKeyPrefix+"a")
			},
		},
		"pod-level resources that an old client dropped are preserved": {
			old: []podtest.Tweak{podtest.SetPodResources(&api.ResourceRequirements{
				Requests: podtest.MakeResourceRequirements(map[string]string{"cpu": "1"}, nil).Requests,
			})},
			update: func(pod *api.Pod) {
				pod.Spec.Resources = nil
				pod.Spec.Containers = []api.Container{ctrA}
			},
			want: func(pod *api.Pod) {
				pod.Generation = 4
				pod.Spec.Containers = []api.Container{ctrA}
			},
		},
		"a field behind a disabled gate is dropped from an added container, even if another container has it": {
			old: []podtest.Tweak{podtest.SetContainers(podtest.MakeContainer("a", podtest.SetContainerRestartPolicy(api.ContainerRestartPolicyNever)))},
			update: func(pod *api.Pod) {
				pod.Spec.Containers = append(pod.Spec.Containers, podtest.MakeContainer("c", podtest.SetContainerRestartPolicy(api.ContainerRestartPolicyNever)))
			},
			want: func(pod *api.Pod) {
				pod.Generation = 4
				pod.Spec.Containers = append(pod.Spec.Containers, ctrC)
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			enableDynamicContainers(t)
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				// The gate of the restart policy of main containers, and the one that depends on it.
				features.RestartAllContainersOnContainerExits: false,
				features.ContainerRestartRules:                false,
			})
			oldPod := dynamicTestPod(test.old...)
			newPod, want := oldPod.DeepCopy(), oldPod.DeepCopy()
			test.update(newPod)
			test.want(want)
			unchanged := oldPod.DeepCopy()

			DynamicStrategy.PrepareForUpdate(t.Context(), newPod, oldPod)

			if diff := cmp.Diff(want, newPod); diff != "" {
				t.Errorf("unexpected pod (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(unchanged, oldPod); diff != "" {
				t.Errorf("the old pod was written to (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDynamicStrategyValidateUpdate(t *testing.T) {
	ctrA, ctrB, ctrC := podtest.MakeContainer("a"), podtest.MakeContainer("b"), podtest.MakeContainer("c")
	sysAdminWithoutEscalation := &api.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &api.Capabilities{Add: []api.Capability{"CAP_SYS_ADMIN"}},
	}
	tests := map[string]struct {
		disabled bool
		old      podtest.Tweak
		update   podtest.Tweak
		// wantErrs are the fields in error.
		wantErrs []string
	}{
		"containers are added and removed": {update: podtest.SetContainers(ctrC, ctrB)},
		"a pure reorder":                   {update: podtest.SetContainers(ctrB, ctrA)},
		"the gate is off": {
			disabled: true,
			update:   podtest.SetContainers(ctrA, ctrB, ctrC),
			wantErrs: []string{"spec.containers"},
		},
		"a retained container changes": {
			update: func(pod *api.Pod) {
				pod.Spec.Containers[1].Env = []api.EnvVar{{Name: "A", Value: "1"}}
			},
			wantErrs: []string{"spec.containers[1].env"},
		},
		"an added container with what is only tolerated in an old one": {
			old: func(pod *api.Pod) { pod.Spec.Containers[0].SecurityContext = sysAdminWithoutEscalation },
			update: func(pod *api.Pod) {
				pod.Spec.Containers = append(pod.Spec.Containers, podtest.MakeContainer("c", podtest.SetContainerSecurityContext(*sysAdminWithoutEscalation)))
			},
			wantErrs: []string{"spec.containers[2].securityContext"},
		},
		"the pod is being deleted": {
			old: func(pod *api.Pod) {
				pod.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(0, 0)))
				pod.DeletionGracePeriodSeconds = ptr.To[int64](30)
			},
			update:   podtest.SetContainers(ctrA),
			wantErrs: []string{"metadata.deletionTimestamp"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			enableDynamicContainers(t)
			if test.disabled {
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DynamicContainers, false)
			}
			oldPod := dynamicTestPod()
			if test.old != nil {
				test.old(oldPod)
			}
			newPod := oldPod.DeepCopy()
			test.update(newPod)
			DynamicStrategy.PrepareForUpdate(t.Context(), newPod, oldPod)

			var got []string
			for _, err := range DynamicStrategy.ValidateUpdate(t.Context(), newPod, oldPod) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(test.wantErrs, got); diff != "" {
				t.Errorf("unexpected fields in error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDynamicStrategyWarningsOnUpdate(t *testing.T) {
	enableDynamicContainers(t)
	// A duplicate environment variable is worth a warning.
	suspicious := podtest.MakeContainer("c")
	suspicious.Env = []api.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "2"}}

	tests := map[string]struct {
		old    []api.Container
		update []api.Container
		want   string
	}{
		"of an added container": {
			old:    []api.Container{podtest.MakeContainer("a")},
			update: []api.Container{podtest.MakeContainer("a"), suspicious},
			want:   "spec.containers[1].env[1]",
		},
		"not of a retained container": {
			old:    []api.Container{suspicious},
			update: []api.Container{suspicious, podtest.MakeContainer("a")},
		},
		"not if nothing is added": {
			old:    []api.Container{podtest.MakeContainer("a"), suspicious},
			update: []api.Container{suspicious},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := DynamicStrategy.WarningsOnUpdate(t.Context(),
				dynamicTestPod(podtest.SetContainers(test.update...)), dynamicTestPod(podtest.SetContainers(test.old...)))
			if test.want == "" {
				if len(got) > 0 {
					t.Errorf("unexpected warnings: %q", got)
				}
				return
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], test.want) {
				t.Errorf("got warnings %q, want one on %s", got, test.want)
			}
		})
	}
}

// What PrepareForUpdate resets is declared, so that server-side apply does not give its applier the ownership of it.
func TestDynamicStrategyResetFields(t *testing.T) {
	got := DynamicStrategy.GetResetFields()["v1"]
	for _, path := range []fieldpath.Path{
		fieldpath.MakePathOrDie("status"),
		fieldpath.MakePathOrDie("metadata", "finalizers"),
		fieldpath.MakePathOrDie("metadata", "ownerReferences"),
	} {
		if !got.Has(path) {
			t.Errorf("%s is reset but not declared as such", path)
		}
	}
	if got.Size() != 3 {
		t.Errorf("unexpected reset fields: %s", got)
	}
}
