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
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/test/e2e/framework"
	e2epod "k8s.io/kubernetes/test/e2e/framework/pod"
	imageutils "k8s.io/kubernetes/test/utils/image"
	admissionapi "k8s.io/pod-security-admission/api"
	"k8s.io/utils/ptr"
)

// maxRemovedContainerStatuses is the number of statuses that a kubelet keeps of terminated
// containers that were removed from a pod.
const maxRemovedContainerStatuses = 10

var _ = SIGDescribe("Dynamic Containers", framework.WithFeatureGate(features.DynamicContainers), func() {
	f := framework.NewDefaultFramework("dynamic-containers")
	f.NamespacePodSecurityLevel = admissionapi.LevelBaseline

	var podClient *e2epod.PodClient
	ginkgo.BeforeEach(func() {
		podClient = e2epod.NewPodClient(f)
	})

	ginkgo.It("should add a container to a running pod and remove it again", func(ctx context.Context) {
		pod := podClient.CreateSync(ctx, dynamicPod("main"))
		ginkgo.By("adding a container")
		patchDynamic(ctx, f, pod.Name, patchToAdd(sleepingContainer("w")))
		withAdded := waitForContainer(ctx, f, pod.Name, "w", isRunning)
		expectUntouched(pod, withAdded, "main")
		gomega.Expect(withAdded.Spec.Containers).To(gomega.HaveLen(2))

		ginkgo.By("removing it")
		patchDynamic(ctx, f, pod.Name, patchToRemove("w"))
		withoutAdded := waitForContainer(ctx, f, pod.Name, "w", isTerminated)
		expectUntouched(pod, withoutAdded, "main")
		gomega.Expect(withoutAdded.Spec.Containers).To(gomega.HaveLen(1))
		gomega.Expect(podutil.IsPodReady(withoutAdded)).To(gomega.BeTrueBecause("the status of a removed container counts for nothing"))
	})

	ginkgo.It("should stay Running while all of its containers are swapped", func(ctx context.Context) {
		pod := dynamicPod("main")
		pod.Spec.InitContainers = []v1.Container{{
			Name: "init", Image: imageutils.GetE2EImage(imageutils.BusyBox), Command: []string{"true"},
		}}
		pod = podClient.CreateSync(ctx, pod)

		updateDynamic(ctx, f, pod.Name, func(pod *v1.Pod) {
			pod.Spec.Containers = []v1.Container{sleepingContainer("blue"), sleepingContainer("green")}
		})
		waitForContainer(ctx, f, pod.Name, "blue", isRunning)
		waitForContainer(ctx, f, pod.Name, "main", isTerminated)
		swapped := waitForContainer(ctx, f, pod.Name, "green", isRunning)
		gomega.Expect(swapped.Status.Phase).To(gomega.Equal(v1.PodRunning))
		gomega.Expect(swapped.Status.PodIP).To(gomega.Equal(pod.Status.PodIP))
		gomega.Expect(swapped.Status.InitContainerStatuses[0].ContainerID).To(
			gomega.Equal(pod.Status.InitContainerStatuses[0].ContainerID), "init containers must not run again")
	})

	ginkgo.It("should keep the statuses of the containers that terminated last", func(ctx context.Context) {
		pod := podClient.CreateSync(ctx, dynamicPod("main"))
		const count = maxRemovedContainerStatuses + 3
		for i := range count {
			name := fmt.Sprintf("w%d", i)
			added := sleepingContainer(name)
			added.Command[2] = "echo this is " + name + "; " + added.Command[2]
			patchDynamic(ctx, f, pod.Name, patchToAdd(added))
			waitForContainer(ctx, f, pod.Name, name, isRunning)
			patchDynamic(ctx, f, pod.Name, patchToRemove(name))
			waitForContainer(ctx, f, pod.Name, name, isTerminated)
		}

		want := []string{"main"}
		for i := count - maxRemovedContainerStatuses; i < count; i++ {
			want = append(want, fmt.Sprintf("w%d", i))
		}
		slices.Sort(want)
		framework.ExpectNoError(framework.Gomega().Eventually(ctx, framework.RetryNotFound(framework.GetObject(podClient.Get, pod.Name, metav1.GetOptions{}))).
			WithTimeout(f.Timeouts.PodStart).Should(framework.MakeMatcher(func(pod *v1.Pod) (func() string, error) {
			var got []string
			for _, s := range pod.Status.ContainerStatuses {
				got = append(got, s.Name)
			}
			slices.Sort(got)
			if slices.Equal(got, want) {
				return nil, nil
			}
			return func() string { return fmt.Sprintf("container statuses are of %v, expected %v", got, want) }, nil
		})))

		newest := fmt.Sprintf("w%d", count-1)
		logs, err := e2epod.GetPodLogs(ctx, f.ClientSet, f.Namespace.Name, pod.Name, newest)
		framework.ExpectNoError(err, "logs of a container whose status is kept")
		gomega.Expect(logs).To(gomega.ContainSubstring("this is " + newest))
		_, err = e2epod.GetPodLogs(ctx, f.ClientSet, f.Namespace.Name, pod.Name, "w0")
		gomega.Expect(err).To(gomega.HaveOccurred(), "logs of a container whose status is dropped")

		ginkgo.By("adding a container under the name of one whose status is dropped")
		patchDynamic(ctx, f, pod.Name, patchToAdd(sleepingContainer("w0")))
		waitForContainer(ctx, f, pod.Name, "w0", func(s *v1.ContainerStatus) bool { return isRunning(s) && s.RestartCount == 0 })
	})

	ginkgo.It("should run the preStop hook of a removed container once, also if its pod is deleted meanwhile", func(ctx context.Context) {
		pod := dynamicPod("main", "hooked")
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
		pod.Spec.Volumes = []v1.Volume{{Name: "shared", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].VolumeMounts = []v1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
		}
		// What the hook writes goes to the log of main, which is followed until the pod is gone.
		pod.Spec.Containers[0].Command = []string{"sh", "-c", "touch /shared/log; tail -f /shared/log & trap 'sleep 10; exit 0' TERM; while true; do sleep 0.1; done"}
		pod.Spec.Containers[1].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{
			Command: []string{"sh", "-c", "echo hook begins >> /shared/log; sleep 5; echo hook ends >> /shared/log"},
		}}}
		pod = podClient.CreateSync(ctx, pod)
		stream, err := f.ClientSet.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &v1.PodLogOptions{Container: "main", Follow: true}).Stream(ctx)
		framework.ExpectNoError(err)
		defer stream.Close() //nolint:errcheck

		patchDynamic(ctx, f, pod.Name, patchToRemove("hooked"))
		time.Sleep(2 * time.Second)
		podClient.DeleteSync(ctx, pod.Name, metav1.DeleteOptions{}, f.Timeouts.PodDelete)
		logs, err := io.ReadAll(stream)
		framework.ExpectNoError(err)
		gomega.Expect(string(logs)).To(gomega.Equal("hook begins\nhook ends\n"))
	})

	ginkgo.It("should follow the logs of a removed container to their end", func(ctx context.Context) {
		pod := dynamicPod("main", "talking")
		pod.Spec.Containers[1].Command = []string{"sh", "-c", "trap 'echo bye; exit 0' TERM; echo hello; while true; do sleep 0.1; done"}
		pod = podClient.CreateSync(ctx, pod)
		stream, err := f.ClientSet.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &v1.PodLogOptions{Container: "talking", Follow: true}).Stream(ctx)
		framework.ExpectNoError(err)
		defer stream.Close() //nolint:errcheck

		patchDynamic(ctx, f, pod.Name, patchToRemove("talking"))
		logs, err := io.ReadAll(stream)
		framework.ExpectNoError(err)
		gomega.Expect(string(logs)).To(gomega.Equal("hello\nbye\n"))
	})

	ginkgo.It("should not be seen in a state that it does not go through", func(ctx context.Context) {
		pod := podClient.CreateSync(ctx, dynamicPod("main"))
		watched := watchTransitions(ctx, f, pod.Name)

		ginkgo.By("adding a container that becomes ready after a while, and removing it")
		slow := sleepingContainer("slow")
		slow.Command[2] = "(sleep 3; touch /tmp/ready) & " + slow.Command[2]
		slow.ReadinessProbe = &v1.Probe{
			ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"test", "-f", "/tmp/ready"}}},
			PeriodSeconds: 1,
		}
		patchDynamic(ctx, f, pod.Name, patchToAdd(slow))
		waitForContainer(ctx, f, pod.Name, "slow", func(s *v1.ContainerStatus) bool { return s.Ready })
		patchDynamic(ctx, f, pod.Name, patchToRemove("slow"))
		waitForContainer(ctx, f, pod.Name, "slow", isTerminated)

		ginkgo.By("adding a container that never becomes ready, and removing it")
		unready := sleepingContainer("unready")
		unready.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"false"}}}, PeriodSeconds: 1}
		patchDynamic(ctx, f, pod.Name, patchToAdd(unready))
		waitForContainer(ctx, f, pod.Name, "unready", isRunning)
		patchDynamic(ctx, f, pod.Name, patchToRemove("unready"))
		waitForContainer(ctx, f, pod.Name, "unready", isTerminated)

		gomega.Expect(watched()).To(gomega.Equal([]string{
			"Running, Ready=True",
			"Running, Ready=False", // slow has been allocated and is not ready
			"Running, Ready=True",  // slow is ready, and then removed
			"Running, Ready=False", // unready has been allocated
			"Running, Ready=True",  // unready is removed
		}))
	})

	ginkgo.It("should not wait for a removed container before it starts an added one", func(ctx context.Context) {
		stubborn := []string{"stubborn0", "stubborn1", "stubborn2", "stubborn3", "stubborn4"}
		pod := dynamicPod(append([]string{"main"}, stubborn...)...)
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
		for i := range pod.Spec.Containers[1:] {
			pod.Spec.Containers[i+1].Command = ignoreSIGTERM
		}
		pod = podClient.CreateSync(ctx, pod)

		start := time.Now()
		updateDynamic(ctx, f, pod.Name, func(pod *v1.Pod) {
			pod.Spec.Containers = []v1.Container{pod.Spec.Containers[0], sleepingContainer("new")}
		})
		waitForContainer(ctx, f, pod.Name, "new", isRunning)
		gomega.Expect(time.Since(start)).To(gomega.BeNumerically("<", 15*time.Second), "the added container waited for a removed one")
		for _, name := range stubborn {
			waitForContainer(ctx, f, pod.Name, name, isTerminated)
		}
		gomega.Expect(time.Since(start)).To(gomega.BeNumerically("<", 45*time.Second), "the removed containers must be killed side by side")
	})

	ginkgo.It("should not wait for a container that takes long to start", func(ctx context.Context) {
		slow := sleepingContainer("slow")
		slow.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sleep", "600"}}}}
		pod := podClient.CreateSync(ctx, dynamicPod("main", "old"))
		patchDynamic(ctx, f, pod.Name, patchToAdd(slow))
		waitForContainer(ctx, f, pod.Name, "slow", func(s *v1.ContainerStatus) bool {
			return s.State.Waiting != nil && s.State.Waiting.Reason == "ContainerCreating"
		})

		ginkgo.By("adding and removing others meanwhile")
		patchDynamic(ctx, f, pod.Name, patchToRemove("old"))
		patchDynamic(ctx, f, pod.Name, patchToAdd(sleepingContainer("new")))
		waitForContainer(ctx, f, pod.Name, "new", isRunning)
		meanwhile := waitForContainer(ctx, f, pod.Name, "old", isTerminated)
		status, _ := podutil.GetContainerStatus(meanwhile.Status.ContainerStatuses, "slow")
		gomega.Expect(status.State.Waiting).NotTo(gomega.BeNil(), "slow must still be starting")
		expectUntouched(pod, meanwhile, "main")

		ginkgo.By("removing it before it has started")
		patchDynamic(ctx, f, pod.Name, patchToRemove("slow"))
		removed := waitForContainer(ctx, f, pod.Name, "slow", isTerminated)
		expectUntouched(meanwhile, removed, "main", "new")
	})

	ginkgo.It("should delete a pod while a removed container ignores SIGTERM", func(ctx context.Context) {
		pod := dynamicPod("main", "stubborn")
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](120)
		pod.Spec.Containers[1].Command = ignoreSIGTERM
		pod = podClient.CreateSync(ctx, pod)

		patchDynamic(ctx, f, pod.Name, patchToRemove("stubborn"))
		start := time.Now()
		podClient.DeleteSync(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](10)}, f.Timeouts.PodDelete)
		gomega.Expect(time.Since(start)).To(gomega.BeNumerically("<", 30*time.Second), "the pod must be gone within its grace period")
	})

	ginkgo.It("should let its node read what an added container refers to for as long as that runs", func(ctx context.Context) {
		secret, err := f.ClientSet.CoreV1().Secrets(f.Namespace.Name).Create(ctx, &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "dynamic-"},
			StringData: map[string]string{"key": "open sesame"},
		}, metav1.CreateOptions{})
		framework.ExpectNoError(err)
		pod := podClient.CreateSync(ctx, dynamicPod("main"))

		config := f.ClientConfig()
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + pod.Spec.NodeName, Groups: []string{user.NodesGroup, user.AllAuthenticated}}
		node, err := clientset.NewForConfig(config)
		framework.ExpectNoError(err)
		getSecret := func(ctx context.Context) error {
			_, err := node.CoreV1().Secrets(secret.Namespace).Get(ctx, secret.Name, metav1.GetOptions{})
			return err
		}
		gomega.Expect(getSecret(ctx)).To(gomega.MatchError(apierrors.IsForbidden, "IsForbidden"), "nothing in the pod refers to the secret")

		added := sleepingContainer("w")
		added.Env = []v1.EnvVar{{Name: "SECRET", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
			LocalObjectReference: v1.LocalObjectReference{Name: secret.Name}, Key: "key",
		}}}}
		added.Command[2] = "echo $SECRET; " + added.Command[2]
		patchDynamic(ctx, f, pod.Name, patchToAdd(added))
		gomega.Eventually(ctx, getSecret).WithTimeout(f.Timeouts.PodStart).Should(gomega.Succeed(), "a container that was added refers to the secret")
		waitForContainer(ctx, f, pod.Name, "w", isRunning)
		gomega.Eventually(ctx, e2epod.GetPodLogs).WithArguments(f.ClientSet, pod.Namespace, pod.Name, "w").
			WithTimeout(f.Timeouts.PodStart).Should(gomega.Equal("open sesame\n"))

		patchDynamic(ctx, f, pod.Name, patchToRemove("w"))
		waitForContainer(ctx, f, pod.Name, "w", isTerminated)
		gomega.Eventually(ctx, getSecret).WithTimeout(f.Timeouts.PodStart).
			Should(gomega.MatchError(apierrors.IsForbidden, "IsForbidden"), "nothing that runs refers to the secret")
	})

	// Serial: what is deferred keeps the scheduler from placing other pods.
	f.It("should allocate all changes of an update or none", f.WithSerial(), func(ctx context.Context) {
		pod := deferChange(ctx, f, podClient)
		expectDeferred(ctx, f, pod, 0)

		ginkgo.By("shrinking the added container to fit")
		updateDynamic(ctx, f, pod.Name, func(pod *v1.Pod) {
			for i := range pod.Spec.Containers {
				if pod.Spec.Containers[i].Name == "new" {
					pod.Spec.Containers[i].Resources.Requests[v1.ResourceCPU] = resource.MustParse("10m")
				}
			}
		})
		waitForContainer(ctx, f, pod.Name, "new", isRunning)
		waitForContainer(ctx, f, pod.Name, "old", isTerminated)
		waitForContainer(ctx, f, pod.Name, "main", func(s *v1.ContainerStatus) bool { return isRunning(s) && s.RestartCount == 1 })
	})

	f.It("should restart containers as they are allocated, and forget a change that is reverted", f.WithSerial(), func(ctx context.Context) {
		// A removal that is pending cannot be reverted: its name is taken until it is done.
		pod := deferChange(ctx, f, podClient, "old")

		ginkgo.By("ending the containers that run")
		for _, name := range []string{"main", "old"} {
			_, _, err := e2epod.ExecCommandInContainerWithFullOutput(f, pod.Name, name, "kill", "1")
			framework.ExpectNoError(err)
			waitForContainer(ctx, f, pod.Name, name, func(s *v1.ContainerStatus) bool { return isRunning(s) && s.RestartCount == 1 })
		}
		expectDeferred(ctx, f, pod, 1)

		ginkgo.By("reverting the change")
		updateDynamic(ctx, f, pod.Name, func(desired *v1.Pod) { desired.Spec.Containers = pod.DeepCopy().Spec.Containers })
		framework.ExpectNoError(framework.Gomega().Eventually(ctx, framework.GetObject(podClient.Get, pod.Name, metav1.GetOptions{})).
			WithTimeout(f.Timeouts.PodStart).Should(framework.MakeMatcher(func(pod *v1.Pod) (func() string, error) {
			_, condition := podutil.GetPodCondition(&pod.Status, v1.PodResizePending)
			_, hasStatus := podutil.GetContainerStatus(pod.Status.ContainerStatuses, "new")
			if condition == nil && !hasStatus {
				return nil, nil
			}
			return func() string {
				return fmt.Sprintf("expected neither condition PodResizePending nor a status of container new in\n%s", framework.PrettyPrintJSON(pod.Status))
			}, nil
		})))
		expectDeferred(ctx, f, pod, 1)
	})
})

