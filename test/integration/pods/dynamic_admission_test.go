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
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/test/integration/framework"
	testutils "k8s.io/kubernetes/test/utils"
)

// imagePolicyConfig starts a backend for the ImagePolicyWebhook that denies the image "denied", and returns the
// configuration file of the API server with which it is asked.
func imagePolicyConfig(t *testing.T) string {
	t.Helper()
	url, stop, err := testutils.NewAdmissionWebhookServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review v1alpha1.ImageReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Status.Allowed = true
		for _, container := range review.Spec.Containers {
			if container.Image == "denied" {
				review.Status = v1alpha1.ImageReviewStatus{Reason: "the backend says no"}
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)

	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"backend": {Server: url, CertificateAuthorityData: testutils.LocalhostCert}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"api-server": {}},
		Contexts:       map[string]*clientcmdapi.Context{"backend": {Cluster: "backend", AuthInfo: "api-server"}},
		CurrentContext: "backend",
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "admission.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ImagePolicyWebhook
  configuration:
    imagePolicy:
      kubeConfigFile: %s
      allowTTL: 1
      denyTTL: 1
      retryBackoff: 10
      defaultAllow: false
`, kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// Every plugin of the API server that acts on what a pod contains acts on what is changed through pods/dynamic.
func TestDynamicAdmissionPlugins(t *testing.T) {
	client, _ := startDynamicServerWithFlags(t, true, []string{
		"--endpoint-reconciler-type=none",
		"--enable-admission-plugins=AlwaysPullImages,ImagePolicyWebhook,OwnerReferencesPermissionEnforcement,PodTolerationRestriction",
		"--admission-control-config-file=" + imagePolicyConfig(t),
	})
	requests := func(cpu string) v1.ResourceRequirements {
		return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}
	}
	burstable := func(pod *v1.Pod) { pod.Spec.Containers[0].Resources = requests("2") }
	add := func(containers ...v1.Container) func(*v1.Pod) {
		return func(pod *v1.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, containers...) }
	}

	tests := []struct {
		plugin string
		name   string
		// namespace and account change the namespace and its default service account before they are created.
		namespace func(*v1.Namespace)
		account   func(*v1.ServiceAccount)
		// before and after prepare the namespace before the pod is created, and once it runs.
		before    func(*testing.T, string)
		node      string
		createPod func(*v1.Pod)
		after     func(*testing.T, string)
		update    func(*v1.Pod)
		want      string
		check     func(*testing.T, *v1.Pod)
	}{
		{
			plugin: "AlwaysPullImages",
			update: add(v1.Container{Name: "w", Image: "image", ImagePullPolicy: v1.PullNever}),
			check: func(t *testing.T, pod *v1.Pod) {
				if got := pod.Spec.Containers[2].ImagePullPolicy; got != v1.PullAlways {
					t.Errorf("the added container has pull policy %s", got)
				}
			},
		},
		{
			plugin: "ImagePolicyWebhook",
			update: add(v1.Container{Name: "w", Image: "denied"}),
			want:   "image policy webhook backend denied one or more images: the backend says no",
		},
		{
			plugin: "PodSecurity", name: "privileges in place of a container with the same image",
			namespace: func(ns *v1.Namespace) {
				ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}
			},
			update: func(pod *v1.Pod) {
				pod.Spec.Containers[1] = v1.Container{Name: "w", Image: "image", SecurityContext: &v1.SecurityContext{
					Capabilities: &v1.Capabilities{Add: []v1.Capability{"SYS_ADMIN"}},
				}}
			},
			want: `violates PodSecurity "baseline:latest"`,
		},
		{
			plugin:    "PodResizeValidator",
			createPod: burstable,
			update:    add(v1.Container{Name: "w", Image: "image", Resources: requests("100")}),
			want:      "node didn't have enough allocatable resources: cpu",
		},
		{
			plugin: "NodeDeclaredFeatureValidator",
			node:   staticNode,
			update: add(v1.Container{Name: "w", Image: "image"}),
			want:   "DynamicContainers",
		},
		{
			plugin: "LimitRanger", name: "limit",
			before: func(t *testing.T, ns string) {
				createLimitRange(t, client, ns, v1.LimitRangeItem{Type: v1.LimitTypeContainer, Max: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}})
			},
			update: add(v1.Container{Name: "w", Image: "image", Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("2Gi")},
			}}),
			want: "maximum memory usage per Container is 1Gi, but limit is 2Gi",
		},
		{
			plugin: "LimitRanger", name: "defaults",
			createPod: burstable,
			after: func(t *testing.T, ns string) {
				createLimitRange(t, client, ns, v1.LimitRangeItem{Type: v1.LimitTypeContainer, DefaultRequest: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")}})
				// The plugin reads LimitRanges from an informer.
				waitFor(t, func() error {
					probe := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a", Image: "image"}}}}
					probe, err := client.CoreV1().Pods(ns).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
					if err == nil && probe.Spec.Containers[0].Resources.Requests.Cpu().IsZero() {
						err = errors.New("the LimitRange has no effect")
					}
					return err
				})
			},
			update: add(v1.Container{Name: "w", Image: "image"}),
			check: func(t *testing.T, pod *v1.Pod) {
				var got []string
				for _, container := range pod.Spec.Containers {
					got = append(got, container.Resources.Requests.Cpu().String())
				}
				if diff := cmp.Diff([]string{"2", "0", "250m"}, got); diff != "" {
					t.Errorf("unexpected cpu requests (-want +got):\n%s", diff)
				}
			},
		},
		{
			plugin: "ResourceQuota", name: "beyond the quota",
			before: func(t *testing.T, ns string) { createQuota(t, client, ns, "3") },
			createPod: func(pod *v1.Pod) {
				pod.Spec.Containers[0].Resources, pod.Spec.Containers[1].Resources = requests("1"), requests("1")
			},
			update: add(v1.Container{Name: "w", Image: "image", Resources: requests("1500m")}),
			want:   "exceeded quota: quota, requested: requests.cpu=1500m, used: requests.cpu=2, limited: requests.cpu=3",
		},
		{
			plugin: "ResourceQuota", name: "charged",
			before: func(t *testing.T, ns string) { createQuota(t, client, ns, "4") },
			createPod: func(pod *v1.Pod) {
				pod.Spec.Containers[0].Resources, pod.Spec.Containers[1].Resources = requests("1"), requests("1")
			},
			update: add(v1.Container{Name: "w", Image: "image", Resources: requests("1500m")}),
			check: func(t *testing.T, pod *v1.Pod) {
				quota, err := client.CoreV1().ResourceQuotas(pod.Namespace).Get(t.Context(), "quota", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				used := quota.Status.Used[v1.ResourceRequestsCPU]
				if used.String() != "3500m" {
					t.Errorf("want 3500m of the quota used, got %s", used.String())
				}
			},
		},
		{
			plugin: "ServiceAccount", name: "mountable secrets",
			account: func(account *v1.ServiceAccount) {
				account.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}
			},
			update: add(v1.Container{Name: "w", Image: "image", EnvFrom: []v1.EnvFromSource{{
				SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "other"}},
			}}}),
			want: `container w with envFrom referencing secret.secretName="other" is not allowed`,
		},
		{
			plugin: "ServiceAccount", name: "token",
			update: add(v1.Container{Name: "w", Image: "image"}),
			check: func(t *testing.T, pod *v1.Pod) {
				if len(pod.Spec.Containers[0].VolumeMounts) != 1 {
					t.Fatalf("the pod was created without the token")
				}
				if diff := cmp.Diff(pod.Spec.Containers[0].VolumeMounts, pod.Spec.Containers[2].VolumeMounts); diff != "" {
					t.Errorf("the mounts of the added container differ from those of the others (-want +got):\n%s", diff)
				}
			},
		},
		{
			plugin: "PodTolerationRestriction",
			namespace: func(ns *v1.Namespace) {
				ns.Annotations = map[string]string{"scheduler.alpha.kubernetes.io/tolerationsWhitelist": `[{"operator": "Exists", "effect": "NoExecute"}]`}
			},
			update: func(pod *v1.Pod) {
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Key: "other", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})
			},
			want: "conflict with its namespace whitelist",
		},
		{
			plugin: "Priority", name: "client that dropped the priority",
			update: func(pod *v1.Pod) {
				pod.Spec.Priority, pod.Spec.PreemptionPolicy = nil, nil
				add(v1.Container{Name: "w", Image: "image"})(pod)
			},
		},
		{
			plugin: "DefaultTolerationSeconds", name: "client that dropped the tolerations",
			update: func(pod *v1.Pod) {
				pod.Spec.Tolerations = nil
				add(v1.Container{Name: "w", Image: "image"})(pod)
			},
		},
		{
			plugin: "OwnerReferencesPermissionEnforcement", name: "owner references do not change",
			update: func(pod *v1.Pod) {
				pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "uid"}}
				add(v1.Container{Name: "w", Image: "image"})(pod)
			},
			check: func(t *testing.T, pod *v1.Pod) {
				if len(pod.OwnerReferences) > 0 {
					t.Errorf("the pod got owners: %v", pod.OwnerReferences)
				}
			},
		},
	}
	for _, tc := range tests {
		t.Run(strings.TrimSuffix(tc.plugin+"/"+tc.name, "/"), func(t *testing.T) {
			ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "dynamic-admission-"}}
			if tc.namespace != nil {
				tc.namespace(ns)
			}
			ns, err := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer framework.DeleteNamespaceOrDie(client, ns, t)
			account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
			if tc.account != nil {
				tc.account(account)
			}
			if _, err := client.CoreV1().ServiceAccounts(ns.Name).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if tc.before != nil {
				tc.before(t, ns.Name)
			}
			node, createPod := dynamicNode, func(*v1.Pod) {}
			if tc.node != "" {
				node = tc.node
			}
			if tc.createPod != nil {
				createPod = tc.createPod
			}
			pod := createRunningPodWith(t, client, ns.Name, node, createPod)
			if tc.after != nil {
				tc.after(t, ns.Name)
			}
			tc.update(pod)
			updated, err := client.CoreV1().Pods(ns.Name).UpdateDynamic(t.Context(), pod.Name, pod, metav1.UpdateOptions{})
			switch {
			case tc.want == "" && err != nil:
				t.Fatalf("unexpected error: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("want an error with %q, got: %v", tc.want, err)
			}
			if tc.check != nil {
				tc.check(t, updated)
			}
		})
	}
}

func createLimitRange(t *testing.T, client clientset.Interface, namespace string, limit v1.LimitRangeItem) {
	t.Helper()
	if _, err := client.CoreV1().LimitRanges(namespace).Create(t.Context(), &v1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec:       v1.LimitRangeSpec{Limits: []v1.LimitRangeItem{limit}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createQuota creates a quota in the state in which the quota controller, which does not run, would leave it.
func createQuota(t *testing.T, client clientset.Interface, namespace, hard string) {
	t.Helper()
	quota, err := client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &v1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "quota"},
		Spec:       v1.ResourceQuotaSpec{Hard: v1.ResourceList{v1.ResourceRequestsCPU: resource.MustParse(hard)}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	quota.Status = v1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: v1.ResourceList{v1.ResourceRequestsCPU: resource.MustParse("0")}}
	if _, err := client.CoreV1().ResourceQuotas(namespace).UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// readPolicy returns the objects of a file with a policy and its binding.
func readPolicy(t *testing.T, path string) []runtime.Object {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var objects []runtime.Object
	for reader := yaml.NewYAMLReader(bufio.NewReader(file)); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		objects = append(objects, object)
	}
}

// The policies that are offered to administrators do what they say.
func TestDynamicPolicies(t *testing.T) {
	client, _ := startDynamicServer(t, true)
	ns := framework.CreateNamespaceOrDie(client, "dynamic-policies", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	pods := client.CoreV1().Pods(ns.Name)

	// patch sends a patch as a dry run, and returns the error.
	patch := func(t *testing.T, pod *v1.Pod, subresource, body string) error {
		var subresources []string
		if subresource != "" {
			subresources = append(subresources, subresource)
		}
		_, err := pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
		return err
	}
	type request struct{ name, subresource, patch string }
	addW := func(image string) request {
		return request{"add a container with image " + image, "dynamic", fmt.Sprintf(`{"spec":{"containers":[{"name":"w","image":%q}]}}`, image)}
	}
	remove := func(name string) request {
		return request{"remove " + name, "dynamic", fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"$patch":"delete"}]}}`, name)}
	}
	setImage := func(subresource, name, image string) request {
		return request{"change the image of " + name + " through pods/" + subresource, subresource, fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"image":%q}]}}`, name, image)}
	}
	debug := func(image string) request {
		return request{"add a debug container with image " + image, "ephemeralcontainers", fmt.Sprintf(`{"spec":{"ephemeralContainers":[{"name":"debug","image":%q}]}}`, image)}
	}
	label := func(subresource, value string) request {
		return request{"label the pod " + value + " through pods/" + subresource, subresource, fmt.Sprintf(`{"metadata":{"labels":{"example.com/dynamic-containers":%q}}}`, value)}
	}
	withContainers := func(names ...string) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			for _, name := range names {
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Image: "image"})
			}
		}
	}

	tests := map[string]struct {
		pod     func(*v1.Pod)
		refused []request
		allowed []request
		message string
		// exempt is a pod on which the policy refuses nothing of the above.
		exempt func(*v1.Pod)
	}{
		"disable-dynamic-containers.yaml": {
			refused: []request{addW("image"), remove("b")},
			allowed: []request{setImage("dynamic", "a", "other"), setImage("", "a", "other"), debug("image")},
			message: "Dynamic Containers are disabled: adding or removing main containers is not allowed.",
		},
		"pod-intent-immutable.yaml": {
			refused: []request{addW("image"), remove("b"), setImage("dynamic", "a", "other"), setImage("", "a", "other"), debug("image")},
			allowed: []request{
				{"label the pod", "", `{"metadata":{"labels":{"some":"label"}}}`},
				{"tolerate", "dynamic", `{"spec":{"tolerations":[{"key":"new","operator":"Exists"}]}}`},
			},
			message: "immutable",
		},
		"allowed-images.yaml": {
			refused: []request{addW("example.com/image"), addW("image"), setImage("dynamic", "a", "example.com/image"), setImage("", "a", "example.com/image"), debug("example.com/image")},
			allowed: []request{addW("registry.example.com/image"), addW("registry.k8s.io/pause:3.10"), remove("b"), setImage("dynamic", "a", "registry.example.com/image"), debug("registry.k8s.io/image")},
			message: "images from this place are not allowed: ",
		},
		"protected-container.yaml": {
			pod:     withContainers("agent"),
			refused: []request{remove("agent"), setImage("dynamic", "agent", "other"), setImage("", "agent", "other")},
			allowed: []request{addW("image"), remove("b"), setImage("dynamic", "a", "other"), {"reorder", "dynamic", `{"spec":{"$setElementOrder/containers":[{"name":"agent"},{"name":"b"},{"name":"a"}]}}`}},
			message: "the container agent is protected: it cannot be added, removed or changed on an existing pod",
		},
		"max-containers.yaml": {
			pod:     withContainers("c", "d", "e"),
			refused: []request{addW("image")},
			allowed: []request{remove("b"), setImage("dynamic", "a", "other"), {"swap", "dynamic", `{"spec":{"containers":[{"name":"b","$patch":"delete"},{"name":"w","image":"image"}]}}`}},
			message: "the pod would have 6 main containers; at most 5 are allowed",
		},
		"labeled-pods-only.yaml": {
			refused: []request{addW("image"), remove("b"), label("dynamic", "allowed"),
				{"label the pod and add a container", "dynamic", `{"metadata":{"labels":{"example.com/dynamic-containers":"allowed"}},"spec":{"containers":[{"name":"w","image":"image"}]}}`}},
			allowed: []request{label("", "allowed"), setImage("dynamic", "a", "other")},
			message: "example.com/dynamic-containers",
			exempt:  func(pod *v1.Pod) { pod.Labels = map[string]string{"example.com/dynamic-containers": "allowed"} },
		},
	}
	files, err := os.ReadDir("testdata/policies")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(file.Name(), func(t *testing.T) {
			tc, found := tests[file.Name()]
			if !found {
				t.Fatalf("no test proves this policy")
			}
			change := func(*v1.Pod) {}
			if tc.pod != nil {
				change = tc.pod
			}
			pod := createRunningPodWith(t, client, ns.Name, dynamicNode, change)
			for _, r := range append(append([]request{}, tc.refused...), tc.allowed...) {
				if err := patch(t, pod, r.subresource, r.patch); err != nil {
					t.Fatalf("%s: refused even without the policy: %v", r.name, err)
				}
			}

			objects := readPolicy(t, filepath.Join("testdata/policies", file.Name()))
			replaceObjects(t, client, objects)
			defer func() {
				deleteObjects(t, client, objects)
				waitFor(t, func() error { return patch(t, pod, tc.refused[0].subresource, tc.refused[0].patch) })
			}()
			waitFor(t, func() error {
				if err := patch(t, pod, tc.refused[0].subresource, tc.refused[0].patch); err == nil {
					return fmt.Errorf("%s: not refused", tc.refused[0].name)
				}
				return nil
			})
			policy := objects[0].(*admissionregistrationv1.ValidatingAdmissionPolicy)
			for _, r := range tc.refused {
				err := patch(t, pod, r.subresource, r.patch)
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("ValidatingAdmissionPolicy '%s'", policy.Name)) || !strings.Contains(err.Error(), tc.message) {
					t.Errorf("%s: want a refusal with %q, got: %v", r.name, tc.message, err)
				}
			}
			for _, r := range tc.allowed {
				if err := patch(t, pod, r.subresource, r.patch); err != nil {
					t.Errorf("%s: %v", r.name, err)
				}
			}
			if tc.exempt != nil {
				pod := createRunningPodWith(t, client, ns.Name, dynamicNode, tc.exempt)
				for _, r := range tc.refused {
					if err := patch(t, pod, r.subresource, r.patch); err != nil {
						t.Errorf("%s, of a pod that the policy exempts: %v", r.name, err)
					}
				}
			}
		})
	}
	if len(files) != len(tests) {
		t.Errorf("there are %d policies and %d tests of them", len(files), len(tests))
	}
}

// waitFor waits until there is no error, as informers see new webhooks and policies after a while.
func waitFor(t *testing.T, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatal(err)
}
