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

package prober

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
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

func testProbe(command string) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:   v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{command}}},
		TimeoutSeconds: 1, PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1,
	}
}

// probedPod is a pod with a container w that has all probes.
func probedPod() *v1.Pod {
	probe := testProbe("true")
	pod := getTestPod()
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	pod.Spec.InitContainers = []v1.Container{{Name: "sidecar", RestartPolicy: new(v1.ContainerRestartPolicyAlways), ReadinessProbe: probe}}
	pod.Spec.Containers = []v1.Container{
		{Name: "main", ReadinessProbe: probe},
		{Name: "w", ReadinessProbe: probe, LivenessProbe: probe, StartupProbe: probe},
	}
	return pod
}

func statusOf(state v1.ContainerState) v1.PodStatus {
	return v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "w", ContainerID: "test://w", State: state}}}
}

func TestProbesOfRemovedContainersStop(t *testing.T) {
	enableDynamicContainers(t)
	tCtx := ktesting.Init(t)
	m := newTestManager()
	defer cleanup(t, m)
	pod := probedPod()
	other := pod.DeepCopy()
	other.UID = "other"
	m.AddPod(tCtx, pod)
	m.AddPod(tCtx, other)
	rest := []probeKey{
		{testPodUID, "sidecar", readiness}, {testPodUID, "main", readiness},
		{"other", "sidecar", readiness}, {"other", "main", readiness},
		{"other", "w", readiness}, {"other", "w", liveness}, {"other", "w", startup},
	}

	pod.Spec.Containers = pod.Spec.Containers[:1]
	m.statusManager.SetPodStatus(tCtx.Logger(), pod, statusOf(v1.ContainerState{Running: &v1.ContainerStateRunning{}}))
	m.AddPod(tCtx, pod)
	if err := expectProbes(m, append(rest, probeKey{testPodUID, "w", readiness})); err != nil {
		t.Errorf("while the removed container terminates: %v", err)
	}

	m.statusManager.SetPodStatus(tCtx.Logger(), pod, statusOf(v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}))
	m.AddPod(tCtx, pod)
	if err := expectProbes(m, rest); err != nil {
		t.Errorf("after the removed container has stopped: %v", err)
	}
}

func TestContainerOfAReusedNameHasProbesOfItsOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		enabled bool
		want    string
	}{
		"feature on":                       {enabled: true, want: "other"},
		"feature off: nothing is replaced": {want: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.enabled {
				enableDynamicContainers(t)
			}
			tCtx := ktesting.Init(t)
			m := newTestManager()
			defer cleanup(t, m)
			pod := probedPod()
			m.AddPod(tCtx, pod)
			before, _ := m.getWorker(testPodUID, "w", liveness)
			main, _ := m.getWorker(testPodUID, "main", readiness)

			pod = pod.DeepCopy()
			pod.Spec.Containers[1].LivenessProbe = testProbe("other")
			m.AddPod(tCtx, pod)

			w, _ := m.getWorker(testPodUID, "w", liveness)
			if got := w.spec.Exec.Command[0]; got != tc.want {
				t.Errorf("liveness probe runs %q, want %q", got, tc.want)
			}
			if same, _ := m.getWorker(testPodUID, "main", readiness); same != main {
				t.Error("the probe of a container that did not change was replaced")
			}
			if !tc.enabled {
				return
			}
			// The old worker exits on its own time, and must not take the new one with it.
			m.removeExitedWorker(before)
			if after, _ := m.getWorker(testPodUID, "w", liveness); after != w {
				t.Error("the old worker removed the new one")
			}
		})
	}
}

func TestWorkersOfRemovedContainersEndWithThePod(t *testing.T) {
	enableDynamicContainers(t)
	tCtx := ktesting.Init(t)
	m := newTestManager()
	defer cleanup(t, m)
	pod := probedPod()
	m.AddPod(tCtx, pod)

	// The pod is deleted before a sync has seen the removal.
	pod.Spec.Containers = pod.Spec.Containers[:1]
	m.StopLivenessAndStartup(pod)
	if err := waitForWorkerExit(t, m, []probeKey{{testPodUID, "w", liveness}, {testPodUID, "w", startup}}); err != nil {
		t.Fatal(err)
	}
	if err := expectProbes(m, []probeKey{{testPodUID, "sidecar", readiness}, {testPodUID, "main", readiness}, {testPodUID, "w", readiness}}); err != nil {
		t.Error(err)
	}
	m.RemovePod(pod)
	if err := waitForWorkerExit(t, m, []probeKey{{testPodUID, "w", readiness}, {testPodUID, "main", readiness}, {testPodUID, "sidecar", readiness}}); err != nil {
		t.Error(err)
	}
}
