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
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	remotecommandserver "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/test/utils/ktesting"
	"k8s.io/mount-utils"
)

// removingRuntime records which removed containers it is told to kill and to delete.
type removingRuntime struct {
	*containertest.FakeRuntime
	killed, deleted []string
	actuated        map[string]v1.ResourceRequirements
}

func (r *removingRuntime) SplitRemovedContainers(pod *v1.Pod, podStatus *kubecontainer.PodStatus) *kubecontainer.PodStatus {
	return kubecontainer.SplitRemovedContainers(pod, podStatus, nil)
}

func (r *removingRuntime) KillRemovedContainers(_ context.Context, _ *v1.Pod, podStatus *kubecontainer.PodStatus) {
	for _, status := range podStatus.RemovedContainerStatuses {
		if status.MayRun() {
			r.killed = append(r.killed, status.Name)
		}
	}
}

func (r *removingRuntime) DeleteRemovedContainers(_ context.Context, _ *v1.Pod, containers []*kubecontainer.Status) {
	for _, status := range containers {
		r.deleted = append(r.deleted, status.Name)
	}
}

func (r *removingRuntime) GetActuatedResources(_ types.UID, containerName string) (v1.ResourceRequirements, bool) {
	resources, ok := r.actuated[containerName]
	return resources, ok
}

func TestRemovalDoesNotWaitForTheNetwork(t *testing.T) {
	enableDynamicContainers(t)
	tCtx := ktesting.Init(t)
	testKubelet := newTestKubelet(t, false)
	defer testKubelet.Cleanup()
	kl := testKubelet.kubelet
	runtime := &removingRuntime{FakeRuntime: testKubelet.fakeRuntime}
	kl.containerRuntime = runtime
	kl.runtimeState.setNetworkState(errors.New("no CNI"))
	pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{NodeName: testKubeletHostname, Containers: []v1.Container{{Name: "main", Image: "i"}}})
	kl.podManager.SetPods([]*v1.Pod{pod})

	_, _, err := kl.SyncPod(tCtx, kubetypes.SyncPodUpdate, pod, nil, &kubecontainer.PodStatus{ContainerStatuses: []*kubecontainer.Status{
		{Name: "main", State: kubecontainer.ContainerStateRunning},
		{Name: "w", State: kubecontainer.ContainerStateRunning},
		{Name: "created", State: kubecontainer.ContainerStateCreated},
	}})

	require.ErrorContains(t, err, NetworkNotReadyErrorMsg, "the sync does not get further")
	assert.Equal(t, []string{"w"}, runtime.killed, "killed")
	assert.Equal(t, []string{"created"}, runtime.deleted, "deleted")
}

func TestStatusOfContainersWithAHistory(t *testing.T) {
	now := time.Now()
	runtimeStatus := func(name, id string, state kubecontainer.State) *kubecontainer.Status {
		return &kubecontainer.Status{
			ID: kubecontainer.ContainerID{Type: "test", ID: id}, Name: name, Image: "i", State: state, RestartCount: 4,
			CreatedAt: now, StartedAt: now, FinishedAt: now, ExitCode: 3,
		}
	}
	main := runtimeStatus("main", "main", kubecontainer.ContainerStateRunning)
	for name, tc := range map[string]struct {
		spec         []string
		removed      *kubecontainer.Status
		previous     v1.ContainerState
		reason       error
		wantState    string
		wantRestarts int32
		wantID       string
	}{
		"a name is reused while the old container runs": {
			spec:         []string{"main", "w"},
			removed:      runtimeStatus("w", "old", kubecontainer.ContainerStateRunning),
			previous:     v1.ContainerState{Running: &v1.ContainerStateRunning{}},
			wantState:    "Running",
			wantRestarts: 4,
			wantID:       "test://old",
		},
		"a name is reused after the old container has stopped": {
			spec:      []string{"main", "w"},
			removed:   runtimeStatus("w", "old", kubecontainer.ContainerStateExited),
			previous:  v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "test://old"}},
			wantState: "Waiting: ContainerCreating",
		},
		"a container is removed while it backs off": {
			spec:         []string{"main"},
			removed:      runtimeStatus("w", "old", kubecontainer.ContainerStateExited),
			previous:     v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			reason:       kubecontainer.ErrCrashLoopBackOff,
			wantState:    "Terminated",
			wantRestarts: 4,
			wantID:       "test://old",
		},
	} {
		t.Run(name, func(t *testing.T) {
			enableDynamicContainers(t)
			tCtx := ktesting.Init(t)
			testKubelet := newTestKubelet(t, false)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{
				NodeName: testKubeletHostname, RestartPolicy: v1.RestartPolicyAlways, InitContainers: []v1.Container{{Name: "init"}},
			})
			for _, name := range tc.spec {
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Image: "i"})
			}
			pod.Status = v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{
				{Name: "w", ContainerID: "test://old", RestartCount: 4, State: tc.previous},
			}}
			kl.podManager.SetPods([]*v1.Pod{pod})
			kl.statusManager.SetPodStatus(tCtx.Logger(), pod, pod.Status)
			kl.probeManager = prober.NewManager(kl.statusManager, kl.livenessManager, kl.readinessManager, kl.startupManager, kl.runner, nil)
			if tc.reason != nil {
				kl.reasonCache.add(pod.UID, "w", tc.reason, "")
			}

			got := kl.generateAPIPodStatus(tCtx, pod, &kubecontainer.PodStatus{
				ID: pod.UID, ContainerStatuses: []*kubecontainer.Status{main}, ActiveContainerStatuses: []*kubecontainer.Status{main, tc.removed},
				RemovedContainerStatuses: []*kubecontainer.Status{tc.removed},
			}, false)

			require.Len(t, got.ContainerStatuses, 2)
			w, _ := podutil.GetContainerStatus(got.ContainerStatuses, "w")
			var state string
			switch {
			case w.State.Waiting != nil:
				state = "Waiting: " + w.State.Waiting.Reason
			case w.State.Running != nil:
				state = "Running"
			case w.State.Terminated != nil:
				state = "Terminated"
			}
			assert.Equal(t, tc.wantState, state)
			assert.Equal(t, tc.wantRestarts, w.RestartCount, "restart count")
			assert.Equal(t, tc.wantID, w.ContainerID, "container ID")
			assert.Equal(t, v1.ContainerState{}, w.LastTerminationState, "last state")
			assert.False(t, w.Ready, "ready")
			assert.Equal(t, v1.PodRunning, got.Phase)
		})
	}
}

