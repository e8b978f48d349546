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

package kubelet

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	resourcehelper "k8s.io/component-helpers/resource"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/features"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	"k8s.io/kubernetes/test/utils/ktesting"
)

func enableDynamicContainers(t *testing.T) {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.InPlacePodVerticalScaling:    true,
		features.NodeDeclaredFeatures:         true,
		features.KubeletAllocatedPodsEndpoint: true,
		features.DynamicContainers:            true,
	})
}

// A kubelet used to panic in its sync loop when a container disappeared from the spec of a pod,
// whatever its feature gates.
func TestHandlePodUpdatesSurvivesRemovedContainer(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		t.Run(fmt.Sprintf("DynamicContainers=%v", enabled), func(t *testing.T) {
			if enabled {
				enableDynamicContainers(t)
			}
			tCtx := ktesting.Init(t)
			testKubelet := newTestKubelet(t, false)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{
				NodeName:   testKubeletHostname,
				Containers: []v1.Container{{Name: "main", Image: "i"}, {Name: "w", Image: "i", Resources: cpuRequest("1")}},
			})
			kl.podManager.SetPods([]*v1.Pod{pod})
			require.NoError(t, kl.allocationManager.SetAllocatedResources(tCtx.Logger(), pod))

			updated := pod.DeepCopy()
			updated.Spec.Containers = updated.Spec.Containers[:1]
			kl.HandlePodUpdates(tCtx, []*v1.Pod{updated})

			got, _ := kl.podManager.GetPodByUID(pod.UID)
			assert.Len(t, got.Spec.Containers, 1)
		})
	}
}

func cpuRequest(cpu string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}
}

