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
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/test/e2e/framework"
	e2epod "k8s.io/kubernetes/test/e2e/framework/pod"
	e2eskipper "k8s.io/kubernetes/test/e2e/framework/skipper"
	admissionapi "k8s.io/pod-security-admission/api"
	"k8s.io/utils/ptr"
)

var _ = SIGDescribe("Dynamic Containers of a node whose kubelet is killed", framework.WithFeatureGate(features.DynamicContainers), framework.WithDisruptive(), framework.WithSerial(), func() {
	f := framework.NewDefaultFramework("dynamic-containers-disruptive")
	f.NamespacePodSecurityLevel = admissionapi.LevelBaseline

	var podClient *e2epod.PodClient
	var kubelet, containerd *localDaemon
	ginkgo.BeforeEach(func(ctx context.Context) {
		script := os.Getenv("LOCAL_UP_CLUSTER")
		if script == "" {
			e2eskipper.Skipf("only for a local cluster whose script is named by the environment variable LOCAL_UP_CLUSTER")
		}
		podClient = e2epod.NewPodClient(f)
		kubelet, containerd = &localDaemon{script, "kubelet"}, &localDaemon{script, "containerd"}
		ginkgo.DeferCleanup(kubelet.start)
	})

	ginkgo.It("should start a container once that was allocated just before", func(ctx context.Context) {
		pod := podClient.CreateSync(ctx, dynamicPod("main"))

		ginkgo.By("allocating a container while the runtime does not answer")
		ginkgo.DeferCleanup(containerd.signal, syscall.SIGCONT)
		var added string
		for attempt := 0; added == ""; attempt++ {
			gomega.Expect(attempt).To(gomega.BeNumerically("<", 5), "attempts to allocate a container")
			name := fmt.Sprintf("w%d", attempt)
			containerd.signal(ctx, syscall.SIGSTOP)
			patchDynamic(ctx, f, pod.Name, patchToAdd(sleepingContainer(name)))
			// Every two seconds the kubelet itself waits for an answer of the runtime, and allocates
			// nothing until it has one.
			err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Second, true, func(ctx context.Context) (bool, error) {
				pod, err := f.ClientSet.CoreV1().Pods(pod.Namespace).GetAllocated(ctx, pod.Name, metav1.GetOptions{})
				return err == nil && slices.Contains(namesOfContainers(pod), name), nil
			})
			if err == nil {
				added = name
				kubelet.signal(ctx, syscall.SIGKILL)
			}
			containerd.signal(ctx, syscall.SIGCONT)
			if err != nil {
				pod = waitForContainer(ctx, f, pod.Name, name, isRunning)
			}
		}
		kubelet.start(ctx)

		withAdded := waitForContainer(ctx, f, pod.Name, added, isRunning)
		expectUntouched(pod, withAdded, "main")
		gomega.Consistently(ctx, func(ctx context.Context) (*v1.Pod, error) {
			return podClient.Get(ctx, pod.Name, metav1.GetOptions{})
		}).WithTimeout(5 * time.Second).Should(gomega.Satisfy(func(pod *v1.Pod) bool {
			expectUntouched(withAdded, pod, "main", added)
			return true
		}))
	})

	ginkgo.It("should neither lose nor make a change that is pending", func(ctx context.Context) {
		pod := deferChange(ctx, f, podClient)
		kubelet.signal(ctx, syscall.SIGKILL)
		kubelet.start(ctx)
		expectDeferred(ctx, f, pod, 0)
		current, err := podClient.Get(ctx, pod.Name, metav1.GetOptions{})
		framework.ExpectNoError(err)
		expectUntouched(pod, current, "main", "old")
		gomega.Expect(namesOfContainers(current)).To(gomega.Equal([]string{"main", "new"}), "containers of the spec")
	})

	ginkgo.It("should make at once what changed while the kubelet was down", func(ctx context.Context) {
		pod := podClient.CreateSync(ctx, dynamicPod("main", "old"))
		kubelet.signal(ctx, syscall.SIGKILL)
		updateDynamic(ctx, f, pod.Name, func(pod *v1.Pod) {
			pod.Spec.Containers = []v1.Container{pod.Spec.Containers[0], sleepingContainer("new")}
		})
		kubelet.start(ctx)
		start := time.Now()
		waitForContainer(ctx, f, pod.Name, "new", isRunning)
		changed := waitForContainer(ctx, f, pod.Name, "old", isTerminated)
		gomega.Expect(time.Since(start)).To(gomega.BeNumerically("<", 20*time.Second), "what is pending is tried again on its own after 30 s only")
		expectUntouched(pod, changed, "main")
	})

	ginkgo.It("should end the removal of a container within its grace period", func(ctx context.Context) {
		pod := dynamicPod("main", "stubborn")
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](10)
		pod.Spec.Containers[1].Command = ignoreSIGTERM
		pod = podClient.CreateSync(ctx, pod)

		patchDynamic(ctx, f, pod.Name, patchToRemove("stubborn"))
		time.Sleep(2 * time.Second)
		kubelet.signal(ctx, syscall.SIGKILL)
		waitForContainer(ctx, f, pod.Name, "stubborn", isRunning)
		kubelet.start(ctx)
		start := time.Now()
		removed := waitForContainer(ctx, f, pod.Name, "stubborn", isTerminated)
		gomega.Expect(time.Since(start)).To(gomega.BeNumerically("<", 20*time.Second), "a new grace period begins with the kubelet, not more")
		expectUntouched(pod, removed, "main")
		status, _ := podutil.GetContainerStatus(removed.Status.ContainerStatuses, "stubborn")
		gomega.Expect(status.State.Terminated.ExitCode).To(gomega.Equal(int32(137)), "exit code of a container that was killed")
		gomega.Expect(status.RestartCount).To(gomega.BeZero(), "a removed container must not be restarted")
	})

	ginkgo.It("should delete a pod with many containers that were being removed", func(ctx context.Context) {
		stubborn := []string{"stubborn0", "stubborn1", "stubborn2", "stubborn3", "stubborn4"}
		pod := dynamicPod(append([]string{"main"}, stubborn...)...)
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
		for i := range stubborn {
			pod.Spec.Containers[i+1].Command = ignoreSIGTERM
		}
		pod = podClient.CreateSync(ctx, pod)
		updateDynamic(ctx, f, pod.Name, func(pod *v1.Pod) {
			pod.Spec.Containers = []v1.Container{pod.Spec.Containers[0], sleepingContainer("new")}
		})
		waitForContainer(ctx, f, pod.Name, "new", isRunning)
		framework.ExpectNoError(podClient.Delete(ctx, pod.Name, *metav1.NewDeleteOptions(10)))
		time.Sleep(time.Second)
		kubelet.signal(ctx, syscall.SIGKILL)
		kubelet.start(ctx)
		start := time.Now()
		framework.ExpectNoError(e2epod.WaitForPodNotFoundInNamespace(ctx, f.ClientSet, pod.Name, pod.Namespace, f.Timeouts.PodDelete))
		gomega.Expect(time.Since(start)).To(gomega.BeNumerically("<", 25*time.Second), "the pod must be gone within its grace period")
	})

	ginkgo.It("should keep the pod ready behind its Service", func(ctx context.Context) {
		ready := &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 1}
		pod := dynamicPod("main")
		pod.Labels = map[string]string{"name": "dynamic"}
		pod.Spec.Containers[0].ReadinessProbe = ready
		pod = podClient.CreateSync(ctx, pod)
		service, err := f.ClientSet.CoreV1().Services(f.Namespace.Name).Create(ctx, &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "dynamic"},
			Spec:       v1.ServiceSpec{Selector: pod.Labels, Ports: []v1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}},
		}, metav1.CreateOptions{})
		framework.ExpectNoError(err)
		watchedPod, watchedEndpoint := watchTransitions(ctx, f, pod.Name), watchEndpoint(ctx, f, service.Name)

		ginkgo.By("adding a container that is ready at once, and killing the kubelet")
		added := sleepingContainer("w")
		added.ReadinessProbe = ready
		patchDynamic(ctx, f, pod.Name, patchToAdd(added))
		waitForContainer(ctx, f, pod.Name, "w", func(s *v1.ContainerStatus) bool { return s.Ready })
		kubelet.signal(ctx, syscall.SIGKILL)
		kubelet.start(ctx)
		time.Sleep(10 * time.Second)

		ginkgo.By("adding a container whose image cannot be pulled, and removing it")
		absent := sleepingContainer("absent")
		absent.Image = "registry.invalid/absent:1"
		patchDynamic(ctx, f, pod.Name, patchToAdd(absent))
		waitForContainer(ctx, f, pod.Name, "absent", func(s *v1.ContainerStatus) bool {
			return s.State.Waiting != nil && slices.Contains([]string{"ErrImagePull", "ImagePullBackOff"}, s.State.Waiting.Reason)
		})
		patchDynamic(ctx, f, pod.Name, patchToRemove("absent"))
		framework.ExpectNoError(e2epod.WaitTimeoutForPodReadyInNamespace(ctx, f.ClientSet, pod.Name, pod.Namespace, f.Timeouts.PodStart))

		ginkgo.By("removing the other one")
		patchDynamic(ctx, f, pod.Name, patchToRemove("w"))
		removed := waitForContainer(ctx, f, pod.Name, "w", isTerminated)
		expectUntouched(pod, removed, "main")

		transitions, endpoint := watchedPod(), watchedEndpoint()
		ginkgo.AddReportEntry("What a watcher saw of its endpoint", endpoint)
		gomega.Expect(transitions).To(gomega.Equal([]string{
			"Running, Ready=True",
			"Running, Ready=False", // w has been allocated and is not ready
			"Running, Ready=True",  // w is ready; the kubelet is killed, and starts
			"Running, Ready=False", // absent has been allocated
			"Running, Ready=True",  // absent is removed, and then w
		}))
		// Endpoints are computed from the newest state, which may skip some of those.
		gomega.Expect(endpoint[len(endpoint)-1]).To(gomega.Equal("ready"))
		gomega.Expect(len(endpoint)).To(gomega.BeNumerically("<=", len(transitions)))
	})
})

