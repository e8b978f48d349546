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
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/test/utils/ktesting"
	"k8s.io/utils/ptr"
)

// schedulingTimeout is how long to wait for what is only a matter of scheduling.
const schedulingTimeout = 30 * time.Second

func TestComputePodActionsForRemovedContainers(t *testing.T) {
	tCtx := ktesting.Init(t)
	_, _, m, err := createTestRuntimeManager(tCtx)
	require.NoError(t, err)

	removeFromSpec := func(pod *v1.Pod, names ...string) {
		var kept []v1.Container
		for _, c := range pod.Spec.Containers {
			if !sets.New(names...).Has(c.Name) {
				kept = append(kept, c)
			}
		}
		pod.Spec.Containers = kept
	}

	for name, tc := range map[string]struct {
		makePod              func() (*v1.Pod, *kubecontainer.PodStatus)
		mutate               func(*v1.Pod, *kubecontainer.PodStatus)
		restartAllContainers bool
		wantKilled           []string
		wantStarted          []int
		wantInitStarted      []int
		wantKillPod          bool
		wantCreateSandbox    bool
	}{
		"a running container that is not in the spec is killed": {
			makePod:    makeBasePodAndStatus,
			mutate:     func(pod *v1.Pod, _ *kubecontainer.PodStatus) { removeFromSpec(pod, "foo2") },
			wantKilled: []string{"foo2"},
		},
		"a container in unknown state that is not in the spec is killed": {
			makePod: makeBasePodAndStatus,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				removeFromSpec(pod, "foo2")
				status.ContainerStatuses[1].State = kubecontainer.ContainerStateUnknown
			},
			wantKilled: []string{"foo2"},
		},
		"an exited container that is not in the spec is left alone": {
			makePod: makeBasePodAndStatus,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				removeFromSpec(pod, "foo2")
				status.ContainerStatuses[1].State = kubecontainer.ContainerStateExited
			},
		},
		"every instance of a removed container is killed": {
			makePod: makeBasePodAndStatus,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				removeFromSpec(pod, "foo2", "foo3")
				status.ContainerStatuses[2].Name = "foo2"
			},
			wantKilled: []string{"foo2", "foo2"},
		},
		"ephemeral containers are not taken for removed ones": {
			makePod: makeBasePodAndStatusWithInitAndEphemeralContainers,
			mutate:  func(pod *v1.Pod, _ *kubecontainer.PodStatus) {},
		},
		"a full swap starts the new container and runs no init container again": {
			makePod: makeBasePodAndStatusWithInitContainers,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				// The init containers have been garbage collected.
				_, running := makeBasePodAndStatus()
				status.ContainerStatuses = running.ContainerStatuses
				status.ActiveContainerStatuses = running.ContainerStatuses
				pod.Spec.Containers = []v1.Container{{Name: "new", Image: "busybox"}}
			},
			wantKilled:  []string{"foo1", "foo2", "foo3"},
			wantStarted: []int{0},
		},
		"a full swap runs no init container again after the old ones have exited": {
			makePod: makeBasePodAndStatusWithInitContainers,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				_, exited := makeBasePodAndStatus()
				for i := range exited.ContainerStatuses {
					exited.ContainerStatuses[i].State = kubecontainer.ContainerStateExited
				}
				status.ContainerStatuses = exited.ContainerStatuses
				status.ActiveContainerStatuses = exited.ContainerStatuses
				pod.Spec.Containers = []v1.Container{{Name: "new", Image: "busybox"}}
			},
			wantStarted: []int{0},
		},
		"the pod is not killed while a removed container is the last one that runs": {
			makePod: makeBasePodAndStatus,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				pod.Spec.RestartPolicy = v1.RestartPolicyNever
				removeFromSpec(pod, "foo2", "foo3")
				status.ContainerStatuses[0].State = kubecontainer.ContainerStateExited
				status.ContainerStatuses[2].State = kubecontainer.ContainerStateExited
			},
			wantKilled: []string{"foo2"},
		},
		"the pod is killed when the last removed container has stopped too": {
			makePod: makeBasePodAndStatus,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				pod.Spec.RestartPolicy = v1.RestartPolicyNever
				removeFromSpec(pod, "foo2", "foo3")
				for i := range status.ContainerStatuses {
					status.ContainerStatuses[i].State = kubecontainer.ContainerStateExited
				}
			},
			wantKillPod: true,
		},
		"a removed container is killed before the pod has initialized": {
			makePod: makeBasePodAndStatusWithInitContainers,
			mutate: func(pod *v1.Pod, status *kubecontainer.PodStatus) {
				status.ContainerStatuses[2].State = kubecontainer.ContainerStateRunning
				status.ContainerStatuses = append(status.ContainerStatuses, &kubecontainer.Status{
					ID: kubecontainer.ContainerID{ID: "id9"}, Name: "removed", State: kubecontainer.ContainerStateRunning,
				})
			},
			wantKilled: []string{"removed"},
		},
		"a removed container is killed when all containers restart": {
			makePod:              makeBasePodAndStatus,
			mutate:               func(pod *v1.Pod, _ *kubecontainer.PodStatus) { removeFromSpec(pod, "foo2") },
			restartAllContainers: true,
			wantKilled:           []string{"foo2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tCtx := ktesting.Init(t)
			pod, status := tc.makePod()
			tc.mutate(pod, status)
			if tc.restartAllContainers {
				featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
					features.ContainerRestartRules:                true,
					features.NodeDeclaredFeatures:                 true,
					features.RestartAllContainersOnContainerExits: true,
				})
			}

			status = m.SplitRemovedContainers(pod, status)

			actions := m.computePodActions(tCtx, pod, status, tc.restartAllContainers)

			var killed []string
			for _, s := range status.RemovedContainerStatuses {
				if s.MayRun() {
					killed = append(killed, s.Name)
				}
			}
			assert.Equal(t, tc.wantKilled, killed, "removed containers to kill")
			assert.Empty(t, actions.ContainersToKill, "containers of the spec to kill")
			assert.ElementsMatch(t, tc.wantStarted, actions.ContainersToStart, "containers to start")
			assert.ElementsMatch(t, tc.wantInitStarted, actions.InitContainersToStart, "init containers to start")
			assert.Equal(t, tc.wantKillPod, actions.KillPod, "KillPod")
			assert.Equal(t, tc.wantCreateSandbox, actions.CreateSandbox, "CreateSandbox")
		})
	}
}

