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
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
)

// unchangedPods remembers which pods of the API are what is allocated. Each decision about one pod
// needs what is allocated to all others, and to compare whole specs every time would make it slower
// with every pod on the node. The zero value is ready to use.
type unchangedPods struct {
	mux  sync.RWMutex
	pods map[types.UID]unchangedPod
}

// unchangedPod is a pod and the allocated spec that it was compared with. Neither is ever changed
// in place: the API hands out another pod, and an allocation makes another spec.
type unchangedPod struct {
	pod           *v1.Pod
	allocatedSpec *v1.PodSpec
}

// updatePodFromAllocation is updatePodFromAllocation, but does not compare again what it has found
// to be the same.
func (u *unchangedPods) updatePodFromAllocation(pod *v1.Pod, allocated state.PodResourceInfo) (*v1.Pod, bool) {
	// A pod without a version is not the API's, and whoever made it may change it.
	if !AllocatesPodSpec(pod) || allocated.AllocatedSpec == nil || pod.ResourceVersion == "" {
		return updatePodFromAllocation(pod, allocated)
	}

	compared := unchangedPod{pod: pod, allocatedSpec: allocated.AllocatedSpec}
	u.mux.RLock()
	unchanged := u.pods[pod.UID] == compared
	u.mux.RUnlock()
	if unchanged {
		return pod, false
	}

	result, updated := updatePodFromAllocation(pod, allocated)
	if !updated {
		u.mux.Lock()
		defer u.mux.Unlock()
		if u.pods == nil {
			u.pods = map[types.UID]unchangedPod{}
		}
		u.pods[pod.UID] = compared
	}
	return result, updated
}

// forgetOthers forgets all pods but the remaining ones.
func (u *unchangedPods) forgetOthers(remainingPods sets.Set[types.UID]) {
	u.mux.Lock()
	defer u.mux.Unlock()
	for podUID := range u.pods {
		if !remainingPods.Has(podUID) {
			delete(u.pods, podUID)
		}
	}
}
