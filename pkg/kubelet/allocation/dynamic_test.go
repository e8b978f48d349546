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

package allocation

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	klogtesting "k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/config"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/test/utils/ktesting"
	"k8s.io/utils/ptr"
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

func container(name, image, cpu string) v1.Container {
	c := v1.Container{Name: name, Image: image}
	if cpu != "" {
		c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	}
	return c
}

func runningPod(containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "uid", Name: "p", Namespace: "ns", Generation: 1},
		Spec: v1.PodSpec{
			InitContainers: []v1.Container{container("init", "init:1", "")},
			Containers:     containers,
		},
		Status: v1.PodStatus{Phase: v1.PodRunning, QOSClass: v1.PodQOSBurstable},
	}
}

func TestUpdatePodFromAllocationWithDynamicContainers(t *testing.T) {
	allocated := runningPod(container("main", "main:1", "1"), container("w", "w:1", ""))

	for name, tc := range map[string]struct {
		featureOff bool
		// mutateRecord changes the record of the allocated pod.
		mutateRecord func(*state.PodResourceInfo)
		// mutateDesired changes the pod in the API, which starts as the allocated one.
		mutateDesired func(*v1.Pod)
		want          []v1.Container
		wantInit      string
		wantUpdated   bool
	}{
		"nothing changed": {
			mutateDesired: func(pod *v1.Pod) {},
			want:          allocated.Spec.Containers,
		},
		"an added container is not allocated": {
			mutateDesired: func(pod *v1.Pod) {
				pod.Spec.Containers = append(pod.Spec.Containers, container("new", "new:1", ""))
			},
			want:        allocated.Spec.Containers,
			wantUpdated: true,
		},
		"a removed container stays allocated": {
			mutateDesired: func(pod *v1.Pod) { pod.Spec.Containers = pod.Spec.Containers[1:] },
			want:          allocated.Spec.Containers,
			wantUpdated:   true,
		},
		"all containers swapped": {
			mutateDesired: func(pod *v1.Pod) { pod.Spec.Containers = []v1.Container{container("new", "new:1", "")} },
			want:          allocated.Spec.Containers,
			wantUpdated:   true,
		},
		"images are allocated": {
			mutateDesired: func(pod *v1.Pod) {
				pod.Spec.Containers[0].Image = "main:2"
				pod.Spec.InitContainers[0].Image = "init:2"
			},
			want:        allocated.Spec.Containers,
			wantUpdated: true,
		},
		"other fields take effect at once": {
			mutateDesired: func(pod *v1.Pod) {
				pod.Labels = map[string]string{"a": "b"}
				pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
				pod.Spec.Tolerations = []v1.Toleration{{Key: "k"}}
			},
			want: allocated.Spec.Containers,
		},
		"feature off: containers and images of the API": {
			featureOff: true,
			mutateDesired: func(pod *v1.Pod) {
				pod.Spec.Containers = []v1.Container{container("main", "main:2", "1")}
				pod.Spec.InitContainers[0].Image = "init:2"
			},
			want:     []v1.Container{container("main", "main:2", "1")},
			wantInit: "init:2",
		},
		"static pod: containers and images of the manifest": {
			mutateDesired: func(pod *v1.Pod) {
				pod.Annotations = map[string]string{kubetypes.ConfigSourceAnnotationKey: kubetypes.FileSource}
				pod.Spec.Containers = []v1.Container{container("main", "main:2", "1")}
				pod.Spec.InitContainers[0].Image = "init:2"
			},
			want:     []v1.Container{container("main", "main:2", "1")},
			wantInit: "init:2",
		},
		"record of a kubelet without the feature: what it names is allocated with the spec of the API": {
			mutateRecord: func(info *state.PodResourceInfo) { info.AllocatedSpec = nil },
			mutateDesired: func(pod *v1.Pod) {
				pod.Spec.Containers = []v1.Container{container("main", "main:2", "1"), container("new", "new:1", "")}
				pod.Spec.InitContainers[0].Image = "init:2"
			},
			want:        []v1.Container{container("main", "main:2", "1")},
			wantInit:    "init:2",
			wantUpdated: true,
		},
		"record of a kubelet without the feature: what it does not name but runs": {
			mutateRecord: func(info *state.PodResourceInfo) { info.AllocatedSpec = nil },
			mutateDesired: func(pod *v1.Pod) {
				pod.Spec.Containers = append(pod.Spec.Containers, container("runs", "r:1", ""), container("new", "n:1", ""))
				pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "runs", ContainerID: "containerd://1"}, {Name: "new"}}
			},
			want:        append(slices.Clone(allocated.Spec.Containers), container("runs", "r:1", "")),
			wantUpdated: true,
		},
		"record of a kubelet without the feature: nothing it names is left": {
			mutateRecord: func(info *state.PodResourceInfo) { info.AllocatedSpec = nil },
			mutateDesired: func(pod *v1.Pod) {
				pod.Spec.Containers = []v1.Container{container("new", "new:1", "")}
			},
			want: []v1.Container{container("new", "new:1", "")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			enableDynamicContainers(t)
			info := ResourceInfoForPod(allocated)
			info.AllocatedSpec = allocatedSpec(allocated)
			if tc.mutateRecord != nil {
				tc.mutateRecord(&info)
			}
			if tc.featureOff {
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DynamicContainers, false)
			}
			desired := allocated.DeepCopy()
			tc.mutateDesired(desired)
			before := desired.DeepCopy()

			got, updated := updatePodFromAllocation(desired, info)

			assert.Equal(t, tc.wantUpdated, updated, "updated")
			if diff := cmp.Diff(tc.want, got.Spec.Containers); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
			wantInit := tc.wantInit
			if wantInit == "" {
				wantInit = "init:1"
			}
			assert.Equal(t, wantInit, got.Spec.InitContainers[0].Image, "image of the init container")
			assert.Equal(t, desired.Labels, got.Labels, "labels")
			assert.Equal(t, desired.Spec.ActiveDeadlineSeconds, got.Spec.ActiveDeadlineSeconds, "activeDeadlineSeconds")
			assert.Equal(t, desired.Spec.Tolerations, got.Spec.Tolerations, "tolerations")
			if diff := cmp.Diff(before, desired); diff != "" {
				t.Errorf("the pod of the API was changed (-before +after):\n%s", diff)
			}

			// What is handed out is not the record itself.
			if updated && info.AllocatedSpec != nil {
				got.Spec.Containers[0].Image = "changed"
				assert.Equal(t, "main:1", info.AllocatedSpec.Containers[0].Image, "image in the record")
			}
		})
	}
}

