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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"
)

// fakeKubelet starts and stops containers as the specs of pods say, at once, and tells the watcher.
// Containers whose name begins with "stopping" do not stop.
type fakeKubelet struct {
	*benchmark
	runtime *fakeRuntime
	// broken is the prefix of the names of containers that do not start.
	broken   string
	statuses map[string][]v1.ContainerStatus
}

func (k *fakeKubelet) run(events watch.Interface) {
	for event := range events.ResultChan() {
		pod := event.Object.(*v1.Pod).DeepCopy()
		if event.Type != watch.Deleted {
			k.sync(pod)
		}
		pod.Status.Phase = v1.PodRunning
		for _, status := range k.statuses[pod.Name] {
			if slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c v1.EphemeralContainer) bool { return c.Name == status.Name }) {
				pod.Status.EphemeralContainerStatuses = append(pod.Status.EphemeralContainerStatuses, status)
			} else {
				pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
			}
		}
		k.watcher.handle(watch.Event{Type: event.Type, Object: pod}, time.Now())
	}
}

func (k *fakeKubelet) sync(pod *v1.Pod) {
	wanted := sets.New[string]()
	for _, c := range pod.Spec.Containers {
		wanted.Insert(c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		wanted.Insert(c.Name)
	}
	k.runtime.Lock()
	defer k.runtime.Unlock()
	statuses := k.statuses[pod.Name]
	for i := range statuses {
		status := &statuses[i]
		if running := status.State.Running != nil; running && !wanted.Has(status.Name) && !strings.HasPrefix(status.Name, "stopping") {
			status.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
			container := k.runtime.Containers[status.Name]
			container.State, container.FinishedAt = runtimeapi.ContainerState_CONTAINER_EXITED, time.Now().UnixNano()
		}
		wanted.Delete(status.Name)
	}
	for name := range wanted {
		if k.broken != "" && strings.HasPrefix(name, k.broken) {
			continue
		}
		now := time.Now()
		logPath := filepath.Join(k.scratch, name+".log")
		if err := os.WriteFile(logPath, fmt.Appendf(nil, "x stdout F %d.%06d\n", now.Unix(), now.Nanosecond()/1000), 0o600); err != nil {
			panic(err)
		}
		k.runtime.Containers[name] = &apitest.FakeContainer{ContainerStatus: runtimeapi.ContainerStatus{
			Id: name, State: runtimeapi.ContainerState_CONTAINER_RUNNING, LogPath: logPath,
			CreatedAt: now.UnixNano(), StartedAt: now.UnixNano(),
		}}
		statuses = append(statuses, v1.ContainerStatus{
			Name: name, ContainerID: "containerd://" + name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		})
	}
	k.statuses[pod.Name] = statuses
}

// newFakeBenchmark returns a benchmark whose cluster is fake, and only needs a running kubelet.
func newFakeBenchmark(t *testing.T) (*benchmark, *fakeKubelet) {
	runtime := &fakeRuntime{}
	b := newFloorBenchmark(t, runtime)
	b.options.node, b.hostname = "node", "node"
	b.client = fake.NewClientset(
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourcePods: resource.MustParse("110")}}},
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}},
	)
	b.options.runs, b.options.containers, b.options.pods, b.options.batch = 2, 4, 3, 5
	b.watcher = &watcher{pods: map[string]*watchedPod{}, changed: make(chan struct{})}
	events, err := b.client.CoreV1().Pods(b.namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kubelet := &fakeKubelet{benchmark: b, runtime: runtime, statuses: map[string][]v1.ContainerStatus{}}
	done := make(chan struct{})
	go func() {
		kubelet.run(events)
		close(done)
	}()
	t.Cleanup(func() {
		events.Stop()
		<-done
	})
	return b, kubelet
}

func TestScenariosTakeAllSamplesAndDeleteTheirPods(t *testing.T) {
	b, kubelet := newFakeBenchmark(t)
	for _, s := range scenarios {
		if s.name == "churn" {
			continue // It reads metrics, which a fake API server has not.
		}
		if err := s.run(b, t.Context()); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		pods, err := b.client.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(pods.Items) > 0 {
			t.Errorf("%s left %d pods", s.name, len(pods.Items))
		}
	}
	got := map[string]int{}
	for _, r := range b.report.results {
		got[r.scenario+": "+string(r.operation)] = len(r.samples)
	}
	want := map[string]int{
		// The samples of unpatched are among those with ephemeral containers.
		"plain: floor": 4, "plain: new pod": 4, "plain: ephemeral": 4, "plain: add": 2, "plain: remove": 2,
		"4 containers in the pod: add": 2, "4 containers in the pod: remove": 2,
		"3 pods on the node: add": 2, "3 pods on the node: remove": 2,
		"5 in one request: floor": 2, "5 in one request: add": 2, "5 in one request: remove": 2,
		"5 requests 0s apart: add":         10,
		"5 requests 0s apart: ephemeral":   20,
		"5 requests at once: add":          10,
		"a sibling stops for 30 s: add":    2,
		"a sibling stops for 30 s: remove": 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}

	if err := b.cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	namespaces, err := b.client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(namespaces.Items) > 0 || len(kubelet.runtime.Sandboxes) > 0 {
		t.Errorf("%d namespaces and %d sandboxes are left", len(namespaces.Items), len(kubelet.runtime.Sandboxes))
	}
	if _, err := os.Stat(b.scratch); !os.IsNotExist(err) {
		t.Errorf("the directory for logs is left: %v", err)
	}
}

func TestAContainerThatDoesNotStartFailsTheRun(t *testing.T) {
	b, kubelet := newFakeBenchmark(t)
	kubelet.broken = "w"
	b.options.timeout = 50 * time.Millisecond
	err := b.plain(t.Context())
	if err == nil || !strings.Contains(err.Error(), `scenario "plain", run 1: container w`) || !strings.Contains(err.Error(), "was not reported as running: timed out") {
		t.Errorf("got %v, want an error that names the container", err)
	}
}

func TestASignalEndsTheRun(t *testing.T) {
	b, _ := newFakeBenchmark(t)
	b.options.pause = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := b.plain(ctx); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("got %v, want that the run was canceled", err)
	}
}
