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
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/pkg/kubelet/images"
)

// slowImages is an image service that pulls the image slow when it is told how that ends.
type slowImages struct {
	internalapi.ImageManagerService
	ends  chan error
	pulls atomic.Int32
}

func (s *slowImages) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, config *runtimeapi.PodSandboxConfig) (string, error) {
	if image.Image == "slow:latest" {
		s.pulls.Add(1)
		select {
		case err := <-s.ends:
			if err != nil {
				return "", err
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return s.ImageManagerService.PullImage(ctx, image, auth, config)
}

// slowRuntime is a runtime that starts a container when it is told to, or before that but without
// telling so, whatever becomes of the context meanwhile: a cancellation may come too late.
type slowRuntime struct {
	internalapi.RuntimeService
	release chan struct{}
	isEarly bool
}

func (s *slowRuntime) StartContainer(ctx context.Context, id string) error {
	if !s.isEarly {
		<-s.release
		return s.RuntimeService.StartContainer(ctx, id)
	}
	err := s.RuntimeService.StartContainer(ctx, id)
	<-s.release
	return err
}

// requestCounter counts the syncs and relists that the runtime requests.
type requestCounter struct {
	containertest.FakeRuntimeHelper
	syncs, relists atomic.Int32
}

func (r *requestCounter) RequestPodRelist(klog.Logger, types.UID) {
	r.relists.Add(1)
}

func (r *requestCounter) RequestPodSync(context.Context, types.UID) {
	r.syncs.Add(1)
}

// startingPod is a dynamic pod that can have containers that take long to start.
type startingPod struct {
	*dynamicPod
	images   *slowImages
	requests *requestCounter
}

// inBubble calls f in a bubble. The pod is made outside: the harness starts goroutines that never end.
func (p *dynamicPod) inBubble(t *testing.T, f func(t *testing.T)) {
	// A context makes its channel when it is needed.
	_ = p.tCtx.Done()
	// The handlers slow errors down by the time of the last one, which may be from outside.
	handlers := utilruntime.ErrorHandlers
	defer func() { utilruntime.ErrorHandlers = handlers }()
	utilruntime.ErrorHandlers = nil
	synctest.Test(t, f)
}

// testStarts calls f in a bubble with a pod whose container main runs.
func testStarts(t *testing.T, f func(t *testing.T, p *startingPod)) {
	p := &startingPod{dynamicPod: newDynamicPod(t, container("main", "a")), requests: &requestCounter{}}
	p.inBubble(t, func(t *testing.T) {
		p.images = &slowImages{ImageManagerService: p.m.imageService, ends: make(chan error)}
		p.m.imageService, p.m.runtimeHelper = p.images, p.requests
		p.settle(t)
		p.requests.syncs.Store(0)
		f(t, p)
		synctest.Wait()
	})
}

func slowContainer(name string) v1.Container {
	c := container(name, "a")
	c.Image = "slow"
	return c
}

// startResults returns the errors of the starts in the result, by container.
func startResults(result kubecontainer.PodSyncResult) map[string]error {
	results := map[string]error{}
	for _, r := range result.SyncResults {
		if r.Action == kubecontainer.StartContainer {
			results[r.Target.(string)] = r.Error
		}
	}
	return results
}

// syncStarts syncs the pod and returns the errors of the starts that the sync reports.
func (p *startingPod) syncStarts(t *testing.T) map[string]error {
	_, result := p.sync(t)
	return startResults(result)
}

func (p *startingPod) add(containers ...v1.Container) {
	p.pod = p.pod.DeepCopy()
	p.pod.Spec.Containers = append(p.pod.Spec.Containers, containers...)
}

func (p *startingPod) remove(name string) {
	p.pod = p.pod.DeepCopy()
	p.pod.Spec.Containers = slices.DeleteFunc(p.pod.Spec.Containers, func(c v1.Container) bool { return c.Name == name })
}

func TestSlowStartDoesNotHoldUpTheOtherContainers(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		p.add(slowContainer("slow"), container("removed", "a"), container("crashed", "a"))
		start := time.Now()
		assert.Equal(t, map[string]error{"removed": nil, "crashed": nil}, p.syncStarts(t), "what is over is reported")
		assert.Equal(t, startWait, time.Since(start), "time that the sync waited")

		// Everything else goes on while the image is pulled.
		start = time.Now()
		require.NoError(t, p.runtime.StopContainer(p.tCtx, p.running(t)["crashed"], 0))
		p.remove("removed")
		p.add(container("added", "a"))
		time.Sleep(time.Minute) // a back-off
		start = time.Now()
		assert.Equal(t, map[string]error{"crashed": nil, "added": nil}, p.syncStarts(t))
		assert.Zero(t, time.Since(start), "time that the second sync waited")
		synctest.Wait()
		assert.Equal(t, []string{"added: running", "crashed: exited", "crashed: running", "main: running", "removed: exited"}, p.statuses(t))
		assert.EqualValues(t, 1, p.images.pulls.Load(), "pulls")
		assert.Zero(t, p.requests.syncs.Load(), "requested syncs")

		p.images.ends <- nil
		synctest.Wait()
		assert.EqualValues(t, 1, p.requests.syncs.Load(), "requested syncs after the end of the start")
		assert.Equal(t, map[string]error{"slow": nil}, p.syncStarts(t), "the next sync reports the start")
		assert.Contains(t, p.running(t), "slow")
		assert.Empty(t, p.syncStarts(t), "nothing is reported twice")
		assert.EqualValues(t, 1, p.images.pulls.Load(), "pulls")
		assert.Empty(t, p.m.containerStarts.pods, "known starts")
	})
}

func TestFastStartIsReportedByItsSyncAndRequestsNoOther(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		p.add(container("fast", "a"))
		start := time.Now()
		assert.Equal(t, map[string]error{"fast": nil}, p.syncStarts(t))
		assert.Zero(t, time.Since(start), "time that the sync waited")
		synctest.Wait()
		assert.Zero(t, p.requests.syncs.Load(), "requested syncs")
		assert.Empty(t, p.m.containerStarts.pods, "known starts")
	})
}

