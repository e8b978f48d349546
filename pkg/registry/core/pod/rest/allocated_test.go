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

package rest

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubelet/client"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// fakePodStore is a store with one pod, or an error in its place.
type fakePodStore struct {
	fakePodGetter
	rest.TableConvertor
}

// kubeletAt is the connection info of a kubelet that listens at a URL.
type kubeletAt struct {
	url       string
	transport http.RoundTripper
}

func (k kubeletAt) GetConnectionInfo(context.Context, types.NodeName) (*client.ConnectionInfo, error) {
	location, err := url.Parse(k.url)
	if err != nil {
		return nil, err
	}
	return &client.ConnectionInfo{Scheme: location.Scheme, Hostname: location.Hostname(), Port: location.Port(), Transport: k.transport}, nil
}

// startKubelet serves the handler over TLS, and returns the connection info of a client that
// trusts it.
func startKubelet(t *testing.T, handler http.HandlerFunc) kubeletAt {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, ca, 0600); err != nil {
		t.Fatal(err)
	}
	return kubeletAt{url: server.URL, transport: kubeletTransport(t, caFile)}
}

func kubeletTransport(t *testing.T, caFile string) http.RoundTripper {
	t.Helper()
	transport, err := client.MakeTransport(&client.KubeletClientConfig{TLSClientConfig: client.KubeletTLSConfig{CAFile: caFile}})
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

// desiredPod is the pod in the store. What tells it from the allocated pod is the image "desired".
func desiredPod() *api.Pod {
	return &api.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"},
		Spec:       api.PodSpec{NodeName: "n1", Containers: []api.Container{{Name: "main", Image: "desired"}}},
	}
}

// allocatedPod is the pod as the kubelet has it.
func allocatedPod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p", UID: "uid",
			Annotations: map[string]string{
				"mine":                                 "kept",
				kubetypes.ConfigFirstSeenAnnotationKey: "2026-11-30T00:00:00Z",
				kubetypes.ConfigSourceAnnotationKey:    "api",
			},
		},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "main", Image: "allocated"}}},
	}
}

// answer is a kubelet that answers with the allocated pod, changed.
func answer(change func(*corev1.Pod)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		pod := allocatedPod()
		change(pod)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(pod)
	}
}

// answerStatus is a kubelet that answers with a status and a text.
func answerStatus(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text))
	}
}

func TestAllocated(t *testing.T) {
	tests := map[string]struct {
		changePod func(*api.Pod)
		kubelet   http.HandlerFunc
		want      *api.Pod
	}{
		"the allocated pod, without what the kubelet notes on it": {
			kubelet: func(w http.ResponseWriter, req *http.Request) {
				if want := "/allocatedPods/ns/p/uid"; req.Method != http.MethodGet || req.URL.Path != want {
					http.Error(w, "unexpected request", http.StatusTeapot)
					return
				}
				answer(func(*corev1.Pod) {})(w, req)
			},
			want: &api.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid", Annotations: map[string]string{"mine": "kept"}}},
		},
		"a static pod, which the kubelet knows by a UID of its own": {
			changePod: func(pod *api.Pod) {
				pod.UID = "mirror-uid"
				pod.Annotations = map[string]string{api.MirrorPodAnnotationKey: "static-uid"}
			},
			kubelet: func(w http.ResponseWriter, req *http.Request) {
				if want := "/allocatedPods/ns/p"; req.URL.Path != want {
					http.Error(w, "unexpected request", http.StatusTeapot)
					return
				}
				answer(func(pod *corev1.Pod) {
					pod.UID = "static-uid"
					pod.Annotations[kubetypes.ConfigHashAnnotationKey] = "static-uid"
				})(w, req)
			},
			want: &api.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "mirror-uid", Annotations: map[string]string{"mine": "kept"}}},
		},
		"a pod as large as can be stored": {
			kubelet: answer(func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Args = []string{strings.Repeat("x", 3*1024*1024)}
			}),
			want: &api.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid", Annotations: map[string]string{"mine": "kept"}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := desiredPod()
			if test.changePod != nil {
				test.changePod(pod)
			}
			store := fakePodStore{fakePodGetter: fakePodGetter{pod: pod}}
			r := &AllocatedREST{Store: &store, KubeletConn: startKubelet(t, test.kubelet), Timeout: time.Minute}
			obj, err := r.Get(t.Context(), "p", &metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := obj.(*api.Pod)
			if diff := cmp.Diff(test.want.ObjectMeta, got.ObjectMeta); diff != "" {
				t.Errorf("unexpected metadata (-want +got):\n%s", diff)
			}
			if image := got.Spec.Containers[0].Image; image != "allocated" {
				t.Errorf("got image %q, want that of the allocated pod", image)
			}
			if got.Spec.RestartPolicy != api.RestartPolicyAlways {
				t.Errorf("the pod is not defaulted like one that is read from the store")
			}
		})
	}
}