// deferChange creates a pod with the containers main and old and updates it so that main gets another
// image, old is removed unless it is among the containers to keep, and new is added with more
// resources than are free. It returns the pod as it was before that, once the change is pending.
func deferChange(ctx context.Context, f *framework.Framework, podClient *e2epod.PodClient, keep ...string) *v1.Pod {
	ginkgo.GinkgoHelper()
	little := resource.MustParse("10m")
	pod := dynamicPod("main", "old")
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Resources.Requests = v1.ResourceList{v1.ResourceCPU: little}
	}
	pod = podClient.CreateSync(ctx, pod)
	node, err := f.ClientSet.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	framework.ExpectNoError(err)
	// With main and old, which counts until it has stopped, as much as the node has, so that the
	// other pod is in the way.
	tooMuch := node.Status.Allocatable.Cpu().DeepCopy()
	tooMuch.Sub(little)
	tooMuch.Sub(little)
	other := dynamicPod("main")
	other.Spec.NodeName = pod.Spec.NodeName
	other.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: little}
	other = podClient.CreateSync(ctx, other)
	// Specs that follow must find the node empty; a namespace is deleted in the background.
	ginkgo.DeferCleanup(e2epod.DeletePodsWithWait, f.ClientSet, []*v1.Pod{pod, other})

	ginkgo.By("adding a container beyond the capacity that is free, with other changes")
	updateDynamic(ctx, f, pod.Name, func(pod *v1.Pod) {
		pod.Spec.Containers = slices.DeleteFunc(pod.Spec.Containers, func(c v1.Container) bool { return c.Name == "old" && !slices.Contains(keep, c.Name) })
		pod.Spec.Containers[0].Image = imageutils.GetE2EImage(imageutils.Agnhost)
		added := sleepingContainer("new")
		added.Resources.Requests = v1.ResourceList{v1.ResourceCPU: tooMuch}
		pod.Spec.Containers = append(pod.Spec.Containers, added)
	})
	pending := waitForContainer(ctx, f, pod.Name, "new", func(s *v1.ContainerStatus) bool {
		return s.State.Waiting != nil && s.State.Waiting.Reason == v1.ContainerReasonUnallocated
	})
	expectUntouched(pod, pending, "main", "old")
	gomega.Expect(podutil.IsPodReady(pending)).To(gomega.BeTrueBecause("an unallocated container does not count"))
	_, condition := podutil.GetPodCondition(&pending.Status, v1.PodResizePending)
	gomega.Expect(condition).To(gomega.HaveField("Reason", v1.PodReasonDeferred), "condition PodResizePending")
	gomega.Expect(condition.Message).To(gomega.ContainSubstring(`added container "new": cpu`), "message of condition PodResizePending")
	return pod
}