// refusingHandler refuses every pod, as under pressure on the node.
type refusingHandler struct{ reason string }

func (h *refusingHandler) Admit(context.Context, *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return lifecycle.PodAdmitResult{Reason: h.reason, Message: "no"}
}

func TestAllocateDynamicContainers(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("resize is not supported on Windows")
	}
	initial := runningPod(container("main", "main:1", "1"), container("w", "w:1", "1"))
	added := func(cpu string) func(*v1.Pod) {
		return func(pod *v1.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, container("new", "new:1", cpu)) }
	}
	removed := func(pod *v1.Pod) { pod.Spec.Containers = pod.Spec.Containers[:1] }
	newImage := func(pod *v1.Pod) { pod.Spec.Containers[0].Image = "main:2" }

	resized := func(cpu string) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
		}
	}
	// replaced has the name of a container of the pod, and is another one.
	replaced := func(pod *v1.Pod) { pod.Spec.Containers[1].Command = []string{"other"} }
	stillRuns := func(name, cpu string) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{
				Name: name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
				AllocatedResources: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
			})
		}
	}
	static := &cm.NodeConfig{CPUManagerPolicy: "static"}
	guaranteed := func(pod *v1.Pod) { pod.Status.QOSClass = v1.PodQOSGuaranteed }

	for name, tc := range map[string]struct {
		update        []func(*v1.Pod)
		underPressure bool
		refuse        string
		swap          map[string]kubetypes.SwapBehavior
		nodeConfig    *cm.NodeConfig
		// wantPending is the reason of the PodResizePending condition. The pod is allocated without one.
		wantPending string
		// wantMessage is what the message of that condition contains.
		wantMessage    []string
		wantInProgress bool
		wantUntouched  bool
	}{
		"added container":                         {update: []func(*v1.Pod){added("")}, wantInProgress: true},
		"added container with resources that fit": {update: []func(*v1.Pod){added("1")}, wantInProgress: true},
		"added container that does not fit now": {
			update: []func(*v1.Pod){added("1800m")}, wantPending: v1.PodReasonDeferred,
			wantMessage: []string{"resource: cpu, requested: 3800, used: 500, capacity: 4000", `added container "new": cpu 1800m`},
		},
		"added container that never fits": {
			update: []func(*v1.Pod){added("2500m")}, wantPending: v1.PodReasonInfeasible,
			wantMessage: []string{"resource: cpu, requested: 4500", "capacity: 4000", `added container "new": cpu 2500m`},
		},
		"nothing of an update that does not fit": {
			update: []func(*v1.Pod){removed, newImage, added("1800m")}, wantPending: v1.PodReasonDeferred,
			wantMessage: []string{`added container "new": cpu 1800m`, `removed container "w": cpu 1 until it has stopped`},
		},
		"swap of containers that fits": {update: []func(*v1.Pod){removed, newImage, added("1")}, wantInProgress: true},
		"swap of containers that fits only once the removed one has stopped": {
			update: []func(*v1.Pod){removed, added("1700m")}, wantPending: v1.PodReasonDeferred,
			wantMessage: []string{"requested: 3700"},
		},
		"added container that fits only once one removed before has stopped": {
			update: []func(*v1.Pod){added("1"), stillRuns("gone", "1")}, wantPending: v1.PodReasonDeferred,
			wantMessage: []string{"requested: 4000", `container "gone" that is being stopped: cpu 1`},
		},
		"removed container":                         {update: []func(*v1.Pod){removed}, wantInProgress: true},
		"removed container, node under pressure":    {update: []func(*v1.Pod){removed}, underPressure: true, wantInProgress: true},
		"changed image":                             {update: []func(*v1.Pod){newImage}},
		"changed image, node under pressure":        {update: []func(*v1.Pod){newImage}, underPressure: true},
		"changed image and removed, under pressure": {update: []func(*v1.Pod){newImage, removed}, underPressure: true, wantInProgress: true},
		"smaller, node under pressure":              {update: []func(*v1.Pod){resized("500m")}, underPressure: true, wantInProgress: true},
		"larger, node under pressure": {
			update: []func(*v1.Pod){resized("1100m")}, underPressure: true, wantPending: v1.PodReasonDeferred,
			wantMessage: []string{`container "main": cpu 1100m, allocated cpu 1`},
		},
		"removed and larger in its place, node under pressure": {
			update: []func(*v1.Pod){resized("2"), removed}, underPressure: true, wantPending: v1.PodReasonDeferred,
		},
		"smaller, with an image that waits for nothing else": {update: []func(*v1.Pod){resized("500m"), newImage}, wantInProgress: true},
		"image of a container that cannot grow":              {update: []func(*v1.Pod){resized("2800m"), newImage}, wantPending: v1.PodReasonDeferred},
		"added container, node under pressure": {
			update: []func(*v1.Pod){added("")}, underPressure: true, wantPending: v1.PodReasonDeferred,
			wantMessage: []string{`added container "new": no requests`},
		},
		"replaced container":                       {update: []func(*v1.Pod){replaced}, wantInProgress: true},
		"replaced container, node under pressure":  {update: []func(*v1.Pod){replaced}, underPressure: true, wantPending: v1.PodReasonDeferred},
		"feature that the node does not have":      {update: []func(*v1.Pod){added("")}, refuse: lifecycle.PodFeatureUnsupported, wantPending: v1.PodReasonInfeasible},
		"AppArmor profile that the node lacks":     {update: []func(*v1.Pod){added("")}, refuse: lifecycle.AppArmorNotAdmittedReason, wantPending: v1.PodReasonInfeasible},
		"removed container, whatever the node has": {update: []func(*v1.Pod){removed}, refuse: lifecycle.PodFeatureUnsupported, wantInProgress: true},
		"added container in a pod that may use swap": {
			update: []func(*v1.Pod){added("")}, swap: map[string]kubetypes.SwapBehavior{"new": kubetypes.LimitedSwap}, wantPending: v1.PodReasonInfeasible,
			wantMessage: []string{`Container "new" cannot be added`},
		},
		"removed container that may use swap": {
			update: []func(*v1.Pod){removed}, swap: map[string]kubetypes.SwapBehavior{"w": kubetypes.LimitedSwap}, wantPending: v1.PodReasonInfeasible,
			wantMessage: []string{`Container "w" cannot be removed`},
		},
		"image of a container that may use swap": {update: []func(*v1.Pod){newImage}, swap: map[string]kubetypes.SwapBehavior{"main": kubetypes.LimitedSwap}},
		"added container with CPUs, static policy, Guaranteed pod": {
			update: []func(*v1.Pod){added("1"), guaranteed}, nodeConfig: static, wantPending: v1.PodReasonInfeasible,
			wantMessage: []string{`Container "new" cannot be added`, "cpu"},
		},
		"removed container with CPUs, static policy, Guaranteed pod": {
			update: []func(*v1.Pod){removed, guaranteed}, nodeConfig: static, wantPending: v1.PodReasonInfeasible,
			wantMessage: []string{`Container "w" cannot be added to or removed`},
		},
		"added container with CPUs, static policy, Burstable pod": {update: []func(*v1.Pod){added("1")}, nodeConfig: static, wantInProgress: true},
		"changed image, static policy, Guaranteed pod":            {update: []func(*v1.Pod){newImage, guaranteed}, nodeConfig: static},
		"reordered containers restart and wait for nothing": {
			update: []func(*v1.Pod){func(pod *v1.Pod) {
				pod.Spec.Containers[0], pod.Spec.Containers[1] = pod.Spec.Containers[1], pod.Spec.Containers[0]
			}},
			underPressure: true,
		},
		"nothing once the pod is being deleted": {
			update:        []func(*v1.Pod){added(""), func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }},
			wantUntouched: true,
		},
		"nothing once the pod has failed": {
			update:        []func(*v1.Pod){removed, func(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed }},
			wantUntouched: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			enableDynamicContainers(t)
			logger, tCtx := ktesting.NewTestContext(t)
			pod := initial.DeepCopy()
			for _, update := range tc.update {
				update(pod)
			}
			pod.Generation = 2
			swap := map[string]kubetypes.SwapBehavior{"main": kubetypes.NoSwap, "w": kubetypes.NoSwap, "new": kubetypes.NoSwap}
			maps.Copy(swap, tc.swap)
			runtime := &containertest.FakeRuntime{SwapBehavior: swap}
			other := runningPod(container("other", "other:1", "500m"))
			other.UID, other.Name = "other", "other"
			m := makeAllocationManager(t, runtime, []*v1.Pod{pod, other}, tc.nodeConfig)
			require.NoError(t, m.SetAllocatedResources(logger, initial))
			require.NoError(t, m.SetAllocatedResources(logger, other))
			if tc.underPressure {
				tc.refuse = "NodeUnderPressure"
			}
			if tc.refuse != "" {
				m.AddPodAdmitHandlers(lifecycle.PodAdmitHandlers{&refusingHandler{reason: tc.refuse}})
			}

			m.PushPendingResize(logger, pod.UID)
			m.RetryPendingResizes(tCtx, TriggerReasonPodUpdated)

			allocatedPod, pending := m.UpdatePodFromAllocation(pod)
			want := pod.Spec.Containers
			if tc.wantPending != "" || tc.wantUntouched {
				want = initial.Spec.Containers
			}
			if diff := cmp.Diff(want, allocatedPod.Spec.Containers); diff != "" {
				t.Errorf("allocated containers (-want +got):\n%s", diff)
			}
			assert.Equal(t, tc.wantPending != "" || tc.wantUntouched, pending, "the API wants what is not allocated")

			conditions := map[v1.PodConditionType]string{}
			message := ""
			for _, c := range m.(*manager).statusManager.GetPodResizeConditions(pod.UID) {
				conditions[c.Type] = c.Reason
				message += c.Message
			}
			wantConditions := map[v1.PodConditionType]string{}
			if tc.wantPending != "" {
				wantConditions[v1.PodResizePending] = tc.wantPending
			}
			if tc.wantInProgress {
				wantConditions[v1.PodResizeInProgress] = ""
			}
			if diff := cmp.Diff(wantConditions, conditions); diff != "" {
				t.Errorf("resize conditions (-want +got):\n%s", diff)
			}
			for _, want := range tc.wantMessage {
				assert.Contains(t, message, want)
			}
			events := m.(*manager).recorder.(*record.FakeRecorder).Events
			assert.Equal(t, len(wantConditions), len(events), "events")
			assert.Equal(t, tc.wantPending == v1.PodReasonDeferred, m.HasPendingResizes(), "tried again")

			if tc.wantPending != "" {
				// Reverted, nothing is left of it.
				*pod = *initial
				m.RetryPendingResizes(tCtx, TriggerReasonPodUpdated)
				if tc.wantPending == v1.PodReasonInfeasible {
					m.PushPendingResize(logger, pod.UID)
					m.RetryPendingResizes(tCtx, TriggerReasonPodUpdated)
				}
				assert.Empty(t, m.(*manager).statusManager.GetPodResizeConditions(pod.UID), "conditions of the reverted change")
				assert.False(t, m.HasPendingResizes(), "the reverted change is pending")
			}
		})
	}
}

