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
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// patch applies a strategic merge patch to a subresource of a pod, again if others patch the pod at the
// same time. It returns the times just before the first request and just after the last answer.
func (b *benchmark) patch(ctx context.Context, pod, subresource string, patch any) (start, accepted time.Time, err error) {
	data, err := json.Marshal(patch)
	if err != nil {
		return start, accepted, err
	}
	start = time.Now()
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		_, err := b.client.CoreV1().Pods(b.namespace).Patch(ctx, pod, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresource)
		return err
	})
	accepted = time.Now()
	if err != nil {
		return start, accepted, fmt.Errorf("patch pods/%s of %s: %w", subresource, pod, err)
	}
	return start, accepted, nil
}

// add adds containers to a pod in one request, and returns their names and a sample of each.
func (b *benchmark) add(ctx context.Context, pod string, count int) ([]string, []sample, error) {
	var containers []v1.Container
	for range count {
		containers = append(containers, b.newContainer("w", printTimeAndSleep))
	}
	return b.addContainers(ctx, pod, containers)
}

func (b *benchmark) addContainers(ctx context.Context, pod string, containers []v1.Container) ([]string, []sample, error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	start, accepted, err := b.patch(ctx, pod, "dynamic", map[string]any{"spec": map[string]any{"containers": containers}})
	if err != nil {
		return nil, nil, err
	}
	var names []string
	var samples []sample
	for _, container := range containers {
		s, err := b.observeStart(ctx, opAdd, start, accepted, pod, container.Name)
		if err != nil {
			return nil, nil, err
		}
		names, samples = append(names, container.Name), append(samples, s)
	}
	return names, samples, nil
}

// addOne adds a container to a pod, and returns its name and a sample of it.
func (b *benchmark) addOne(ctx context.Context, pod string) (string, sample, error) {
	names, samples, err := b.add(ctx, pod, 1)
	if err != nil {
		return "", nil, err
	}
	return names[0], samples[0], nil
}

// apart adds containers with requests that are made the given time apart, whether or not the one
// before was answered. It returns their names and a sample of each.
func (b *benchmark) apart(ctx context.Context, count int, apart time.Duration, add func(ctx context.Context) (string, sample, error)) ([]string, []sample, error) {
	names, samples := make([]string, count), make([]sample, count)
	group, ctx := errgroup.WithContext(ctx)
	for i := range count {
		group.Go(func() (err error) {
			if err := sleep(ctx, time.Duration(i)*apart); err != nil {
				return err
			}
			names[i], samples[i], err = add(ctx)
			return err
		})
	}
	return names, samples, group.Wait()
}

// addEphemeral adds an ephemeral container to a pod, and returns its name and a sample of it.
func (b *benchmark) addEphemeral(ctx context.Context, pod string) (string, sample, error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	container := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: b.newName("e"), Image: b.options.image, Command: printTimeAndSleep,
	}}
	start, accepted, err := b.patch(ctx, pod, "ephemeralcontainers",
		map[string]any{"spec": map[string]any{"ephemeralContainers": []v1.EphemeralContainer{container}}})
	if err != nil {
		return "", nil, err
	}
	s, err := b.observeStart(ctx, opEphemeral, start, accepted, pod, container.Name)
	return container.Name, s, err
}

// observeStart waits until a container runs, and collects the stages of its start.
func (b *benchmark) observeStart(ctx context.Context, op operation, start, accepted time.Time, pod, name string) (sample, error) {
	seen, err := b.watcher.waitRunning(ctx, pod, name)
	if err != nil {
		return nil, err
	}
	reached, err := b.runtimeStages(ctx, seen.id)
	if err != nil {
		return nil, fmt.Errorf("container %s of pod %s: %w", name, pod, err)
	}
	reached[stageAccepted] = accepted
	reached[stageRunning] = seen.running
	return newSample(op, start, reached)
}

// remove removes containers from a pod in one request, and returns a sample of each.
func (b *benchmark) remove(ctx context.Context, pod string, names ...string) ([]sample, error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	start, accepted, err := b.requestRemoval(ctx, pod, names...)
	if err != nil {
		return nil, err
	}
	var samples []sample
	for _, name := range names {
		seen, err := b.watcher.waitTerminated(ctx, pod, name)
		if err != nil {
			return nil, err
		}
		status, err := b.containerStatus(ctx, seen.id)
		if err != nil {
			return nil, fmt.Errorf("container %s of pod %s: %w", name, pod, err)
		}
		if status.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			return nil, fmt.Errorf("container %s of pod %s is terminated in the API, but %s in the container runtime", name, pod, status.State)
		}
		s, err := newSample(opRemove, start, map[stage]time.Time{
			stageAccepted:   accepted,
			stageStopped:    fromNanoseconds(status.FinishedAt),
			stageTerminated: seen.terminated,
		})
		if err != nil {
			return nil, fmt.Errorf("container %s of pod %s: %w", name, pod, err)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// requestRemoval removes containers from a pod, and does not wait for their end.
func (b *benchmark) requestRemoval(ctx context.Context, pod string, names ...string) (start, accepted time.Time, err error) {
	var removals []any
	for _, name := range names {
		removals = append(removals, map[string]any{"name": name, "$patch": "delete"})
	}
	return b.patch(ctx, pod, "dynamic", map[string]any{"spec": map[string]any{"containers": removals}})
}