// expectDeferred waits until the containers main and old run as they are allocated, restarted so many
// times, and checks for some seconds that they go on and that nothing else is allocated.
func expectDeferred(ctx context.Context, f *framework.Framework, pod *v1.Pod, restarts int32) {
	ginkgo.GinkgoHelper()
	pods := f.ClientSet.CoreV1().Pods(pod.Namespace)
	asAllocated := func(g gomega.Gomega, ctx context.Context) {
		allocated, err := pods.GetAllocated(ctx, pod.Name, metav1.GetOptions{})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(allocated.Spec.Containers).To(gomega.HaveLen(2), "containers in pods/allocated")
		current, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		for i, name := range []string{"main", "old"} {
			g.Expect(allocated.Spec.Containers[i].Name).To(gomega.Equal(name), "container in pods/allocated")
			g.Expect(allocated.Spec.Containers[i].Image).To(gomega.Equal(imageutils.GetE2EImage(imageutils.BusyBox)), "image of container %s in pods/allocated", name)
			s, _ := podutil.GetContainerStatus(current.Status.ContainerStatuses, name)
			g.Expect(s.State.Running).ToNot(gomega.BeNil(), "container %s must go on", name)
			g.Expect(s.RestartCount).To(gomega.Equal(restarts), "restart count of container %s", name)
			g.Expect(s.Image).To(gomega.Equal(imageutils.GetE2EImage(imageutils.BusyBox)), "container %s must keep its image", name)
		}
	}
	gomega.Eventually(ctx, asAllocated).WithTimeout(f.Timeouts.PodStart).Should(gomega.Succeed())
	gomega.Consistently(ctx, asAllocated).WithTimeout(5 * time.Second).Should(gomega.Succeed())
}