// Whatever is wrong ends within a bounded time with an API status that names the reason, and never
// with the desired pod or with another one.
func TestAllocatedErrors(t *testing.T) {
	elsewhere := startKubelet(t, answer(func(*corev1.Pod) {}))
	mirror := func(pod *api.Pod) {
		pod.UID = "mirror-uid"
		pod.Annotations = map[string]string{api.MirrorPodAnnotationKey: "static-uid"}
	}
	const (
		badAnswer    = `the kubelet of node "n1" did not answer with the allocated pod: `
		notFound     = `pods/allocated "p" not found: `
		noEndpoint   = `the kubelet of node "n1" does not serve allocated pods: it is too old, or its KubeletAllocatedPodsEndpoint feature gate is not enabled`
		notReachable = `cannot get the allocated pod from the kubelet of node "n1": `
	)
	tests := map[string]struct {
		store       error
		changePod   func(*api.Pod)
		kubelet     http.HandlerFunc
		connect     func(kubeletAt) client.ConnectionInfoGetter
		wantReason  metav1.StatusReason
		wantMessage string
	}{
		"the pod does not exist": {
			store:       apierrors.NewNotFound(api.Resource("pods"), "p"),
			wantReason:  metav1.StatusReasonNotFound,
			wantMessage: `pods "p" not found`,
		},
		"unscheduled pod": {
			changePod:   func(pod *api.Pod) { pod.Spec.NodeName = "" },
			wantReason:  metav1.StatusReasonNotFound,
			wantMessage: notFound + "the pod is not assigned to a node yet",
		},
		"node is gone": {
			connect: func(kubeletAt) client.ConnectionInfoGetter {
				return &fakeKubeletConn{err: apierrors.NewNotFound(api.Resource("pods"), "n1")}
			},
			wantReason:  metav1.StatusReasonServiceUnavailable,
			wantMessage: `cannot get the allocated pod: there is no node "n1"`,
		},
		"node has no address": {
			connect: func(kubeletAt) client.ConnectionInfoGetter {
				return &fakeKubeletConn{err: errors.New("no preferred addresses found")}
			},
			wantReason:  metav1.StatusReasonServiceUnavailable,
			wantMessage: notReachable + "no preferred addresses found",
		},
		"kubelet is down": {
			connect: func(kubelet kubeletAt) client.ConnectionInfoGetter {
				closed := httptest.NewUnstartedServer(nil)
				kubelet.url = "https://" + closed.Listener.Addr().String()
				_ = closed.Listener.Close()
				return kubelet
			},
			wantReason:  metav1.StatusReasonServiceUnavailable,
			wantMessage: "connection refused",
		},
		"kubelet with a certificate that is not trusted": {
			connect: func(kubelet kubeletAt) client.ConnectionInfoGetter {
				kubelet.transport = http.DefaultTransport
				return kubelet
			},
			wantReason:  metav1.StatusReasonServiceUnavailable,
			wantMessage: "x509: ",
		},
		"kubelet that is too old": {
			kubelet:     http.NotFound,
			wantReason:  metav1.StatusReasonServiceUnavailable,
			wantMessage: noEndpoint,
		},
		"kubelet with the endpoint turned off": {
			kubelet:     answerStatus(http.StatusNotFound, "404: Page Not Found"),
			wantReason:  metav1.StatusReasonServiceUnavailable,
			wantMessage: noEndpoint,
		},
		"kubelet that has not admitted the pod": {
			kubelet:     answerStatus(http.StatusNotFound, "pod not found"),
			wantReason:  metav1.StatusReasonNotFound,
			wantMessage: notFound + `node "n1" has not admitted the pod, or no longer runs it`,
		},
		"kubelet that does not trust the API server": {
			kubelet:     answerStatus(http.StatusForbidden, "Forbidden (user=kube-apiserver, verb=get, resource=nodes, subresource(s)=[pods proxy])"),
			wantReason:  metav1.StatusReasonInternalError,
			wantMessage: badAnswer + "HTTP status 403 Forbidden: Forbidden (user=kube-apiserver",
		},
		"kubelet that fails": {
			kubelet:     answerStatus(http.StatusInternalServerError, "checkpoint is corrupt"),
			wantReason:  metav1.StatusReasonInternalError,
			wantMessage: badAnswer + "HTTP status 500 Internal Server Error: checkpoint is corrupt",
		},
		"kubelet that fails at length": {
			kubelet:     answerStatus(http.StatusInternalServerError, strings.Repeat("x", 1024)+"cut off"),
			wantReason:  metav1.StatusReasonInternalError,
			wantMessage: badAnswer + "HTTP status 500 Internal Server Error: " + strings.Repeat("x", 1024),
		},
		"redirect to a server that would answer": {
			kubelet: func(w http.ResponseWriter, req *http.Request) {
				http.Redirect(w, req, elsewhere.url+req.URL.Path, http.StatusFound)
			},
			wantReason:  metav1.StatusReasonInternalError,
			wantMessage: badAnswer + "HTTP status 302 Found",
		},
		"pod of another namespace": {
			kubelet:     answer(func(pod *corev1.Pod) { pod.Namespace = "other" }),
			wantReason:  metav1.StatusReasonInternalError,
			wantMessage: badAnswer + "it is the pod other/p",
		},
		"pod of another name": {
			kubelet:     answer(func(pod *corev1.Pod) { pod.Name = "other" }),
			wantReason:  metav1.StatusReasonInternalError,
			wantMessage: badAnswer + "it is the pod ns/other",
		},
		"earlier pod of the same name": {
			kubelet:     answer(func(pod *corev1.Pod) { pod.UID = "other" }),
			wantReason:  metav1.StatusReasonNotFound,
			wantMessage: notFound + `node "n1" has another pod of this name`,
		},
		"other version of a static pod": {
			changePod:   mirror,
			kubelet:     answer(func(pod *corev1.Pod) { pod.UID = "new-static-uid" }),
			wantReason:  metav1.StatusReasonNotFound,
			wantMessage: notFound + `node "n1" has another pod of this name`,
		},
		"ordinary pod in place of a static pod": {
			changePod:   mirror,
			kubelet:     answer(func(pod *corev1.Pod) { pod.UID = "mirror-uid" }),
			wantReason:  metav1.StatusReasonNotFound,
			wantMessage: notFound + `node "n1" has another pod of this name`,
		},
		"something that is no pod": {
			kubelet:     answerStatus(http.StatusOK, `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"ns","name":"p","uid":"uid"}}`),
			wantReason:  metav1.StatusReasonInternalError,
			wantMessage: badAnswer + "it is not a pod: ",
		},
		"empty answer": {
			kubelet:     answerStatus(http.StatusOK, ""),
			wantReason:  metav1.StatusReasonInternalError,
			wantMessage: badAnswer + "it is the pod /",
		},
		"answer that does not end": {
			kubelet: func(w http.ResponseWriter, _ *http.Request) {
				for chunk := []byte(strings.Repeat(" ", 1024*1024)); ; {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			},
			wantReason:  metav1.StatusReasonInternalError,
			wantMessage: badAnswer + "it is larger than 8388608 bytes",
		},
		"answer that breaks off": {
			kubelet: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Pod"`))
			},
			wantReason:  metav1.StatusReasonServiceUnavailable,
			wantMessage: notReachable + "unexpected EOF",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := desiredPod()
			if test.changePod != nil {
				test.changePod(pod)
			}
			if test.kubelet == nil {
				test.kubelet = answer(func(*corev1.Pod) {})
			}
			kubelet := startKubelet(t, test.kubelet)
			r := &AllocatedREST{
				Store:       &fakePodStore{fakePodGetter: fakePodGetter{pod: pod, err: test.store}},
				KubeletConn: kubelet,
				Timeout:     time.Minute,
			}
			if test.connect != nil {
				r.KubeletConn = test.connect(kubelet)
			}
			wantAllocatedError(t, r, test.wantReason, test.wantMessage)
		})
	}
}

