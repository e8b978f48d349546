/*
Copyright 2026 The Kubernetes Authors.

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
	"k8s.io/kubernetes/test/utils/ktesting"
)

func TestProbesOfRemovedContainersStop(t *testing.T) {
	tCtx := ktesting.Init(t)
	m := newTestManager()
	probe := &v1.Probe{
		ProbeHandler:   v1.ProbeHandler{Exec: &v1.ExecAction{}},
		TimeoutSeconds: 1, PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1,
	}
	pod := v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "sidecar", RestartPolicy: new(v1.ContainerRestartPolicyAlways), ReadinessProbe: probe}},
		Containers: []v1.Container{
			{Name: "main", ReadinessProbe: probe},
			{Name: "w", ReadinessProbe: probe, LivenessProbe: probe, StartupProbe: probe},
		},
	}}
	pod.UID = "uid"
	other := *pod.DeepCopy()
	other.UID = "other"
	defer cleanup(t, m)
	m.AddPod(tCtx, &pod)
	m.AddPod(tCtx, &other)

	pod.Spec.Containers = pod.Spec.Containers[:1]
	m.AddPod(tCtx, &pod)

	want := []probeKey{
		{"uid", "sidecar", readiness}, {"uid", "main", readiness},
		{"other", "sidecar", readiness}, {"other", "main", readiness},
		{"other", "w", readiness}, {"other", "w", liveness}, {"other", "w", startup},
	}
	if err := waitForWorkerExit(t, m, []probeKey{{"uid", "w", readiness}, {"uid", "w", liveness}, {"uid", "w", startup}}); err != nil {
		t.Fatal(err)
	}
	if err := expectProbes(m, want); err != nil {
		t.Error(err)
	}
}
