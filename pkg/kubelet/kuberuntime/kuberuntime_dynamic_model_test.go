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

package kuberuntime

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

var (
	modelSeed  = flag.Int64("dynamic-model-seed", 0, "seed of the first run of TestDynamicPodModel, or 0 for fixed ones")
	modelRuns  = flag.Int("dynamic-model-runs", 5, "number of runs of TestDynamicPodModel")
	modelSteps = flag.Int("dynamic-model-steps", 60, "number of operations in a run of TestDynamicPodModel")
)

// podModel is what must be true of a pod whose containers are changed at random.
type podModel struct {
	*dynamicPod
	rand    *rand.Rand
	history []string
	// next numbers the specs, so that each one is different.
	next int
	// stopped counts, by container ID, how often a running container was stopped.
	stopped map[string]int
	// specs has the command of every container that was created, by ID.
	specs map[string]string
	// changed are the names that an operation since the last check may have given another container.
	changed map[string]bool
	before  map[string]string
	// hang, if there is one, is what the next container to start waits for; hanging are all that are
	// waited for.
	hang    chan struct{}
	hanging []chan struct{}
}

// modelRuntime observes the runtime for the model.
type modelRuntime struct {
	*churnRuntime
	model *podModel
	// stops is held during a stop: the pod and the removal of a container may stop it at once.
	stops sync.Mutex
}

func (r *modelRuntime) CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	id, err := r.churnRuntime.CreateContainer(ctx, sandboxID, config, sandboxConfig)
	if err == nil {
		r.lock.Lock()
		r.model.specs[id] = config.Command[0]
		r.lock.Unlock()
	}
	return id, err
}

func (r *modelRuntime) StartContainer(ctx context.Context, id string) error {
	r.lock.Lock()
	hang := r.model.hang
	r.model.hang = nil
	r.lock.Unlock()
	if hang != nil {
		<-hang
	}
	return r.churnRuntime.StartContainer(ctx, id)
}

func (r *modelRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	r.stops.Lock()
	defer r.stops.Unlock()
	r.FakeRuntimeService.Lock()
	c, ok := r.Containers[id]
	wasRunning := ok && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING
	r.FakeRuntimeService.Unlock()
	err := r.churnRuntime.StopContainer(ctx, id, timeout)
	if err == nil && wasRunning {
		r.lock.Lock()
		r.model.stopped[id]++
		r.lock.Unlock()
	}
	return err
}

func newPodModel(t *testing.T, seed int64) *podModel {
	model := &podModel{
		dynamicPod: newDynamicPod(t), rand: rand.New(rand.NewSource(seed)),
		stopped: map[string]int{}, specs: map[string]string{}, changed: map[string]bool{},
	}
	model.pod.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyNever}[model.rand.Intn(2)]
	model.m.runtimeService = &modelRuntime{churnRuntime: model.runtime, model: model}
	model.add("main")
	return model
}

func (m *podModel) add(name string) {
	m.next++
	m.pod.Spec.Containers = append(m.pod.Spec.Containers, container(name, fmt.Sprintf("%s-%d", name, m.next)))
	m.changed[name] = true
}

// pick returns the index of a random container other than main.
func (m *podModel) pick() (int, bool) {
	if len(m.pod.Spec.Containers) == 1 {
		return 0, false
	}
	return 1 + m.rand.Intn(len(m.pod.Spec.Containers)-1), true
}