// failingState fails to save anything as long as err is set.
type failingState struct {
	state.State
	err error
}

func (s *failingState) SetPodResourceInfo(logger klog.Logger, podUID types.UID, info state.PodResourceInfo) error {
	if s.err != nil {
		return s.err
	}
	return s.State.SetPodResourceInfo(logger, podUID, info)
}

func TestChangeThatCannotBeSavedStaysPending(t *testing.T) {
	initial := runningPod(container("main", "main:1", "1"))
	for name, tc := range map[string]struct {
		update        func(*v1.Pod)
		wantCondition bool
	}{
		"added container": {
			update:        func(pod *v1.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, container("new", "new:1", "")) },
			wantCondition: true,
		},
		"changed image": {update: func(pod *v1.Pod) { pod.Spec.Containers[0].Image = "main:2" }},
	} {
		t.Run(name, func(t *testing.T) {
			enableDynamicContainers(t)
			tCtx := klog.NewContext(context.Background(), klog.New(nil))
			logger := klog.FromContext(tCtx)
			pod := initial.DeepCopy()
			m := makeAllocationManager(t, &containertest.FakeRuntime{SwapBehavior: map[string]kubetypes.SwapBehavior{"new": kubetypes.NoSwap}}, []*v1.Pod{pod}, nil).(*manager)
			disk := &failingState{State: m.allocated}
			m.allocated = disk
			require.NoError(t, m.SetAllocatedResources(logger, initial))
			tc.update(pod)

			disk.err = syscall.ENOSPC
			m.PushPendingResize(logger, pod.UID)
			m.RetryPendingResizes(tCtx, TriggerReasonPodUpdated)
			allocatedPod, _ := m.UpdatePodFromAllocation(pod)
			assert.Equal(t, initial.Spec.Containers, allocatedPod.Spec.Containers, "allocated containers")
			assert.Equal(t, tc.wantCondition, m.statusManager.IsPodResizeDeferred(pod.UID))
			for _, c := range m.statusManager.GetPodResizeConditions(pod.UID) {
				assert.Contains(t, c.Message, "no space left on device")
			}
			assert.True(t, m.HasPendingResizes(), "the change is tried again")

			disk.err = nil
			m.RetryPendingResizes(tCtx, triggerReasonPeriodic)
			_, pending := m.UpdatePodFromAllocation(pod)
			assert.False(t, pending, "a change is pending")
			assert.False(t, m.statusManager.IsPodResizeDeferred(pod.UID))
			assert.False(t, m.HasPendingResizes())
		})
	}
}

