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

// dynamic_perf measures how long it takes to add a container to a running pod and to remove it again,
// and compares that with what the container runtime alone needs (the floor), with an ephemeral
// container and with a new pod.
//
// It must run on the node that it measures, as root: it talks to the container runtime and reads the
// logs of containers, and all its times must come from one clock. The image must be there already.
//
// A stage that cannot be seen fails the run. Nothing is estimated, and there is no report then.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	imageutils "k8s.io/kubernetes/test/utils/image"
)

type options struct {
	kubeconfig      string
	runtimeEndpoint string
	cgroupParent    string
	node            string
	image           string
	outputDir       string
	kubeletDir      string
	pids            map[string]int
	timeout         time.Duration

	scenarios     sets.Set[string]
	runs          int
	pause         time.Duration
	containers    int
	pods          int
	batch         int
	stagger       time.Duration
	churnDuration time.Duration
	churnPods     []int
	churnRates    []float64
}

func parseOptions(args []string) (options, error) {
	var o options
	var names []string
	flags := pflag.NewFlagSet("dynamic_perf", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Path to the kubeconfig. Defaults to $KUBECONFIG, then to ~/.kube/config.")
	flags.StringVar(&o.runtimeEndpoint, "runtime-endpoint", "unix:///run/containerd/containerd.sock", "Endpoint of the container runtime that the kubelet uses.")
	flags.StringVar(&o.cgroupParent, "cgroup-parent", "", "Parent cgroup for the sandboxes of the floor, not one that the kubelet manages. Removed afterwards if empty. Defaults to that of the container runtime.")
	flags.StringVar(&o.node, "node", "", "Name of the node on which this program runs. Defaults to the only node.")
	flags.StringVar(&o.image, "image", imageutils.GetE2EImage(imageutils.BusyBox), "Image with a shell that knows EPOCHREALTIME, present on the node.")
	flags.StringVar(&o.outputDir, "output-dir", "", "Directory for the report as text, as PerfData JSON and as SVG. Defaults to text on standard output only.")
	flags.StringToIntVar(&o.pids, "pid", nil, "Processes to measure during churn, as name=pid. May be repeated.")
	flags.StringVar(&o.kubeletDir, "kubelet-dir", "", "Root directory of the kubelet, to count the writes of its checkpoints of pods during churn. Defaults to not counting them.")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "How long to wait for a single thing before the run fails.")
	defaults := slices.DeleteFunc(scenarioNames(), func(name string) bool { return name == unpatched })
	flags.StringSliceVar(&names, "scenarios", defaults, "Scenarios to run, always in the order of the default. Without plain there is no floor to compare with. "+
		"Instead of plain, "+unpatched+" measures the same without pods/dynamic, for binaries that do not serve it.")
	flags.IntVar(&o.runs, "runs", 20, "Number of runs of each scenario but churn.")
	flags.DurationVar(&o.pause, "pause", 500*time.Millisecond, "Mean pause between two samples; each is 50 to 150 percent of it.")
	flags.IntVar(&o.containers, "containers", 50, "Number of containers in the pod of scenario containers.")
	flags.IntVar(&o.pods, "pods", 100, "Number of pods in scenario pods.")
	flags.IntVar(&o.batch, "batch", 10, "Number of containers that scenarios batch, staggered and burst add.")
	flags.DurationVar(&o.stagger, "stagger", 200*time.Millisecond, "Time between two requests of scenario staggered.")
	flags.DurationVar(&o.churnDuration, "churn-duration", time.Minute, "How long scenario churn starts cycles at each rate.")
	flags.IntSliceVar(&o.churnPods, "churn-pods", []int{1, 20}, "Numbers of pods over which scenario churn spreads its cycles.")
	flags.Float64SliceVar(&o.churnRates, "churn-rates", []float64{1, 2, 4}, "Rates of scenario churn, in cycles (a container added and removed) per second in all pods together.")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.scenarios = sets.New(names...)
	return o, o.validate(flags.Args())
}

func (o *options) validate(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected arguments %q", args)
	}
	if unknown := o.scenarios.Difference(sets.New(scenarioNames()...)); len(unknown) > 0 {
		return fmt.Errorf("--scenarios: there is no %v, only %v", sets.List(unknown), scenarioNames())
	}
	if o.scenarios.HasAll(unpatched, "plain") {
		return fmt.Errorf("--scenarios: %s and plain measure the same; leave one of them out", unpatched)
	}
	if min(o.runs, o.containers, o.pods) < 1 || slices.ContainsFunc(o.churnPods, func(n int) bool { return n < 1 }) {
		return fmt.Errorf("--runs, --containers, --pods and --churn-pods must be at least 1")
	}
	if o.batch < 1 || o.batch > keptStatuses {
		return fmt.Errorf("--batch must be from 1 to %d: the kubelet keeps no more statuses of removed containers, so the end of others would not be seen", keptStatuses)
	}
	if slices.ContainsFunc(o.churnRates, func(rate float64) bool { return rate <= 0 }) {
		return fmt.Errorf("--churn-rates must be positive")
	}
	if min(o.timeout, o.churnDuration) <= 0 || min(o.pause, o.stagger) < 0 {
		return fmt.Errorf("--timeout and --churn-duration must be positive, --pause and --stagger must not be negative")
	}
	return nil
}

func run(args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	// The first signal ends the run and cleans up, the second ends the program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	b, err := newBenchmark(ctx, o)
	if err != nil {
		return err
	}
	err = b.run(ctx)
	if err == nil {
		err = b.report.write(o.outputDir)
	}
	return errors.Join(err, b.cleanup(context.WithoutCancel(ctx)))
}

func main() {
	err := run(os.Args[1:])
	klog.Flush()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "dynamic_perf: %v\n", err)
		os.Exit(1)
	}
}