// watchTransitions watches the pod until the returned function is called, which returns the states
// that the pod went through, see readinessOf, and reports all that was seen.
func watchTransitions(ctx context.Context, f *framework.Framework, podName string) func() []string {
	ginkgo.GinkgoHelper()
	pods := f.ClientSet.CoreV1().Pods(f.Namespace.Name)
	ctx, cancel := context.WithCancel(ctx)
	watcher, err := pods.Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: podName}))
	framework.ExpectNoError(err)
	var transitions, seen []string
	done := make(chan struct{})
	go func() {
		defer ginkgo.GinkgoRecover()
		defer close(done)
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*v1.Pod); ok {
				transitions = append(transitions, readinessOf(pod))
				seen = append(seen, fmt.Sprintf("%s %s", time.Now().Format("15:04:05.000"), describeStatus(pod)))
			}
		}
	}()
	return func() []string {
		ginkgo.GinkgoHelper()
		// The last event is under way.
		time.Sleep(time.Second)
		watcher.Stop()
		cancel()
		<-done
		ginkgo.AddReportEntry("What a watcher saw of the pod", strings.Join(seen, "\n"))
		return slices.Compact(transitions)
	}
}

// readinessOf returns the phase of a pod that runs and whether it is ready, and names each of its
// other conditions that does not go with that.
func readinessOf(pod *v1.Pod) string {
	statusOf := func(conditionType v1.PodConditionType) v1.ConditionStatus {
		if _, condition := podutil.GetPodCondition(&pod.Status, conditionType); condition != nil {
			return condition.Status
		}
		return v1.ConditionUnknown
	}
	ready := statusOf(v1.PodReady)
	readiness := fmt.Sprintf("%s, Ready=%s", pod.Status.Phase, ready)
	for _, other := range []struct {
		conditionType v1.PodConditionType
		expected      v1.ConditionStatus
	}{
		{v1.ContainersReady, ready},
		{v1.PodScheduled, v1.ConditionTrue},
		{v1.PodInitialized, v1.ConditionTrue},
		{v1.PodReadyToStartContainers, v1.ConditionTrue},
		{v1.PodResizePending, v1.ConditionUnknown},
		{v1.DisruptionTarget, v1.ConditionUnknown},
	} {
		if status := statusOf(other.conditionType); status != other.expected {
			readiness += fmt.Sprintf(", %s=%s", other.conditionType, status)
		}
	}
	return readiness
}

