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

// comparedPods remembers what the pods of the API are with what is allocated to them. Each decision about
// one pod needs that of all others, and each container that is admitted that of all pods again: to compare
// and copy whole specs every time would make it slower with every pod on the node and every container in
// the pod. The zero value is ready to use.
type comparedPods struct {
	mux  sync.RWMutex
	pods map[types.UID]comparedPod
}

// comparedPod is a pod and the allocated spec that it was compared with, and the result. None of them is
// ever changed in place: the API hands out another pod, and an allocation makes another spec.
type comparedPod struct {
	pod           *v1.Pod
	allocatedSpec *v1.PodSpec
	// result is the pod with what is allocated, and pod itself if that is the same.
	result *v1.Pod
}

// updatePodFromAllocation is updatePodFromAllocation, but does not compare again what it has compared.
func (c *comparedPods) updatePodFromAllocation(pod *v1.Pod, allocated state.PodResourceInfo) (*v1.Pod, bool) {
	// A pod without a version is not the API's, and whoever made it may change it.
	if !AllocatesPodSpec(pod) || allocated.AllocatedSpec == nil || pod.ResourceVersion == "" {
		return updatePodFromAllocation(pod, allocated)
	}

	c.mux.RLock()
	compared := c.pods[pod.UID]
	c.mux.RUnlock()
	if compared.pod == pod && compared.allocatedSpec == allocated.AllocatedSpec {
		return compared.result, compared.result != pod
	}

	result, updated := updatePodFromAllocation(pod, allocated)
	c.mux.Lock()
	defer c.mux.Unlock()
	if c.pods == nil {
		c.pods = map[types.UID]comparedPod{}
	}
	c.pods[pod.UID] = comparedPod{pod: pod, allocatedSpec: allocated.AllocatedSpec, result: result}
	return result, updated
}

// forgetOthers forgets all pods but the remaining ones.
func (c *comparedPods) forgetOthers(remainingPods sets.Set[types.UID]) {
	c.mux.Lock()
	defer c.mux.Unlock()
	for podUID := range c.pods {
		if !remainingPods.Has(podUID) {
			delete(c.pods, podUID)
		}
	}
}