// step changes something and says what.
func (m *podModel) step(t *testing.T) string {
	// Pods are not changed in place: a kill under way has the old one.
	m.pod = m.pod.DeepCopy()
	idx, ok := m.pick()
	switch op := m.rand.Intn(12); {
	case op < 3 || !ok:
		// Names are drawn from a small set, so that they come again.
		name := fmt.Sprintf("w%d", m.rand.Intn(25))
		if kubecontainer.GetContainerSpec(m.pod, name) != nil {
			return "nothing"
		}
		m.add(name)
		return "add " + name
	case op < 5:
		name := m.pod.Spec.Containers[idx].Name
		m.pod.Spec.Containers = slices.Delete(m.pod.Spec.Containers, idx, idx+1)
		m.changed[name] = true
		return "remove " + name
	case op < 6:
		name := m.pod.Spec.Containers[idx].Name
		m.pod.Spec.Containers = slices.Delete(m.pod.Spec.Containers, idx, idx+1)
		m.add(name)
		return "replace " + name
	case op < 7:
		m.next++
		m.pod.Spec.Containers[idx].Image = fmt.Sprintf("image-%d", m.next)
		m.changed[m.pod.Spec.Containers[idx].Name] = true
		return "new image for " + m.pod.Spec.Containers[idx].Name
	case op < 8:
		m.rand.Shuffle(len(m.pod.Spec.Containers)-1, func(i, j int) {
			m.pod.Spec.Containers[i+1], m.pod.Spec.Containers[j+1] = m.pod.Spec.Containers[j+1], m.pod.Spec.Containers[i+1]
		})
		return "reorder"
	case op < 9:
		id := m.running(t)[m.pod.Spec.Containers[idx].Name]
		if id == "" {
			return "nothing"
		}
		m.runtime.FakeRuntimeService.Lock()
		m.runtime.Containers[id].State = runtimeapi.ContainerState_CONTAINER_EXITED
		m.runtime.Containers[id].FinishedAt = time.Now().UnixNano()
		m.runtime.FakeRuntimeService.Unlock()
		m.changed[m.pod.Spec.Containers[idx].Name] = true
		return "crash of " + id
	case op < 11:
		if len(m.hanging) > 0 {
			m.goOn()
			return "runtime goes on"
		}
		m.runtime.lock.Lock()
		defer m.runtime.lock.Unlock()
		m.hang = make(chan struct{})
		m.hanging = append(m.hanging, m.hang)
		return "runtime hangs in StartContainer"
	default:
		call := []string{"StopContainer", "CreateContainer", "StartContainer", "RemoveContainer", "ContainerStatus"}[m.rand.Intn(5)]
		m.runtime.InjectError(call, errors.New("injected by the model"))
		return "runtime fails in " + call
	}
}

// restartKubelet throws away all that the kubelet has in memory.
func (m *podModel) restartKubelet() {
	m.m.removedContainers, m.m.containerStarts = removedContainers{}, containerStarts{}
	m.backOff.GC()
}

// sync is dynamicPod.sync, but the runtime may fail.
func (m *podModel) sync(t *testing.T) {
	pod, err := m.m.GetPod(m.tCtx, m.pod.UID)
	status := &kubecontainer.PodStatus{ID: m.pod.UID}
	if err == nil {
		if status, err = m.m.GetPodStatus(m.tCtx, pod); err != nil {
			return // The PLEG keeps what it knows, and the pod is not synced.
		}
	}
	status = m.m.SplitRemovedContainers(m.pod, status)
	m.m.KillRemovedContainers(m.tCtx, m.pod, status)
	_, expired := kubecontainer.KeptRemovedContainers(m.pod, status)
	m.m.DeleteRemovedContainers(m.tCtx, m.pod, expired)
	m.m.InitializeActuatedPod(m.tCtx.Logger(), m.pod)
	m.m.SyncPod(m.tCtx, m.pod, status, nil, m.backOff, false)
}

// running returns the IDs of the running containers, by name, whether or not the runtime fails.
func (m *podModel) running(t *testing.T) map[string]string {
	m.runtime.FakeRuntimeService.Lock()
	defer m.runtime.FakeRuntimeService.Unlock()
	running := map[string]string{}
	for id, c := range m.runtime.Containers {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if other := running[c.Metadata.Name]; other != "" {
			t.Errorf("both %s and %s run", other, id)
		}
		running[c.Metadata.Name] = id
	}
	return running
}

// checkAlways checks what must be true at any time.
func (m *podModel) checkAlways(t *testing.T) {
	m.running(t)
	m.runtime.lock.Lock()
	defer m.runtime.lock.Unlock()
	for id, n := range m.stopped {
		if n > 1 {
			t.Errorf("%s was stopped %d times", id, n)
		}
	}
}