// describeStatus returns the phase of the pod, its conditions, and the states of its containers.
func describeStatus(pod *v1.Pod) string {
	words := []string{string(pod.Status.Phase)}
	for _, c := range pod.Status.Conditions {
		words = append(words, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	for _, s := range pod.Status.ContainerStatuses {
		state := "running"
		switch {
		case s.State.Waiting != nil:
			state = s.State.Waiting.Reason
		case s.State.Terminated != nil:
			state = fmt.Sprintf("terminated(%d)", s.State.Terminated.ExitCode)
		case s.Ready:
			state = "ready"
		}
		words = append(words, s.Name+":"+state)
	}
	return strings.Join(words, " ")
}

// ignoreSIGTERM is a command that only SIGKILL ends.
var ignoreSIGTERM = []string{"sh", "-c", "trap '' TERM; while true; do sleep 1; done"}

func sleepingContainer(name string) v1.Container {
	return v1.Container{
		Name:    name,
		Image:   imageutils.GetE2EImage(imageutils.BusyBox),
		Command: []string{"sh", "-c", "trap 'exit 0' TERM; while true; do sleep 0.1; done"},
	}
}

func dynamicPod(containers ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "dynamic-"}}
	for _, name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, sleepingContainer(name))
	}
	return pod
}

func patchToAdd(containers ...v1.Container) any {
	return map[string]any{"spec": map[string]any{"containers": containers}}
}

