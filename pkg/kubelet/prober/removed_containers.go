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

package prober

import (
	v1 "k8s.io/api/core/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// stopRemovedContainers stops the probes of containers that are not in the spec of the pod any
// more. The caller holds m.workerLock.
func (m *manager) stopRemovedContainers(pod *v1.Pod) {
	for key, worker := range m.workers {
		if key.podUID == pod.UID && kubecontainer.GetContainerSpec(pod, key.containerName) == nil {
			worker.stop()
		}
	}
}
