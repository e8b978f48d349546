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

package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	applyconfigurations "k8s.io/client-go/applyconfigurations/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	kubeapiservertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/test/integration/framework"
)

// podSubresources returns the subresources of pods in discovery.
func podSubresources(t *testing.T, client clientset.Interface) sets.Set[string] {
	t.Helper()
	resources, err := client.Discovery().ServerResourcesForGroupVersion("v1")
	if err != nil {
		t.Fatal(err)
	}
	subresources := sets.New[string]()
	for _, r := range resources.APIResources {
		if subresource, ok := strings.CutPrefix(r.Name, "pods/"); ok {
			subresources.Insert(subresource)
		}
	}
	return subresources
}

// openAPIPodSubresources returns the subresources of pods in a version of OpenAPI.
func openAPIPodSubresources(t *testing.T, client clientset.Interface, url string) sets.Set[string] {
	t.Helper()
	data, err := client.Discovery().RESTClient().Get().AbsPath(url).SetHeader("Accept", "application/json").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]json.RawMessage
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	subresources := sets.New[string]()
	for path := range doc.Paths {
		if rest, ok := strings.CutPrefix(path, "/api/v1/namespaces/{namespace}/pods/{name}/"); ok {
			subresource, _, _ := strings.Cut(rest, "/")
			subresources.Insert(subresource)
		}
	}
	return subresources
}

// A disabled subresource is as if it had never been there, for everyone; the others work.
func TestDisablePodSubresources(t *testing.T) {
	var all sets.Set[string]
	t.Run("nothing is disabled by default", func(t *testing.T) {
		client, _ := startDynamicServer(t, true)
		all = podSubresources(t, client)
		if want := sets.New("attach", "binding", "dynamic", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize", "status"); !all.IsSuperset(want) {
			t.Fatalf("want at least %v, got %v", sets.List(want), sets.List(all))
		}
	})

	disabled := []string{"dynamic", "ephemeralcontainers", "exec", "proxy"}
	client, config := startDynamicServer(t, true, "--disable-pod-subresources="+strings.Join(disabled, ","))
	want := all.Difference(sets.New(disabled...))
	for name, got := range map[string]sets.Set[string]{
		"discovery":  podSubresources(t, client),
		"OpenAPI v2": openAPIPodSubresources(t, client, "/openapi/v2"),
		"OpenAPI v3": openAPIPodSubresources(t, client, "/openapi/v3/api/v1"),
	} {
		if diff := cmp.Diff(sets.List(want), sets.List(got)); diff != "" {
			t.Errorf("unexpected subresources of pods in %s (-want +got):\n%s", name, diff)
		}
	}

	ns := framework.CreateNamespaceOrDie(client, "disable-subresources", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	pods := client.CoreV1().Pods(ns.Name)
	pod := createRunningPod(t, client, ns.Name, dynamicNode)

	t.Run("requests are answered with 404", func(t *testing.T) {
		path := func(subresource string) string {
			return "/api/v1/namespaces/" + ns.Name + "/pods/" + pod.Name + "/" + subresource
		}
		_, getErr := client.CoreV1().RESTClient().Get().AbsPath(path("dynamic")).DoRaw(t.Context())
		_, putErr := pods.UpdateDynamic(t.Context(), pod.Name, pod, metav1.UpdateOptions{})
		_, patchErr := pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"c","image":"image"}]}}`), metav1.PatchOptions{}, "dynamic")
		_, applyErr := pods.Patch(t.Context(), pod.Name, types.ApplyYAMLPatchType, []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+pod.Name+`"},"spec":{"containers":[{"name":"c","image":"image"}]}}`), metav1.PatchOptions{FieldManager: "manager"}, "dynamic")
		_, ephemeralErr := pods.UpdateEphemeralContainers(t.Context(), pod.Name, pod, metav1.UpdateOptions{})
		_, execErr := client.CoreV1().RESTClient().Post().AbsPath(path("exec")).Param("command", "true").DoRaw(t.Context())
		_, proxyErr := client.CoreV1().RESTClient().Get().AbsPath(path("proxy")).DoRaw(t.Context())
		_, proxyPathErr := client.CoreV1().RESTClient().Get().AbsPath(path("proxy/healthz")).DoRaw(t.Context())
		for request, err := range map[string]error{
			"get dynamic": getErr, "put dynamic": putErr, "patch dynamic": patchErr, "apply dynamic": applyErr,
			"put ephemeralcontainers": ephemeralErr, "post exec": execErr, "get proxy": proxyErr, "get proxy/healthz": proxyPathErr,
		} {
			if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Code != http.StatusNotFound {
				t.Errorf("%s: got error %v, want 404", request, err)
			}
		}
		stored, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pod, stored); diff != "" {
			t.Errorf("the pod was changed (-want +got):\n%s", diff)
		}
	})

	t.Run("other subresources work", func(t *testing.T) {
		reported := pod.DeepCopy()
		for i := range reported.Status.ContainerStatuses {
			// Nodes that support resize report resources.
			reported.Status.ContainerStatuses[i].Resources = &v1.ResourceRequirements{}
		}
		if reported, err := pods.UpdateStatus(t.Context(), reported, metav1.UpdateOptions{}); err != nil {
			t.Errorf("update of pods/status: %v", err)
		} else if _, err := pods.UpdateResize(t.Context(), pod.Name, reported, metav1.UpdateOptions{}); err != nil {
			t.Errorf("update of pods/resize: %v", err)
		}
		if err := client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/"+ns.Name+"/pods/"+pod.Name+"/log").Param("container", "unknown").Do(t.Context()).Error(); err == nil || !strings.Contains(err.Error(), "container unknown is not valid for pod") {
			t.Errorf("get of pods/log: %v", err)
		}
		toBind, err := pods.Create(t.Context(), &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "to-bind-"},
			Spec: v1.PodSpec{Containers: []v1.Container{{
				Name: "a", Image: "image", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1m")}},
			}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: toBind.Name}, Target: v1.ObjectReference{Kind: "Node", Name: dynamicNode}}
		if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Errorf("create of pods/binding: %v", err)
		}
		if err := pods.Delete(t.Context(), toBind.Name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Error(err)
		}
	})

	t.Run("other resources keep theirs", func(t *testing.T) {
		resources, err := clientset.NewForConfigOrDie(config).Discovery().ServerResourcesForGroupVersion("v1")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == "nodes/proxy" }) {
			t.Error("discovery does not list nodes/proxy")
		}
	})
}