// stopRecorder is a runtime whose StopContainer does not return until it is released.
type stopRecorder struct {
	internalapi.RuntimeService
	release chan struct{}

	lock  sync.Mutex
	stops map[string][]int64 // container ID -> grace periods in seconds
	errs  []error
}

func (r *stopRecorder) StopContainer(ctx context.Context, containerID string, timeout int64) error {
	r.lock.Lock()
	if r.stops == nil {
		r.stops = map[string][]int64{}
	}
	r.stops[containerID] = append(r.stops[containerID], timeout)
	var err error
	if len(r.errs) > 0 {
		err, r.errs = r.errs[0], r.errs[1:]
	}
	r.lock.Unlock()
	<-r.release
	if err != nil {
		return err
	}
	return r.RuntimeService.StopContainer(ctx, containerID, timeout)
}

// seen returns the grace periods of all stops.
func (r *stopRecorder) seen() (gracePeriods []int64) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, stops := range r.stops {
		gracePeriods = append(gracePeriods, stops...)
	}
	return gracePeriods
}

// makeRemovedContainers makes a pod with n running containers with a preStop hook, and returns it
// without them in its spec, with what the runtime knows about them.
func makeRemovedContainers(t *testing.T, n int) (*kubeGenericRuntimeManager, *stopRecorder, *v1.Pod, *kubecontainer.PodStatus) {
	tCtx := ktesting.Init(t)
	fakeRuntime, _, m, err := createTestRuntimeManager(tCtx)
	require.NoError(t, err)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "12345678", Name: "foo", Namespace: "new"},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](17)},
	}
	for i := range n {
		c := makeTestContainer(fmt.Sprintf("w%d", i), "busybox")
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye", c.Name}}}}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	_, containers := makeAndSetFakePod(tCtx, m, fakeRuntime, pod)
	podStatus := &kubecontainer.PodStatus{ID: pod.UID}
	for _, c := range containers {
		podStatus.ContainerStatuses = append(podStatus.ContainerStatuses, &kubecontainer.Status{
			ID:    kubecontainer.ContainerID{Type: "test", ID: c.Id},
			Name:  c.Metadata.Name,
			State: kubecontainer.ContainerStateRunning,
		})
	}
	pod.Spec.Containers = []v1.Container{makeTestContainer("main", "busybox")}
	recorder := &stopRecorder{RuntimeService: fakeRuntime, release: make(chan struct{})}
	m.runtimeService = recorder
	return m, recorder, pod, m.SplitRemovedContainers(pod, podStatus)
}

// hookRunner counts the hooks that it runs, which return when they are released.
type hookRunner struct {
	kubecontainer.HandlerRunner
	release chan struct{}
	started chan string
}

func (r *hookRunner) Run(_ context.Context, _ kubecontainer.ContainerID, _ *v1.Pod, container *v1.Container, handler *v1.LifecycleHandler) (string, error) {
	r.started <- strings.Join(append([]string{container.Name}, handler.Exec.Command...), " ")
	<-r.release
	return "", nil
}

func newHookRunner() *hookRunner {
	return &hookRunner{release: make(chan struct{}), started: make(chan string, 100)}
}

func TestKillRemovedContainersSideBySideAndOnce(t *testing.T) {
	tCtx := ktesting.Init(t)
	m, runtime, pod, podStatus := makeRemovedContainers(t, 5)
	hooks := newHookRunner()
	close(hooks.release)
	m.runner = hooks

	// None of the kills returns, and still all of them are under way.
	m.KillRemovedContainers(tCtx, pod, podStatus)
	require.Eventually(t, func() bool { return len(runtime.seen()) == 5 }, schedulingTimeout, time.Millisecond, "not all containers are killed side by side")

	// A sync meanwhile does not kill them again.
	m.KillRemovedContainers(tCtx, pod, m.SplitRemovedContainers(pod, podStatus))
	close(runtime.release)
	require.Eventually(t, func() bool {
		for _, s := range podStatus.RemovedContainerStatuses {
			if m.removedContainers.get(pod.UID, s.ID.ID).isKilling() {
				return false
			}
		}
		return true
	}, schedulingTimeout, time.Millisecond, "kills are still tracked after they ended")
	assert.Equal(t, []int64{17, 17, 17, 17, 17}, runtime.seen(), "grace periods")
	assert.Len(t, hooks.started, 5, "preStop hooks")
}

