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
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"
)

// fakeRuntime prints the time to the log of a container that it starts, as the program in it would.
type fakeRuntime struct {
	*apitest.FakeRuntimeService
	logDirectory string
	printed      string
	// interruptions is the number of sandboxes that end as soon as their container has started.
	interruptions int
	// deaths is the number of sandboxes that end while their container is started, and are reported to have
	// ended from the second call of PodSandboxStatus on.
	deaths int
	dying  bool
	// failedStops is the number of calls of StopPodSandbox that fail.
	failedStops int
}

func (f *fakeRuntime) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	response, err := f.FakeRuntimeService.PodSandboxStatus(ctx, id, verbose)
	if f.dying {
		f.dying = false
		f.Lock()
		defer f.Unlock()
		f.Sandboxes[id].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return response, err
}

func (f *fakeRuntime) StopPodSandbox(ctx context.Context, id string) error {
	if f.failedStops > 0 {
		f.failedStops--
		return errors.New("no such device")
	}
	return f.FakeRuntimeService.StopPodSandbox(ctx, id)
}

func (f *fakeRuntime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	f.logDirectory = config.LogDirectory
	return f.FakeRuntimeService.RunPodSandbox(ctx, config, handler)
}

func (f *fakeRuntime) StartContainer(ctx context.Context, id string) error {
	if f.deaths > 0 {
		f.deaths--
		f.dying = true
		return errors.New("no such file or directory")
	}
	if err := f.FakeRuntimeService.StartContainer(ctx, id); err != nil {
		return err
	}
	f.Lock()
	defer f.Unlock()
	printed := f.printed
	if printed == "" {
		now := time.Now()
		printed = fmt.Sprintf("%d.%06d", now.Unix(), now.Nanosecond()/1000+1)
	}
	container := f.Containers[id]
	container.LogPath = filepath.Join(f.logDirectory, "main.log")
	if f.interruptions > 0 {
		f.interruptions--
		f.Sandboxes[container.SandboxID].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return os.WriteFile(container.LogPath, []byte("2026-11-30T08:17:11.5Z stdout F "+printed+"\n"), 0o600)
}

func newFloorBenchmark(t *testing.T, runtime *fakeRuntime) *benchmark {
	runtime.FakeRuntimeService = apitest.NewFakeRuntimeService()
	return &benchmark{runtime: runtime, namespace: "dynamic-perf-x", scratch: t.TempDir(), options: options{image: "busybox", timeout: time.Minute}}
}

func TestFloorLeavesNoSandbox(t *testing.T) {
	for name, tc := range map[string]struct {
		runtime     fakeRuntime
		wantRetries int
		wantErr     string
	}{
		"a sample": {},
		"the kubelet ends sandboxes during two samples": {runtime: fakeRuntime{interruptions: 2}, wantRetries: 2},
		"the kubelet ends sandboxes before two starts":  {runtime: fakeRuntime{deaths: 2}, wantRetries: 2},
		"the kubelet ends the sandbox after the sample": {runtime: fakeRuntime{failedStops: 1}},
		"the program does not print the time":           {runtime: fakeRuntime{printed: "$EPOCHREALTIME"}, wantErr: "expected seconds and microseconds"},
		"the program has another clock":                 {runtime: fakeRuntime{printed: "1000000000.000000"}, wantErr: "before the request"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFloorBenchmark(t, &tc.runtime)
			got, err := b.floor(t.Context(), 1)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Fatalf("got sample %v and error %v, want error %q", got, err, tc.wantErr)
			}
			if tc.wantErr == "" && len(got) != len(stagesOf[opFloor]) {
				t.Errorf("got sample %v", got)
			}
			if b.report.floorRetries != tc.wantRetries {
				t.Errorf("%d samples were taken again, want %d", b.report.floorRetries, tc.wantRetries)
			}
			if len(tc.runtime.Sandboxes) > 0 {
				t.Errorf("%d sandboxes are left", len(tc.runtime.Sandboxes))
			}
		})
	}
}

func TestRemoveSandboxesOnlyRemovesThoseOfThisRun(t *testing.T) {
	runtime := &fakeRuntime{}
	b := newFloorBenchmark(t, runtime)
	for i, run := range []string{b.namespace, "dynamic-perf-other", b.namespace} {
		config := &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: fmt.Sprint(i), Namespace: run, Uid: fmt.Sprint(i)},
			Labels:   map[string]string{runLabel: run},
		}
		if _, err := runtime.RunPodSandbox(t.Context(), config, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.removeSandboxes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(runtime.Sandboxes) != 1 {
		t.Fatalf("%d sandboxes are left, want 1", len(runtime.Sandboxes))
	}
	for _, left := range runtime.Sandboxes {
		if left.Metadata.Namespace != "dynamic-perf-other" {
			t.Errorf("the sandbox of run %s is left", left.Metadata.Namespace)
		}
	}
}