func TestDirectoriesOfContainersThatLeaveNothingAreRemoved(t *testing.T) {
	enableDynamicContainers(t)
	tCtx := ktesting.Init(t)
	testKubelet := newTestKubelet(t, false)
	defer testKubelet.Cleanup()
	kl := testKubelet.kubelet
	kl.containerRuntime = &removingRuntime{FakeRuntime: testKubelet.fakeRuntime}
	kl.podLogsDirectory = t.TempDir()
	pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{Containers: []v1.Container{{Name: "main"}}})
	subPaths := kl.getPodVolumeSubpathsDir(pod.UID)
	var dirs []string
	var mounts []mount.MountPoint
	for _, name := range []string{"main", "dropped", "kept", "never-created"} {
		dirs = append(dirs, kl.getPodContainerDir(pod.UID, name))
		subPath := filepath.Join(subPaths, "volume", name, "0")
		dirs = append(dirs, subPath)
		mounts = append(mounts, mount.MountPoint{Path: subPath})
	}
	for _, dir := range dirs {
		require.NoError(t, os.MkdirAll(dir, 0o750))
	}
	logDir := kuberuntime.BuildContainerLogsDirectory(kl.podLogsDirectory, pod.Namespace, pod.Name, pod.UID, "never-created")
	require.NoError(t, os.MkdirAll(logDir, 0o750))
	mounter := mount.NewFakeMounter(mounts)
	kl.mounter = mounter

	kl.syncRemovedContainers(tCtx, pod, &kubecontainer.PodStatus{RemovedContainerStatuses: []*kubecontainer.Status{
		{Name: "kept", State: kubecontainer.ContainerStateExited}, {Name: "dropped", State: kubecontainer.ContainerStateCreated},
	}})

	var left []string
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			left = append(left, dir)
		}
	}
	if diff := cmp.Diff([]string{dirs[0], dirs[1], dirs[4], dirs[5]}, left); diff != "" {
		t.Errorf("directories (-want +got):\n%s", diff)
	}
	assert.NoDirExists(t, filepath.Join(subPaths, "volume", "dropped"))
	assert.NoDirExists(t, logDir)
	assert.Len(t, mounter.MountPoints, 2, "mounts")
}

// attachingRuntime records whether it is told that the container has a terminal.
type attachingRuntime struct {
	*removingRuntime
	tty bool
}

func (r *attachingRuntime) GetContainerStatus(context.Context, types.UID, kubecontainer.ContainerID) (*kubecontainer.Status, error) {
	return &kubecontainer.Status{TTY: true}, nil
}

func (r *attachingRuntime) GetAttach(_ context.Context, _ kubecontainer.ContainerID, _, _, _, tty bool) (*url.URL, error) {
	r.tty = tty
	return &url.URL{}, nil
}

func (r *attachingRuntime) GetExec(context.Context, kubecontainer.ContainerID, []string, bool, bool, bool, bool) (*url.URL, error) {
	return &url.URL{}, nil
}

func (r *attachingRuntime) GetPortForward(context.Context, string, string, types.UID, []int32) (*url.URL, error) {
	return &url.URL{}, nil
}

func TestAttachToARemovedContainerThatRuns(t *testing.T) {
	tCtx := ktesting.Init(t)
	testKubelet := newTestKubelet(t, false)
	defer testKubelet.Cleanup()
	kl := testKubelet.kubelet
	pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{Containers: []v1.Container{{Name: "main"}}})
	kl.podManager.SetPods([]*v1.Pod{pod})
	testKubelet.fakeRuntime.PodList = []*containertest.FakePod{{Pod: &kubecontainer.Pod{
		ID: pod.UID, Name: pod.Name, Namespace: pod.Namespace,
		Containers: []*kubecontainer.Container{{Name: "w", ID: kubecontainer.ContainerID{Type: "test", ID: "w"}}},
	}}}
	runtime := &attachingRuntime{removingRuntime: &removingRuntime{FakeRuntime: testKubelet.fakeRuntime}}
	kl.containerRuntime, kl.streamingRuntime = runtime, runtime

	_, err := kl.GetAttach(tCtx, kubecontainer.GetPodFullName(pod), pod.UID, "w", remotecommandserver.Options{})
	require.NoError(t, err)
	assert.True(t, runtime.tty, "the terminal of the container that was removed")
	_, err = kl.GetAttach(tCtx, kubecontainer.GetPodFullName(pod), pod.UID, "gone", remotecommandserver.Options{})
	require.ErrorContains(t, err, "not found")
}