func TestDynamicContainersInPodStatus(t *testing.T) {
	now := time.Now()
	runtimeStatus := func(name string, state kubecontainer.State) *kubecontainer.Status {
		return &kubecontainer.Status{
			ID: kubecontainer.ContainerID{Type: "test", ID: name}, Name: name, Image: "i", State: state,
			CreatedAt: now, StartedAt: now, FinishedAt: now, ExitCode: 3,
		}
	}
	running := func(names ...string) []*kubecontainer.Status {
		var statuses []*kubecontainer.Status
		for _, name := range names {
			statuses = append(statuses, runtimeStatus(name, kubecontainer.ContainerStateRunning))
		}
		return statuses
	}
	exited := func(name string) *kubecontainer.Status {
		return runtimeStatus(name, kubecontainer.ContainerStateExited)
	}

	for name, tc := range map[string]struct {
		allocated []string
		desired   []string
		runtime   []*kubecontainer.Status
		// oldPhase is Running if it is not set.
		oldPhase      v1.PodPhase
		restartPolicy v1.RestartPolicy
		wantStates    map[string]string
		wantReady     []string
		wantPhase     v1.PodPhase
		wantPodReady  v1.ConditionStatus
	}{
		"an added container that is not allocated does not make the pod unready": {
			allocated:    []string{"main"},
			desired:      []string{"main", "w"},
			runtime:      running("main"),
			wantStates:   map[string]string{"main": "Running", "w": "Waiting: Unallocated"},
			wantReady:    []string{"main"},
			wantPhase:    v1.PodRunning,
			wantPodReady: v1.ConditionTrue,
		},
		"an allocated container that has not started makes the pod unready but not Pending": {
			allocated:    []string{"main", "w"},
			desired:      []string{"main", "w"},
			runtime:      running("main"),
			wantStates:   map[string]string{"main": "Running", "w": "Waiting: ContainerCreating"},
			wantReady:    []string{"main"},
			wantPhase:    v1.PodRunning,
			wantPodReady: v1.ConditionFalse,
		},
		"a pod that has not run is Pending until all containers have started": {
			allocated:    []string{"main", "w"},
			desired:      []string{"main", "w"},
			runtime:      running("main"),
			oldPhase:     v1.PodPending,
			wantStates:   map[string]string{"main": "Running", "w": "Waiting: ContainerCreating"},
			wantReady:    []string{"main"},
			wantPhase:    v1.PodPending,
			wantPodReady: v1.ConditionFalse,
		},
		"a container whose removal is not allocated is ready as before": {
			allocated:    []string{"main", "w"},
			desired:      []string{"main"},
			runtime:      running("main", "w"),
			wantStates:   map[string]string{"main": "Running", "w": "Running"},
			wantReady:    []string{"main", "w"},
			wantPhase:    v1.PodRunning,
			wantPodReady: v1.ConditionTrue,
		},
		"a removed container is Running, and not ready, until it has stopped": {
			allocated:    []string{"main"},
			desired:      []string{"main"},
			runtime:      running("main", "w"),
			wantStates:   map[string]string{"main": "Running", "w": "Running"},
			wantReady:    []string{"main"},
			wantPhase:    v1.PodRunning,
			wantPodReady: v1.ConditionTrue,
		},
		"the status of a removed container is kept and counts for nothing": {
			allocated:     []string{"main"},
			desired:       []string{"main"},
			runtime:       append(running("main"), exited("w")),
			restartPolicy: v1.RestartPolicyNever,
			wantStates:    map[string]string{"main": "Running", "w": "Terminated: 3"},
			wantReady:     []string{"main"},
			wantPhase:     v1.PodRunning,
			wantPodReady:  v1.ConditionTrue,
		},
		"all containers swapped: the pod stays Running while the new one starts": {
			allocated:    []string{"new"},
			desired:      []string{"new"},
			runtime:      []*kubecontainer.Status{exited("main")},
			wantStates:   map[string]string{"main": "Terminated: 3", "new": "Waiting: ContainerCreating"},
			wantPhase:    v1.PodRunning,
			wantPodReady: v1.ConditionFalse,
		},
		"the pod does not end before a removed container has stopped": {
			allocated:     []string{"main"},
			desired:       []string{"main"},
			runtime:       append(running("w"), exited("main")),
			restartPolicy: v1.RestartPolicyNever,
			wantStates:    map[string]string{"main": "Terminated: 3", "w": "Running"},
			wantPhase:     v1.PodRunning,
			wantPodReady:  v1.ConditionFalse,
		},
	} {
		t.Run(name, func(t *testing.T) {
			enableDynamicContainers(t)
			tCtx := ktesting.Init(t)
			testKubelet := newTestKubelet(t, false)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			kl.probeManager = prober.NewManager(kl.statusManager, kl.livenessManager, kl.readinessManager, kl.startupManager, kl.runner, nil)

			newPod := func(names []string) *v1.Pod {
				pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{NodeName: testKubeletHostname, RestartPolicy: tc.restartPolicy})
				if tc.restartPolicy == "" {
					pod.Spec.RestartPolicy = v1.RestartPolicyAlways
				}
				for _, name := range names {
					pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Image: "i"})
				}
				pod.Status.Phase = v1.PodRunning
				if tc.oldPhase != "" {
					pod.Status.Phase = tc.oldPhase
				}
				return pod
			}
			allocatedPod, desiredPod := newPod(tc.allocated), newPod(tc.desired)
			kl.podManager.SetPods([]*v1.Pod{desiredPod})
			kl.statusManager.SetPodStatus(tCtx.Logger(), desiredPod, desiredPod.Status)

			got := kl.generateAPIPodStatus(tCtx, allocatedPod, &kubecontainer.PodStatus{
				ID: desiredPod.UID, ContainerStatuses: tc.runtime, ActiveContainerStatuses: tc.runtime,
			}, false)

			states := map[string]string{}
			for _, s := range got.ContainerStatuses {
				_, seen := states[s.Name]
				assert.False(t, seen, "more than one status of %s", s.Name)
				switch {
				case s.State.Waiting != nil:
					states[s.Name] = "Waiting: " + s.State.Waiting.Reason
				case s.State.Running != nil:
					states[s.Name] = "Running"
				case s.State.Terminated != nil:
					states[s.Name] = fmt.Sprintf("Terminated: %d", s.State.Terminated.ExitCode)
				}
			}
			var ready []string
			for _, s := range got.ContainerStatuses {
				if s.Ready {
					ready = append(ready, s.Name)
				}
			}
			if diff := cmp.Diff(tc.wantStates, states); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			assert.Equal(t, tc.wantReady, ready, "ready containers")
			assert.Equal(t, tc.wantPhase, got.Phase, "phase")
			_, cond := podutil.GetPodCondition(&got, v1.PodReady)
			require.NotNil(t, cond)
			assert.Equal(t, tc.wantPodReady, cond.Status, "condition Ready: %s", cond.Message)
		})
	}
}

