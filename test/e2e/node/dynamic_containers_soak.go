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

package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/test/e2e/framework"
	e2epod "k8s.io/kubernetes/test/e2e/framework/pod"
	e2eskipper "k8s.io/kubernetes/test/e2e/framework/skipper"
	admissionapi "k8s.io/pod-security-admission/api"
	"k8s.io/utils/ptr"
)

var _ = SIGDescribe("Dynamic Containers of which a pod has had thousands", framework.WithFeatureGate(features.DynamicContainers), framework.WithSlow(), framework.WithSerial(), func() {
	f := framework.NewDefaultFramework("dynamic-containers-soak")
	f.NamespacePodSecurityLevel = admissionapi.LevelBaseline

	ginkgo.It("should leave nothing behind but the newest ones", func(ctx context.Context) {
		const warmUp, rounds, perRound = 10, 200, 10
		script := os.Getenv("LOCAL_UP_CLUSTER")
		if script == "" {
			e2eskipper.Skipf("only for a local cluster whose script is named by the environment variable LOCAL_UP_CLUSTER")
		}
		kubelet := &localDaemon{script, "kubelet"}
		podClient := e2epod.NewPodClient(f)
		pod := dynamicPod("main")
		pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		pod = podClient.CreateSync(ctx, pod)

		run := func(rounds int) {
			for range rounds {
				var names []string
				updateDynamic(ctx, f, pod.Name, func(pod *v1.Pod) {
					names = nil
					pod.Spec.Containers = pod.Spec.Containers[:1]
					for range perRound {
						soakContainers++
						names = append(names, fmt.Sprintf("w%d", soakContainers))
						pod.Spec.Containers = append(pod.Spec.Containers, soakContainer(names[len(names)-1], len(names) == 1))
					}
				})
				for _, name := range names {
					waitForContainer(ctx, f, pod.Name, name, isReady)
				}
			}
			updateDynamic(ctx, f, pod.Name, func(pod *v1.Pod) { pod.Spec.Containers = pod.Spec.Containers[:1] })
			gomega.Eventually(ctx, func(ctx context.Context) (int, error) {
				pod, err := podClient.Get(ctx, pod.Name, metav1.GetOptions{})
				if err != nil {
					return 0, err
				}
				terminated := slices.DeleteFunc(pod.Status.ContainerStatuses, func(s v1.ContainerStatus) bool { return !isTerminated(&s) })
				return len(terminated), nil
			}).WithTimeout(f.Timeouts.PodStart).Should(gomega.Equal(maxRemovedContainerStatuses))
			// What is kept in the runtime is deleted after the status says so, and idle connections end.
			time.Sleep(45 * time.Second)
		}

		run(warmUp)
		before := countOnNode(ctx, f, kubelet, pod)
		run(rounds)
		after := countOnNode(ctx, f, kubelet, pod)
		var table strings.Builder
		for _, what := range slices.Sorted(maps.Keys(after)) {
			fmt.Fprintf(&table, "%-45s %12.0f -> %12.0f\n", what, before[what], after[what])
		}
		ginkgo.AddReportEntry(fmt.Sprintf("Before and after %d containers", rounds*perRound), table.String())
		var grown []string
		for what, count := range after {
			if count > before[what]*soakTolerance[what]+before[what] {
				grown = append(grown, fmt.Sprintf("%s: %v -> %v", what, before[what], count))
			}
		}
		gomega.Expect(grown).To(gomega.BeEmpty(), "what has grown after %d containers", rounds*perRound)
		current, err := podClient.Get(ctx, pod.Name, metav1.GetOptions{})
		framework.ExpectNoError(err)
		expectUntouched(pod, current, "main")
	})
})

// soakTolerance is how much, as a share, a count may be more after the soak than before it without
// being taken for a leak. 2,000 leaked objects of any kind would be far more.
var soakTolerance = map[string]float64{
	"goroutines of the kubelet": 0.1,
	"resident bytes":            0.2,
	"samples of /metrics":       0.02,
}

// soakContainers is the number of containers so far: each has a name of its own.
var soakContainers int

// soakContainer returns a container with a subpath of a volume and, if it is probed, with all probes.
// Not all are: the probes of ten containers keep a small machine busy with nothing else.
func soakContainer(name string, probed bool) v1.Container {
	container := sleepingContainer(name)
	if probed {
		probe := &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 1, TimeoutSeconds: 10}
		container.StartupProbe, container.ReadinessProbe, container.LivenessProbe = probe, probe, probe
	}
	container.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data", SubPath: "shared"}}
	return container
}

func isReady(s *v1.ContainerStatus) bool { return s.Ready && ptr.Deref(s.Started, false) }

// countOnNode counts what the kubelet, the runtime and this machine, the node, hold for the pod.
func countOnNode(ctx context.Context, f *framework.Framework, kubelet *localDaemon, pod *v1.Pod) map[string]float64 {
	ginkgo.GinkgoHelper()
	node, err := f.ClientSet.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	framework.ExpectNoError(err)
	counts := map[string]float64{}

	metrics := kubeletMetrics(ctx, f, node)
	for metric, samples := range metrics {
		counts["samples of /metrics"] += float64(len(samples))
		for _, sample := range samples {
			switch metric {
			case "kubelet_running_containers":
				// Of a state in which there is no container now, the metric keeps the last number that was
				// not zero. So it does not say how many were created and never started; those have logs.
				if state := string(sample.Metric["container_state"]); state != "created" {
					counts["runtime containers "+state] += float64(sample.Value)
				}
			case "go_goroutines":
				counts["goroutines of the kubelet"] += float64(sample.Value)
			case "process_resident_memory_bytes":
				counts["resident bytes"] += float64(sample.Value)
			}
		}
	}

	pid := kubelet.pid(ctx)
	commandLine, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	framework.ExpectNoError(err)
	rootDir := "/var/lib/kubelet"
	for argument := range strings.SplitSeq(string(commandLine), "\x00") {
		if value, ok := strings.CutPrefix(argument, "--root-dir="); ok {
			rootDir = value
		}
	}
	var configz struct {
		KubeletConfig struct {
			PodLogsDir string `json:"podLogsDir"`
		} `json:"kubeletconfig"`
	}
	framework.ExpectNoError(json.Unmarshal(getFromKubelet(ctx, f, node, "/configz"), &configz))

	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	framework.ExpectNoError(err)
	counts["mounts"] = float64(bytes.Count(mounts, []byte("\n")))
	descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	framework.ExpectNoError(err)
	counts["open files of the kubelet"] = float64(len(descriptors))
	counts["log files and directories"] = countFiles(filepath.Join(configz.KubeletConfig.PodLogsDir, fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID)), nil)
	counts["links to logs"] = countFiles("/var/log/containers", func(path string) bool { return strings.Contains(path, pod.Name+"_"+pod.Namespace) })
	counts["files and directories of the pod"] = countFiles(filepath.Join(rootDir, "pods", string(pod.UID)), func(path string) bool {
		return !strings.Contains(path, "/volumes/")
	})
	counts["cgroups of the pod"] = countFiles("/sys/fs/cgroup", func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.IsDir() && strings.Contains(strings.ReplaceAll(path, "_", "-"), string(pod.UID))
	})
	return counts
}

// countFiles counts the files and directories under a directory that are wanted, or all.
func countFiles(root string, wanted func(path string) bool) float64 {
	ginkgo.GinkgoHelper()
	count := 0.0
	framework.ExpectNoError(filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err): // It has gone meanwhile.
		case err != nil:
			return err
		case wanted == nil || wanted(path):
			count++
		}
		return nil
	}))
	return count
}
