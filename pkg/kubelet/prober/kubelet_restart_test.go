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
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/probe"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// A kubelet that was restarted must not report a container that is ready as not ready until it has
// probed it, however young the container is.
func TestYoungContainersKeepTheirReadinessOverARestartOfTheKubelet(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Second))}}
	inAPI := v1.ContainerStatus{Name: "w", ContainerID: "test://w", State: running, Ready: true, Started: new(true)}
	for name, tc := range map[string]struct {
		gateOff  bool
		reported []v1.ContainerStatus
		podReady v1.ConditionStatus
		want     bool
	}{
		"the API has it as ready": {reported: []v1.ContainerStatus{inAPI}, podReady: v1.ConditionTrue, want: true},
		"the API has it as running, and the pod as not ready": {
			reported: []v1.ContainerStatus{inAPI}, podReady: v1.ConditionFalse, want: false,
		},
		"the API has another container of that name": {
			reported: []v1.ContainerStatus{{Name: "w", ContainerID: "test://older", State: running, Ready: true}}, podReady: v1.ConditionTrue, want: false,
		},
		"the API has it as not started": {
			reported: []v1.ContainerStatus{{Name: "w", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}}}, podReady: v1.ConditionTrue, want: false,
		},
		"the API does not know it":                        {podReady: v1.ConditionTrue, want: false},
		"the API has it as ready, and the feature is off": {gateOff: true, reported: []v1.ContainerStatus{inAPI}, podReady: v1.ConditionTrue, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			if !tc.gateOff {
				enableDynamicContainers(t)
			}
			tCtx := ktesting.Init(t)
			m := newTestManager()
			// The outcome of the first probe is not known.
			m.prober.exec = fakeExecProber{probe.Unknown, errors.New("no answer")}
			pod := probedPod()
			pod.Spec.Containers = pod.Spec.Containers[1:]
			pod.Status.ContainerStatuses = tc.reported
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: tc.podReady}}
			for _, probeType := range []probeType{readiness, startup} {
				m.workers[probeKey{pod.UID, "w", probeType}] = newWorker(m, probeType, pod, pod.Spec.Containers[0])
			}
			status := v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "w", ContainerID: "test://w", State: running}}}
			if len(tc.reported) > 0 {
				status.ContainerStatuses[0].Started = tc.reported[0].Started
			}
			m.statusManager.SetPodStatus(tCtx.Logger(), pod, status)
			for _, w := range m.workers {
				w.doProbe(tCtx)
			}

			m.UpdatePodStatus(tCtx, pod, &status)
			if got := status.ContainerStatuses[0].Ready; got != tc.want {
				t.Errorf("ready: got %v, want %v", got, tc.want)
			}
		})
	}
}