func TestKillOfRemovedContainerIsRecorded(t *testing.T) {
	tCtx := ktesting.Init(t)
	m, runtime, pod, podStatus := makeRemovedContainers(t, 1)
	close(runtime.release)
	hooks := newHookRunner()
	close(hooks.release)
	m.runner = hooks
	recorder := record.NewFakeRecorder(10)
	m.recorder = kubecontainer.FilterEventRecorder(recorder)

	m.KillRemovedContainers(tCtx, pod, podStatus)
	select {
	case event := <-recorder.Events:
		assert.Contains(t, event, "Normal Killing Container w0 was removed from the pod")
	case <-time.After(schedulingTimeout):
		t.Error("no event")
	}
	assert.Len(t, pod.Spec.Containers, 1, "the pod itself must not be changed")
}

func TestKillOfRemovedContainerIsTriedAgainWithoutAnotherSync(t *testing.T) {
	// The harness starts goroutines that never end: only the kill is in the bubble.
	m, runtime, pod, podStatus := makeRemovedContainers(t, 1)
	close(runtime.release)
	runtime.errs = []error{errors.New("runtime is not well"), errors.New("not yet")}
	hooks := newHookRunner()
	close(hooks.release)
	m.runner = hooks
	requests := &requestCounter{}
	m.runtimeHelper = requests
	id := podStatus.RemovedContainerStatuses[0].ID.ID

	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		m.killRemovedContainer(context.Background(), pod, podStatus.RemovedContainerStatuses[0], m.removedContainers.get(pod.UID, id))
		assert.Equal(t, 3*time.Second, time.Since(start), "time between three attempts")
	})
	assert.Len(t, runtime.seen(), 3, "attempts")
	assert.Len(t, hooks.started, 1, "preStop hooks")
	assert.EqualValues(t, 1, requests.relists.Load(), "requested relists: its end is reported at once")
}

func TestKillOfRemovedContainerEndsWithItsPod(t *testing.T) {
	m, runtime, pod, podStatus := makeRemovedContainers(t, 1)
	close(runtime.release)
	for range 1000 {
		runtime.errs = append(runtime.errs, errors.New("runtime is dead"))
	}
	container := m.removedContainers.get(pod.UID, podStatus.RemovedContainerStatuses[0].ID.ID)
	synctest.Test(t, func(t *testing.T) {
		go func() {
			time.Sleep(time.Minute)
			m.removedContainers.forget(func(uid types.UID) bool { return uid == pod.UID })
		}()
		// The test fails if this never returns.
		m.killRemovedContainer(context.Background(), pod, podStatus.RemovedContainerStatuses[0], container)
	})
	assert.Len(t, runtime.seen(), 6, "attempts after 0, 1, 3, 7, 15, 31 s")
}

// A removed container used to make every kill of its pod fail with "failed to get containerSpec",
// so that the pod stayed in Terminating for as long as the container ran.
func TestKillPodWithRemovedContainer(t *testing.T) {
	tCtx := ktesting.Init(t)
	m, runtime, pod, podStatus := makeRemovedContainers(t, 2)
	close(runtime.release)

	runningPod := kubecontainer.ConvertPodStatusToRunningPod("test", podStatus)
	require.Len(t, runningPod.Containers, 2)
	for _, result := range m.killContainersWithSyncResult(tCtx, pod, runningPod, ptr.To[int64](3)) {
		assert.NoError(t, result.Error, "kill %v", result.Target)
	}
	assert.Equal(t, []int64{3, 3}, runtime.seen(), "grace periods")
}

func TestPodDeletionWaitsForThePreStopHookOfTheRemoval(t *testing.T) {
	tCtx := ktesting.Init(t)
	m, runtime, pod, podStatus := makeRemovedContainers(t, 1)
	close(runtime.release)
	hooks := newHookRunner()
	m.runner = hooks

	m.KillRemovedContainers(tCtx, pod, podStatus)
	require.Equal(t, "w0 bye w0", <-hooks.started)

	deleted := make(chan struct{})
	go func() {
		defer close(deleted)
		m.killContainersWithSyncResult(tCtx, pod, kubecontainer.ConvertPodStatusToRunningPod("test", podStatus), ptr.To[int64](60))
	}()
	select {
	case <-deleted:
		t.Fatal("the container was stopped before its preStop hook was over")
	case <-time.After(50 * time.Millisecond):
	}
	close(hooks.release)
	<-deleted
	assert.Empty(t, hooks.started, "preStop hooks that ran again")
	require.Eventually(t, func() bool { return len(runtime.seen()) == 2 }, schedulingTimeout, time.Millisecond)
}

func TestRemovedContainerIsKilledByItsOwnSpec(t *testing.T) {
	tCtx := ktesting.Init(t)
	m, runtime, pod, podStatus := makeRemovedContainers(t, 1)
	close(runtime.release)
	hooks := newHookRunner()
	close(hooks.release)
	m.runner = hooks
	// Another container has been added under its name, which has another hook.
	w := makeTestContainer("w0", "busybox")
	w.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"other"}}}}
	pod.Spec.Containers = append(pod.Spec.Containers, w)

	m.KillRemovedContainers(tCtx, pod, podStatus)
	assert.Equal(t, "w0 bye w0", <-hooks.started)
}

func TestPodDeletionCutsThePreStopHookOfTheRemoval(t *testing.T) {
	tCtx := ktesting.Init(t)
	m, runtime, pod, podStatus := makeRemovedContainers(t, 1)
	close(runtime.release)
	hooks := newHookRunner()
	defer close(hooks.release)
	m.runner = hooks
	m.KillRemovedContainers(tCtx, pod, podStatus)
	<-hooks.started

	start := time.Now()
	m.killContainersWithSyncResult(tCtx, pod, kubecontainer.ConvertPodStatusToRunningPod("test", podStatus), ptr.To[int64](1))
	assert.Less(t, time.Since(start), 10*time.Second, "the pod has a grace period of 1 s, and the removal one of 17 s")
	assert.Equal(t, []int64{minimumGracePeriodInSeconds}, runtime.seen(), "grace periods")
}

