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
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	rbachelper "k8s.io/kubernetes/pkg/apis/rbac/v1"
	"k8s.io/kubernetes/test/integration/framework"
)

// fakeKubelet is what the API server finds at the address of a node.
type fakeKubelet struct {
	*httptest.Server
	lock    sync.Mutex
	handler http.HandlerFunc
	path    string
}

// startFakeKubelet serves over TLS, and returns the flag that makes an API server trust it.
func startFakeKubelet(t *testing.T) (*fakeKubelet, string) {
	t.Helper()
	kubelet := &fakeKubelet{}
	kubelet.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		kubelet.lock.Lock()
		kubelet.path = req.URL.Path
		handler := kubelet.handler
		kubelet.lock.Unlock()
		handler(w, req)
	}))
	t.Cleanup(kubelet.Close)
	caFile := filepath.Join(t.TempDir(), "kubelet-ca.crt")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: kubelet.Certificate().Raw})
	if err := os.WriteFile(caFile, ca, 0600); err != nil {
		t.Fatal(err)
	}
	return kubelet, "--kubelet-certificate-authority=" + caFile
}

// handle replaces what the kubelet answers.
func (k *fakeKubelet) handle(handler http.HandlerFunc) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.handler = handler
}

// lastPath returns the path of the latest request.
func (k *fakeKubelet) lastPath() string {
	k.lock.Lock()
	defer k.lock.Unlock()
	return k.path
}

// setNodeAddress makes the API server find the kubelet of the node at the address.
func setNodeAddress(t *testing.T, client clientset.Interface, node string, address string) {
	t.Helper()
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]any{"status": v1.NodeStatus{
		Addresses:       []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: host}},
		DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: int32(port)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// allocated answers with the pod, as a kubelet does which has allocated the image "allocated" to
// all containers, changed.
func allocated(pod *v1.Pod, change func(*v1.Pod)) http.HandlerFunc {
	pod = pod.DeepCopy()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Status = v1.PodStatus{}
	pod.Annotations = map[string]string{"kubernetes.io/config.seen": "2026-11-30T00:00:00Z", "kubernetes.io/config.source": "api"}
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Image = "allocated"
	}
	if change != nil {
		change(pod)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(pod)
	}
}

