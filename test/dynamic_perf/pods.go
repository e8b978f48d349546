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
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// cpuRequest is small enough for 100 pods on a node with two cores.
	cpuRequest = "10m"
	// cpuShares is what the kubelet makes of cpuRequest.
	cpuShares = 10
	// stopSeconds is the grace period of all pods: longer than a removal should ever need.
	stopSeconds = 30
	// keptStatuses is the number of statuses that the kubelet keeps of removed containers. Were more
	// removed at a time, the end of some would never be seen.
	keptStatuses = 10
	// creationsAtOnce bounds how many pods are being created for a scenario, so that the node is not
	// still busy with them afterwards.
	creationsAtOnce = 5
)

// newName returns a name that no pod, container or sandbox of this run had before.
func (b *benchmark) newName(prefix string) string {
	return fmt.Sprintf("%s%d", prefix, b.names.Add(1))
}

// newContainer returns a container that can be part of a new pod or be added to a running one.
func (b *benchmark) newContainer(prefix string, command []string) v1.Container {
	return v1.Container{
		Name:    b.newName(prefix),
		Image:   b.options.image,
		Command: command,
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU:    resource.MustParse(cpuRequest),
			v1.ResourceMemory: resource.MustParse("8Mi"),
		}},
	}
}

func (b *benchmark) newPod(containers int) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: b.newName("pod")},
		Spec: v1.PodSpec{
			NodeSelector:                  map[string]string{v1.LabelHostname: b.hostname},
			TerminationGracePeriodSeconds: ptr.To[int64](stopSeconds),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
		},
	}
	for range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, b.newContainer("main", printTimeAndSleep))
	}
	return pod
}

// create creates a pod and returns the sample of its slowest container.
func (b *benchmark) create(ctx context.Context, pod *v1.Pod) (sample, error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	start := time.Now()
	_, err := b.client.CoreV1().Pods(b.namespace).Create(ctx, pod, metav1.CreateOptions{})
	accepted := time.Now()
	if err != nil {
		return nil, fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	var samples []sample
	for _, container := range pod.Spec.Containers {
		s, err := b.observeStart(ctx, opNewPod, start, accepted, pod.Name, container.Name)
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	return slowest(samples), nil
}

// createPods creates pods for a scenario, and returns their names when all of them run.
func (b *benchmark) createPods(ctx context.Context, count, containers int) ([]string, error) {
	names := make([]string, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creationsAtOnce)
	for i := range count {
		group.Go(func() error {
			pod := b.newPod(containers)
			names[i] = pod.Name
			_, err := b.create(ctx, pod)
			return err
		})
	}
	return names, group.Wait()
}

// deletePods deletes pods and waits until they are gone.
func (b *benchmark) deletePods(ctx context.Context, names ...string) error {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	for _, name := range names {
		if err := b.client.CoreV1().Pods(b.namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)}); err != nil {
			return fmt.Errorf("delete pod %s: %w", name, err)
		}
	}
	for _, name := range names {
		if err := b.watcher.waitDeleted(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