func TestSidecarsWaitForRemovedContainers(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "sidecar", RestartPolicy: &always}},
		Containers:     []v1.Container{{Name: "main"}},
	}}
	ordering := newTerminationOrdering(pod, []string{"sidecar", "main", "removed"})
	done := make(chan struct{})
	go func() {
		defer close(done)
		ordering.waitForTurn("sidecar", 60)
	}()
	ordering.containerTerminated("main")
	select {
	case <-done:
		t.Fatal("the sidecar did not wait for the removed container")
	case <-time.After(50 * time.Millisecond):
	}
	ordering.containerTerminated("removed")
	select {
	case <-done:
	case <-time.After(schedulingTimeout):
		t.Fatal("the sidecar still waits after the removed container has terminated")
	}
}

// churnRuntime gives every container an ID of its own, as real runtimes do, and refuses to create
// two containers of the same name and attempt.
type churnRuntime struct {
	*apitest.FakeRuntimeService
	lock    sync.Mutex
	created int
}

func (r *churnRuntime) CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, c := range r.Containers {
		if c.Metadata.Name == config.Metadata.Name && c.Metadata.Attempt == config.Metadata.Attempt {
			return "", fmt.Errorf("name %s, attempt %d, is reserved for %s", c.Metadata.Name, c.Metadata.Attempt, c.Id)
		}
	}
	id, err := r.FakeRuntimeService.CreateContainer(ctx, podSandboxID, config, sandboxConfig)
	if err != nil {
		return "", err
	}
	r.FakeRuntimeService.Lock()
	defer r.FakeRuntimeService.Unlock()
	c := r.Containers[id]
	delete(r.Containers, id)
	r.created++
	c.Id = fmt.Sprintf("%s-%d", config.Metadata.Name, r.created)
	// Every container is newer than the ones before it.
	c.CreatedAt = time.Unix(int64(r.created), 0).UnixNano()
	r.Containers[c.Id] = c
	return c.Id, nil
}

// StopContainer stops the container. Stopping one that is gone is not an error.
func (r *churnRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if c, ok := r.Containers[id]; !ok || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil
	}
	return r.FakeRuntimeService.StopContainer(ctx, id, timeout)
}

// ContainerStatus fails as that of a real runtime if the container is gone.
func (r *churnRuntime) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.FakeRuntimeService.Lock()
	_, ok := r.Containers[id]
	r.FakeRuntimeService.Unlock()
	if !ok {
		return nil, grpcstatus.Errorf(codes.NotFound, "container %s not found", id)
	}
	return r.FakeRuntimeService.ContainerStatus(ctx, id, verbose)
}

func (r *churnRuntime) RemoveContainer(ctx context.Context, id string) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.FakeRuntimeService.RemoveContainer(ctx, id)
}

// dynamicPod is a pod whose containers change, with the runtime it runs in.
type dynamicPod struct {
	tCtx    ktesting.TContext
	m       *kubeGenericRuntimeManager
	runtime *churnRuntime
	pod     *v1.Pod
	backOff *flowcontrol.Backoff
}

func enableDynamicContainers(t *testing.T) {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.InPlacePodVerticalScaling:    true,
		features.NodeDeclaredFeatures:         true,
		features.KubeletAllocatedPodsEndpoint: true,
		features.DynamicContainers:            true,
	})
}

func newDynamicPod(t *testing.T, containers ...v1.Container) *dynamicPod {
	enableDynamicContainers(t)
	p := &dynamicPod{tCtx: ktesting.Init(t), backOff: flowcontrol.NewBackOff(time.Second, time.Minute)}
	p.pod = &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "uid", Name: "p", Namespace: "ns"},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, Containers: containers},
	}
	fakeRuntime, _, m, err := createTestRuntimeManager(p.tCtx)
	require.NoError(t, err)
	p.m, p.runtime = m, &churnRuntime{FakeRuntimeService: fakeRuntime}
	m.runtimeService = p.runtime
	return p
}

// status returns what the PLEG knows of the pod.
func (p *dynamicPod) status(t *testing.T) *kubecontainer.PodStatus {
	t.Helper()
	pod, err := p.m.GetPod(p.tCtx, p.pod.UID)
	if errors.Is(err, kubecontainer.ErrPodNotFound) {
		return &kubecontainer.PodStatus{ID: p.pod.UID}
	}
	require.NoError(t, err)
	status, err := p.m.GetPodStatus(p.tCtx, pod)
	require.NoError(t, err)
	return status
}

// sync does what the kubelet does with the runtime in a sync of the pod, and returns the split
// status that it began with.
func (p *dynamicPod) sync(t *testing.T) (*kubecontainer.PodStatus, kubecontainer.PodSyncResult) {
	t.Helper()
	status := p.m.SplitRemovedContainers(p.pod, p.status(t))
	p.m.KillRemovedContainers(p.tCtx, p.pod, status)
	_, expired := kubecontainer.KeptRemovedContainers(p.pod, status)
	p.m.DeleteRemovedContainers(p.tCtx, p.pod, expired)
	p.m.InitializeActuatedPod(p.tCtx.Logger(), p.pod)
	result := p.m.SyncPod(p.tCtx, p.pod, status, nil, p.backOff, false)
	return status, result
}

