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
	"slices"
	"testing"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics/testutil"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
	"k8s.io/kubernetes/pkg/kubelet/status"
	statustest "k8s.io/kubernetes/pkg/kubelet/status/testing"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/test/utils/ktesting"
	"k8s.io/utils/cpuset"
)

func podOfContainers(names ...string) *v1.Pod {
	pod := podWithUIDNameNs("uid", "p", "ns")
	for _, name := range names {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Image: "i"})
	}
	pod.Status = v1.PodStatus{Phase: v1.PodRunning}
	return pod
}

func containerNames(pod *v1.Pod) []string {
	var names []string
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return names
}

// statusCache has one status, whatever the pod.
type statusCache struct {
	kubecontainer.Cache
	status *kubecontainer.PodStatus
}

func (c *statusCache) Get(types.UID) (*kubecontainer.PodStatus, error) { return c.status, nil }

func TestWhoSeesWhichContainers(t *testing.T) {
	running := func(name string) *kubecontainer.Status {
		return &kubecontainer.Status{Name: name, State: kubecontainer.ContainerStateRunning}
	}
	exited := func(name string) *kubecontainer.Status {
		return &kubecontainer.Status{Name: name, State: kubecontainer.ContainerStateExited}
	}
	for name, tc := range map[string]struct {
		featureOff bool
		inRuntime  []*kubecontainer.Status
		inAPI      []v1.ContainerStatus
		// wantRunning are the containers that hold something of the node.
		wantRunning []string
		// wantStatus are the containers that the readiness of the pod depends on.
		wantStatus []string
	}{
		"containers that are being stopped count for as long as they run": {
			inRuntime:   []*kubecontainer.Status{running("main"), running("stopping"), exited("stopping"), exited("stopped")},
			inAPI:       []v1.ContainerStatus{{Name: "stopped", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}},
			wantRunning: []string{"main", "w", "stopping"},
			wantStatus:  []string{"main", "w"},
		},
		"after a restart, before the runtime was asked": {
			inAPI: []v1.ContainerStatus{
				{Name: "main", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
				{Name: "stopping", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
				{Name: "stopped", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}},
			},
			wantRunning: []string{"main", "w", "stopping"},
			wantStatus:  []string{"main", "w"},
		},
		"feature off": {
			featureOff:  true,
			inRuntime:   []*kubecontainer.Status{running("main"), running("stopping")},
			wantRunning: []string{"main", "new"},
			wantStatus:  []string{"main", "new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !tc.featureOff {
				enableDynamicContainers(t)
			}
			tCtx := ktesting.Init(t)
			testKubelet := newTestKubelet(t, false)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			desired := podOfContainers("main", "new")
			desired.Status.ContainerStatuses = tc.inAPI
			kl.podManager.SetPods([]*v1.Pod{desired})
			require.NoError(t, kl.allocationManager.SetAllocatedResources(tCtx.Logger(), podOfContainers("main", "w")))
			kl.podCache = &statusCache{status: &kubecontainer.PodStatus{ID: desired.UID, ContainerStatuses: tc.inRuntime}}

			pods := kl.getRunningPods()
			require.Len(t, pods, 1)
			assert.Equal(t, tc.wantRunning, containerNames(pods[0]), "managers of CPUs, memory and devices")

			provider := &kubeletPodsProvider{kl: kl}
			assert.Equal(t, tc.wantRunning, containerNames(provider.GetActivePods()[0]), "pod resources API")
			assert.Equal(t, tc.wantRunning, containerNames(provider.GetPods()[0]), "pod resources API")
			pod, ok := provider.GetPodByName("ns", "p")
			require.True(t, ok)
			assert.Equal(t, tc.wantRunning, containerNames(pod), "pod resources API")

			pod, ok = kl.podManagerForStatus().GetPodByUID(desired.UID)
			require.True(t, ok)
			assert.Equal(t, tc.wantStatus, containerNames(pod), "status manager")
			assert.Equal(t, []string{"main", "new"}, containerNames(desired), "the pod of the API is not changed")
		})
	}
}

