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
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
	"k8s.io/kubernetes/pkg/kubelet/status"
)

// asAllocated returns the pod with what is allocated to it, if that is more than resources.
func (kl *Kubelet) asAllocated(pod *v1.Pod) *v1.Pod {
	if allocation.AllocatesPodSpec(pod) {
		pod, _ = kl.allocationManager.UpdatePodFromAllocation(pod)
	}
	return pod
}

// asRunning returns the pods with the containers that hold resources of the node: the allocated
// ones, and of those that were removed from the allocation, the ones that have not stopped. Of the
// latter only the name is set.
func (kl *Kubelet) asRunning(pods []*v1.Pod) []*v1.Pod {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return pods
	}
	running := make([]*v1.Pod, 0, len(pods))
	for _, pod := range pods {
		allocatedPod := kl.asAllocated(pod)
		if stopping := kl.stoppingContainers(allocatedPod); len(stopping) > 0 {
			allocatedPod = allocatedPod.DeepCopy()
			for _, name := range stopping {
				allocatedPod.Spec.Containers = append(allocatedPod.Spec.Containers, v1.Container{Name: name})
			}
		}
		running = append(running, allocatedPod)
	}
	return running
}

// stoppingContainers returns the names of the containers that are not in the allocated pod and have
// not stopped. Before the runtime was asked, those are the ones that the API has as running.
func (kl *Kubelet) stoppingContainers(allocatedPod *v1.Pod) []string {
	var names []string
	podStatus, err := kl.podCache.Get(allocatedPod.UID)
	if err == nil && podStatus != nil && len(podStatus.ContainerStatuses)+len(podStatus.SandboxStatuses) > 0 {
		for _, status := range kubecontainer.SplitRemovedContainers(allocatedPod, podStatus, nil).RemovedContainerStatuses {
			if status.MayRun() && !slices.Contains(names, status.Name) {
				names = append(names, status.Name)
			}
		}
		return names
	}
	for i := range allocatedPod.Status.ContainerStatuses {
		status := &allocatedPod.Status.ContainerStatuses[i]
		if status.State.Running != nil && kubecontainer.GetContainerSpec(allocatedPod, status.Name) == nil {
			names = append(names, status.Name)
		}
	}
	return names
}

// keepsRunning returns true if the pod goes on even if one of its volumes can never be mounted: its
// containers run without that volume, and only those that were added to it need it.
func keepsRunning(pod *v1.Pod, podStatus *kubecontainer.PodStatus) bool {
	return allocation.AllocatesPodSpec(pod) && kubecontainer.HasAnyActiveRegularContainerStarted(&pod.Spec, podStatus)
}

// getRunningPods returns the active pods (see GetActivePods) for those who manage what the
// containers of a pod hold: with the containers that do, see asRunning.
func (kl *Kubelet) getRunningPods() []*v1.Pod {
	return kl.asRunning(kl.GetActivePods())
}

// newPodCache returns the cache that the syncs of pods get the status of the containers from. With the
// feature, none of them waits for the next periodic relist.
func (kl *Kubelet) newPodCache() kubecontainer.Cache {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return kubecontainer.NewCache()
	}
	return kubecontainer.NewOnDemandCache(func(podUID types.UID) { kl.RequestPodRelist(klog.TODO(), podUID) })
}

// syncAllocatedPod syncs a pod to which something was allocated. The sync requests a relist if it has to
// wait for one, see newPodCache. One that it did not need would compete with the start of containers.
func (kl *Kubelet) syncAllocatedPod(ctx context.Context, pod *v1.Pod) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		kl.syncPodNow(ctx, pod)
		return
	}
	kl.HandlePodSyncs(ctx, []*v1.Pod{pod})
}

// addSource takes note of a source of pods that was seen. When it was the last one, what changed while the
// kubelet was down is allocated: the pods were added before that, and nothing else may ask for it for
// half a minute.
func (kl *Kubelet) addSource(ctx context.Context, source string) {
	wereReady := kl.sourcesReady.AllReady()
	kl.sourcesReady.AddSource(source)
	if wereReady || !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) || !kl.sourcesReady.AllReady() {
		return
	}
	kl.allocationManager.RetryPendingResizes(ctx, allocation.TriggerReasonPodsAdded)
}

// getAllocatablePodByUID returns the pod unless it is being terminated, or is terminal, for whatever
// reason: nothing is allocated any more then.
func (kl *Kubelet) getAllocatablePodByUID(uid types.UID) (*v1.Pod, bool) {
	pod, ok := kl.podManager.GetPodByUID(uid)
	if !ok || !allocation.AllocatesPodSpec(pod) {
		return pod, ok
	}
	if pod.DeletionTimestamp != nil || podutil.IsPodTerminal(pod) || kl.podWorkers.IsPodTerminationRequested(uid) {
		return nil, false
	}
	return pod, true
}

// statusPodManager gives the status manager the allocated pods: it judges readiness by the
// containers of the pod, and one that is not allocated does not count.
type statusPodManager struct {
	status.PodManager
	kl *Kubelet
}

func (kl *Kubelet) podManagerForStatus() status.PodManager {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return kl.podManager
	}
	return &statusPodManager{PodManager: kl.podManager, kl: kl}
}

// GetPodByUID implements status.PodManager.
func (m *statusPodManager) GetPodByUID(uid types.UID) (*v1.Pod, bool) {
	pod, ok := m.PodManager.GetPodByUID(uid)
	if !ok {
		return pod, ok
	}
	return m.kl.asAllocated(pod), true
}

// recordPodWorkerError counts an iteration of a pod worker that failed, under the operation type
// that its duration is recorded with.
func recordPodWorkerError(work *podWork) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return
	}
	metrics.PodWorkerErrors.WithLabelValues(work.Options.UpdateType.String()).Inc()
}
