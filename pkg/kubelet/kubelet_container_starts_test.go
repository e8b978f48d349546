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
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/pkg/kubelet/images"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
	volumetypes "k8s.io/kubernetes/pkg/volume/util/types"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// startingRuntime is a runtime in which a start has ended since the last sync of the pod.
type startingRuntime struct {
	*containertest.FakeRuntime
	ended kubecontainer.PodSyncResult
	// hasStarts has the answers of HasStarts, the last of which is repeated.
	hasStarts []bool
}

func (r *startingRuntime) HasStarts(types.UID) bool {
	if len(r.hasStarts) == 0 {
		return false
	}
	answer := r.hasStarts[0]
	if len(r.hasStarts) > 1 {
		r.hasStarts = r.hasStarts[1:]
	}
	return answer
}

func (r *startingRuntime) EndedStarts(types.UID) kubecontainer.PodSyncResult {
	return r.ended
}

func TestSyncReportsWhyAContainerDidNotStartInTheBackground(t *testing.T) {
	enableDynamicContainers(t)
	tCtx := ktesting.Init(t)
	testKubelet := newTestKubelet(t, false)
	defer testKubelet.Cleanup()
	kl := testKubelet.kubelet
	failed := kubecontainer.NewSyncResult(kubecontainer.StartContainer, "added")
	failed.Fail(images.ErrImagePull, "no such image")
	kl.containerRuntime = &startingRuntime{FakeRuntime: testKubelet.fakeRuntime, ended: kubecontainer.PodSyncResult{SyncResults: []*kubecontainer.SyncResult{failed}}}
	pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{
		NodeName: testKubeletHostname, RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "main"}, {Name: "added"}},
	})
	kl.podManager.SetPods([]*v1.Pod{pod})

	_, _, err := kl.SyncPod(tCtx, kubetypes.SyncPodSync, pod, nil, statusOfMain())
	require.NoError(t, err)
	status, _ := kl.statusManager.GetPodStatus(pod.UID)
	added, _ := podutil.GetContainerStatus(status.ContainerStatuses, "added")
	assert.Equal(t, &v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}, added.State.Waiting)
}

func TestSyncThatDidNothingKeepsTheStatus(t *testing.T) {
	started := kubecontainer.PodSyncResult{SyncResults: []*kubecontainer.SyncResult{kubecontainer.NewSyncResult(kubecontainer.StartContainer, "main")}}
	for name, tc := range map[string]struct {
		featureOff bool
		hasStarts  []bool
		result     *kubecontainer.PodSyncResult
		err        error
		removed    bool
		want       bool
	}{
		"nothing was done":                     {want: true},
		"nothing was done, feature off":        {featureOff: true},
		"a container was started":              {result: &started},
		"the sync failed":                      {err: errors.New("no answer")},
		"a start has ended":                    {hasStarts: []bool{true, false}},
		"a start is in flight":                 {hasStarts: []bool{false, true}},
		"a removed container is being stopped": {removed: true},
	} {
		t.Run(name, func(t *testing.T) {
			if !tc.featureOff {
				enableDynamicContainers(t)
			}
			tCtx := ktesting.Init(t)
			testKubelet := newTestKubelet(t, false)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			testKubelet.fakeRuntime.SyncResults, testKubelet.fakeRuntime.Err = tc.result, tc.err
			kl.containerRuntime = &startingRuntime{FakeRuntime: testKubelet.fakeRuntime, hasStarts: tc.hasStarts}
			pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{
				NodeName: testKubeletHostname, RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "main"}},
			})
			kl.podManager.SetPods([]*v1.Pod{pod})
			status := statusOfMain()
			if tc.removed {
				status.ContainerStatuses = append(status.ContainerStatuses, &kubecontainer.Status{Name: "w", State: kubecontainer.ContainerStateRunning})
			}
			var requested []types.UID
			kl.podCache = kubecontainer.NewOnDemandCache(func(podUID types.UID) {
				requested = append(requested, podUID)
				kl.podCache.UpdateTime(time.Now().Add(time.Hour))
			})
			kl.podCache.Set(pod.UID, status, nil, kl.clock.Now().Add(-time.Second))

			_, postSync, err := kl.SyncPod(tCtx, kubetypes.SyncPodSync, pod, nil, status)
			require.ErrorIs(t, err, tc.err)
			ended := kl.clock.Now().Add(-time.Nanosecond)
			if postSync != nil {
				postSync()
			}
			_, err = kl.podCache.GetNewerThan(pod.UID, ended)
			require.NoError(t, err)
			assert.Equal(t, tc.want, len(requested) == 0, "the next sync need not wait")
		})
	}
}

// statusOfMain returns the status of a pod whose container main runs.
func statusOfMain() *kubecontainer.PodStatus {
	statuses := []*kubecontainer.Status{{Name: "main", State: kubecontainer.ContainerStateRunning}}
	return &kubecontainer.PodStatus{ID: "uid", ContainerStatuses: statuses, ActiveContainerStatuses: statuses}
}

// brokenVolumes is a volume manager that mounts all volumes but the one named broken.
type brokenVolumes struct {
	volumemanager.VolumeManager
	waits int
}

func (v *brokenVolumes) WaitForAttachAndMount(_ context.Context, pod *v1.Pod) error {
	v.waits++
	if mounts, _, _ := volumeutil.GetPodVolumeNames(pod, false); mounts.Has("broken") {
		return errors.New("broken is not mounted")
	}
	return nil
}

func (v *brokenVolumes) GetMountedVolumesForPod(volumetypes.UniquePodName) kubecontainer.VolumeMap {
	return kubecontainer.VolumeMap{"data": {}}
}

func TestVolumeThatCannotBeMountedHoldsUpOnlyTheAddedContainer(t *testing.T) {
	enableDynamicContainers(t)
	tCtx := ktesting.Init(t)
	testKubelet := newTestKubelet(t, false)
	defer testKubelet.Cleanup()
	kl := testKubelet.kubelet
	volumes := &brokenVolumes{VolumeManager: kl.volumeManager}
	kl.volumeManager = volumes
	containers := []v1.Container{
		{Name: "main", VolumeMounts: []v1.VolumeMount{{Name: "data"}}},
		{Name: "added", VolumeMounts: []v1.VolumeMount{{Name: "broken"}}},
	}
	pod := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{NodeName: testKubeletHostname, RestartPolicy: v1.RestartPolicyAlways, Containers: containers})
	kl.podManager.SetPods([]*v1.Pod{pod})

	_, _, err := kl.SyncPod(tCtx, kubetypes.SyncPodUpdate, pod, nil, statusOfMain())
	require.NoError(t, err, "sync of a pod that runs without the volume")
	_, _, err = kl.SyncPod(tCtx, kubetypes.SyncPodUpdate, pod, nil, &kubecontainer.PodStatus{ID: "uid"})
	require.ErrorContains(t, err, "broken is not mounted", "sync of a pod that does not run")

	volumes.waits = 0
	assert.ErrorContains(t, kl.waitForAddedContainerVolumes(tCtx, pod, &containers[1]), "broken is not mounted", "start of the added container")
	assert.Equal(t, 1, volumes.waits)
	assert.NoError(t, kl.waitForAddedContainerVolumes(tCtx, pod, &containers[0]), "restart of the container that ran")
	assert.Equal(t, 1, volumes.waits, "volumes that are mounted are not waited for")
}
