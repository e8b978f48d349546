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
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/component-base/metrics/testutil"
)

// usage is what the components of the cluster have done and used so far.
type usage struct {
	// apiCalls counts requests on pods and events, by verb and resource; events are among them.
	apiCalls map[string]float64
	// etcdBytes is the size of etcd's database file, which counts free pages as well.
	etcdBytes float64
	// kubelet holds counters of the kubelet, nil if its metrics cannot be reached.
	kubelet map[string]float64
	// goroutines of the kubelet.
	goroutines float64
	// checkpoints counts the kubelet's writes of checkpoints, nil if the user did not say where they are.
	checkpoints map[string]float64
	processes   map[string]processUsage
}

// processUsage is from /proc.
type processUsage struct {
	cpu      time.Duration
	rssBytes float64
}

// takeUsage reads the usage. Only the kubelet's metrics may be out of reach: for them the user needs a
// permission, and the API server a way to the kubelet, that other scenarios do not.
func (b *benchmark) takeUsage(ctx context.Context) (*usage, error) {
	u := &usage{processes: map[string]processUsage{}}
	data, err := b.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("get the metrics of kube-apiserver: %w", err)
	}
	metrics, err := parseMetrics(data)
	if err != nil {
		return nil, fmt.Errorf("metrics of kube-apiserver: %w", err)
	}
	u.apiCalls = apiCalls(metrics)
	size := metrics["apiserver_storage_size_bytes"]
	if len(u.apiCalls) == 0 || len(size) == 0 {
		return nil, fmt.Errorf("kube-apiserver has no metric apiserver_request_total of pods or no apiserver_storage_size_bytes")
	}
	u.etcdBytes = sum(size)

	data, err = b.client.CoreV1().RESTClient().Get().Resource("nodes").Name(b.options.node).SubResource("proxy").Suffix("metrics").DoRaw(ctx)
	if err != nil {
		b.report.note(fmt.Sprintf("the metrics of the kubelet are out of reach: %v", err))
	} else {
		if metrics, err = parseMetrics(data); err != nil {
			return nil, fmt.Errorf("metrics of the kubelet: %w", err)
		}
		u.kubelet = kubeletCounters(metrics)
		u.goroutines = sum(metrics["go_goroutines"])
	}

	if b.checkpoints != nil {
		u.checkpoints = b.checkpoints.snapshot()
	}

	for name, pid := range b.options.pids {
		if u.processes[name], err = readProcess(pid); err != nil {
			return nil, fmt.Errorf("process %d, given as the %s: %w", pid, name, err)
		}
	}
	return u, nil
}

func parseMetrics(data []byte) (testutil.Metrics, error) {
	metrics := testutil.NewMetrics()
	if err := testutil.ParseMetrics(string(data), &metrics); err != nil {
		return nil, err
	}
	return metrics, nil
}

func sum(samples model.Samples) float64 {
	total := 0.0
	for _, s := range samples {
		total += float64(s.Value)
	}
	return total
}

// apiCalls returns the requests that concern pods. Watches are left out: they are counted when they end.
func apiCalls(metrics testutil.Metrics) map[string]float64 {
	calls := map[string]float64{}
	for _, s := range metrics["apiserver_request_total"] {
		resource, verb := string(s.Metric["resource"]), string(s.Metric["verb"])
		if (resource != "pods" && resource != "events") || verb == "WATCH" {
			continue
		}
		if subresource := s.Metric["subresource"]; subresource != "" {
			resource += "/" + string(subresource)
		}
		calls[verb+" "+resource] += float64(s.Value)
	}
	return calls
}

// kubeletCounters returns the calls of the kubelet to the container runtime, and its relists.
func kubeletCounters(metrics testutil.Metrics) map[string]float64 {
	counters := map[string]float64{}
	for _, s := range metrics["kubelet_runtime_operations_total"] {
		counters["CRI "+string(s.Metric["operation_type"])] += float64(s.Value)
	}
	counters["relists"] = sum(metrics["kubelet_pleg_relist_duration_seconds_count"])
	return counters
}

func readProcess(pid int) (processUsage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processUsage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return processUsage{}, err
	}
	return parseProcess(string(stat), string(status))
}

// parseProcess reads what proc_pid_stat(5) and proc_pid_status(5) describe.
func parseProcess(stat, status string) (processUsage, error) {
	// The second field is the name in parentheses, and may hold spaces and parentheses itself.
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return processUsage{}, fmt.Errorf("cannot read the CPU time in %q", stat)
	}
	user, errUser := strconv.ParseInt(fields[utime], 10, 64)
	system, errSystem := strconv.ParseInt(fields[stime], 10, 64)
	if errUser != nil || errSystem != nil {
		return processUsage{}, fmt.Errorf("cannot read the CPU time in %q", stat)
	}
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			if err != nil {
				return processUsage{}, fmt.Errorf("cannot read %q: %w", line, err)
			}
			// USER_HZ is 100 on every architecture that Kubernetes runs on.
			return processUsage{cpu: time.Duration(user+system) * 10 * time.Millisecond, rssBytes: kilobytes * 1024}, nil
		}
	}
	return processUsage{}, fmt.Errorf("there is no VmRSS; has the process ended?")
}

// usage reports what was done and used between two points, per cycle where that makes sense.
func (r *report) usage(scenario string, before, after *usage, cycles int, elapsed time.Duration) {
	perCycle := func(name string, difference float64, unit string) {
		r.measure(scenario, name, difference/float64(max(cycles, 1)), unit)
	}
	counters := func(before, after map[string]float64) {
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if difference := after[name] - before[name]; difference > 0 {
				perCycle(name, difference, "per cycle")
			}
		}
	}
	counters(before.apiCalls, after.apiCalls)
	perCycle("etcd database", after.etcdBytes-before.etcdBytes, "bytes/cycle")
	if before.kubelet != nil && after.kubelet != nil {
		counters(before.kubelet, after.kubelet)
		r.measure(scenario, "goroutines of kubelet before", before.goroutines, "")
		r.measure(scenario, "goroutines of kubelet after", after.goroutines, "")
	}
	counters(before.checkpoints, after.checkpoints)
	const mebibyte = 1 << 20
	for _, name := range slices.Sorted(maps.Keys(after.processes)) {
		was, is := before.processes[name], after.processes[name]
		r.measure(scenario, "CPU of "+name, (is.cpu-was.cpu).Seconds()/elapsed.Seconds(), "cores")
		perCycle("CPU of "+name, milliseconds(is.cpu-was.cpu), "ms/cycle")
		r.measure(scenario, "RSS of "+name+" before", was.rssBytes/mebibyte, "MiB")
		r.measure(scenario, "RSS of "+name+" after", is.rssBytes/mebibyte, "MiB")
	}
}
