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
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/status"
	statustest "k8s.io/kubernetes/pkg/kubelet/status/testing"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
)

// BenchmarkAllocateAddedContainer measures what comes between an update that adds a container and
// the sync that starts it, with that many pods of ten containers on the node.
func BenchmarkAllocateAddedContainer(b *testing.B) {
	for _, count := range []int{1, 100, 500} {
		b.Run(fmt.Sprintf("pods=%d", count), func(b *testing.B) {
			featuregatetesting.SetFeatureGatesDuringTest(b, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				features.KubeletAllocatedPodsEndpoint: true,
				features.DynamicContainers:            true,
			})
			logger := klog.New(nil)
			ctx := klog.NewContext(context.Background(), logger)
			pods := map[types.UID]*v1.Pod{}
			var active []*v1.Pod
			for i := range count {
				pod := runningPod()
				for j := range 10 {
					pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprintf("c%d", j), "i", "1m"))
				}
				pod.ResourceVersion = "1"
				pod.UID = types.UID(fmt.Sprintf("pod-%d", i))
				pods[pod.UID] = pod
				active = append(active, pod)
			}
			m := NewManager(b.TempDir(),
				status.NewManager(&fake.Clientset{}, kubepod.NewBasicPodManager(), &statustest.FakePodDeletionSafetyProvider{}, kubeletutil.NewPodStartupLatencyTracker()),
				func(context.Context, *v1.Pod) {},
				func() []*v1.Pod { return active },
				func(uid types.UID) (*v1.Pod, bool) { pod, ok := pods[uid]; return pod, ok },
				config.NewSourcesReady(func(sets.Set[string]) bool { return true }),
				&record.FakeRecorder{}, logger)
			for _, pod := range active {
				if err := m.SetAllocatedResources(logger, pod); err != nil {
					b.Fatal(err)
				}
			}
			for i := 0; b.Loop(); i++ {
				pod := pods["pod-0"].DeepCopy()
				pod.Generation++
				pod.Spec.Containers = append(pod.Spec.Containers[:9], container(fmt.Sprintf("new%d", i), "i", "1m"))
				pods[pod.UID] = pod
				m.PushPendingResize(logger, pod.UID)
				m.RetryPendingResizes(ctx, TriggerReasonPodUpdated)
				if _, pending := m.UpdatePodFromAllocation(pod); pending {
					b.Fatal("not allocated")
				}
			}
		})
	}
}