// See https://github.com/kubernetes/kubernetes/issues/103952 for CPUs that were given away too early.
func TestExclusiveCPUsOfRemovedContainerAreKeptUntilItStops(t *testing.T) {
	enableDynamicContainers(t)
	tCtx := ktesting.Init(t)
	testKubelet := newTestKubelet(t, false)
	defer testKubelet.Cleanup()
	kl := testKubelet.kubelet
	guaranteed := func(name string, cpu string) v1.Container {
		resources := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Mi")}
		return v1.Container{Name: name, Image: "i", Resources: v1.ResourceRequirements{Requests: resources, Limits: resources}}
	}
	pod := podOfContainers()
	pod.Spec.Containers = []v1.Container{guaranteed("main", "1"), guaranteed("w", "2")}
	pod.Status.QOSClass = v1.PodQOSGuaranteed
	withoutW := pod.DeepCopy()
	withoutW.Spec.Containers = withoutW.Spec.Containers[:1]
	other := podWithUIDNameNs("other", "other", "ns")
	other.Spec.Containers = []v1.Container{guaranteed("main", "2")}
	other.Status = v1.PodStatus{Phase: v1.PodRunning, QOSClass: v1.PodQOSGuaranteed}

	// Four cores, one of them reserved for the system.
	machine := &cadvisorapi.MachineInfo{NumCores: 4, Topology: []cadvisorapi.Node{{}}}
	for i := range machine.NumCores {
		machine.Topology[0].Cores = append(machine.Topology[0].Cores, cadvisorapi.Core{Id: i, Threads: []int{i}})
	}
	stateDir := t.TempDir()
	start := func() cpumanager.Manager {
		manager, err := cpumanager.NewManager(tCtx.Logger(), string(cpumanager.PolicyStatic), nil, time.Hour, machine, cpuset.New(),
			v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}, stateDir, topologymanager.NewFakeManager(tCtx.Logger()))
		require.NoError(t, err)
		require.NoError(t, manager.Start(tCtx, kl.getRunningPods, kl.sourcesReady, kl.statusManager, nil, containermap.NewContainerMap()))
		return manager
	}
	allocate := func(manager cpumanager.Manager, pod *v1.Pod) error {
		for i := range pod.Spec.Containers {
			if err := manager.Allocate(tCtx, pod, &pod.Spec.Containers[i], lifecycle.AddOperation); err != nil {
				return err
			}
		}
		return nil
	}
	inRuntime := func(stateOfW kubecontainer.State) {
		kl.podCache = &statusCache{status: &kubecontainer.PodStatus{ID: pod.UID, ContainerStatuses: []*kubecontainer.Status{
			{Name: "main", State: kubecontainer.ContainerStateRunning}, {Name: "w", State: stateOfW},
		}}}
	}

	kl.podManager.SetPods([]*v1.Pod{pod})
	require.NoError(t, kl.allocationManager.SetAllocatedResources(tCtx.Logger(), pod))
	inRuntime(kubecontainer.ContainerStateRunning)
	manager := start()
	require.NoError(t, allocate(manager, pod))
	main, w := manager.GetExclusiveCPUs("uid", "main"), manager.GetExclusiveCPUs("uid", "w")
	require.Equal(t, []int{1, 2}, []int{main.Size(), w.Size()})

	for _, step := range []struct {
		name   string
		change func()
	}{
		{"removed in the API", func() { kl.podManager.SetPods([]*v1.Pod{withoutW, other}) }},
		{"removal allocated", func() {
			require.NoError(t, kl.allocationManager.SetAllocatedResources(tCtx.Logger(), withoutW))
		}},
		{"kubelet restarted", func() { manager = start() }},
	} {
		step.change()
		require.Error(t, allocate(manager, other), "%s: there must be no CPUs for another pod", step.name)
		require.Equal(t, []cpuset.CPUSet{main, w}, []cpuset.CPUSet{manager.GetExclusiveCPUs("uid", "main"), manager.GetExclusiveCPUs("uid", "w")}, step.name)
	}

	inRuntime(kubecontainer.ContainerStateExited)
	require.NoError(t, allocate(manager, other), "CPUs of the container that has stopped")
	require.Equal(t, []cpuset.CPUSet{main, w}, []cpuset.CPUSet{manager.GetExclusiveCPUs("uid", "main"), manager.GetExclusiveCPUs("other", "main")})
}