func patchToRemove(name string) any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": name, "$patch": "delete"}}}}
}

// patchDynamic patches the dynamic subresource of a pod with a strategic merge patch.
func patchDynamic(ctx context.Context, f *framework.Framework, podName string, patch any) {
	ginkgo.GinkgoHelper()
	data, err := json.Marshal(patch)
	framework.ExpectNoError(err)
	_, err = f.ClientSet.CoreV1().Pods(f.Namespace.Name).Patch(ctx, podName, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "dynamic")
	framework.ExpectNoError(err, "patch pods/dynamic of %s", podName)
}

// updateDynamic updates the dynamic subresource of a pod.
func updateDynamic(ctx context.Context, f *framework.Framework, podName string, update func(*v1.Pod)) {
	ginkgo.GinkgoHelper()
	pods := f.ClientSet.CoreV1().Pods(f.Namespace.Name)
	framework.ExpectNoError(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		pod, err := pods.Get(ctx, podName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		update(pod)
		_, err = pods.UpdateDynamic(ctx, podName, pod, metav1.UpdateOptions{})
		return err
	}), "update pods/dynamic of %s", podName)
}

func isRunning(s *v1.ContainerStatus) bool { return s.State.Running != nil }

func isTerminated(s *v1.ContainerStatus) bool { return s.State.Terminated != nil }