func TestSlowStartThatFailsIsReportedOnceAndTriedAgain(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		p.add(slowContainer("slow"))
		require.Empty(t, p.syncStarts(t))
		p.images.ends <- errors.New("no such image")
		synctest.Wait()
		assert.EqualValues(t, 1, p.requests.syncs.Load(), "requested syncs")

		assert.ErrorIs(t, startResults(p.m.EndedStarts(p.pod.UID))["slow"], images.ErrImagePull, "known before the sync")
		assert.ErrorIs(t, p.syncStarts(t)["slow"], images.ErrImagePull, "the next sync fails, so that it is tried again")
		assert.EqualValues(t, 1, p.images.pulls.Load(), "the sync that reports the failure leaves the next attempt to the back-off")
		assert.ErrorIs(t, p.syncStarts(t)["slow"], images.ErrImagePullBackOff, "the pull is not tried again at once")
		time.Sleep(time.Minute)
		require.Empty(t, p.syncStarts(t))
		assert.EqualValues(t, 2, p.images.pulls.Load(), "pulls after the back-off")
		p.images.ends <- nil
		synctest.Wait()
		assert.Equal(t, map[string]error{"slow": nil}, p.syncStarts(t))
	})
}

func TestStartThatEndsDuringASyncIsNotRepeated(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		p.add(slowContainer("slow"))
		require.Empty(t, p.syncStarts(t))
		// The status that the sync gets is from before the end of the start.
		status := p.m.SplitRemovedContainers(p.pod, p.status(t))
		p.images.ends <- nil
		synctest.Wait()
		result := p.m.SyncPod(p.tCtx, p.pod, status, nil, p.backOff, false)
		assert.Equal(t, map[string]error{"slow": nil}, startResults(result))
		assert.Equal(t, []string{"main: running", "slow: running"}, p.statuses(t))
	})
}

func TestPodKillCancelsStarts(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		p.add(slowContainer("slow"))
		require.Empty(t, p.syncStarts(t))
		start := time.Now()
		require.NoError(t, p.m.KillPod(context.Background(), p.pod, kubecontainer.ConvertPodStatusToRunningPod("test", p.status(t)), nil))
		assert.Zero(t, time.Since(start), "time that the kill waited")
		synctest.Wait()
		assert.Empty(t, p.running(t))
		assert.Zero(t, p.requests.syncs.Load(), "requested syncs of the pod that is gone")
		assert.Empty(t, p.m.containerStarts.pods, "known starts")
	})
}