// A pod that was changed through a subresource can be used after the subresource was disabled.
func TestDisablePodSubresourcesAfterUse(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.KubeletAllocatedPodsEndpoint: true,
		features.DynamicContainers:            true,
	})
	// Both servers have the same data, as one that is restarted with another flag.
	storage := framework.SharedEtcd()
	start := func(flags ...string) (*kubeapiservertesting.TestServer, *clientset.Clientset) {
		server := kubeapiservertesting.StartTestServerOrDie(t, nil, append(framework.DefaultTestServerFlags(), flags...), storage)
		return server, clientset.NewForConfigOrDie(server.ClientConfig)
	}

	before, client := start()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: dynamicNode}, Status: v1.NodeStatus{DeclaredFeatures: []string{"DynamicContainers"}}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ns := framework.CreateNamespaceOrDie(client, "disable-after-use", t)
	created, err := client.CoreV1().Pods(ns.Name).Create(t.Context(), &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec:       v1.PodSpec{NodeName: dynamicNode, Containers: []v1.Container{{Name: "a", Image: "image"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created.Status = v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodInitialized, Status: v1.ConditionTrue}}}
	if _, err := client.CoreV1().Pods(ns.Name).UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	apply := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod"},"spec":{"containers":[{"name":"b","image":"image"}]}}`)
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, wait.ForeverTestTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Pods(ns.Name).Patch(ctx, "pod", types.ApplyYAMLPatchType, apply, metav1.PatchOptions{FieldManager: "manager"}, "dynamic")
		if err != nil && strings.Contains(err.Error(), fmt.Sprintf("node %q not found", dynamicNode)) {
			return false, nil // Admission reads nodes from an informer, which may not have seen it yet.
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	before.TearDownFn()

	after, client := start("--disable-pod-subresources=dynamic")
	defer after.TearDownFn()
	pods := client.CoreV1().Pods(ns.Name)
	labels := applyconfigurations.Pod("pod", ns.Name).WithLabels(map[string]string{"a": "b"})
	pod, err := pods.Apply(t.Context(), labels, metav1.ApplyOptions{FieldManager: "manager"})
	if err != nil {
		t.Fatalf("apply of the pod: %v", err)
	}
	if diff := cmp.Diff(sets.New("a", "b"), sets.New(containerNames(pod)...)); diff != "" {
		t.Errorf("unexpected containers (-want +got):\n%s", diff)
	}
	pod.Status.Message = "still reported"
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Errorf("update of the status: %v", err)
	}
	if err := pods.Delete(t.Context(), pod.Name, *metav1.NewDeleteOptions(0)); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// A server with a wrong list of subresources does not start.
func TestDisablePodSubresourcesRefused(t *testing.T) {
	for list, want := range map[string]string{
		"status":          `"status" cannot be disabled`,
		"exec,binding":    `"binding" cannot be disabled`,
		"eviction":        `"eviction" cannot be disabled`,
		"dynamik,resize":  `"dynamik" is not the name of a subresource of pods`,
		"pods/dynamic":    `"pods/dynamic" is not the name of a subresource of pods`,
		"dynamic,proxy,*": `"*" is not the name of a subresource of pods`,
	} {
		t.Run(list, func(t *testing.T) {
			server, err := kubeapiservertesting.StartTestServer(t, kubeapiservertesting.NewDefaultTestServerOptions(),
				append(framework.DefaultTestServerFlags(), "--disable-pod-subresources="+list), framework.SharedEtcd())
			if err == nil {
				server.TearDownFn()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want one with %q", err, want)
			}
		})
	}
}