// settle syncs the pod until nothing is being killed or deleted.
func (p *dynamicPod) settle(t *testing.T) *kubecontainer.PodStatus {
	t.Helper()
	for deadline := time.Now().Add(schedulingTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		status, result := p.sync(t)
		_, expired := kubecontainer.KeptRemovedContainers(p.pod, status)
		if !status.IsRemovalInProgress() && len(expired) == 0 && len(result.SyncResults) == 0 {
			return status
		}
	}
	t.Fatalf("the pod does not settle: %v", p.statuses(t))
	return nil
}

// running returns the IDs of the running containers, by name.
func (p *dynamicPod) running(t *testing.T) map[string]string {
	t.Helper()
	running := map[string]string{}
	for _, s := range p.status(t).ContainerStatuses {
		if s.State == kubecontainer.ContainerStateRunning {
			if running[s.Name] != "" {
				t.Errorf("both %s and %s run", running[s.Name], s.ID.ID)
			}
			running[s.Name] = s.ID.ID
		}
	}
	return running
}

func container(name, command string) v1.Container {
	return v1.Container{Name: name, Image: "busybox", ImagePullPolicy: v1.PullIfNotPresent, Command: []string{command}}
}

func TestContainerIsReplacedByAnotherOneOfItsName(t *testing.T) {
	p := newDynamicPod(t, container("main", "a"), container("w", "one"))
	p.settle(t)
	before := p.running(t)

	p.pod.Spec.Containers[1] = container("w", "two")
	p.settle(t)

	after := p.running(t)
	assert.Equal(t, before["main"], after["main"], "a container that did not change")
	assert.NotEqual(t, before["w"], after["w"], "the old container still runs")
	status := p.status(t).FindContainerStatusByName("w")
	assert.Zero(t, status.RestartCount, "restart count")
	assert.Len(t, p.status(t).ContainerStatuses, 2, "nothing is left of the old container")
}

func TestContainerIsNotReplacedForWhatCanBeChanged(t *testing.T) {
	p := newDynamicPod(t, container("main", "a"))
	p.settle(t)
	before := p.running(t)
	p.pod.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
	p.pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
	p.settle(t)
	assert.Equal(t, before, p.running(t))
}

func TestSpecHashOfAnotherKubeletVersionSaysNothing(t *testing.T) {
	c := container("w", "one")
	other := container("w", "two")
	assert.False(t, isOtherSpec(specHash(&c), specHash(&c)), "same spec")
	assert.True(t, isOtherSpec(specHash(&other), specHash(&c)), "other spec")
	assert.False(t, isOtherSpec("v1.36.0/abc", specHash(&c)), "hash of another version")
	assert.False(t, isOtherSpec("", specHash(&c)), "no hash")
}

func TestNameOfRemovedContainerStartsAfresh(t *testing.T) {
	for name, restartPolicy := range map[string]v1.RestartPolicy{"Always": v1.RestartPolicyAlways, "Never": v1.RestartPolicyNever} {
		t.Run(name, func(t *testing.T) {
			p := newDynamicPod(t, container("main", "a"), container("w", "one"))
			p.pod.Spec.RestartPolicy = restartPolicy
			p.settle(t)
			p.pod.Spec.Containers = p.pod.Spec.Containers[:1]
			p.settle(t)
			require.Contains(t, p.statuses(t), "w: exited", "the removed container is kept")

			// The same spec again: the runtime still has the old container, which is not it.
			w := container("w", "one")
			p.backOff.Next(GetBackoffKey(p.pod, &w), time.Now())
			p.pod.Spec.Containers = append(p.pod.Spec.Containers, w)
			p.settle(t)

			require.Contains(t, p.running(t), "w")
			assert.Zero(t, p.status(t).FindContainerStatusByName("w").RestartCount, "restart count")
			assert.Zero(t, p.backOff.Get(GetBackoffKey(p.pod, &w)), "back-off")
			assert.Equal(t, []string{"main: running", "w: running"}, p.statuses(t))
		})
	}
}

func (p *dynamicPod) statuses(t *testing.T) []string {
	var statuses []string
	for _, s := range p.status(t).ContainerStatuses {
		statuses = append(statuses, fmt.Sprintf("%s: %s", s.Name, s.State))
	}
	slices.Sort(statuses)
	return statuses
}

func TestAddedContainerWaitsForTheRemovedOneOfItsName(t *testing.T) {
	p := newDynamicPod(t, container("main", "a"), container("w", "one"))
	p.settle(t)
	before := p.running(t)
	stops := &stopRecorder{RuntimeService: p.runtime, release: make(chan struct{})}
	p.m.runtimeService = stops

	p.pod.Spec.Containers = []v1.Container{container("main", "a"), container("w", "two"), container("x", "a")}
	for range 3 {
		p.sync(t)
	}
	during := p.running(t)
	assert.Equal(t, before["w"], during["w"], "two containers of the same name must not run side by side")
	assert.Contains(t, during, "x", "another container does not wait for it")

	require.NoError(t, p.runtime.StopContainer(p.tCtx, before["w"], 0))
	close(stops.release)
	p.settle(t)
	assert.NotEqual(t, before["w"], p.running(t)["w"])
}

func TestResourcesOfARemovedContainerAreKnownUntilItHasStopped(t *testing.T) {
	w := container("w", "one")
	w.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	p := newDynamicPod(t, container("main", "a"), w)
	p.settle(t)
	id := p.running(t)["w"]
	stops := &stopRecorder{RuntimeService: p.runtime, release: make(chan struct{})}
	p.m.runtimeService = stops

	p.pod.Spec.Containers = p.pod.Spec.Containers[:1]
	for range 3 {
		p.sync(t)
		resources, _ := p.m.GetActuatedResources(p.pod.UID, "w")
		assert.Equal(t, "1", resources.Requests.Cpu().String(), "CPU of the container that is being stopped")
	}
	require.Eventually(t, func() bool { return len(stops.seen()) > 0 }, schedulingTimeout, time.Millisecond, "the removed container is killed")

	require.NoError(t, p.runtime.StopContainer(p.tCtx, id, 0))
	close(stops.release)
	p.settle(t)
	_, known := p.m.GetActuatedResources(p.pod.UID, "w")
	assert.False(t, known, "it has stopped")
}

