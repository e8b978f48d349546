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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/dynamiccontainers"
	kubeapiservertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	rbachelper "k8s.io/kubernetes/pkg/apis/rbac/v1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/test/integration/authutil"
	"k8s.io/kubernetes/test/integration/framework"
)

const (
	dynamicNode = "dynamic-node" // declares DynamicContainers
	staticNode  = "static-node"  // does not
)

// startDynamicServer starts an API server with the gate on or off and with the two nodes.
func startDynamicServer(t testing.TB, enabled bool, flags ...string) (*clientset.Clientset, *rest.Config) {
	t.Helper()
	return startDynamicServerWithFlags(t, enabled, append(framework.DefaultTestServerFlags(), flags...))
}

// startDynamicServerWithFlags is startDynamicServer without the flags that integration tests usually have.
func startDynamicServerWithFlags(t testing.TB, enabled bool, flags []string) (*clientset.Clientset, *rest.Config) {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.InPlacePodVerticalScaling:    true,
		features.NodeDeclaredFeatures:         true,
		features.KubeletAllocatedPodsEndpoint: true,
		features.DynamicContainers:            enabled,
	})
	server := kubeapiservertesting.StartTestServerOrDie(t, nil, flags, framework.SharedEtcd())
	t.Cleanup(server.TearDownFn)
	client := clientset.NewForConfigOrDie(server.ClientConfig)
	for name, declared := range map[string][]string{dynamicNode: {dynamiccontainers.Feature.Name()}, staticNode: nil} {
		resources := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("4Gi")}
		node := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     v1.NodeStatus{DeclaredFeatures: declared, Allocatable: resources, Capacity: resources},
		}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	return client, server.ClientConfig
}

// createRunningPod creates a pod with containers "a" and "b" on the node, as a kubelet reports it once it runs.
func createRunningPod(t testing.TB, client clientset.Interface, namespace, node string) *v1.Pod {
	t.Helper()
	return createRunningPodWith(t, client, namespace, node, func(*v1.Pod) {})
}