func TestPodKillStopsWhatWasStartedLast(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		slow := &slowRuntime{RuntimeService: p.m.runtimeService, release: make(chan struct{})}
		p.m.runtimeService = slow
		p.add(container("w", "a"))
		require.Empty(t, p.syncStarts(t))
		// The kill waits for the runtime, which starts the container all the same.
		status := p.status(t)
		go func() {
			time.Sleep(startWait / 2)
			close(slow.release)
		}()
		require.NoError(t, p.m.KillPod(context.Background(), p.pod, kubecontainer.ConvertPodStatusToRunningPod("test", status), nil))
		assert.Equal(t, []string{"main: exited", "w: exited"}, p.statuses(t))
	})
}

func TestPodKillDoesNotWaitForAHookThatCannotBeCancelled(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		hooks := &hookRunner{release: make(chan struct{}), started: make(chan string, 1)}
		p.m.runner = hooks
		p.add(withPostStart("w"))
		require.Empty(t, p.syncStarts(t))
		require.NoError(t, p.m.KillPod(context.Background(), p.pod, kubecontainer.ConvertPodStatusToRunningPod("test", p.status(t)), nil))
		assert.Equal(t, []string{"main: exited", "w: exited"}, p.statuses(t))
		assert.Empty(t, p.m.containerStarts.pods, "known starts")
		close(hooks.release)
	})
}

func withPostStart(name string) v1.Container {
	c := container(name, "a")
	c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"hello"}}}}
	return c
}

func TestContainerDoesNotCountAsRunningBeforeItsPostStartHookIsOver(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		hooks := &hookRunner{release: make(chan struct{}), started: make(chan string, 2)}
		p.m.runner = hooks
		p.add(withPostStart("w"))
		require.Empty(t, p.syncStarts(t))
		require.Contains(t, p.running(t), "w")

		status := p.m.SplitRemovedContainers(p.pod, p.status(t))
		assert.Nil(t, status.FindContainerStatusByName("w"))
		assert.Len(t, status.StartingContainerStatuses, 1)
		assert.Len(t, kubecontainer.ConvertPodStatusToRunningPod("test", status).Containers, 2, "who kills the pod must know it")
		assert.Empty(t, p.syncStarts(t), "it is not started again")
		require.NoError(t, p.runtime.StopContainer(p.tCtx, p.running(t)["w"], 0))
		exited := p.m.SplitRemovedContainers(p.pod, p.status(t))
		assert.NotNil(t, exited.FindContainerStatusByName("w"), "it has run")
		assert.Empty(t, p.syncStarts(t), "nor is it restarted")

		close(hooks.release)
		synctest.Wait()
		requests := p.requests.syncs.Load()
		assert.Equal(t, map[string]error{"w": nil}, p.syncStarts(t), "the start is over")
		assert.Equal(t, requests+1, p.requests.syncs.Load(), "requested syncs: what was not restarted meanwhile is now")
		assert.Equal(t, map[string]error{"w": nil}, p.syncStarts(t), "the restart")
		split := p.m.SplitRemovedContainers(p.pod, p.status(t))
		assert.Equal(t, kubecontainer.ContainerStateRunning, split.FindContainerStatusByName("w").State)
	})
}

func TestContainerThatIsRemovedWhileItsImageIsPulledIsNotStarted(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		p.add(slowContainer("slow"))
		require.Empty(t, p.syncStarts(t))
		p.remove("slow")
		p.sync(t)
		synctest.Wait()
		assert.Empty(t, p.syncStarts(t), "the start of a container that is not in the pod any more")
		assert.Equal(t, []string{"main: running"}, p.statuses(t))
		assert.Empty(t, p.m.containerStarts.pods, "known starts")
	})
}