func ephemeralContainer(name string) v1.EphemeralContainer {
	return v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon(container(name, "debug"))}
}

// The API refuses such a name only if a status that has it was written.
func TestEphemeralContainerWithTheNameOfARemovedContainer(t *testing.T) {
	p := newDynamicPod(t, container("main", "a"), container("w", "one"))
	p.settle(t)
	before := p.running(t)
	stops := &stopRecorder{RuntimeService: p.runtime, release: make(chan struct{})}
	p.m.runtimeService = stops

	p.pod.Spec.Containers = p.pod.Spec.Containers[:1]
	p.pod.Spec.EphemeralContainers = []v1.EphemeralContainer{ephemeralContainer("w"), ephemeralContainer("debug")}
	for range 3 {
		p.sync(t)
	}
	during := p.running(t)
	assert.Equal(t, before["w"], during["w"], "the ephemeral container must wait for the removed one of its name")
	assert.Contains(t, during, "debug", "another one does not wait for it")
	require.Eventually(t, func() bool { return len(stops.seen()) > 0 }, schedulingTimeout, time.Millisecond, "the removed container is killed")

	require.NoError(t, p.runtime.StopContainer(p.tCtx, before["w"], 0))
	close(stops.release)
	p.settle(t)
	after := p.running(t)
	require.Contains(t, after, "w", "the ephemeral container runs")
	assert.NotEqual(t, before["w"], after["w"])
	assert.Equal(t, []string{"debug: running", "main: running", "w: running"}, p.statuses(t), "nothing is left of the removed container")
	assert.Zero(t, p.status(t).FindContainerStatusByName("w").RestartCount, "restart count")
	assert.Equal(t, before["main"], after["main"])
}

func TestEphemeralContainerWithTheNameOfAContainerWhoseRemovalIsNotAllocated(t *testing.T) {
	p := newDynamicPod(t, container("main", "a"))
	p.settle(t)
	p.pod.Spec.Containers = append(p.pod.Spec.Containers, container("w", "one"))
	p.pod.Spec.EphemeralContainers = []v1.EphemeralContainer{ephemeralContainer("w")}
	p.settle(t)
	before := p.running(t)
	assert.NotEmpty(t, p.status(t).FindContainerStatusByName("w").SpecHash, "the main container runs")

	p.pod.Spec.Containers = p.pod.Spec.Containers[:1]
	p.settle(t)
	assert.NotEqual(t, before["w"], p.running(t)["w"])
	assert.Equal(t, []string{"main: running", "w: running"}, p.statuses(t))
}

func TestSwapOfAllContainersWithTheNameOfAnEphemeralOneRunsNoInitContainerAgain(t *testing.T) {
	p := newDynamicPod(t, container("w", "one"))
	p.settle(t)
	p.pod.Spec.InitContainers = []v1.Container{container("init", "a")}
	p.pod.Spec.Containers = []v1.Container{container("new", "a")}
	p.pod.Spec.EphemeralContainers = []v1.EphemeralContainer{ephemeralContainer("w")}
	for range 3 {
		p.sync(t)
	}
	assert.NotContains(t, p.running(t), "init")
	assert.Contains(t, p.running(t), "new")
}

func TestContainerThatFailsToStartDoesNotHoldUpARemoval(t *testing.T) {
	p := newDynamicPod(t, container("main", "a"), container("w", "one"))
	p.settle(t)
	p.runtime.Errors = map[string][]error{"CreateContainer": {errors.New("no"), errors.New("no"), errors.New("no")}}
	p.pod.Spec.Containers = []v1.Container{container("main", "a"), container("x", "a")}
	_, result := p.sync(t)
	require.Error(t, result.Error())
	require.Eventually(t, func() bool { return !slices.Contains(p.statuses(t), "w: running") }, schedulingTimeout, time.Millisecond)
	p.settle(t)
	assert.Equal(t, []string{"main: running", "w: exited", "x: running"}, p.statuses(t))
}

// startBarrier is a runtime in which no container is started before all of them are to be.
type startBarrier struct {
	internalapi.RuntimeService
	started sync.WaitGroup
}

func (b *startBarrier) StartContainer(ctx context.Context, id string) error {
	b.started.Done()
	b.started.Wait()
	return b.RuntimeService.StartContainer(ctx, id)
}

func TestAddedContainersStartSideBySide(t *testing.T) {
	p := newDynamicPod(t, container("main", "a"))
	p.settle(t)
	barrier := &startBarrier{RuntimeService: p.runtime}
	barrier.started.Add(3)
	p.m.runtimeService = barrier
	p.pod.Spec.Containers = append(p.pod.Spec.Containers, container("x", "a"), container("y", "a"), container("z", "a"))
	// The test hangs if one waits for another.
	_, result := p.sync(t)
	require.NoError(t, result.Error())
	assert.Len(t, result.SyncResults, 4, "the resize of the pod and three starts")
	assert.Len(t, p.running(t), 4)
}