// A probe result that arrives between an update and the next sync must not make the pod unready.
func TestUnallocatedContainerDoesNotCountWhenProbed(t *testing.T) {
	enableDynamicContainers(t)
	tCtx := ktesting.Init(t)
	testKubelet := newTestKubelet(t, false)
	defer testKubelet.Cleanup()
	kl := testKubelet.kubelet
	kl.statusManager = status.NewManager(&fake.Clientset{}, kl.podManagerForStatus(), &statustest.FakePodDeletionSafetyProvider{}, kl.podStartupLatencyTracker)
	allocated := podOfContainers("main", "other")
	kl.podManager.SetPods([]*v1.Pod{podOfContainers("main", "other", "new")})
	require.NoError(t, kl.allocationManager.SetAllocatedResources(tCtx.Logger(), allocated))
	kl.statusManager.SetPodStatus(tCtx.Logger(), allocated, v1.PodStatus{
		Phase:      v1.PodRunning,
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}, {Type: v1.ContainersReady, Status: v1.ConditionFalse}},
		ContainerStatuses: []v1.ContainerStatus{
			{Name: "main", ContainerID: "test://main", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
			{Name: "other", ContainerID: "test://other", Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
		},
	})

	kl.statusManager.SetContainerReadiness(tCtx.Logger(), allocated.UID, kubecontainer.ContainerID{Type: "test", ID: "main"}, true)

	got, ok := kl.statusManager.GetPodStatus(allocated.UID)
	require.True(t, ok)
	assert.True(t, podutil.IsPodReadyConditionTrue(got), "conditions: %v", got.Conditions)
}

func TestNothingIsAllocatedToTerminatingPods(t *testing.T) {
	for name, tc := range map[string]struct {
		featureOff           bool
		mutate               func(*v1.Pod)
		terminationRequested bool
		want                 bool
	}{
		"running":                    {want: true},
		"deleted":                    {mutate: func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }},
		"succeeded":                  {mutate: func(pod *v1.Pod) { pod.Status.Phase = v1.PodSucceeded }},
		"being evicted":              {terminationRequested: true},
		"being evicted, feature off": {featureOff: true, terminationRequested: true, want: true},
		"being evicted, static manifest": {terminationRequested: true, mutate: func(pod *v1.Pod) {
			pod.Annotations = map[string]string{kubetypes.ConfigSourceAnnotationKey: kubetypes.FileSource}
		}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if !tc.featureOff {
				enableDynamicContainers(t)
			}
			testKubelet := newTestKubelet(t, false)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			pod := podOfContainers("main")
			if tc.mutate != nil {
				tc.mutate(pod)
			}
			kl.podManager.SetPods([]*v1.Pod{pod})
			kl.podWorkers = &fakePodWorkers{terminationRequested: map[types.UID]bool{pod.UID: tc.terminationRequested}}

			_, ok := kl.getAllocatablePodByUID(pod.UID)
			assert.Equal(t, tc.want, ok)
		})
	}
}

