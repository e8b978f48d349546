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
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
)

// ranBeforeKubelet returns true if the container certainly ran before the kubelet was started, so
// that what the API has of its probes holds until it is probed again. Where containers come and go
// many are too young for their age to tell: what tells is that the API knew of this one when the
// kubelet got the pod.
func (m *manager) ranBeforeKubelet(pod *v1.Pod, status *v1.ContainerStatus) bool {
	if status.State.Running == nil {
		return false
	}
	startedAt := status.State.Running.StartedAt.Time
	if !startedAt.IsZero() && startedAt.Before(kubeletRestartGracePeriod(m.start)) {
		return true
	}
	if !allocation.AllocatesPodSpec(pod) {
		return false
	}
	reported, ok := podutil.GetContainerStatus(pod.Status.ContainerStatuses, status.Name)
	return ok && reported.State.Running != nil && reported.ContainerID == status.ContainerID
}