// createRunningPodWith is createRunningPod for a pod that is changed before it is created.
func createRunningPodWith(t testing.TB, client clientset.Interface, namespace, node string, change func(*v1.Pod)) *v1.Pod {
	t.Helper()
	pods := client.CoreV1().Pods(namespace)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "dynamic-"},
		Spec: v1.PodSpec{
			NodeName:   node,
			Containers: []v1.Container{{Name: "a", Image: "image"}, {Name: "b", Image: "image"}},
		},
	}
	change(pod)
	pod, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := pods.Delete(context.Background(), pod.Name, *metav1.NewDeleteOptions(0))
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	pod.Status = v1.PodStatus{
		Phase:      v1.PodRunning,
		Conditions: []v1.PodCondition{{Type: v1.PodInitialized, Status: v1.ConditionTrue}},
	}
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: "image", ContainerID: "test://" + container.Name,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		})
	}
	if pod, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	if node == "" {
		return pod
	}
	// Admission reads nodes from an informer, which may not have seen the node yet.
	probe := []byte(`{"spec":{"containers":[{"name":"probe","image":"image"}]}}`)
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, wait.ForeverTestTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, probe, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "dynamic")
		return err == nil || !strings.Contains(err.Error(), fmt.Sprintf("node %q not found", node)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func containerNames(pod *v1.Pod) []string {
	var names []string
	for _, container := range pod.Spec.Containers {
		names = append(names, container.Name)
	}
	return names
}

// A PUT, every kind of patch and server-side apply change the list of containers alike.
func TestDynamicUpdates(t *testing.T) {
	client, _ := startDynamicServer(t, true)
	ns := framework.CreateNamespaceOrDie(client, "dynamic-updates", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	pods := client.CoreV1().Pods(ns.Name)

	patch := func(kind types.PatchType, format string) func(*testing.T, *v1.Pod) (*v1.Pod, error) {
		return func(t *testing.T, pod *v1.Pod) (*v1.Pod, error) {
			// The containers as the server defaulted them: a merge patch and an apply name all of them.
			containers, err := json.Marshal(pod.Spec.Containers)
			if err != nil {
				t.Fatal(err)
			}
			options := metav1.PatchOptions{}
			if kind == types.ApplyYAMLPatchType {
				options.FieldManager = "manager"
			}
			data := strings.NewReplacer("NAME", pod.Name, "CONTAINERS", string(containers)).Replace(format)
			return pods.Patch(t.Context(), pod.Name, kind, []byte(data), options, "dynamic")
		}
	}
	tests := map[string]struct {
		update func(*testing.T, *v1.Pod) (*v1.Pod, error)
		want   []string
	}{
		"PUT": {
			update: func(t *testing.T, pod *v1.Pod) (*v1.Pod, error) {
				pod.Spec.Containers = []v1.Container{{Name: "c", Image: "image"}, pod.Spec.Containers[1]}
				return pods.UpdateDynamic(t.Context(), pod.Name, pod, metav1.UpdateOptions{})
			},
			want: []string{"c", "b"},
		},
		"strategic merge patch": {
			update: patch(types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"a","$patch":"delete"},{"name":"c","image":"image"}]}}`),
			want:   []string{"c", "b"},
		},
		"JSON merge patch": {
			update: patch(types.MergePatchType, `{"spec":{"containers":[{"name":"c","image":"image"}]}}`),
			want:   []string{"c"},
		},
		"JSON patch": {
			update: patch(types.JSONPatchType, `[{"op":"remove","path":"/spec/containers/0"},{"op":"add","path":"/spec/containers/-","value":{"name":"c","image":"image"}}]`),
			want:   []string{"b", "c"},
		},
		"server-side apply": {
			update: patch(types.ApplyYAMLPatchType, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"containers":[{"name":"c","image":"image"}]}}`),
			want:   []string{"a", "b", "c"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := createRunningPod(t, client, ns.Name, dynamicNode)
			got, err := test.update(t, pod.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			stored, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for what, got := range map[string]*v1.Pod{"answered": got, "stored": stored} {
				if diff := cmp.Diff(test.want, containerNames(got)); diff != "" {
					t.Errorf("unexpected containers %s (-want +got):\n%s", what, diff)
				}
				if got.Generation != pod.Generation+1 {
					t.Errorf("generation %s: got %d, want %d", what, got.Generation, pod.Generation+1)
				}
				if diff := cmp.Diff(pod.Status, got.Status); diff != "" {
					t.Errorf("unexpected change of the status %s (-want +got):\n%s", what, diff)
				}
			}
			for _, container := range stored.Spec.Containers {
				if container.TerminationMessagePath == "" || container.ImagePullPolicy == "" {
					t.Errorf("container %s was not defaulted", container.Name)
				}
			}
		})
	}

	t.Run("a dry run stores nothing", func(t *testing.T) {
		pod := createRunningPod(t, client, ns.Name, dynamicNode)
		data := []byte(`{"spec":{"containers":[{"name":"c","image":"image"}]}}`)
		got, err := pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "dynamic")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"c", "a", "b"}, containerNames(got)); diff != "" {
			t.Errorf("unexpected containers answered (-want +got):\n%s", diff)
		}
		stored, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pod, stored); diff != "" {
			t.Errorf("the dry run was stored (-want +got):\n%s", diff)
		}
	})
}