// The allocated pod comes from the kubelet, in every format that a client can ask for.
func TestAllocated(t *testing.T) {
	kubelet, trust := startFakeKubelet(t)
	client, _ := startDynamicServer(t, true, trust)
	ns := framework.CreateNamespaceOrDie(client, "allocated", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	setNodeAddress(t, client, dynamicNode, kubelet.Listener.Addr().String())
	pods := client.CoreV1().Pods(ns.Name)
	pod := createRunningPod(t, client, ns.Name, dynamicNode)
	kubelet.handle(allocated(pod, nil))

	want := pod.DeepCopy()
	want.Status = v1.PodStatus{}
	for i := range want.Spec.Containers {
		want.Spec.Containers[i].Image = "allocated"
	}
	compare := func(t *testing.T, got *v1.Pod) {
		t.Helper()
		got.TypeMeta = metav1.TypeMeta{}
		if len(got.Annotations) == 0 {
			got.Annotations = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("unexpected pod (-want +got):\n%s", diff)
		}
	}

	t.Run("typed client", func(t *testing.T) {
		got, err := pods.GetAllocated(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		compare(t, got)
		if want, got := "/allocatedPods/"+ns.Name+"/"+pod.Name+"/"+string(pod.UID), kubelet.lastPath(); got != want {
			t.Errorf("the kubelet was asked for %s, want %s", got, want)
		}
	})

	formats := map[string]struct {
		accept string
		check  func(*testing.T, []byte)
	}{
		"JSON": {"application/json", func(t *testing.T, body []byte) {
			got := &v1.Pod{}
			if err := json.Unmarshal(body, got); err != nil {
				t.Fatal(err)
			}
			compare(t, got)
		}},
		"YAML": {"application/yaml", func(t *testing.T, body []byte) {
			got := &v1.Pod{}
			if err := yaml.UnmarshalStrict(body, got); err != nil {
				t.Fatal(err)
			}
			compare(t, got)
		}},
		"protobuf": {"application/vnd.kubernetes.protobuf", func(t *testing.T, body []byte) {
			obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), body)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, obj.(*v1.Pod))
		}},
		"table": {"application/json;as=Table;v=v1;g=meta.k8s.io", func(t *testing.T, body []byte) {
			table := &metav1.Table{}
			if err := json.Unmarshal(body, table); err != nil {
				t.Fatal(err)
			}
			if len(table.Rows) != 1 || table.Rows[0].Cells[0] != pod.Name || table.Rows[0].Cells[1] != "0/2" {
				t.Errorf("unexpected rows: %v", table.Rows)
			}
		}},
		"metadata": {"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", func(t *testing.T, body []byte) {
			metadata := &metav1.PartialObjectMetadata{}
			if err := json.Unmarshal(body, metadata); err != nil {
				t.Fatal(err)
			}
			if metadata.Kind != "PartialObjectMetadata" || metadata.UID != pod.UID {
				t.Errorf("unexpected metadata: %v", metadata)
			}
		}},
	}
	for name, format := range formats {
		t.Run(name, func(t *testing.T) {
			result := client.CoreV1().RESTClient().Get().Namespace(ns.Name).Resource("pods").Name(pod.Name).SubResource("allocated").
				SetHeader("Accept", format.accept).Do(t.Context())
			var contentType string
			result.ContentType(&contentType)
			wantType, _, _ := strings.Cut(format.accept, ";")
			body, err := result.Raw()
			if err != nil || !strings.HasPrefix(contentType, wantType) {
				t.Fatalf("got content type %q and error %v, want %q", contentType, err, wantType)
			}
			format.check(t, body)
		})
	}

	t.Run("static pod", func(t *testing.T) {
		mirror, err := pods.Create(t.Context(), &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "static", Annotations: map[string]string{v1.MirrorPodAnnotationKey: "static-uid"}},
			Spec:       v1.PodSpec{NodeName: dynamicNode, Containers: []v1.Container{{Name: "a", Image: "image"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kubelet.handle(allocated(mirror, func(pod *v1.Pod) {
			pod.UID = "static-uid"
			pod.ResourceVersion = ""
		}))
		got, err := pods.GetAllocated(t.Context(), mirror.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.UID != mirror.UID || got.Spec.Containers[0].Image != "allocated" {
			t.Errorf("unexpected pod: %v", got)
		}
		if want, got := "/allocatedPods/"+ns.Name+"/static", kubelet.lastPath(); got != want {
			t.Errorf("the kubelet was asked for %s, want %s", got, want)
		}
	})

	t.Run("read only", func(t *testing.T) {
		for _, verb := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			err := client.CoreV1().RESTClient().Verb(verb).Namespace(ns.Name).Resource("pods").Name(pod.Name).SubResource("allocated").
				SetHeader("Content-Type", "application/json").Body([]byte("{}")).Do(t.Context()).Error()
			if !apierrors.IsMethodNotSupported(err) {
				t.Errorf("%s: got error %v, want method not allowed", verb, err)
			}
		}
	})
}

// Whatever is wrong with the node ends in an API status, within the timeout of kubelet operations.
func TestAllocatedErrors(t *testing.T) {
	kubelet, trust := startFakeKubelet(t)
	client, _ := startDynamicServer(t, true, trust, "--kubelet-timeout=1s")
	ns := framework.CreateNamespaceOrDie(client, "allocated-errors", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	pod := createRunningPod(t, client, ns.Name, dynamicNode)
	unscheduled := createRunningPod(t, client, ns.Name, "")

	status := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(text))
		}
	}
	elsewhere := httptest.NewServer(allocated(pod, nil))
	defer elsewhere.Close()
	down := httptest.NewServer(nil)
	down.Close()
	// All servers of httptest have the same certificate, unless they are given another.
	certificate, key, err := certutil.GenerateSelfSignedCertKey("kubelet", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	untrusted := httptest.NewUnstartedServer(allocated(pod, nil))
	untrusted.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	untrusted.StartTLS()
	defer untrusted.Close()

	tests := map[string]struct {
		pod     string
		address string
		handler http.HandlerFunc
		want    metav1.StatusReason
		message string
	}{
		"absent pod":                      {pod: "absent", want: metav1.StatusReasonNotFound, message: `pods "absent" not found`},
		"unscheduled pod":                 {pod: unscheduled.Name, want: metav1.StatusReasonNotFound, message: "not assigned to a node"},
		"kubelet is down":                 {address: down.Listener.Addr().String(), want: metav1.StatusReasonServiceUnavailable, message: "connection refused"},
		"kubelet without the endpoint":    {handler: status(http.StatusNotFound, "404: Page Not Found"), want: metav1.StatusReasonServiceUnavailable, message: "does not serve allocated pods"},
		"pod is not admitted":             {handler: status(http.StatusNotFound, "pod not found"), want: metav1.StatusReasonNotFound, message: "has not admitted the pod"},
		"API server is not allowed":       {handler: status(http.StatusUnauthorized, "Unauthorized"), want: metav1.StatusReasonInternalError, message: "401 Unauthorized"},
		"pod of another namespace":        {handler: allocated(pod, func(pod *v1.Pod) { pod.Namespace = "other" }), want: metav1.StatusReasonInternalError, message: "it is the pod other/"},
		"pod of another name":             {handler: allocated(pod, func(pod *v1.Pod) { pod.Name = "other" }), want: metav1.StatusReasonInternalError, message: "/other"},
		"earlier pod of the same name":    {handler: allocated(pod, func(pod *v1.Pod) { pod.UID = "other" }), want: metav1.StatusReasonNotFound, message: "another pod of this name"},
		"answer that is too large":        {handler: allocated(pod, func(pod *v1.Pod) { pod.Spec.Hostname = strings.Repeat("x", 9*1024*1024) }), want: metav1.StatusReasonInternalError, message: "larger than"},
		"redirect":                        {handler: http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect).ServeHTTP, want: metav1.StatusReasonInternalError, message: "307 Temporary Redirect"},
		"kubelet that hangs":              {handler: func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, want: metav1.StatusReasonTimeout, message: "cannot get the allocated pod"},
		"certificate that is not trusted": {address: untrusted.Listener.Addr().String(), want: metav1.StatusReasonServiceUnavailable, message: "x509: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.pod == "" {
				test.pod = pod.Name
			}
			if test.address == "" {
				test.address = kubelet.Listener.Addr().String()
			}
			setNodeAddress(t, client, dynamicNode, test.address)
			kubelet.handle(test.handler)
			start := time.Now()
			got, err := client.CoreV1().Pods(ns.Name).GetAllocated(t.Context(), test.pod, metav1.GetOptions{})
			if apierrors.ReasonForError(err) != test.want || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got pod %v and error %v, want reason %s and message %q", got, err, test.want, test.message)
			}
			if elapsed := time.Since(start); elapsed > 10*time.Second {
				t.Errorf("the answer took %s", elapsed)
			}
		})
	}
}

