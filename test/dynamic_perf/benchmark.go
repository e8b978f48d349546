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

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	internalapi "k8s.io/cri-api/pkg/apis"
	cri "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// cleanupTimeout bounds how long the end of a run may take, whatever made it end.
const cleanupTimeout = 5 * time.Minute

// benchmark is one run of this program.
type benchmark struct {
	options options
	client  kubernetes.Interface
	runtime internalapi.RuntimeService
	watcher *watcher
	report  report
	// checkpoints counts writes of the kubelet, nil if --kubelet-dir is not given.
	checkpoints *checkpointCounter

	// namespace holds all objects of the run, scratch is a directory for logs that the kubelet does not
	// know.
	namespace string
	scratch   string
	// hostname is the hostname label of the node that is measured.
	hostname string
	names    atomic.Int64
}

// newBenchmark connects to the API server and to the container runtime.
func newBenchmark(ctx context.Context, o options) (*benchmark, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load the kubeconfig (see --kubeconfig): %w", err)
	}
	// The client must not be what limits the rate.
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	runtime, err := cri.NewRemoteRuntimeServiceBuilder().
		WithEndpoint(o.runtimeEndpoint).WithConnectionTimeout(time.Minute).WithTracerProvider(nil).Build(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the container runtime (see --runtime-endpoint): %w", err)
	}
	return &benchmark{options: o, client: client, runtime: runtime}, nil
}

// run sets up what all scenarios need, and runs them. Whatever the result, cleanup must be called.
func (b *benchmark) run(ctx context.Context) (err error) {
	if err := b.findNode(ctx); err != nil {
		return err
	}
	if b.scratch, err = os.MkdirTemp("", "dynamic-perf-"); err != nil {
		return err
	}
	if err := b.createNamespace(ctx); err != nil {
		return err
	}
	if b.watcher, err = startWatcher(ctx, b.client, b.namespace); err != nil {
		return err
	}
	for _, s := range scenarios {
		if !b.options.scenarios.Has(s.name) {
			continue
		}
		klog.FromContext(ctx).Info("Running", "scenario", s.name)
		if err := s.run(b, ctx); err != nil {
			return err
		}
	}
	return nil
}

// findNode finds the node that is measured: the one named by the user, or the only one.
func (b *benchmark) findNode(ctx context.Context) error {
	if b.options.node == "" {
		nodes, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list the nodes: %w", err)
		}
		if len(nodes.Items) != 1 {
			return fmt.Errorf("there are %d nodes; say with --node on which of them this program runs", len(nodes.Items))
		}
		b.options.node = nodes.Items[0].Name
	}
	node, err := b.client.CoreV1().Nodes().Get(ctx, b.options.node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get the node: %w", err)
	}
	b.hostname = node.Labels[v1.LabelHostname]
	return nil
}

// checkRoomForPods fails if the node would not take so many more pods.
func (b *benchmark) checkRoomForPods(ctx context.Context, count int) error {
	node, err := b.client.CoreV1().Nodes().Get(ctx, b.options.node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get the node: %w", err)
	}
	pods, err := b.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + b.options.node})
	if err != nil {
		return fmt.Errorf("list the pods of the node: %w", err)
	}
	if room := int(node.Status.Allocatable.Pods().Value()) - len(pods.Items); room < count {
		return fmt.Errorf("node %s has room for %d more pods, but --pods=%d", b.options.node, room, count)
	}
	return nil
}

func (b *benchmark) createNamespace(ctx context.Context) error {
	namespace, err := b.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "dynamic-perf-"}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a namespace: %w", err)
	}
	b.namespace = namespace.Name
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	// Pods are refused until a controller has made this.
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := b.client.CoreV1().ServiceAccounts(b.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("wait for the default service account of namespace %s: %w", b.namespace, err)
	}
	return nil
}

// cleanup removes everything that the run created.
func (b *benchmark) cleanup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	klog.FromContext(ctx).Info("Cleaning up", "namespace", b.namespace)
	var errs []error
	if b.namespace != "" {
		errs = append(errs, b.removeSandboxes(ctx), b.removeNamespace(ctx))
		b.removeCgroups()
	}
	if err := errors.Join(append(errs, os.RemoveAll(b.scratch))...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

func (b *benchmark) removeNamespace(ctx context.Context) error {
	pods := b.client.CoreV1().Pods(b.namespace)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete the pods of namespace %s: %w", b.namespace, err)
	}
	namespaces := b.client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, b.namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete namespace %s: %w", b.namespace, err)
	}
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, b.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("wait until namespace %s is gone: %w", b.namespace, err)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (b *benchmark) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.options.timeout, fmt.Errorf("timed out after %v (see --timeout)", b.options.timeout))
}
