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
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
)

// runLabel is on every sandbox of this program; its value is the namespace of the run.
const runLabel = "dynamic-perf.k8s.io/run"

// floor measures what the container runtime alone needs for so many containers at once in a sandbox
// that exists, each stage until the last of them reached it: what nothing above it can be faster than.
//
// The kubelet ends every sandbox that it does not know, at its next housekeeping (2 s). So each sample
// has a sandbox of its own, and is taken again if the kubelet came in between.
func (b *benchmark) floor(ctx context.Context, count int) (sample, error) {
	for {
		s, interrupted, err := b.floorOnce(ctx, count)
		if !interrupted {
			return s, err
		}
		klog.FromContext(ctx).Info("The kubelet ended the sandbox during a sample of the floor, taking it again", "err", err)
		b.report.floorRetries++
	}
}

func (b *benchmark) floorOnce(ctx context.Context, count int) (s sample, interrupted bool, err error) {
	name := b.newName("floor")
	logDirectory := filepath.Join(b.scratch, name)
	if err := os.Mkdir(logDirectory, 0o755); err != nil {
		return nil, false, err
	}
	sandboxConfig := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: b.namespace, Uid: name},
		Labels:       map[string]string{runLabel: b.namespace},
		LogDirectory: logDirectory,
		Linux:        &runtimeapi.LinuxPodSandboxConfig{CgroupParent: b.options.cgroupParent},
	}
	sandbox, err := b.runtime.RunPodSandbox(ctx, sandboxConfig, "")
	if err != nil {
		return nil, false, fmt.Errorf("run a sandbox for the floor: %w", err)
	}
	defer func() {
		// What the kubelet has ended may be gone by now; what is left is found by its label at the end.
		if removeErr := b.removeSandbox(context.WithoutCancel(ctx), sandbox); removeErr != nil && err == nil && !interrupted {
			err = removeErr
		}
	}()

	samples := make([]sample, count)
	group, groupCtx := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range samples {
		group.Go(func() (err error) {
			samples[i], err = b.createAndStart(groupCtx, start, fmt.Sprintf("c%d", i), sandbox, sandboxConfig)
			return err
		})
	}
	err = group.Wait()
	ended := b.hasEnded(ctx, sandbox)
	if err != nil && !ended {
		// Its process is gone a moment before the runtime says so.
		_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Second, false, func(ctx context.Context) (bool, error) {
			ended = b.hasEnded(ctx, sandbox)
			return ended, nil
		})
	}
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	if err != nil || ended {
		return nil, ended, err
	}
	return slowest(samples), false, nil
}

// hasEnded returns true if the sandbox does not run any more.
func (b *benchmark) hasEnded(ctx context.Context, sandbox string) bool {
	status, err := b.runtime.PodSandboxStatus(ctx, sandbox, false)
	return err != nil || status.GetStatus().GetState() != runtimeapi.PodSandboxState_SANDBOX_READY
}

func (b *benchmark) createAndStart(ctx context.Context, start time.Time, name, sandbox string, sandboxConfig *runtimeapi.PodSandboxConfig) (sample, error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: b.options.image, UserSpecifiedImage: b.options.image},
		Command:  printTimeAndSleep,
		LogPath:  name + ".log",
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: cpuShares},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			},
		},
	}
	id, err := b.runtime.CreateContainer(ctx, sandbox, config, sandboxConfig)
	if err != nil {
		return nil, fmt.Errorf("create a container for the floor: %w", err)
	}
	if err := b.runtime.StartContainer(ctx, id); err != nil {
		return nil, fmt.Errorf("start the container for the floor: %w", err)
	}
	reached, err := b.runtimeStages(ctx, id)
	if err != nil {
		return nil, err
	}
	return newSample(opFloor, start, reached)
}

// runtimeStages returns the stages of a start that the container runtime and the program know.
func (b *benchmark) runtimeStages(ctx context.Context, id string) (map[stage]time.Time, error) {
	status, err := b.containerStatus(ctx, id)
	if err != nil {
		return nil, err
	}
	first, err := firstInstruction(ctx, status.LogPath)
	if err != nil {
		return nil, err
	}
	return map[stage]time.Time{
		stageCreated: fromNanoseconds(status.CreatedAt),
		stageStarted: fromNanoseconds(status.StartedAt),
		stageFirst:   first,
	}, nil
}

// containerStatus returns the runtime's status of a container, whose ID may have a prefix, as in the API.
func (b *benchmark) containerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	if _, withoutPrefix, ok := strings.Cut(id, "://"); ok {
		id = withoutPrefix
	}
	response, err := b.runtime.ContainerStatus(ctx, id, false)
	if err != nil {
		return nil, fmt.Errorf("get the status of container %s from the container runtime: %w", id, err)
	}
	return response.GetStatus(), nil
}

// fromNanoseconds converts a time of the CRI, where 0 means that it is not known.
func fromNanoseconds(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// removeSandbox removes the sandbox. If the kubelet ends it at the same time, one of the two fails, so
// it is tried again.
func (b *benchmark) removeSandbox(ctx context.Context, id string) error {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	return retry.OnError(wait.Backoff{Steps: 5, Duration: 100 * time.Millisecond, Factor: 2}, func(error) bool { return ctx.Err() == nil }, func() error {
		if err := b.runtime.StopPodSandbox(ctx, id); err != nil {
			return fmt.Errorf("stop sandbox %s: %w", id, err)
		}
		if err := b.runtime.RemovePodSandbox(ctx, id); err != nil {
			return fmt.Errorf("remove sandbox %s: %w", id, err)
		}
		return nil
	})
}

// removeSandboxes removes all sandboxes of this run.
func (b *benchmark) removeSandboxes(ctx context.Context) error {
	sandboxes, err := b.runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{runLabel: b.namespace}})
	if err != nil {
		return fmt.Errorf("list the sandboxes of this run: %w", err)
	}
	for _, sandbox := range sandboxes {
		if err := b.removeSandbox(ctx, sandbox.Id); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroups removes the parent cgroup of the sandboxes, which runtimes make but do not remove. It
// removes only what is empty.
func (b *benchmark) removeCgroups() {
	if b.options.cgroupParent == "" {
		return
	}
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		paths, _ := filepath.Glob(filepath.Join(pattern, b.options.cgroupParent))
		for _, path := range paths {
			_ = os.Remove(path)
		}
	}
}