// checkSettled checks what must be true when all is done.
func (m *podModel) checkSettled(t *testing.T) {
	running := m.running(t)
	for i := range m.pod.Spec.Containers {
		c := &m.pod.Spec.Containers[i]
		id := running[c.Name]
		if id == "" {
			// It does not come back if it has ended and must not be restarted.
			if s := m.status(t).FindContainerStatusByName(c.Name); m.pod.Spec.RestartPolicy != v1.RestartPolicyNever || s == nil {
				t.Errorf("%s does not run: %v", c.Name, s)
			}
			continue
		}
		if m.specs[id] != c.Command[0] {
			t.Errorf("%s runs %s, and its spec is %s", id, m.specs[id], c.Command[0])
		}
		if old := m.before[c.Name]; old != "" && old != id && !m.changed[c.Name] {
			t.Errorf("%s was replaced by %s for no reason", old, id)
		}
		delete(running, c.Name)
	}
	for _, id := range running {
		t.Errorf("%s runs and is not in the spec", id)
	}

	status := m.m.SplitRemovedContainers(m.pod, m.status(t))
	reported, expired := kubecontainer.KeptRemovedContainers(m.pod, status)
	if len(reported) > kubecontainer.MaxRemovedContainerStatuses || len(expired) > 0 {
		t.Errorf("%d removed containers are reported, %d more are left", len(reported), len(expired))
	}
	info, _ := m.m.actuatedState.GetPodResourceInfo(m.pod.UID)
	for name := range info.ContainerResources {
		if kubecontainer.GetContainerSpec(m.pod, name) == nil {
			t.Errorf("actuated resources of %s are left", name)
		}
	}
	m.changed = map[string]bool{}
	m.before = m.running(t)
}

// goOn ends what hangs.
func (m *podModel) goOn() {
	m.runtime.lock.Lock()
	defer m.runtime.lock.Unlock()
	for _, hang := range m.hanging {
		close(hang)
	}
	m.hang, m.hanging = nil, nil
}

// repairRuntime ends all faults of the runtime.
func (m *podModel) repairRuntime() {
	m.goOn()
	m.runtime.FakeRuntimeService.Lock()
	defer m.runtime.FakeRuntimeService.Unlock()
	m.runtime.Errors = map[string][]error{}
}

// waitUntilSettled syncs the pod until nothing changes any more. Back-offs are over at once.
func (m *podModel) waitUntilSettled(t *testing.T) {
	m.repairRuntime()
	deadline := time.Now().Add(schedulingTimeout)
	for quiet := 0; quiet < 3; {
		if time.Now().After(deadline) {
			t.Fatalf("the pod does not settle: %v", m.statuses(t))
		}
		for i := range m.pod.Spec.Containers {
			m.backOff.DeleteEntry(GetBackoffKey(m.pod, &m.pod.Spec.Containers[i]))
		}
		status, result := m.dynamicPod.sync(t)
		_, expired := kubecontainer.KeptRemovedContainers(m.pod, status)
		if status.IsRemovalInProgress() || len(expired) > 0 || len(result.SyncResults) > 0 || m.m.containerStarts.any(m.pod.UID) {
			quiet = 0
			time.Sleep(time.Millisecond)
			continue
		}
		quiet++
	}
}

// TestDynamicPodModel changes the containers of a pod at random, while containers crash, the
// runtime fails and the kubelet restarts, and checks that the pod is as it must be.
func TestDynamicPodModel(t *testing.T) {
	for run := range *modelRuns {
		seed := int64(run + 1)
		if *modelSeed != 0 {
			seed = *modelSeed + int64(run)
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newPodModel(t, seed)
			m.inBubble(t, m.run)
		})
	}
}

func (m *podModel) run(t *testing.T) {
	defer m.repairRuntime()
	m.waitUntilSettled(t)
	m.checkSettled(t)
	for i := 0; i < *modelSteps && !t.Failed(); i++ {
		m.history = append(m.history, m.step(t))
		// Several changes may come between two syncs.
		if m.rand.Intn(3) > 0 {
			m.sync(t)
		}
		m.checkAlways(t)
		if m.rand.Intn(8) == 0 {
			m.waitUntilSettled(t)
			m.checkAlways(t)
			m.checkSettled(t)
		}
		if m.rand.Intn(15) == 0 {
			m.history = append(m.history, "restart of the kubelet")
			m.waitUntilSettled(t)
			m.restartKubelet()
		}
	}
	if !t.Failed() {
		m.history = append(m.history, "deletion of the pod")
		m.repairRuntime()
		require.NoError(t, m.m.KillPod(m.tCtx, m.pod, kubecontainer.ConvertPodStatusToRunningPod("test", m.m.SplitRemovedContainers(m.pod, m.status(t))), nil))
		if left := m.running(t); len(left) > 0 {
			t.Errorf("the pod is deleted, and %v run", left)
		}
		m.checkAlways(t)
	}
	// A kill that failed is tried again a while later, and the bubble must not end before.
	time.Sleep(maxKillRetryDelay)
	if t.Failed() {
		t.Logf("operations: %q", m.history)
	}
}