func TestBlockedImageUpdatesAreLogged(t *testing.T) {
	enableDynamicContainers(t)
	logger := klogtesting.NewLogger(t, klogtesting.NewConfig(klogtesting.BufferLogs(true)))
	ctx := klog.NewContext(context.Background(), logger)
	initial := runningPod(container("main", "main:1", "1"), container("w", "w:1", "1"))
	pod := initial.DeepCopy()
	pod.Spec.InitContainers[0].Image = "init:2"
	pod.Spec.Containers[0].Image = "main:2"
	pod.Spec.Containers[1].Resources.Requests[v1.ResourceCPU] = resource.MustParse("30")
	m := makeAllocationManager(t, &containertest.FakeRuntime{}, []*v1.Pod{pod}, nil)
	require.NoError(t, m.SetAllocatedResources(logger, initial))

	m.PushPendingResize(logger, pod.UID)
	m.RetryPendingResizes(ctx, TriggerReasonPodUpdated)

	var blocked []string
	for _, entry := range logger.GetSink().(klogtesting.Underlier).GetBuffer().Data() {
		if entry.Message != "Image update is blocked until the pod can be allocated" {
			continue
		}
		for i, key := range entry.ParameterKVList {
			if key == "image" {
				blocked = append(blocked, entry.ParameterKVList[i+1].(string))
			}
		}
	}
	assert.Equal(t, []string{"init:2", "main:2"}, blocked)
}