// localDaemon is a daemon of the cluster that hack/local-up-cluster.sh started on this machine.
type localDaemon struct {
	script, name string
}

// start starts the daemon if it does not run.
func (d *localDaemon) start(ctx context.Context) {
	ginkgo.GinkgoHelper()
	output, err := exec.CommandContext(ctx, d.script, "start", d.name).CombinedOutput()
	framework.ExpectNoError(err, "start %s: %s", d.name, output)
}

// pid returns the ID of the daemon's process.
func (d *localDaemon) pid(ctx context.Context) int {
	ginkgo.GinkgoHelper()
	// It fails when another daemon does not run.
	status, _ := exec.CommandContext(ctx, d.script, "status").CombinedOutput()
	match := regexp.MustCompile(`(?m)^` + d.name + ` +running, process ([0-9]+)$`).FindSubmatch(status)
	gomega.Expect(match).To(gomega.HaveLen(2), "daemon %s must run: %s", d.name, status)
	pid, err := strconv.Atoi(string(match[1]))
	framework.ExpectNoError(err)
	return pid
}

// signal sends the daemon a signal, and waits until it is gone after SIGKILL.
func (d *localDaemon) signal(ctx context.Context, signal syscall.Signal) {
	ginkgo.GinkgoHelper()
	pid := d.pid(ctx)
	framework.ExpectNoError(syscall.Kill(pid, signal), "send %s signal %s", d.name, signal)
	if signal == syscall.SIGKILL {
		gomega.Eventually(ctx, func() error { return syscall.Kill(pid, 0) }).WithTimeout(10 * time.Second).Should(gomega.MatchError(syscall.ESRCH))
	}
}

func namesOfContainers(pod *v1.Pod) []string {
	if pod == nil {
		return nil
	}
	var names []string
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return names
}

// watchEndpoint watches the only endpoint of a service until the returned function is called, which
// returns the states that it went through.
func watchEndpoint(ctx context.Context, f *framework.Framework, service string) func() []string {
	ginkgo.GinkgoHelper()
	ctx, cancel := context.WithCancel(ctx)
	watcher, err := f.ClientSet.DiscoveryV1().EndpointSlices(f.Namespace.Name).Watch(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	framework.ExpectNoError(err)
	result := make(chan []string)
	go func() {
		defer ginkgo.GinkgoRecover()
		var states []string
		for event := range watcher.ResultChan() {
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if !ok || len(slice.Endpoints) == 0 {
				continue
			}
			state := "not ready"
			if ptr.Deref(slice.Endpoints[0].Conditions.Ready, false) {
				state = "ready"
			}
			if len(states) == 0 || states[len(states)-1] != state {
				states = append(states, state)
			}
		}
		result <- states
	}()
	return func() []string {
		// The last event is under way.
		time.Sleep(2 * time.Second)
		watcher.Stop()
		cancel()
		return <-result
	}
}