func TestRemovedContainerHoldsItsResourcesUntilItHasStopped(t *testing.T) {
	reported := cpuRequest("3")
	for name, tc := range map[string]struct {
		previous []v1.ContainerStatus
		state    kubecontainer.State
		wantCPU  string
	}{
		"its resources were reported": {
			previous: []v1.ContainerStatus{{
				Name: "w", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
				Resources: &reported, AllocatedResources: reported.Requests,
			}},
			state:   kubecontainer.ContainerStateRunning,
			wantCPU: "4",
		},
		"it was removed before any status was reported": {
			state:   kubecontainer.ContainerStateRunning,
			wantCPU: "3",
		},
		"it was removed after it was reported to be created": {
			previous: []v1.ContainerStatus{{Name: "w", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: ContainerCreating}}}},
			state:    kubecontainer.ContainerStateRunning,
			wantCPU:  "3",
		},
		"nobody knows whether it runs": {
			state:   kubecontainer.ContainerStateUnknown,
			wantCPU: "3",
		},
		"it has stopped": {
			state:   kubecontainer.ContainerStateExited,
			wantCPU: "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			enableDynamicContainers(t)
			tCtx := ktesting.Init(t)
			testKubelet := newTestKubelet(t, false)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			kl.containerRuntime = &removingRuntime{
				FakeRuntime: testKubelet.fakeRuntime,
				actuated:    map[string]v1.ResourceRequirements{"w": cpuRequest("2")},
			}
			pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{
				NodeName: testKubeletHostname, Containers: []v1.Container{{Name: "main", Image: "i", Resources: cpuRequest("1")}},
			})
			pod.Status = v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: tc.previous}
			kl.podManager.SetPods([]*v1.Pod{pod})
			kl.statusManager.SetPodStatus(tCtx.Logger(), pod, pod.Status)

			pod.Status = kl.generateAPIPodStatus(tCtx, pod, &kubecontainer.PodStatus{ID: pod.UID, ContainerStatuses: []*kubecontainer.Status{
				{Name: "main", State: kubecontainer.ContainerStateRunning},
				{Name: "w", State: tc.state},
			}}, false)

			got := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
			assert.Equal(t, tc.wantCPU, got.Cpu().String(), "CPU that the pod requests")
			_, found := podutil.GetContainerStatus(pod.Status.ContainerStatuses, "w")
			assert.True(t, found, "the container is reported")
		})
	}
}

func TestRemovedContainersWithFeatureOff(t *testing.T) {
	tCtx := ktesting.Init(t)
	testKubelet := newTestKubelet(t, false)
	defer testKubelet.Cleanup()
	kl := testKubelet.kubelet
	pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{NodeName: testKubeletHostname, Containers: []v1.Container{{Name: "main"}}})
	kl.podManager.SetPods([]*v1.Pod{pod})
	podStatus := &kubecontainer.PodStatus{ContainerStatuses: []*kubecontainer.Status{
		{Name: "main", State: kubecontainer.ContainerStateRunning},
		{Name: "w", State: kubecontainer.ContainerStateExited},
	}}
	got := kl.generateAPIPodStatus(tCtx, pod, podStatus, false)
	require.Len(t, got.ContainerStatuses, 1)
	assert.Equal(t, "main", got.ContainerStatuses[0].Name)
}