func TestRunCompletesWhatIsOnDisk(t *testing.T) {
	enableDynamicContainers(t)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.New(nil)))
		logger := klog.FromContext(ctx)
		m := NewManager(dir, nil, nil, nil, func(types.UID) (*v1.Pod, bool) { return nil, false },
			config.NewSourcesReady(func(sets.Set[string]) bool { return false }), nil, logger)
		m.Run(ctx)
		synctest.Wait()
		require.NoError(t, m.SetAllocatedResources(logger, runningPod(container("main", "main:1", "1"))))
		time.Sleep(flushInterval)
		synctest.Wait()
		cancel()
		synctest.Wait()
	})

	old, err := state.NewStateCheckpoint(klog.New(nil), dir, allocatedPodsStateFile)
	require.NoError(t, err)
	_, ok := old.GetContainerResources("uid", "main")
	assert.True(t, ok, "a kubelet without the feature knows what is allocated to the pod")
}

func TestAllocationIsRecoveredFromTheStatus(t *testing.T) {
	enableDynamicContainers(t)
	_, tCtx := ktesting.NewTestContext(t)
	pod := runningPod(container("main", "main:1", "30"), container("new", "new:1", "30"))
	pod.Status.ContainerStatuses = []v1.ContainerStatus{
		{
			Name: "main", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
			AllocatedResources: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")},
			Resources:          &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}},
		},
		{Name: "new", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: v1.ContainerReasonUnallocated}}},
	}
	m := makeAllocationManager(t, &containertest.FakeRuntime{}, []*v1.Pod{pod}, nil)

	ok, reason, message := m.AddPod(tCtx, []*v1.Pod{pod}, pod)
	require.True(t, ok, "%s: %s", reason, message)
	allocatedPod, pending := m.UpdatePodFromAllocation(pod)
	assert.True(t, pending, "the change is pending as before")
	if diff := cmp.Diff([]v1.Container{container("main", "main:1", "1")}, allocatedPod.Spec.Containers); diff != "" {
		t.Errorf("allocated containers (-want +got):\n%s", diff)
	}
}