func TestContainersOfANewPodStartInOrder(t *testing.T) {
	p := newDynamicPod(t, container("c", "a"), container("a", "a"), container("b", "a"))
	_, result := p.sync(t)
	require.NoError(t, result.Error())
	var order []string
	for _, r := range result.SyncResults {
		if r.Action == kubecontainer.StartContainer {
			order = append(order, r.Target.(string))
		}
	}
	assert.Equal(t, []string{"c", "a", "b"}, order)
	assert.Equal(t, map[string]string{"c": "c-1", "a": "a-2", "b": "b-3"}, p.running(t), "IDs are in the order of creation")
}

func TestManyShortLivedContainersLeaveNothingBehind(t *testing.T) {
	const names = 200
	p := newDynamicPod(t, container("main", "a"))
	fakeOS := p.m.osInterface.(*containertest.FakeOS)
	p.settle(t)
	logDirs := sets.New[string]()
	for i := range names {
		name := fmt.Sprintf("w%d", i)
		logDirs.Insert(BuildContainerLogsDirectory(p.m.podLogsDirectory, "ns", "p", "uid", name))
		p.pod.Spec.Containers = []v1.Container{container("main", "a"), container(name, "a")}
		p.settle(t)
	}
	p.pod.Spec.Containers = p.pod.Spec.Containers[:1]
	status := p.settle(t)

	assert.Len(t, status.RemovedContainerStatuses, kubecontainer.MaxRemovedContainerStatuses, "dead containers")
	assert.Equal(t, "w199", status.RemovedContainerStatuses[0].Name, "the newest is kept")
	assert.Len(t, p.m.removedContainers.pods["uid"], kubecontainer.MaxRemovedContainerStatuses, "known removed containers")
	info, _ := p.m.actuatedState.GetPodResourceInfo("uid")
	assert.Len(t, info.ContainerResources, 1, "actuated resources")
	assert.Len(t, logDirs.Intersection(sets.New(fakeOS.Removes...)), names-kubecontainer.MaxRemovedContainerStatuses, "log directories that were removed")
}

func TestContainerGCKeepsExactlyTheRemovedContainersThatAreReported(t *testing.T) {
	p := newDynamicPod(t, container("main", "a"), container("w", "a"))
	p.settle(t)
	p.pod.Spec.Containers = p.pod.Spec.Containers[:1]
	p.settle(t)
	require.Equal(t, []string{"main: running", "w: exited"}, p.statuses(t))
	provider := p.m.podStateProvider.(*fakePodStateProvider)

	require.NoError(t, p.m.GarbageCollect(p.tCtx, kubecontainer.GCPolicy{MaxPerPodContainer: 0, MaxContainers: 0}, true, false))
	assert.Equal(t, []string{"main: running", "w: exited"}, p.statuses(t), "the status of the container is reported")

	provider.removed["uid"] = struct{}{}
	require.NoError(t, p.m.GarbageCollect(p.tCtx, kubecontainer.GCPolicy{MaxPerPodContainer: 1, MaxContainers: -1}, true, false))
	assert.NotContains(t, p.statuses(t), "w: exited", "the pod is gone")
	require.NoError(t, p.m.GarbageCollect(p.tCtx, kubecontainer.GCPolicy{MaxPerPodContainer: 1, MaxContainers: -1}, true, false))
	assert.Empty(t, p.m.removedContainers.pods, "known removed containers of a pod that is gone")
}

// podCgroup is the cgroup of a pod.
type podCgroup struct {
	cm.ContainerManager
	cm.PodContainerManager
	config cm.ResourceConfig
	usage  uint64
	writes []string
}

func (c *podCgroup) NewPodContainerManager() cm.PodContainerManager { return c }

func (c *podCgroup) GetPodCgroupConfig(*v1.Pod, v1.ResourceName) (*cm.ResourceConfig, error) {
	config := c.config
	return &config, nil
}

func (c *podCgroup) GetPodCgroupMemoryUsage(*v1.Pod) (uint64, error) { return c.usage, nil }

func (c *podCgroup) SetPodCgroupConfig(_ klog.Logger, _ *v1.Pod, config *cm.ResourceConfig) error {
	if config.Memory != nil {
		c.config.Memory = config.Memory
		c.writes = append(c.writes, fmt.Sprintf("memory %d", *config.Memory))
	}
	if config.CPUQuota != nil {
		c.config.CPUQuota = config.CPUQuota
		c.writes = append(c.writes, fmt.Sprintf("quota %d", *config.CPUQuota))
	}
	if config.CPUShares != nil {
		c.config.CPUShares = config.CPUShares
		c.writes = append(c.writes, fmt.Sprintf("shares %d", *config.CPUShares))
	}
	return nil
}