// What is refused is refused with a status and a message that tell why, and stores nothing.
func TestDynamicUpdatesRefused(t *testing.T) {
	client, _ := startDynamicServer(t, true)
	ns := framework.CreateNamespaceOrDie(client, "dynamic-refused", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	pods := client.CoreV1().Pods(ns.Name)

	tests := map[string]struct {
		node       string
		prepare    func(t *testing.T, pod *v1.Pod)
		update     func(pod *v1.Pod)
		wantReason metav1.StatusReason
		wantError  string
	}{
		"change of a retained container": {
			node:       dynamicNode,
			update:     func(pod *v1.Pod) { pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "1"}} },
			wantReason: metav1.StatusReasonInvalid,
			wantError:  "spec.containers[0].env",
		},
		"removal of all containers": {
			node:       dynamicNode,
			update:     func(pod *v1.Pod) { pod.Spec.Containers = nil },
			wantReason: metav1.StatusReasonInvalid,
			wantError:  "spec.containers: Required value",
		},
		"privileged container": {
			node: dynamicNode,
			update: func(pod *v1.Pod) {
				privileged := true
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
					Name: "c", Image: "image", TerminationMessagePolicy: v1.TerminationMessageReadFile, ImagePullPolicy: v1.PullAlways,
					SecurityContext: &v1.SecurityContext{Privileged: &privileged},
				})
			},
			wantReason: metav1.StatusReasonInvalid,
			wantError:  "spec.containers[2].securityContext.privileged",
		},
		"pod that does not run": {
			node: dynamicNode,
			prepare: func(t *testing.T, pod *v1.Pod) {
				pod.Status.Phase = v1.PodPending
				if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			},
			update:     func(pod *v1.Pod) { pod.Spec.Containers = pod.Spec.Containers[:1] },
			wantReason: metav1.StatusReasonInvalid,
			wantError:  "wait until it is Running",
		},
		"node that does not declare the feature": {
			node:       staticNode,
			update:     func(pod *v1.Pod) { pod.Spec.Containers = pod.Spec.Containers[:1] },
			wantReason: metav1.StatusReasonForbidden,
			wantError:  "requires features DynamicContainers which are not available on node",
		},
		"old resource version": {
			node: dynamicNode,
			prepare: func(t *testing.T, pod *v1.Pod) {
				pod.Labels = map[string]string{"newer": ""}
				if _, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			},
			update:     func(pod *v1.Pod) { pod.Spec.Containers = pod.Spec.Containers[:1] },
			wantReason: metav1.StatusReasonConflict,
			wantError:  "the object has been modified",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := createRunningPod(t, client, ns.Name, test.node)
			if test.prepare != nil {
				test.prepare(t, pod.DeepCopy())
			}
			before, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			updated := pod.DeepCopy()
			if test.wantReason != metav1.StatusReasonConflict {
				updated = before.DeepCopy()
			}
			test.update(updated)

			_, err = pods.UpdateDynamic(t.Context(), pod.Name, updated, metav1.UpdateOptions{})

			if got := apierrors.ReasonForError(err); got != test.wantReason || !strings.Contains(err.Error(), test.wantError) {
				t.Errorf("got error %v with reason %q, want %q and a message with %q", err, got, test.wantReason, test.wantError)
			}
			after, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the refused update changed the pod (-before +after):\n%s", diff)
			}
		})
	}

	t.Run("pods/dynamic creates no pod", func(t *testing.T) {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "absent"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a", Image: "image"}}}}
		if _, err := pods.UpdateDynamic(t.Context(), pod.Name, pod, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("got error %v, want not found", err)
		}
	})
	t.Run("the main resource and pods/resize add no container", func(t *testing.T) {
		pod := createRunningPod(t, client, ns.Name, dynamicNode)
		data := []byte(`{"spec":{"containers":[{"name":"c","image":"image"}]}}`)
		for _, subresources := range [][]string{nil, {"resize"}} {
			if _, err := pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresources...); !apierrors.IsInvalid(err) {
				t.Errorf("patch of pods/%s: got error %v, want invalid", strings.Join(subresources, ""), err)
			}
		}
	})
}