// A pod that runs is admitted again with what is allocated to it, and goes on, whatever it is to
// become and whatever happened to the record of that.
func TestRestartWithPendingChange(t *testing.T) {
	initial := runningPod(container("main", "main:1", "1"), container("w", "w:1", "1"))
	desired := runningPod(container("main", "main:2", "30"), container("new", "new:1", "30"))
	desired.Generation = 2
	for name, tc := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   []v1.Container
	}{
		"record intact": {want: initial.Spec.Containers},
		// The image, and the container that is removed, are known from nowhere else.
		"record of the pod damaged": {
			damage: func(t *testing.T, dir string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, allocatedPodsStateFile+"_by_pod", "uid"), []byte("{"), 0o600))
			},
			want: []v1.Container{container("main", "main:2", "1")},
		},
		"record of all pods damaged": {
			damage: func(t *testing.T, dir string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, allocatedPodsStateFile), nil, 0o600))
			},
			want: initial.Spec.Containers,
		},
	} {
		t.Run(name, func(t *testing.T) {
			enableDynamicContainers(t)
			tCtx := klog.NewContext(context.Background(), klog.New(nil))
			logger := klog.FromContext(tCtx)
			dir := t.TempDir()
			restart := func() *manager {
				pod := desired.DeepCopy()
				m := makeAllocationManager(t, &containertest.FakeRuntime{SwapBehavior: map[string]kubetypes.SwapBehavior{"new": kubetypes.NoSwap, "w": kubetypes.NoSwap}}, []*v1.Pod{pod}, nil).(*manager)
				m.allocated = newStateImpl(logger, dir, allocatedPodsStateFile)
				return m
			}
			before := restart()
			require.NoError(t, before.SetAllocatedResources(logger, initial))
			require.NoError(t, before.allocated.(*state.PodCheckpointState).Flush())
			if tc.damage != nil {
				tc.damage(t, dir)
			}

			for _, when := range []string{"after a restart", "after another one"} {
				m := restart()
				ok, reason, message := m.AddPod(tCtx, nil, desired)
				require.True(t, ok, "%s: %s: %s", when, reason, message)
				m.PushPendingResize(logger, desired.UID)
				m.RetryPendingResizes(tCtx, TriggerReasonPodsAdded)

				allocatedPod, pending := m.UpdatePodFromAllocation(desired)
				assert.True(t, pending, "the change is pending "+when)
				if diff := cmp.Diff(tc.want, allocatedPod.Spec.Containers); diff != "" {
					t.Errorf("allocated containers %s (-want +got):\n%s", when, diff)
				}
				assert.True(t, m.statusManager.IsPodResizeInfeasible(desired.UID), "a node of 4 CPUs has no 60")
			}
		})
	}
}

