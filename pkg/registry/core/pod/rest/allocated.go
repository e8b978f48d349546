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
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubelet/client"
)

const (
	// maxAllocatedPodBytes bounds the size of a pod that is read from a kubelet. It is several times
	// the size of the largest pod that can be stored, to leave room for the encoding as JSON.
	maxAllocatedPodBytes = 8 * 1024 * 1024
	// maxKubeletErrorBytes bounds how much of an error of a kubelet is shown.
	maxKubeletErrorBytes = 1024
	// kubeletPodNotFound is what a kubelet answers, with status 404, when nothing is allocated for
	// the pod. A kubelet that does not serve allocated pods answers 404 with another text.
	kubeletPodNotFound = "pod not found"
)

// kubeletAnnotations are what a kubelet notes on its copy of a pod. They are those of
// pkg/kubelet/types, which would link the CRI client into the API server.
var kubeletAnnotations = []string{"kubernetes.io/config.source", "kubernetes.io/config.seen", "kubernetes.io/config.hash"}

// AllocatedREST implements the allocated endpoint of a pod: the pod as its node has allocated it,
// read from the kubelet on each request. The status of that pod is empty.
type AllocatedREST struct {
	// Store has the pods as the API server knows them.
	Store interface {
		rest.Getter
		rest.TableConvertor
	}
	KubeletConn client.ConnectionInfoGetter
	// Timeout bounds the request to the kubelet. The default, zero, leaves it to the context.
	Timeout time.Duration
}

var _ rest.Getter = &AllocatedREST{}
var _ rest.TableConvertor = &AllocatedREST{}

// New creates a new pod resource
func (r *AllocatedREST) New() runtime.Object {
	return &api.Pod{}
}

// Destroy cleans up resources on shutdown.
func (r *AllocatedREST) Destroy() {
	// Given that underlying store is shared with REST,
	// we don't destroy it here explicitly.
}

// ConvertToTable converts the pod for clients that ask for a table.
func (r *AllocatedREST) ConvertToTable(ctx context.Context, object runtime.Object, tableOptions runtime.Object) (*metav1.Table, error) {
	return r.Store.ConvertToTable(ctx, object, tableOptions)
}

// Get returns the allocated pod. All errors are API statuses: NotFound if the pod does not exist
// or nothing is allocated for it, Timeout if the kubelet does not answer in time,
// ServiceUnavailable if it cannot be reached or does not serve allocated pods, and InternalError
// if it answers anything but this pod. It never falls back to the pod in the store.
func (r *AllocatedREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.Store.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	pod := obj.(*api.Pod)
	if pod.Spec.NodeName == "" {
		return nil, notAllocated(pod, "the pod is not assigned to a node yet")
	}

	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	resp, err := r.requestAllocatedPod(ctx, pod)
	if err != nil {
		return nil, kubeletUnreachable(pod, err)
	}
	defer func() { _ = resp.Body.Close() }()

	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAllocatedPodBytes+1))
	if err == nil {
		// The kubelet sees that its client gives up, and may then end an answer that is not complete.
		err = ctx.Err()
	}
	if err != nil {
		return nil, kubeletUnreachable(pod, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, kubeletError(pod, resp.StatusCode, body)
	}
	if len(body) > maxAllocatedPodBytes {
		return nil, badKubeletAnswer(pod, fmt.Errorf("it is larger than %d bytes", maxAllocatedPodBytes))
	}
	return decodeAllocatedPod(pod, body)
}