// With the gate off there is no such subresource, neither to call nor to discover.
func TestDynamicDisabled(t *testing.T) {
	for name, enabled := range map[string]bool{"off": false, "on": true} {
		t.Run(name, func(t *testing.T) {
			client, _ := startDynamicServer(t, enabled)
			ns := framework.CreateNamespaceOrDie(client, "dynamic-disabled", t)
			defer framework.DeleteNamespaceOrDie(client, ns, t)
			pod := createRunningPod(t, client, ns.Name, dynamicNode)
			_, err := client.CoreV1().Pods(ns.Name).UpdateDynamic(t.Context(), pod.Name, pod, metav1.UpdateOptions{})
			if enabled && err != nil || !enabled && !apierrors.IsNotFound(err) {
				t.Errorf("update of pods/dynamic with the gate %s: %v", name, err)
			}

			resources, err := client.Discovery().ServerResourcesForGroupVersion("v1")
			if err != nil {
				t.Fatal(err)
			}
			var verbs []string
			for _, r := range resources.APIResources {
				if r.Name == "pods/dynamic" {
					verbs = r.Verbs
				}
			}
			var want []string
			if enabled {
				want = []string{"get", "patch", "update"}
			}
			if diff := cmp.Diff(want, verbs); diff != "" {
				t.Errorf("unexpected verbs of pods/dynamic in discovery (-want +got):\n%s", diff)
			}
		})
	}
}

// Permission on pods/dynamic comes with no default role and with no permission on pods.
func TestDynamicRBAC(t *testing.T) {
	client, config := startDynamicServer(t, true, "--authorization-mode=RBAC")
	ns := framework.CreateNamespaceOrDie(client, "dynamic-rbac", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	pod := createRunningPod(t, client, ns.Name, dynamicNode)

	rulesOf := func(role string) []rbacv1.PolicyRule {
		t.Helper()
		// Aggregated roles get their rules from a controller, which does not run here; its sources do.
		var rules []rbacv1.PolicyRule
		roles, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range roles.Items {
			if r.Name == "system:aggregate-to-"+role {
				rules = append(rules, r.Rules...)
			}
		}
		if len(rules) == 0 {
			t.Fatalf("no rules are aggregated to %s", role)
		}
		return rules
	}
	rule := func(resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{rbachelper.NewRule("get", "update", "patch").Groups("").Resources(resource).RuleOrDie()}
	}
	tests := map[string]struct {
		rules []rbacv1.PolicyRule
		allow bool
	}{
		"view":                   {rules: rulesOf("view")},
		"edit":                   {rules: append(rulesOf("edit"), rulesOf("view")...)},
		"admin":                  {rules: append(append(rulesOf("admin"), rulesOf("edit")...), rulesOf("view")...)},
		"only-pods":              {rules: rule("pods")},
		"only-pods-resize":       {rules: rule("pods/resize")},
		"only-pods-dynamic":      {rules: rule("pods/dynamic"), allow: true},
		"any-subresource-of-all": {rules: rule("*/dynamic"), allow: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			grantInNamespace(t, client, ns.Name, name, test.rules)
			user := rest.CopyConfig(config)
			user.Impersonate.UserName = name
			_, err := clientset.NewForConfigOrDie(user).CoreV1().Pods(ns.Name).UpdateDynamic(t.Context(), pod.Name, pod, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			if test.allow && err != nil {
				t.Errorf("update of pods/dynamic: %v", err)
			}
			if !test.allow && !apierrors.IsForbidden(err) {
				t.Errorf("update of pods/dynamic: got error %v, want forbidden", err)
			}
		})
	}
}

// grantInNamespace gives the rules to a user, and returns when the server knows it.
func grantInNamespace(t *testing.T, client clientset.Interface, namespace, user string, rules []rbacv1.PolicyRule) {
	t.Helper()
	role, err := client.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}
	if _, err := client.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	last := rules[len(rules)-1]
	authutil.WaitForNamedAuthorizationUpdate(t, t.Context(), client.AuthorizationV1(), user, namespace,
		last.Verbs[0], "", schema.GroupResource{Group: last.APIGroups[0], Resource: last.Resources[0]}, true)
}
