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

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// watcher notes when the events of the pods of a namespace arrive. A container is known by the names of
// its pod and its own, neither of which this program uses twice.
type watcher struct {
	lock sync.Mutex
	pods map[string]*watchedPod
	// changed is closed at the next event.
	changed chan struct{}
	// err is why no more events arrive.
	err error
}

type watchedPod struct {
	latest     *v1.Pod
	deleted    bool
	containers map[string]*watchedContainer
}

// watchedContainer holds what the API said first about a container.
type watchedContainer struct {
	// id is the container's ID, with the runtime's prefix.
	id string
	// running and terminated are the times at which the first event with that state arrived.
	running, terminated time.Time
}

// startWatcher starts a watcher of a namespace that has no pods yet.
func startWatcher(ctx context.Context, client kubernetes.Interface, namespace string) (*watcher, error) {
	pods := client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
	}
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, options)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch the pods of namespace %s: %w", namespace, err)
	}
	w := &watcher{pods: map[string]*watchedPod{}, changed: make(chan struct{})}
	go func() {
		for event := range events.ResultChan() {
			w.handle(event, time.Now())
		}
		w.update(func() { w.err = fmt.Errorf("the watch of namespace %s ended", namespace) })
	}()
	return w, nil
}

func (w *watcher) update(change func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watcher) handle(event watch.Event, arrived time.Time) {
	pod, ok := event.Object.(*v1.Pod)
	if !ok {
		w.update(func() { w.err = fmt.Errorf("the watch of pods failed: %v", event.Object) })
		return
	}
	w.update(func() {
		seen := w.pods[pod.Name]
		if seen == nil {
			seen = &watchedPod{containers: map[string]*watchedContainer{}}
			w.pods[pod.Name] = seen
		}
		seen.latest = pod
		seen.deleted = event.Type == watch.Deleted
		for _, status := range allStatuses(pod) {
			container := seen.containers[status.Name]
			if container == nil {
				container = &watchedContainer{}
				seen.containers[status.Name] = container
			}
			if status.State.Running != nil && container.running.IsZero() {
				container.id, container.running = status.ContainerID, arrived
			}
			if status.State.Terminated != nil && container.terminated.IsZero() {
				container.terminated = arrived
			}
		}
	})
}

func allStatuses(pod *v1.Pod) []v1.ContainerStatus {
	return slices.Concat(pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
}

// wait waits until done says so.
func (w *watcher) wait(ctx context.Context, pod string, done func(*watchedPod) bool) error {
	for {
		w.lock.Lock()
		seen, changed, err := w.pods[pod], w.changed, w.err
		ok := seen != nil && done(seen)
		w.lock.Unlock()
		if ok {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waitContainer waits until the API said what is asked for about a container, and returns what it said.
func (w *watcher) waitContainer(ctx context.Context, pod, name, state string, done func(*watchedContainer) bool) (watchedContainer, error) {
	var found watchedContainer
	err := w.wait(ctx, pod, func(seen *watchedPod) bool {
		container := seen.containers[name]
		if container == nil || !done(container) {
			return false
		}
		found = *container
		return true
	})
	if err != nil {
		return found, fmt.Errorf("container %s of pod %s was not reported as %s: %w; its status: %s", name, pod, state, err, w.describe(pod, name))
	}
	return found, nil
}

func (w *watcher) waitRunning(ctx context.Context, pod, name string) (watchedContainer, error) {
	return w.waitContainer(ctx, pod, name, "running", func(c *watchedContainer) bool { return !c.running.IsZero() })
}

func (w *watcher) waitTerminated(ctx context.Context, pod, name string) (watchedContainer, error) {
	return w.waitContainer(ctx, pod, name, "terminated", func(c *watchedContainer) bool { return !c.terminated.IsZero() })
}

// waitDeleted waits until a pod is gone from the API.
func (w *watcher) waitDeleted(ctx context.Context, pod string) error {
	if err := w.wait(ctx, pod, func(seen *watchedPod) bool { return seen.deleted }); err != nil {
		return fmt.Errorf("pod %s was not deleted: %w", pod, err)
	}
	return nil
}

// hasTerminated tells whether the API said that a container has terminated.
func (w *watcher) hasTerminated(pod, name string) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return !w.pods[pod].containers[name].terminated.IsZero()
}

// describe returns what the API said last about a container, for errors.
func (w *watcher) describe(pod, name string) string {
	w.lock.Lock()
	defer w.lock.Unlock()
	seen := w.pods[pod]
	if seen == nil {
		return "no event of the pod"
	}
	var described any = seen.latest.Status
	if statuses := allStatuses(seen.latest); slices.ContainsFunc(statuses, func(s v1.ContainerStatus) bool { return s.Name == name }) {
		described = statuses[slices.IndexFunc(statuses, func(s v1.ContainerStatus) bool { return s.Name == name })]
	}
	data, err := json.Marshal(described)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
