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
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
)

// RequestPodSync implements kubecontainer.RuntimeHelper.
func (kl *Kubelet) RequestPodSync(ctx context.Context, podUID types.UID) {
	if pod, ok := kl.podManager.GetPodByUID(podUID); ok {
		kl.syncPodNow(ctx, pod)
	}
}

// recordEndedStarts takes note of why containers did not start in the background, so that the status
// that the sync reports first says so.
func (kl *Kubelet) recordEndedStarts(podUID types.UID) {
	if runtime, ok := kl.containerRuntime.(kubecontainer.BackgroundStartRuntime); ok {
		kl.reasonCache.Update(podUID, runtime.EndedStarts(podUID))
	}
}

// isIdle returns true if nothing is done to the containers of the pod at the moment.
func (kl *Kubelet) isIdle(pod *v1.Pod, podStatus *kubecontainer.PodStatus) bool {
	if !allocation.AllocatesPodSpec(pod) || podStatus.IsRemovalInProgress() {
		return false
	}
	runtime, ok := kl.containerRuntime.(kubecontainer.BackgroundStartRuntime)
	return ok && !runtime.HasStarts(pod.UID)
}

// keepPodStatus returns what to do after a sync that did nothing to the containers of a pod that is
// idle: the status that it had is as good as one that is taken after it. So the next sync, like
// that of an addition, need not wait until the runtime was asked for each container of the pod.
func (kl *Kubelet) keepPodStatus(podUID types.UID) func() {
	return func() { kl.podCache.SetObservedTime(podUID, kl.clock.Now()) }
}

// withoutAddedContainers returns the pod for whose volumes a sync has to wait: in one that runs, the
// volumes of a container that the runtime does not know yet are waited for by its start.
func withoutAddedContainers(pod *v1.Pod, podStatus *kubecontainer.PodStatus) *v1.Pod {
	if !keepsRunning(pod, podStatus) {
		return pod
	}
	known := *pod
	known.Spec.Containers = slices.DeleteFunc(slices.Clone(pod.Spec.Containers), func(c v1.Container) bool {
		return !slices.ContainsFunc(podStatus.AllContainerStatuses(), func(s *kubecontainer.Status) bool { return s.Name == c.Name })
	})
	return &known
}

// waitForAddedContainerVolumes waits until the volumes of the container are mounted. Those of
// containers that were there when the pod started are.
func (kl *Kubelet) waitForAddedContainerVolumes(ctx context.Context, pod *v1.Pod, container *v1.Container) error {
	if !allocation.AllocatesPodSpec(pod) {
		return nil
	}
	alone := *pod
	alone.Spec.InitContainers, alone.Spec.EphemeralContainers = nil, nil
	alone.Spec.Containers = []v1.Container{*container}
	mounts, devices, _ := volumeutil.GetPodVolumeNames(&alone, false)
	mounted := kl.volumeManager.GetMountedVolumesForPod(volumeutil.GetUniquePodName(pod))
	if sets.KeySet(mounted).IsSuperset(mounts.Union(devices)) {
		return nil
	}
	if err := kl.volumeManager.WaitForAttachAndMount(ctx, &alone); err != nil {
		return fmt.Errorf("unable to attach or mount volumes: %w", err)
	}
	return nil
}