func TestPodCgroupFollowsAddedAndRemovedContainers(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("unsupported OS")
	}
	withResources := func(name, requestCPU, limitCPU, limitMemory string) v1.Container {
		c := container(name, "a")
		c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(requestCPU)}
		if limitCPU != "" {
			c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse(limitCPU), v1.ResourceMemory: resource.MustParse(limitMemory)}
		}
		return c
	}
	// No limit reads -1 with cgroup v2, and as the highest number of pages with v1.
	for name, unlimitedMemory := range map[string]int64{"cgroup v1": 9223372036854771712, "cgroup v2": -1} {
		t.Run(name, func(t *testing.T) {
			main := withResources("main", "512m", "1", "100")
			p := newDynamicPod(t, main)
			p.m.cpuCFSQuota = true
			p.pod.Status.QOSClass = v1.PodQOSBurstable
			cgroup := &podCgroup{ContainerManager: p.m.containerManager, usage: 50, config: cm.ResourceConfig{
				Memory: ptr.To[int64](100), CPUQuota: ptr.To[int64](100000), CPUPeriod: ptr.To[uint64](100000), CPUShares: ptr.To[uint64](524),
			}}
			p.m.containerManager = cgroup
			// The statistics are those from before the removal.
			p.m.runtimeHelper = &containertest.FakeRuntimeHelper{PodStats: map[types.UID]*statsapi.PodStats{
				p.pod.UID: {Memory: &statsapi.MemoryStats{UsageBytes: ptr.To[uint64](1000)}},
			}}
			p.settle(t)
			require.Empty(t, cgroup.writes, "the cgroup of a pod that does not change")
			stops := &stopRecorder{RuntimeService: p.runtime, release: make(chan struct{})}
			expect := func(step string, want ...string) {
				t.Helper()
				assert.Equal(t, want, cgroup.writes, step)
				cgroup.writes = nil
			}

			p.pod.Spec.Containers = []v1.Container{main, withResources("w", "512m", "2", "200")}
			p.settle(t)
			expect("grown for an added container", "memory 300", "quota 300000", "shares 1048")
			created, _ := p.m.actuatedState.GetContainerResources("uid", "w")
			assert.Equal(t, p.pod.Spec.Containers[1].Resources, created, "actuated resources")

			// While w terminates, x is added: there must be room for both.
			p.m.runtimeService = stops
			p.pod.Spec.Containers = []v1.Container{main, withResources("x", "512m", "1", "100")}
			p.sync(t)
			expect("grown for x before w has stopped", "memory 400", "quota 400000", "shares 1572")
			assert.True(t, p.m.IsPodResizeInProgress(p.pod, p.m.SplitRemovedContainers(p.pod, p.status(t))), "w runs")
			require.NoError(t, p.runtime.StopContainer(p.tCtx, p.running(t)["w"], 0))
			close(stops.release)
			assert.True(t, p.m.IsPodResizeInProgress(p.pod, p.m.SplitRemovedContainers(p.pod, p.status(t))), "w has stopped, its resources are not released")
			p.settle(t)
			expect("shrunk after w has stopped", "memory 200", "shares 1048", "quota 200000")
			_, found := p.m.actuatedState.GetContainerResources("uid", "w")
			assert.False(t, found, "actuated resources of a container that has stopped")
			assert.False(t, p.m.IsPodResizeInProgress(p.pod, p.m.SplitRemovedContainers(p.pod, p.status(t))), "all done")

			// A container without limits lifts those of the pod, and takes them up again when it goes.
			p.pod.Spec.Containers = append(p.pod.Spec.Containers, container("unlimited", "a"))
			p.settle(t)
			expect("lifted", "memory -1", "quota -1")
			cgroup.config.Memory = &unlimitedMemory
			p.pod.Spec.Containers = append(p.pod.Spec.Containers, container("unlimited too", "a"))
			assert.True(t, p.m.IsPodResizeInProgress(p.pod, p.m.SplitRemovedContainers(p.pod, p.status(t))), "the cgroup is not made for it yet")
			p.settle(t)
			assert.Empty(t, cgroup.writes, "there is no limit to be lifted")
			assert.False(t, p.m.IsPodResizeInProgress(p.pod, p.m.SplitRemovedContainers(p.pod, p.status(t))), "all done")
			p.pod.Spec.Containers = p.pod.Spec.Containers[:2]
			p.settle(t)
			expect("limited again", "memory 200", "quota 200000")
		})
	}
}

func TestEventedPLEGKnowsActiveContainers(t *testing.T) {
	p := newDynamicPod(t, container("main", "a"))
	p.settle(t)
	event := &runtimeapi.ContainerEventResponse{}
	for _, sandbox := range p.runtime.Sandboxes {
		event.PodSandboxStatus = &sandbox.PodSandboxStatus
	}
	for _, c := range p.runtime.Containers {
		event.ContainersStatuses = append(event.ContainersStatuses, &c.ContainerStatus)
	}
	// All containers are swapped.
	p.pod.Spec.Containers = []v1.Container{container("new", "a")}
	assert.True(t, kubecontainer.HasAnyActiveRegularContainerStarted(&p.pod.Spec, p.m.GeneratePodStatus(event)), "active sandbox")
	event.PodSandboxStatus.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	assert.False(t, kubecontainer.HasAnyActiveRegularContainerStarted(&p.pod.Spec, p.m.GeneratePodStatus(event)), "dead sandbox")
}

// releaseCounter counts how often the resources of a container are released.
type releaseCounter struct {
	cm.InternalContainerLifecycle
	releases map[string]int
}

func (c *releaseCounter) PostStopContainer(_ klog.Logger, containerID string) error {
	c.releases[containerID]++
	return nil
}

func TestResourcesOfARemovedContainerAreReleasedOnceItHasStopped(t *testing.T) {
	p := newDynamicPod(t, container("main", "a"), container("w", "a"))
	p.settle(t)
	id := p.running(t)["w"]
	counter := &releaseCounter{InternalContainerLifecycle: p.m.internalLifecycle, releases: map[string]int{}}
	p.m.internalLifecycle = counter
	stops := &stopRecorder{RuntimeService: p.runtime, release: make(chan struct{})}
	p.m.runtimeService = stops

	p.pod.Spec.Containers = p.pod.Spec.Containers[:1]
	p.sync(t)
	p.sync(t)
	assert.Zero(t, counter.releases[id], "while it runs")
	require.NoError(t, p.runtime.StopContainer(p.tCtx, id, 0))
	p.sync(t)
	p.sync(t)
	assert.Equal(t, 1, counter.releases[id], "after it has stopped")
	close(stops.release)
}
