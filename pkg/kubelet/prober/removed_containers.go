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

package prober

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// stopRemovedContainers stops the probes of containers that were removed from the pod, as those of
// a pod that terminates: liveness and startup probes at once, readiness probes when the container
// has stopped. A container of the same name that was added since has probes of its own. The caller
// holds m.workerLock.
func (m *manager) stopRemovedContainers(pod *v1.Pod) {
	for key, worker := range m.workers {
		if key.podUID != pod.UID {
			continue
		}
		spec := kubecontainer.GetContainerSpec(pod, key.containerName)
		switch {
		case spec != nil && (!allocation.AllocatesPodSpec(pod) || kubecontainer.IsSameContainer(&worker.container, spec)):
			continue
		case spec == nil && key.probeType == readiness && m.isRunning(key.podUID, key.containerName):
			continue
		}
		worker.stop()
		// The worker exits on its own time: it must not be in the way of one for a container that is
		// added under the same name meanwhile.
		delete(m.workers, key)
	}
}

// isRunning returns true if the status of the pod says that the main container runs.
func (m *manager) isRunning(podUID types.UID, containerName string) bool {
	podStatus, ok := m.statusManager.GetPodStatus(podUID)
	if !ok {
		return false
	}
	status, ok := podutil.GetContainerStatus(podStatus.ContainerStatuses, containerName)
	return ok && status.State.Running != nil
}

// stopWorkers stops all workers of the pod, also those of containers that were removed from it,
// that are selected.
func (m *manager) stopWorkers(podUID types.UID, selected func(probeKey) bool) {
	for key, worker := range m.workers {
		if key.podUID == podUID && selected(key) {
			worker.stop()
		}
	}
}

// removeExitedWorker removes the worker, unless another one has taken its place.
func (m *manager) removeExitedWorker(w *worker) {
	m.workerLock.Lock()
	defer m.workerLock.Unlock()
	if key := (probeKey{w.pod.UID, w.container.Name, w.probeType}); m.workers[key] == w {
		delete(m.workers, key)
	}
}