func TestAllocatedSpecSurvivesRestartAndRollback(t *testing.T) {
	enableDynamicContainers(t)
	logger, _ := ktesting.NewTestContext(t)
	dir := t.TempDir()
	open := func() *manager {
		return &manager{allocated: newStateImpl(logger, dir, allocatedPodsStateFile)}
	}
	allocated := runningPod(container("main", "main:1", "100m"), container("w", "w:1", "0.1"))
	m := open()
	require.NoError(t, m.SetAllocatedResources(logger, allocated))
	require.NoError(t, m.allocated.(*state.PodCheckpointState).Flush())

	desired := runningPod(container("main", "main:2", "100m"), container("new", "new:1", ""))
	got, pending := open().UpdatePodFromAllocation(desired)
	assert.True(t, pending, "a change is pending after a restart")
	if diff := cmp.Diff(allocated.Spec.Containers, got.Spec.Containers); diff != "" {
		t.Errorf("allocated containers after a restart (-want +got):\n%s", diff)
	}

	// A kubelet with the feature off still knows the allocated resources.
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DynamicContainers, false)
	resized := allocated.DeepCopy()
	resized.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("2")
	got, pending = open().UpdatePodFromAllocation(resized)
	assert.True(t, pending, "a resize is pending after a rollback")
	if diff := cmp.Diff(allocated.Spec.Containers, got.Spec.Containers); diff != "" {
		t.Errorf("allocated containers after a rollback (-want +got):\n%s", diff)
	}
	_, ok := open().allocated.GetPodResourceInfo(types.UID("unknown"))
	assert.False(t, ok, "a pod that was never allocated")
}
