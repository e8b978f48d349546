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

package kuberuntime

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// inFlightKills knows the containers that are being killed because they were removed from their
// pods. The zero value is ready to use.
type inFlightKills struct {
	lock       sync.Mutex
	containers sets.Set[kubecontainer.ContainerID]
}

// begin returns false if the container is being killed already.
func (k *inFlightKills) begin(id kubecontainer.ContainerID) bool {
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.containers.Has(id) {
		return false
	}
	if k.containers == nil {
		k.containers = sets.New[kubecontainer.ContainerID]()
	}
	k.containers.Insert(id)
	return true
}

func (k *inFlightKills) end(id kubecontainer.ContainerID) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.containers.Delete(id)
}

// computeRemovedContainerActions returns the containers of the pod that may run but are no longer
// in its spec. It does not depend on the DynamicContainers feature: such a container must not
// outlive its removal because the feature was switched off meanwhile.
func (m *kubeGenericRuntimeManager) computeRemovedContainerActions(ctx context.Context, pod *v1.Pod, podStatus *kubecontainer.PodStatus) []*kubecontainer.Status {
	logger := klog.FromContext(ctx)
	var toKill []*kubecontainer.Status
	for _, status := range kubecontainer.RemovedContainerStatuses(pod, podStatus) {
		if status.MayRun() {
			toKill = append(toKill, status)
			continue
		}
		// Release what the node's resource managers gave to the container.
		if err := m.internalLifecycle.PostStopContainer(logger, status.ID.ID); err != nil {
			logger.Error(err, "Internal container post-stop lifecycle hook failed for removed container",
				"containerName", status.Name, "pod", klog.KObj(pod))
		}
	}
	return toKill
}

// killRemovedContainers starts to kill the containers, side by side, and does not wait: a container
// may use all of its grace period, and neither the other containers of the pod nor a later sync
// depend on it. When the container has exited, the PLEG triggers the sync that reports it. A kill
// that failed is tried again by the next sync.
func (m *kubeGenericRuntimeManager) killRemovedContainers(ctx context.Context, pod *v1.Pod, containers []*kubecontainer.Status) {
	logger := klog.FromContext(ctx)
	for _, status := range containers {
		if !m.removedContainerKills.begin(status.ID) {
			continue
		}
		logger.V(2).Info("Killing container that was removed from the pod", "pod", klog.KObj(pod), "podUID", pod.UID,
			"containerName", status.Name, "containerID", status.ID)
		go func() {
			defer utilruntime.HandleCrashWithContext(ctx)
			defer m.removedContainerKills.end(status.ID)
			message := fmt.Sprintf("Container %s was removed from the pod", status.Name)
			if err := m.killContainer(ctx, pod, status.ID, status.Name, message, reasonRemoved, nil, nil); err != nil {
				logger.Error(err, "Failed to kill container that was removed from the pod", "pod", klog.KObj(pod), "podUID", pod.UID,
					"containerName", status.Name, "containerID", status.ID)
			}
		}()
	}
}

// isRemovalInProgress returns true if a container that was removed from the pod may still run.
func isRemovalInProgress(pod *v1.Pod, podStatus *kubecontainer.PodStatus) bool {
	return slices.ContainsFunc(kubecontainer.RemovedContainerStatuses(pod, podStatus), (*kubecontainer.Status).MayRun)
}