func TestHandlePodUpdatesAllocatesEveryChange(t *testing.T) {
	for name, update := range map[string]func(*v1.Pod){
		"added container without resources": func(pod *v1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "new", Image: "i"})
		},
		"removed container":                  func(pod *v1.Pod) { pod.Spec.Containers = pod.Spec.Containers[1:] },
		"changed image":                      func(pod *v1.Pod) { pod.Spec.Containers[0].Image = "j" },
		"changed image of an init container": func(pod *v1.Pod) { pod.Spec.InitContainers[0].Image = "j" },
		"another container of the same name": func(pod *v1.Pod) { pod.Spec.Containers[0].Command = []string{"c"} },
		"reordered containers":               func(pod *v1.Pod) { slices.Reverse(pod.Spec.Containers) },
	} {
		t.Run(name, func(t *testing.T) {
			enableDynamicContainers(t)
			tCtx := ktesting.Init(t)
			testKubelet := newTestKubeletExcludeAdmitHandlers(t, false, true)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			pod := podOfContainers("main", "w")
			pod.Spec.InitContainers = []v1.Container{{Name: "init", Image: "i"}}
			kl.podManager.SetPods([]*v1.Pod{pod})
			require.NoError(t, kl.allocationManager.SetAllocatedResources(tCtx.Logger(), pod))
			updated := pod.DeepCopy()
			update(updated)
			allocated, pending := kl.allocationManager.UpdatePodFromAllocation(updated)
			require.True(t, pending)
			require.Empty(t, cmp.Diff(pod.Spec, allocated.Spec), "nothing changes before it is allocated")

			kl.HandlePodUpdates(tCtx, []*v1.Pod{updated})

			allocated, pending = kl.allocationManager.UpdatePodFromAllocation(updated)
			assert.False(t, pending)
			assert.Empty(t, cmp.Diff(updated.Spec, allocated.Spec))
		})
	}
}

// After a kubelet restart, the pods of a source are added before the source counts as seen.
func TestChangesWhileTheKubeletWasDownAreAllocated(t *testing.T) {
	for name, featureOff := range map[string]bool{"feature on": false, "feature off": true} {
		t.Run(name, func(t *testing.T) {
			if !featureOff {
				enableDynamicContainers(t)
			}
			tCtx := ktesting.Init(t)
			testKubelet := newTestKubeletExcludeAdmitHandlers(t, false, true)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			kl.sourcesReady = config.NewSourcesReady(func(seen sets.Set[string]) bool {
				return seen.HasAll(kubetypes.FileSource, kubetypes.ApiserverSource)
			})
			kl.allocationManager = allocation.NewInMemoryManager(tCtx.Logger(), kl.statusManager, kl.syncAllocatedPod, kl.GetActivePods,
				kl.getAllocatablePodByUID, kl.sourcesReady, kl.recorder)
			pod := podOfContainers("main")
			pod.Spec.Containers[0].Resources = cpuRequest("1")
			require.NoError(t, kl.allocationManager.SetAllocatedResources(tCtx.Logger(), pod))
			updated := pod.DeepCopy()
			updated.Spec.Containers[0].Resources = cpuRequest("2")
			if !featureOff {
				updated.Spec.Containers = append(updated.Spec.Containers, v1.Container{Name: "new", Image: "i"})
			}
			iterate := func(update kubetypes.PodUpdate) {
				updates := make(chan kubetypes.PodUpdate, 1)
				updates <- update
				require.True(t, kl.syncLoopIteration(tCtx, updates, kl, nil, nil, nil))
			}

			iterate(kubetypes.PodUpdate{Op: kubetypes.ADD, Source: kubetypes.ApiserverSource, Pods: []*v1.Pod{updated}})
			assert.True(t, kl.allocationManager.HasPendingResizes(), "the static pods are not known")

			iterate(kubetypes.PodUpdate{Op: kubetypes.ADD, Source: kubetypes.FileSource})
			assert.Equal(t, featureOff, kl.allocationManager.HasPendingResizes())
			allocated, pending := kl.allocationManager.UpdatePodFromAllocation(updated)
			assert.Equal(t, featureOff, pending)
			assert.Equal(t, featureOff, cmp.Diff(updated.Spec, allocated.Spec) != "")
		})
	}
}

