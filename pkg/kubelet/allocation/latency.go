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
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// changeLatency measures how long the changes of running pods take: from the update until it is
// allocated, and from there until the added containers run. The zero value is ready to use.
type changeLatency struct {
	mux sync.Mutex
	// pending are the updates that are not allocated.
	pending map[types.UID]pendingUpdate
	// starting has the times at which containers, by name, were allocated that do not run yet.
	starting map[types.UID]map[string]time.Time
}

type pendingUpdate struct {
	generation int64
	seen       time.Time
}

// updated records that the generation of the pod is to be allocated.
func (l *changeLatency) updated(podUID types.UID, generation int64) {
	l.mux.Lock()
	defer l.mux.Unlock()
	if update, ok := l.pending[podUID]; ok && update.generation == generation {
		return
	}
	if l.pending == nil {
		l.pending = map[types.UID]pendingUpdate{}
	}
	l.pending[podUID] = pendingUpdate{generation: generation, seen: time.Now()}
}

// allocated records that the pod is allocated, with the named containers added to it.
func (l *changeLatency) allocated(podUID types.UID, added []string) {
	l.mux.Lock()
	defer l.mux.Unlock()
	now := time.Now()
	if update, ok := l.pending[podUID]; ok {
		metrics.PodUpdateAllocationDuration.Observe(now.Sub(update.seen).Seconds())
		delete(l.pending, podUID)
	}
	for _, name := range added {
		if l.starting == nil {
			l.starting = map[types.UID]map[string]time.Time{}
		}
		if l.starting[podUID] == nil {
			l.starting[podUID] = map[string]time.Time{}
		}
		l.starting[podUID][name] = now
	}
}

// observe looks for added containers that have started.
func (l *changeLatency) observe(podStatus *kubecontainer.PodStatus) {
	l.mux.Lock()
	defer l.mux.Unlock()
	starting := l.starting[podStatus.ID]
	for name, allocated := range starting {
		status := podStatus.FindContainerStatusByName(name)
		// One that started before is what had the name until it was removed.
		if status == nil || status.StartedAt.Before(allocated) {
			continue
		}
		metrics.AddedContainerStartDuration.Observe(status.StartedAt.Sub(allocated).Seconds())
		delete(starting, name)
	}
	if len(starting) == 0 {
		delete(l.starting, podStatus.ID)
	}
}

// forgetOthers forgets all pods but the remaining ones.
func (l *changeLatency) forgetOthers(remainingPods sets.Set[types.UID]) {
	l.mux.Lock()
	defer l.mux.Unlock()
	for podUID := range sets.KeySet(l.pending).Union(sets.KeySet(l.starting)).Difference(remainingPods) {
		delete(l.pending, podUID)
		delete(l.starting, podUID)
	}
}