// With the gate off there is no such subresource, neither to call nor to discover nor documented.
func TestAllocatedDisabled(t *testing.T) {
	kubelet, trust := startFakeKubelet(t)
	for name, enabled := range map[string]bool{"off": false, "on": true} {
		t.Run(name, func(t *testing.T) {
			client, _ := startDynamicServer(t, enabled, trust)
			ns := framework.CreateNamespaceOrDie(client, "allocated-disabled", t)
			defer framework.DeleteNamespaceOrDie(client, ns, t)
			setNodeAddress(t, client, dynamicNode, kubelet.Listener.Addr().String())
			pod := createRunningPod(t, client, ns.Name, dynamicNode)
			kubelet.handle(allocated(pod, nil))

			_, err := client.CoreV1().Pods(ns.Name).GetAllocated(t.Context(), pod.Name, metav1.GetOptions{})
			if enabled && err != nil || !enabled && !apierrors.IsNotFound(err) {
				t.Errorf("get of pods/allocated with the gate %s: %v", name, err)
			}
			resources, err := client.Discovery().ServerResourcesForGroupVersion("v1")
			if err != nil {
				t.Fatal(err)
			}
			var verbs, want []string
			for _, r := range resources.APIResources {
				if r.Name == "pods/allocated" {
					verbs = r.Verbs
				}
			}
			if enabled {
				want = []string{"get"}
			}
			if diff := cmp.Diff(want, verbs); diff != "" {
				t.Errorf("unexpected verbs of pods/allocated in discovery (-want +got):\n%s", diff)
			}
			openAPI, err := client.Discovery().RESTClient().Get().AbsPath("/openapi/v3/api/v1").Do(t.Context()).Raw()
			if err != nil {
				t.Fatal(err)
			}
			for _, subresource := range []string{"allocated", "dynamic"} {
				path := `"/api/v1/namespaces/{namespace}/pods/{name}/` + subresource + `"`
				if strings.Contains(string(openAPI), path) != enabled {
					t.Errorf("with the gate %s, is %s in OpenAPI: %v", name, path, !enabled)
				}
			}
		})
	}
}