// What a container held is free when it has stopped, and not when it is removed.
func TestStoppedContainerRetriesWhatWasDeferred(t *testing.T) {
	enableDynamicContainers(t)
	tCtx := ktesting.Init(t)
	testKubelet := newTestKubeletExcludeAdmitHandlers(t, false, true)
	defer testKubelet.Cleanup()
	kl := testKubelet.kubelet

	other := podOfContainers("main")
	other.UID, other.Name = "other", "other"
	require.NoError(t, kl.allocationManager.SetAllocatedResources(tCtx.Logger(), other))
	other = other.DeepCopy()
	other.Spec.Containers[0].Image = "j"
	pod := podOfContainers("main")
	require.NoError(t, kl.allocationManager.SetAllocatedResources(tCtx.Logger(), pod))
	removed := v1.ContainerStatus{Name: "w", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}, AllocatedResources: cpuRequest("1").Requests}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{removed}
	kl.podManager.SetPods([]*v1.Pod{pod, other})
	kl.allocationManager.PushPendingResize(tCtx.Logger(), other.UID)

	running := pod.DeepCopy()
	kl.HandlePodReconcile(tCtx, []*v1.Pod{running})
	assert.True(t, kl.allocationManager.HasPendingResizes(), "the container still runs")

	stopped := pod.DeepCopy()
	stopped.Status.ContainerStatuses[0].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
	kl.HandlePodReconcile(tCtx, []*v1.Pod{stopped})
	assert.False(t, kl.allocationManager.HasPendingResizes(), "the container has stopped")
}

// A volume that only an added container mounts, and that the node cannot attach, must not end the
// containers that run.
func TestVolumeOverTheAttachLimitDoesNotFailARunningPod(t *testing.T) {
	main := &kubecontainer.Status{Name: "main", State: kubecontainer.ContainerStateRunning}
	for name, tc := range map[string]struct {
		featureOff   bool
		inRuntime    []*kubecontainer.Status
		wantRejected bool
	}{
		"running pod":              {inRuntime: []*kubecontainer.Status{main}},
		"new pod":                  {wantRejected: true},
		"running pod, feature off": {featureOff: true, inRuntime: []*kubecontainer.Status{main}, wantRejected: true},
	} {
		t.Run(name, func(t *testing.T) {
			if !tc.featureOff {
				enableDynamicContainers(t)
			}
			tCtx := ktesting.Init(t)
			testKubelet := newTestKubelet(t, false)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			kl.volumeManager = volumemanager.NewFakeVolumeManager(nil, 0, nil, true)
			pod := podOfContainers("main")
			kl.podManager.SetPods([]*v1.Pod{pod})

			isTerminal, _, err := kl.SyncPod(tCtx, kubetypes.SyncPodUpdate, pod, nil, &kubecontainer.PodStatus{
				ID: pod.UID, ContainerStatuses: tc.inRuntime, ActiveContainerStatuses: tc.inRuntime,
			})

			assert.Equal(t, tc.wantRejected, isTerminal)
			assert.Equal(t, tc.wantRejected, err == nil, "a pod that is not rejected is tried again: %v", err)
			status, _ := kl.statusManager.GetPodStatus(pod.UID)
			assert.Equal(t, tc.wantRejected, status.Phase == v1.PodFailed, "phase %s", status.Phase)
		})
	}
}

func TestPodWorkerErrorsAreCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want float64
	}{
		"no error": {},
		"error":    {err: errors.New("failed"), want: 1},
		"canceled": {err: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			enableDynamicContainers(t)
			metrics.PodWorkerErrors.Reset()
			metrics.PodWorkerErrors.Create(nil)
			tCtx := ktesting.Init(t)
			podWorkers, _, _ := createPodWorkers(tCtx.Logger())
			podWorkers.podSyncer.(*podSyncerFuncs).syncPod = func(context.Context, kubetypes.SyncPodType, *v1.Pod, *v1.Pod, *kubecontainer.PodStatus) (bool, func(), error) {
				return false, nil, tc.err
			}
			podWorkers.UpdatePod(tCtx, UpdatePodOptions{Pod: podOfContainers("main"), UpdateType: kubetypes.SyncPodUpdate, StartTime: time.Now()})
			drainAllWorkers(podWorkers)

			got, err := testutil.GetCounterMetricValue(metrics.PodWorkerErrors.WithLabelValues("update"))
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}