// A kubelet that hangs, before it answers or in the middle of it, costs the caller no more than
// the timeout of kubelet operations.
func TestAllocatedTimeout(t *testing.T) {
	tests := map[string]func(http.ResponseWriter){
		"before the answer": func(http.ResponseWriter) {},
		"in the middle of the answer": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Pod"`))
			w.(http.Flusher).Flush()
		},
	}
	for name, begin := range tests {
		t.Run(name, func(t *testing.T) {
			kubelet := startKubelet(t, func(w http.ResponseWriter, req *http.Request) {
				begin(w)
				<-req.Context().Done()
			})
			r := &AllocatedREST{
				Store:       &fakePodStore{fakePodGetter: fakePodGetter{pod: desiredPod()}},
				KubeletConn: kubelet,
				Timeout:     100 * time.Millisecond,
			}
			wantAllocatedError(t, r, metav1.StatusReasonTimeout, `Timeout: cannot get the allocated pod from the kubelet of node "n1": `)
		})
	}
}

func wantAllocatedError(t *testing.T, r *AllocatedREST, reason metav1.StatusReason, message string) {
	t.Helper()
	obj, err := r.Get(t.Context(), "p", &metav1.GetOptions{})
	if err == nil {
		t.Fatalf("got %v, want an error", obj)
	}
	if got := apierrors.ReasonForError(err); got != reason {
		t.Errorf("got reason %q, want %q: %v", got, reason, err)
	}
	if !strings.Contains(err.Error(), message) || strings.Contains(err.Error(), "cut off") {
		t.Errorf("got error %q, want %q", err, message)
	}
}
