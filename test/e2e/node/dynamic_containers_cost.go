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
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/test/e2e/framework"
	e2enode "k8s.io/kubernetes/test/e2e/framework/node"
	e2epod "k8s.io/kubernetes/test/e2e/framework/pod"
	admissionapi "k8s.io/pod-security-admission/api"
)

// How many calls an addition and a removal may make does not depend on how fast the machine is.
var _ = SIGDescribe("Dynamic Containers and the calls that they make", framework.WithFeatureGate(features.DynamicContainers), framework.WithSerial(), func() {
	f := framework.NewDefaultFramework("dynamic-containers-cost")
	f.NamespacePodSecurityLevel = admissionapi.LevelBaseline

	ginkgo.It("should add and remove a container with few of them, however many containers the pod has", func(ctx context.Context) {
		var others []string
		for i := range 8 {
			others = append(others, fmt.Sprintf("other%d", i))
		}
		pod := e2epod.NewPodClient(f).CreateSync(ctx, dynamicPod(others...))
		node, err := f.ClientSet.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		framework.ExpectNoError(err)

		// Whatever else goes on in the cluster adds to some of the samples; what an addition itself
		// does is in all of them.
		added, removed := calls{}, calls{}
		const samples = 5
		for i := range samples {
			name := fmt.Sprintf("w%d", i)
			added.least(i == 0, countCalls(ctx, f, node, func() {
				patchDynamic(ctx, f, pod.Name, patchToAdd(sleepingContainer(name)))
				waitForContainer(ctx, f, pod.Name, name, isRunning)
			}))
			removed.least(i == 0, countCalls(ctx, f, node, func() {
				patchDynamic(ctx, f, pod.Name, patchToRemove(name))
				waitForContainer(ctx, f, pod.Name, name, isTerminated)
			}))
		}
		framework.Logf("calls of an addition: %v", added)
		framework.Logf("calls of a removal: %v", removed)
		gomega.Expect(added.unlike(callsOfAddition)).To(gomega.BeEmpty(), "calls of an addition: %v", added)
		gomega.Expect(removed.unlike(callsOfRemoval)).To(gomega.BeEmpty(), "calls of a removal: %v", removed)
	})
})

// calls is a number of calls by what is called.
type calls map[string]float64

// What is known of a pod with eight other containers. A relist reads the status of each container, now
// and then of some more; a second relist would read nine.
var (
	callsOfAddition = calls{
		"API PATCH pods/status":     2,
		"checkpoint writes":         1,
		"relists of a pod":          1,
		"runtime container_status":  12,
		"runtime create_container":  1,
		"runtime image_status":      2,
		"runtime podsandbox_status": 1,
		"runtime start_container":   1,
		"syncs of a pod":            2,
	}
	callsOfRemoval = calls{
		"API PATCH pods/status":     3,
		"checkpoint writes":         1,
		"relists of a pod":          2,
		"runtime container_status":  28,
		"runtime podsandbox_status": 2,
		"runtime stop_container":    1,
		"syncs of a pod":            3,
	}
)

// least makes c the least of c and other, or other if c is not set yet.
func (c calls) least(first bool, other calls) {
	if first {
		maps.Copy(c, other)
	}
	for what := range c {
		c[what] = min(c[what], other[what])
	}
}

// unlike returns what is called more often than limit says, and what should be called and is not: then
// it is not counted any more, and the limit means nothing.
func (c calls) unlike(limit calls) []string {
	var unlike []string
	for what, count := range c {
		if count > limit[what] {
			unlike = append(unlike, fmt.Sprintf("%s: %v, at most %v expected", what, count, limit[what]))
		}
	}
	for what := range limit {
		if c[what] == 0 {
			unlike = append(unlike, what+": none seen")
		}
	}
	slices.Sort(unlike)
	return unlike
}

// countCalls returns the calls that are made while f runs and until all is quiet again.
func countCalls(ctx context.Context, f *framework.Framework, node *v1.Node, run func()) calls {
	ginkgo.GinkgoHelper()
	before := readCalls(ctx, f, node)
	run()
	time.Sleep(2 * time.Second)
	after := readCalls(ctx, f, node)
	for what, count := range before {
		if after[what] -= count; after[what] == 0 {
			delete(after, what)
		}
	}
	return after
}

// readCalls returns the calls that the kubelet and the API server have counted, without those that
// are made from time to time whether or not something changes.
func readCalls(ctx context.Context, f *framework.Framework, node *v1.Node) calls {
	ginkgo.GinkgoHelper()
	result := calls{}
	kubelet := kubeletMetrics(ctx, f, node)
	for _, sample := range kubelet["kubelet_runtime_operations_total"] {
		operation := string(sample.Metric["operation_type"])
		if !slices.Contains([]string{"list_containers", "list_podsandbox", "status", "version", "list_images", "image_fs_info", "list_container_stats", "exec_sync"}, operation) {
			result["runtime "+operation] += float64(sample.Value)
		}
	}
	for metric, what := range map[string]string{
		"kubelet_pod_worker_duration_seconds_count":            "syncs of a pod",
		"kubelet_pleg_pod_relist_duration_seconds_count":       "relists of a pod",
		"kubelet_allocation_checkpoint_duration_seconds_count": "checkpoint writes",
	} {
		for _, sample := range kubelet[metric] {
			result[what] += float64(sample.Value)
		}
	}

	data, err := f.ClientSet.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	framework.ExpectNoError(err)
	for _, sample := range parseMetrics(data)["apiserver_request_total"] {
		resource, subresource, verb := string(sample.Metric["resource"]), string(sample.Metric["subresource"]), string(sample.Metric["verb"])
		switch {
		case resource == "events":
			result["API events"] += float64(sample.Value)
		case resource == "pods" && subresource == "status":
			result[fmt.Sprintf("API %s pods/status", verb)] += float64(sample.Value)
		}
	}
	return result
}

func kubeletMetrics(ctx context.Context, f *framework.Framework, node *v1.Node) testutil.Metrics {
	ginkgo.GinkgoHelper()
	return parseMetrics(getFromKubelet(ctx, f, node, "/metrics"))
}

// getFromKubelet asks the kubelet itself: not every cluster can reach it through the API server's proxy.
func getFromKubelet(ctx context.Context, f *framework.Framework, node *v1.Node, path string) []byte {
	ginkgo.GinkgoHelper()
	address := node.Name
	if addresses := e2enode.GetAddresses(node, v1.NodeInternalIP); len(addresses) > 0 {
		address = addresses[0]
	}
	config := rest.CopyConfig(f.ClientConfig())
	config.TLSClientConfig.Insecure, config.TLSClientConfig.CAData, config.TLSClientConfig.CAFile = true, nil, ""
	client, err := rest.HTTPClientFor(config)
	framework.ExpectNoError(err)
	url := "https://" + net.JoinHostPort(address, strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	framework.ExpectNoError(err)
	response, err := client.Do(request)
	framework.ExpectNoError(err)
	defer response.Body.Close() //nolint:errcheck
	data, err := io.ReadAll(response.Body)
	framework.ExpectNoError(err)
	gomega.Expect(response.StatusCode).To(gomega.Equal(http.StatusOK), "GET %s: %s", url, strings.TrimSpace(string(data)))
	return data
}

func parseMetrics(data []byte) testutil.Metrics {
	ginkgo.GinkgoHelper()
	metrics := testutil.NewMetrics()
	framework.ExpectNoError(testutil.ParseMetrics(string(data), &metrics))
	return metrics
}
