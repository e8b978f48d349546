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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestFirstInstruction(t *testing.T) {
	for name, tc := range map[string]struct {
		log     string
		want    time.Time
		wantErr string
	}{
		"the time with microseconds": {
			log:  "2026-11-30T08:17:11.518600000Z stdout F 1796026631.518534\n",
			want: time.Unix(1796026631, 518534000),
		},
		"leading zeros of microseconds": {
			log:  "2026-11-30T08:17:11.000100000Z stdout F 1796026631.000042\n2026-11-30T08:17:12Z stdout F more\n",
			want: time.Unix(1796026631, 42000),
		},
		"a shell without EPOCHREALTIME": {
			log:     "2026-11-30T08:17:11.518600000Z stdout F \n",
			wantErr: "does the shell of the image know EPOCHREALTIME?",
		},
		"an error of the shell": {
			log:     "2026-11-30T08:17:11.518600000Z stderr F sh: not found\n",
			wantErr: "expected one word on stdout",
		},
		"a time in seconds": {
			log:     "2026-11-30T08:17:11.518600000Z stdout F 1796026631\n",
			wantErr: "expected seconds and microseconds",
		},
		"a line that is not complete": {
			log:     "2026-11-30T08:17:11.518600000Z stdout F 179602",
			wantErr: "printed no time",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "main.log")
			if err := os.WriteFile(path, []byte(tc.log), 0o600); err != nil {
				t.Fatal(err)
			}
			b := &benchmark{options: options{timeout: 20 * time.Millisecond}}
			ctx, cancel := b.withTimeout(t.Context())
			defer cancel()
			got, err := firstInstruction(ctx, path)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got %v and error %v, want an error with %q", got, err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equal(tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestParseProcess(t *testing.T) {
	const stat = "18616 (kube (let) x) S 1 18616 18616 0 -1 4194560 1 2 3 4 1234 766 0 0 20 0 13 0 9 1 2"
	got, err := parseProcess(stat, "Name:\tkubelet\nVmRSS:\t  102400 kB\nThreads:\t13\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := (processUsage{cpu: 20 * time.Second, rssBytes: 100 << 20}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := parseProcess(stat, "Name:\tkubelet\n"); err == nil {
		t.Error("a process without memory is a zombie, and must be an error")
	}
	if _, err := readProcess(os.Getpid()); err != nil {
		t.Errorf("own process: %v", err)
	}
}

func TestCounters(t *testing.T) {
	metrics, err := parseMetrics([]byte(`# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="pods",subresource="status",verb="PATCH"} 3
apiserver_request_total{code="409",resource="pods",subresource="status",verb="PATCH"} 1
apiserver_request_total{code="200",resource="pods",subresource="dynamic",verb="PATCH"} 2
apiserver_request_total{code="201",resource="events",subresource="",verb="POST"} 6
apiserver_request_total{code="200",resource="pods",subresource="",verb="WATCH"} 9
apiserver_request_total{code="200",resource="leases",subresource="",verb="PUT"} 9
# TYPE kubelet_runtime_operations_total counter
kubelet_runtime_operations_total{operation_type="start_container"} 2
# TYPE kubelet_pleg_relist_duration_seconds histogram
kubelet_pleg_relist_duration_seconds_bucket{le="+Inf"} 5
kubelet_pleg_relist_duration_seconds_sum 0.1
kubelet_pleg_relist_duration_seconds_count 5
`))
	if err != nil {
		t.Fatal(err)
	}
	wantCalls := map[string]float64{"PATCH pods/status": 4, "PATCH pods/dynamic": 2, "POST events": 6}
	if diff := cmp.Diff(wantCalls, apiCalls(metrics)); diff != "" {
		t.Errorf("API calls (-want +got):\n%s", diff)
	}
	wantKubelet := map[string]float64{"CRI start_container": 2, "relists": 5}
	if diff := cmp.Diff(wantKubelet, kubeletCounters(metrics)); diff != "" {
		t.Errorf("kubelet (-want +got):\n%s", diff)
	}
}

func TestUsagePerCycle(t *testing.T) {
	r := &report{}
	r.usage("churn",
		&usage{apiCalls: map[string]float64{"PATCH pods/status": 10}, etcdBytes: 4096, processes: map[string]processUsage{"etcd": {cpu: time.Second, rssBytes: 1 << 20}}},
		&usage{apiCalls: map[string]float64{"PATCH pods/status": 30, "POST events": 10}, etcdBytes: 8192, processes: map[string]processUsage{"etcd": {cpu: 2 * time.Second, rssBytes: 3 << 20}}},
		10, 4*time.Second)
	want := []measure{
		{"churn", "PATCH pods/status", 2, "per cycle"},
		{"churn", "POST events", 1, "per cycle"},
		{"churn", "etcd database", 409.6, "bytes/cycle"},
		{"churn", "CPU of etcd", 0.25, "cores"},
		{"churn", "CPU of etcd", 100, "ms/cycle"},
		{"churn", "RSS of etcd before", 1, "MiB"},
		{"churn", "RSS of etcd after", 3, "MiB"},
	}
	if diff := cmp.Diff(want, r.measures, cmp.AllowUnexported(measure{})); diff != "" {
		t.Errorf("measures (-want +got):\n%s", diff)
	}
}

func TestWatcherKeepsTheFirstTimes(t *testing.T) {
	w := &watcher{pods: map[string]*watchedPod{}, changed: make(chan struct{})}
	event := func(eventType watch.EventType, second int64, state v1.ContainerState) {
		w.handle(watch.Event{Type: eventType, Object: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod"},
			Status:     v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "w", ContainerID: "containerd://1", State: state}}},
		}}, time.Unix(second, 0))
	}
	event(watch.Added, 1, v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}})
	b := &benchmark{options: options{timeout: time.Millisecond}}
	ctx, cancel := b.withTimeout(t.Context())
	defer cancel()
	if _, err := w.waitRunning(ctx, "pod", "w"); err == nil || !strings.Contains(err.Error(), "timed out after 1ms") || !strings.Contains(err.Error(), `"waiting"`) {
		t.Errorf("a container that does not start must be an error with its status, got %v", err)
	}

	event(watch.Modified, 2, v1.ContainerState{Running: &v1.ContainerStateRunning{}})
	event(watch.Modified, 3, v1.ContainerState{Running: &v1.ContainerStateRunning{}})
	event(watch.Modified, 4, v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}})
	event(watch.Deleted, 5, v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}})
	want := watchedContainer{id: "containerd://1", running: time.Unix(2, 0), terminated: time.Unix(4, 0)}
	got, err := w.waitTerminated(t.Context(), "pod", "w")
	if err != nil || got != want {
		t.Errorf("got %+v and error %v, want %+v", got, err, want)
	}
	if err := w.waitDeleted(t.Context(), "pod"); err != nil {
		t.Error(err)
	}

	w.handle(watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "too old"}}, time.Unix(6, 0))
	if _, err := w.waitRunning(t.Context(), "other", "w"); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("a watch that failed must be an error, got %v", err)
	}
}

func TestParseOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		args    []string
		wantErr string
	}{
		"defaults":                  {},
		"processes":                 {args: []string{"--pid=kubelet=1", "--pid=etcd=2,kube-apiserver=3"}},
		"unknown scenario":          {args: []string{"--scenarios=plain,burst,fast"}, wantErr: "there is no [fast]"},
		"unpatched and plain":       {args: []string{"--scenarios=unpatched,plain"}, wantErr: "leave one of them out"},
		"more than the kubelet has": {args: []string{"--batch=11"}, wantErr: "--batch must be from 1 to 10"},
		"no runs":                   {args: []string{"--runs=0"}, wantErr: "at least 1"},
		"no rate":                   {args: []string{"--churn-rates=1,0"}, wantErr: "positive"},
		"no duration":               {args: []string{"--churn-duration=0"}, wantErr: "positive"},
		"arguments":                 {args: []string{"plain"}, wantErr: "unexpected arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(tc.args)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Fatalf("got error %v, want %q", err, tc.wantErr)
			}
			if name == "processes" {
				if diff := cmp.Diff(map[string]int{"kubelet": 1, "etcd": 2, "kube-apiserver": 3}, o.pids); diff != "" {
					t.Errorf("pids (-want +got):\n%s", diff)
				}
			}
		})
	}
}
