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

package allocation

import (
	"context"
	goruntime "runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
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
type refusingHandler struct{ asked int }

func (h *refusingHandler) Admit(context.Context, *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	h.asked++
	return lifecycle.PodAdmitResult{Reason: "NodeUnderPressure", Message: "no"}
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

	for name, tc := range map[string]struct {
		update        []func(*v1.Pod)
		underPressure bool
		swap          kubetypes.SwapBehavior
		// wantPending is the reason of the PodResizePending condition. The pod is allocated without one.
		wantPending    string
		wantInProgress bool
		wantUntouched  bool
	}{
		"added container":                            {update: []func(*v1.Pod){added("")}, wantInProgress: true},
		"added container with resources that fit":    {update: []func(*v1.Pod){added("1")}, wantInProgress: true},
		"added container that does not fit now":      {update: []func(*v1.Pod){added("3500m")}, wantPending: v1.PodReasonDeferred},
		"nothing of an update that does not fit":     {update: []func(*v1.Pod){removed, newImage, added("3500m")}, wantPending: v1.PodReasonDeferred},
		"swap of containers that fits":               {update: []func(*v1.Pod){removed, newImage, added("2")}, wantInProgress: true},
		"removed container":                          {update: []func(*v1.Pod){removed}, wantInProgress: true},
		"removed container, node under pressure":     {update: []func(*v1.Pod){removed}, underPressure: true, wantInProgress: true},
		"changed image":                              {update: []func(*v1.Pod){newImage}},
		"changed image, node under pressure":         {update: []func(*v1.Pod){newImage}, underPressure: true},
		"changed image and removed, under pressure":  {update: []func(*v1.Pod){newImage, removed}, underPressure: true, wantInProgress: true},
		"added container, node under pressure":       {update: []func(*v1.Pod){added("")}, underPressure: true, wantPending: v1.PodReasonDeferred},
		"added container in a pod that may use swap": {update: []func(*v1.Pod){added("")}, swap: kubetypes.LimitedSwap, wantPending: v1.PodReasonInfeasible},
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
			swap := kubetypes.NoSwap
			if tc.swap != "" {
				swap = tc.swap
			}
			runtime := &containertest.FakeRuntime{SwapBehavior: map[string]kubetypes.SwapBehavior{"new": swap}}
			other := runningPod(container("other", "other:1", "500m"))
			other.UID, other.Name = "other", "other"
			m := makeAllocationManager(t, runtime, []*v1.Pod{pod, other}, nil)
			require.NoError(t, m.SetAllocatedResources(logger, initial))
			require.NoError(t, m.SetAllocatedResources(logger, other))
			pressure := &refusingHandler{}
			if tc.underPressure {
				m.AddPodAdmitHandlers(lifecycle.PodAdmitHandlers{pressure})
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
			for _, c := range m.(*manager).statusManager.GetPodResizeConditions(pod.UID) {
				conditions[c.Type] = c.Reason
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
		})
	}
}

func TestRemovalFromGuaranteedPodAsksTheNode(t *testing.T) {
	enableDynamicContainers(t)
	allocatedPod := runningPod(container("main", "main:1", "1"), container("w", "w:1", "1"))
	pod := runningPod(container("main", "main:1", "1"))
	assert.False(t, needsAdmission(allocatedPod, pod), "Burstable pod")
	pod.Status.QOSClass = v1.PodQOSGuaranteed
	assert.True(t, needsAdmission(allocatedPod, pod), "Guaranteed pod")
	assert.True(t, removedGuaranteedRequest(allocatedPod, pod, v1.ResourceCPU), "CPU is given back")
	assert.False(t, removedGuaranteedRequest(allocatedPod, pod, v1.ResourceMemory), "no memory is given back")
}

func TestAllocatedSpecSurvivesRestartAndRollback(t *testing.T) {
	enableDynamicContainers(t)
	logger, _ := ktesting.NewTestContext(t)
	dir := t.TempDir()
	open := func() *manager {
		s, err := state.NewStateCheckpoint(logger, dir, allocatedPodsStateFile)
		require.NoError(t, err)
		return &manager{allocated: s}
	}
	allocated := runningPod(container("main", "main:1", "100m"), container("w", "w:1", "0.1"))
	require.NoError(t, open().SetAllocatedResources(logger, allocated))

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