// Who may view a namespace may read what is allocated for its pods. Permission on pods alone, and
// being the node of the pod, do not suffice.
func TestAllocatedRBAC(t *testing.T) {
	kubelet, trust := startFakeKubelet(t)
	client, config := startDynamicServer(t, true, trust, "--authorization-mode=Node,RBAC")
	ns := framework.CreateNamespaceOrDie(client, "allocated-rbac", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	setNodeAddress(t, client, dynamicNode, kubelet.Listener.Addr().String())
	pod := createRunningPod(t, client, ns.Name, dynamicNode)
	kubelet.handle(allocated(pod, nil))

	check := func(t *testing.T, user rest.ImpersonationConfig, allow bool) {
		t.Helper()
		as := rest.CopyConfig(config)
		as.Impersonate = user
		_, err := clientset.NewForConfigOrDie(as).CoreV1().Pods(ns.Name).GetAllocated(t.Context(), pod.Name, metav1.GetOptions{})
		if allow && err != nil {
			t.Errorf("get of pods/allocated: %v", err)
		}
		if !allow && !apierrors.IsForbidden(err) {
			t.Errorf("get of pods/allocated: got error %v, want forbidden", err)
		}
	}
	defaults := func(role string) []rbacv1.PolicyRule {
		t.Helper()
		// Aggregated roles get their rules from a controller, which does not run here; their sources do.
		source, err := client.RbacV1().ClusterRoles().Get(t.Context(), "system:aggregate-to-"+role, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return source.Rules
	}
	rule := func(resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{rbachelper.NewRule("get").Groups("").Resources(resource).RuleOrDie()}
	}
	tests := map[string]struct {
		rules []rbacv1.PolicyRule
		allow bool
	}{
		"view":                   {rules: defaults("view"), allow: true},
		"edit":                   {rules: append(defaults("edit"), defaults("view")...), allow: true},
		"admin":                  {rules: append(append(defaults("admin"), defaults("edit")...), defaults("view")...), allow: true},
		"only-pods":              {rules: rule("pods")},
		"only-pods-dynamic":      {rules: rule("pods/dynamic")},
		"only-pods-allocated":    {rules: rule("pods/allocated"), allow: true},
		"any-subresource-of-all": {rules: rule("*/allocated"), allow: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			grantInNamespace(t, client, ns.Name, name, test.rules)
			check(t, rest.ImpersonationConfig{UserName: name}, test.allow)
		})
	}
	t.Run("node of the pod", func(t *testing.T) {
		check(t, rest.ImpersonationConfig{UserName: "system:node:" + dynamicNode, Groups: []string{"system:nodes", "system:authenticated"}}, false)
	})
}