// waitForContainer waits until the status of a container is as wanted, and returns the pod.
func waitForContainer(ctx context.Context, f *framework.Framework, podName, containerName string, wanted func(*v1.ContainerStatus) bool) *v1.Pod {
	ginkgo.GinkgoHelper()
	var found *v1.Pod
	err := framework.Gomega().Eventually(ctx, framework.GetObject(f.ClientSet.CoreV1().Pods(f.Namespace.Name).Get, podName, metav1.GetOptions{})).
		WithTimeout(f.Timeouts.PodStart).WithPolling(100 * time.Millisecond).
		Should(framework.MakeMatcher(func(pod *v1.Pod) (func() string, error) {
			found = pod
			for i := range pod.Status.ContainerStatuses {
				if s := &pod.Status.ContainerStatuses[i]; s.Name == containerName && wanted(s) {
					return nil, nil
				}
			}
			return func() string {
				return fmt.Sprintf("container %s is not as wanted in\n%s", containerName, framework.PrettyPrintJSON(pod.Status))
			}, nil
		}))
	framework.ExpectNoError(err)
	return found
}

// expectUntouched checks that the pod is still the same, and that its named containers were neither
// replaced nor restarted.
func expectUntouched(before, after *v1.Pod, containers ...string) {
	ginkgo.GinkgoHelper()
	gomega.Expect(after.UID).To(gomega.Equal(before.UID), "UID of the pod")
	gomega.Expect(after.Status.PodIP).To(gomega.Equal(before.Status.PodIP), "IP of the pod")
	gomega.Expect(after.Status.Phase).To(gomega.Equal(v1.PodRunning), "phase of the pod")
	for _, name := range containers {
		old, _ := podutil.GetContainerStatus(before.Status.ContainerStatuses, name)
		now, ok := podutil.GetContainerStatus(after.Status.ContainerStatuses, name)
		gomega.Expect(ok).To(gomega.BeTrueBecause("container %s must have a status", name))
		gomega.Expect(now.ContainerID).To(gomega.Equal(old.ContainerID), "ID of container %s", name)
		gomega.Expect(now.RestartCount).To(gomega.Equal(old.RestartCount), "restart count of container %s", name)
	}
}