// requestAllocatedPod asks the kubelet of the pod for the allocated pod. It uses the transport
// directly, which unlike an http.Client does not follow redirects.
func (r *AllocatedREST) requestAllocatedPod(ctx context.Context, pod *api.Pod) (*http.Response, error) {
	kubelet, err := r.KubeletConn.GetConnectionInfo(ctx, types.NodeName(pod.Spec.NodeName))
	if err != nil {
		return nil, err
	}
	location := &url.URL{
		Scheme: kubelet.Scheme,
		Host:   net.JoinHostPort(kubelet.Hostname, kubelet.Port),
		Path:   fmt.Sprintf("/allocatedPods/%s/%s", pod.Namespace, pod.Name),
	}
	if _, isMirror := pod.Annotations[api.MirrorPodAnnotationKey]; !isMirror {
		location.Path += "/" + string(pod.UID)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, location.String(), nil)
	if err != nil {
		return nil, err
	}
	return kubelet.Transport.RoundTrip(req)
}

// decodeAllocatedPod returns the pod that the kubelet answered, if it is the given pod.
func decodeAllocatedPod(pod *api.Pod, body []byte) (*api.Pod, error) {
	allocated := &api.Pod{}
	if err := runtime.DecodeInto(legacyscheme.Codecs.UniversalDecoder(), body, allocated); err != nil {
		return nil, badKubeletAnswer(pod, fmt.Errorf("it is not a pod: %w", err))
	}
	if allocated.Namespace != pod.Namespace || allocated.Name != pod.Name {
		return nil, badKubeletAnswer(pod, fmt.Errorf("it is the pod %s/%s", allocated.Namespace, allocated.Name))
	}

	// A kubelet knows a static pod by a UID of its own, which its mirror pod refers to.
	uid := pod.UID
	if staticUID, isMirror := pod.Annotations[api.MirrorPodAnnotationKey]; isMirror {
		uid = types.UID(staticUID)
	}
	if allocated.UID != uid {
		return nil, notAllocated(pod, fmt.Sprintf("node %q has another pod of this name", pod.Spec.NodeName))
	}
	allocated.UID = pod.UID

	for _, key := range kubeletAnnotations {
		delete(allocated.Annotations, key)
	}
	return allocated, nil
}

// notAllocated returns the error for a pod that exists, but for which nothing is allocated.
func notAllocated(pod *api.Pod, reason string) error {
	err := apierrors.NewNotFound(api.Resource("pods/allocated"), pod.Name)
	err.ErrStatus.Message += ": " + reason
	return err
}

// kubeletUnreachable returns the error for a request to the kubelet that got no complete answer.
func kubeletUnreachable(pod *api.Pod, err error) error {
	message := fmt.Sprintf("cannot get the allocated pod from the kubelet of node %q: %v", pod.Spec.NodeName, err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError(message, 0)
	case apierrors.IsNotFound(err):
		// The lookup of the node takes the resource to name from the request, which is for pods.
		message = fmt.Sprintf("cannot get the allocated pod: there is no node %q", pod.Spec.NodeName)
	}
	return apierrors.NewServiceUnavailable(message)
}

// kubeletError returns the error for a kubelet that answered with an HTTP status other than OK.
func kubeletError(pod *api.Pod, code int, body []byte) error {
	text := strings.TrimSpace(strings.ToValidUTF8(string(body[:min(len(body), maxKubeletErrorBytes)]), ""))
	switch {
	case code == http.StatusNotFound && text == kubeletPodNotFound:
		return notAllocated(pod, fmt.Sprintf("node %q has not admitted the pod, or no longer runs it", pod.Spec.NodeName))
	case code == http.StatusNotFound:
		return apierrors.NewServiceUnavailable(fmt.Sprintf("the kubelet of node %q does not serve allocated pods: "+
			"it is too old, or its KubeletAllocatedPodsEndpoint feature gate is not enabled", pod.Spec.NodeName))
	default:
		return badKubeletAnswer(pod, fmt.Errorf("HTTP status %d %s: %s", code, http.StatusText(code), text))
	}
}

// badKubeletAnswer returns the error for an answer of the kubelet that is not the allocated pod.
func badKubeletAnswer(pod *api.Pod, reason error) error {
	return apierrors.NewInternalError(fmt.Errorf("the kubelet of node %q did not answer with the allocated pod: %w", pod.Spec.NodeName, reason))
}