func TestNothingIsLeftOfAContainerThatIsRemovedWhileTheRuntimeStartsIt(t *testing.T) {
	for name, tc := range map[string]struct {
		isEarly bool
		want    []string
	}{
		"it does not run yet": {want: []string{"main: running"}},
		"it runs":             {isEarly: true, want: []string{"main: running", "w: exited"}},
	} {
		t.Run(name, func(t *testing.T) {
			testStarts(t, func(t *testing.T, p *startingPod) {
				slow := &slowRuntime{RuntimeService: p.m.runtimeService, release: make(chan struct{}), isEarly: tc.isEarly}
				p.m.runtimeService = slow
				p.add(container("w", "a"))
				require.Empty(t, p.syncStarts(t))
				p.remove("w")
				p.sync(t)
				close(slow.release)
				synctest.Wait()
				assert.Positive(t, p.requests.syncs.Load(), "requested syncs")
				p.sync(t)
				synctest.Wait()
				assert.Equal(t, tc.want, p.statuses(t))
				assert.Empty(t, p.m.containerStarts.pods, "known starts")
			})
		})
	}
}

func TestReplacementWaitsForTheEndOfTheStart(t *testing.T) {
	for name, replacement := range map[string]v1.Container{
		"another image":     func() v1.Container { c := container("w", "one"); c.Image = "other"; return c }(),
		"another container": container("w", "two"),
	} {
		t.Run(name, func(t *testing.T) {
			testStarts(t, func(t *testing.T, p *startingPod) {
				slow := &slowRuntime{RuntimeService: p.m.runtimeService, release: make(chan struct{})}
				p.m.runtimeService = slow
				p.add(container("w", "one"))
				require.Empty(t, p.syncStarts(t))

				p.remove("w")
				p.add(replacement)
				require.Empty(t, p.syncStarts(t))
				assert.Equal(t, 2, p.runtime.created, "containers that were created")
				close(slow.release)
				synctest.Wait()
				require.Positive(t, p.requests.syncs.Load(), "requested syncs")

				p.settle(t)
				config := p.runtime.Containers[p.running(t)["w"]]
				assert.Equal(t, replacement.Image+":latest", config.Image.Image)
				assert.Equal(t, replacement.Image == "other", p.status(t).FindContainerStatusByName("w").RestartCount == 1, "restart of the same container")
			})
		})
	}
}

func TestImageThatCannotBePulledIsReplaced(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		p.add(slowContainer("w"))
		require.Empty(t, p.syncStarts(t))
		p.pod = p.pod.DeepCopy()
		p.pod.Spec.Containers[1].Image = "busybox"
		p.sync(t)
		synctest.Wait()
		requests := p.requests.syncs.Load()
		require.Positive(t, requests, "requested syncs")
		p.sync(t)
		if p.running(t)["w"] == "" {
			assert.Greater(t, p.requests.syncs.Load(), requests, "a sync that only takes note of the end of the old start requests another one")
			p.sync(t)
		}
		assert.Contains(t, p.running(t), "w")
	})
}

func TestPodGoesOnWhileItsLastContainerIsStarted(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		p.add(slowContainer("slow"))
		p.pod.Spec.RestartPolicy = v1.RestartPolicyNever
		require.Empty(t, p.syncStarts(t))
		require.NoError(t, p.runtime.StopContainer(p.tCtx, p.running(t)["main"], 0))
		p.sync(t)
		p.images.ends <- nil
		synctest.Wait()
		p.sync(t)
		assert.Equal(t, []string{"main: exited", "slow: running"}, p.statuses(t))
	})
}

func TestRestartOfAllContainersCancelsStarts(t *testing.T) {
	testStarts(t, func(t *testing.T, p *startingPod) {
		featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
			features.ContainerRestartRules:                true,
			features.RestartAllContainersOnContainerExits: true,
		})
		slow := &slowRuntime{RuntimeService: p.m.runtimeService, release: make(chan struct{})}
		p.m.runtimeService = slow
		p.add(container("w", "a"))
		require.Empty(t, p.syncStarts(t))
		restart := func() {
			p.m.SyncPod(p.tCtx, p.pod, p.m.SplitRemovedContainers(p.pod, p.status(t)), nil, p.backOff, true)
		}

		restart()
		assert.Equal(t, []string{"main: running", "w: created"}, p.statuses(t), "while the start is in flight")
		close(slow.release)
		synctest.Wait()
		for range 2 {
			require.Positive(t, p.requests.syncs.Load(), "requested syncs")
			p.requests.syncs.Store(0)
			restart()
		}
		assert.Empty(t, p.statuses(t), "all containers are removed")
	})
}
