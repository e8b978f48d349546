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
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// containerReading returns a container that reads the secret and the config map of a name.
func containerReading(name, reads string) corev1.Container {
	return corev1.Container{Name: name, EnvFrom: []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: reads}}},
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: reads}}},
	}}
}

// A node may read what the containers in the spec refer to as soon as they are
// there, and what removed containers refer to until they are gone.
func TestNodeAuthorizerDynamicContainers(t *testing.T) {
	node1 := &user.DefaultInfo{Name: "system:node:node1", Groups: []string{"system:nodes"}}

	// Container x reads the secret and the config map x; container x=y reads those with the name y.
	pod := func(uid types.UID, generation, observed int64, containers []string, statuses ...corev1.ContainerStatus) *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod1", Namespace: "ns1", UID: uid, Generation: generation},
			Spec:       corev1.PodSpec{NodeName: "node1"},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: observed, ContainerStatuses: statuses},
		}
		for _, container := range containers {
			name, reads, found := strings.Cut(container, "=")
			if !found {
				reads = name
			}
			pod.Spec.Containers = append(pod.Spec.Containers, containerReading(name, reads))
		}
		return pod
	}
	running := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, ContainerID: "1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	runningAs := func(name, id string) corev1.ContainerStatus {
		status := running(name)
		status.ContainerID = id
		return status
	}
	waiting := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, ContainerID: "1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	}
	terminated := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	}
	pending := func(pod *corev1.Pod) *corev1.Pod {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue}}
		return pod
	}
	ended := func(pod *corev1.Pod) *corev1.Pod {
		pod.Status.Phase = corev1.PodSucceeded
		return pod
	}

	type step struct {
		what string
		// pod is the next version of the pod, nil if it was deleted.
		pod        *corev1.Pod
		want, deny []string
	}
	// restarted is a step at which another API server starts.
	const restarted = "the API server restarts"
	tests := map[string][]step{
		"a container is added": {
			{"created", pod("u", 1, 1, []string{"a"}, running("a")), []string{"a"}, []string{"b"}},
			{"b added", pod("u", 2, 1, []string{"b", "a"}, running("a")), []string{"a", "b"}, nil},
		},
		"a container is removed": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{"b removed", pod("u", 2, 1, []string{"a"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{"seen by the node", pod("u", 2, 2, []string{"a"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{"b has stopped", pod("u", 2, 2, []string{"a"}, running("a"), terminated("b")), []string{"a"}, []string{"b"}},
		},
		"a container is removed, and its status is dropped at once": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{"b removed", pod("u", 2, 1, []string{"a"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{"b gone", pod("u", 2, 2, []string{"a"}, running("a")), []string{"a"}, []string{"b"}},
		},
		"a container that the node has not started yet is removed": {
			{"created", pod("u", 1, 1, []string{"a"}, running("a")), []string{"a"}, []string{"b"}},
			{"b added", pod("u", 2, 1, []string{"a", "b"}, running("a")), []string{"a", "b"}, nil},
			{"b removed", pod("u", 3, 1, []string{"a"}, running("a")), []string{"a", "b"}, nil},
			{"seen by the node", pod("u", 3, 3, []string{"a"}, running("a")), []string{"a"}, []string{"b"}},
		},
		"a removal is deferred while another container is added": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("a"), running("b")), []string{"a", "b"}, []string{"c"}},
			{"b replaced by c", pod("u", 2, 1, []string{"a", "c"}, running("a"), running("b")), []string{"a", "b", "c"}, nil},
			{"deferred, b crashes", pending(pod("u", 2, 2, []string{"a", "c"}, running("a"), terminated("b"))), []string{"a", "b", "c"}, nil},
			{"allocated", pod("u", 2, 2, []string{"a", "c"}, running("a"), terminated("b")), []string{"a", "c"}, []string{"b"}},
		},
		"a removed container comes back": {
			{"created", pod("u", 1, 1, []string{"a", "b"}), []string{"a", "b"}, nil},
			{"b removed", pod("u", 2, 1, []string{"a"}), []string{"a", "b"}, nil},
			{"b added again", pod("u", 3, 1, []string{"a", "b"}), []string{"a", "b"}, nil},
			{"b removed again", pod("u", 4, 4, []string{"a"}), []string{"a"}, []string{"b"}},
		},
		"a removed container comes back with other references, and the old one still runs": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("a"), running("b")), []string{"a", "b"}, []string{"x"}},
			{"b removed", pod("u", 2, 1, []string{"a"}, running("a"), running("b")), []string{"a", "b"}, []string{"x"}},
			{"b added again", pod("u", 3, 1, []string{"a", "b=x"}, running("a"), running("b")), []string{"a", "b", "x"}, nil},
			{"deferred", pending(pod("u", 3, 3, []string{"a", "b=x"}, running("a"), waiting("b"))), []string{"a", "b", "x"}, nil},
			{"allocated, the old one stops", pod("u", 3, 3, []string{"a", "b=x"}, running("a"), running("b")), []string{"a", "b", "x"}, nil},
			{"the new one runs", pod("u", 3, 3, []string{"a", "b=x"}, running("a"), runningAs("b", "2")), []string{"a", "x"}, []string{"b"}},
		},
		"a removed container comes back with other references after it has stopped": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("a"), running("b")), []string{"a", "b"}, []string{"x"}},
			{"b removed and seen", pod("u", 2, 2, []string{"a"}, running("a"), running("b")), []string{"a", "b"}, []string{"x"}},
			{"b has stopped and is added again", pod("u", 3, 2, []string{"a", "b=x"}, running("a"), terminated("b")), []string{"a", "x"}, []string{"b"}},
			{"seen by the node", pod("u", 3, 3, []string{"a", "b=x"}, running("a"), terminated("b")), []string{"a", "x"}, []string{"b"}},
		},
		"a container comes and goes three times before the node sees it": {
			{"created", pod("u", 1, 1, []string{"a", "b=x"}, running("a")), []string{"a", "x"}, []string{"y", "z"}},
			{"replaced", pod("u", 3, 1, []string{"a", "b=y"}, running("a")), []string{"a", "x", "y"}, []string{"z"}},
			{"replaced again", pod("u", 5, 1, []string{"a", "b=z"}, running("a")), []string{"a", "x", "y", "z"}, nil},
			{"the last one runs", pod("u", 5, 5, []string{"a", "b=z"}, running("a"), runningAs("b", "3")), []string{"a", "z"}, []string{"x", "y"}},
		},
		"the update without the container was missed": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("a"), running("b")), []string{"a", "b"}, []string{"x"}},
			{"b replaced by another b", pod("u", 3, 1, []string{"a", "b=x"}, running("a"), running("b")), []string{"a", "b", "x"}, nil},
			{"the new one runs", pod("u", 3, 3, []string{"a", "b=x"}, running("a"), runningAs("b", "2")), []string{"a", "x"}, []string{"b"}},
		},
		"a removed container crashes and waits": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("a"), waiting("b")), []string{"a", "b"}, nil},
			{"b removed", pod("u", 2, 1, []string{"a"}, running("a"), waiting("b")), []string{"a", "b"}, nil},
			{"seen by the node", pod("u", 2, 2, []string{"a"}, running("a"), waiting("b")), []string{"a", "b"}, nil},
			{"b has stopped", pod("u", 2, 2, []string{"a"}, running("a"), terminated("b")), []string{"a"}, []string{"b"}},
		},
		"other updates of the pod and of its status change nothing": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{"another update", pod("u", 2, 1, []string{"b", "a"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{"b removed", pod("u", 3, 1, []string{"a"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{"c added", pod("u", 4, 1, []string{"a", "c"}, running("a"), running("b")), []string{"a", "b", "c"}, nil},
			{"the first update is seen", pod("u", 4, 2, []string{"a", "c"}, running("a"), running("b")), []string{"a", "b", "c"}, nil},
			{"all are seen", pod("u", 4, 4, []string{"a", "c"}, running("a"), running("b"), running("c")), []string{"a", "b", "c"}, nil},
			{"b has stopped", pod("u", 4, 4, []string{"a", "c"}, running("a"), terminated("b"), running("c")), []string{"a", "c"}, []string{"b"}},
		},
		"the API server restarts while a removed container runs": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{"b removed", pod("u", 2, 1, []string{"a"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{restarted, pod("u", 2, 1, []string{"a"}, running("a"), running("b")), []string{"a"}, []string{"b"}},
			{"seen by the node", pod("u", 2, 2, []string{"a"}, running("a"), running("b")), []string{"a"}, []string{"b"}},
		},
		"the API server restarts after a container was added": {
			{"created", pod("u", 1, 1, []string{"a"}, running("a")), []string{"a"}, []string{"b"}},
			{restarted, pod("u", 2, 1, []string{"a", "b"}, running("a")), []string{"a", "b"}, nil},
		},
		"the pod ends": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{"b removed", pod("u", 2, 1, []string{"a"}, running("a"), running("b")), []string{"a", "b"}, nil},
			{"ended", ended(pod("u", 2, 1, []string{"a"}, running("a"), running("b"))), []string{"a"}, []string{"b"}},
		},
		"the pod is deleted": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("b")), []string{"a", "b"}, nil},
			{"b removed", pod("u", 2, 1, []string{"a"}, running("b")), []string{"a", "b"}, nil},
			{"deleted", nil, nil, []string{"a", "b"}},
		},
		"the pod is replaced by another of the same name": {
			{"created", pod("u", 1, 1, []string{"a", "b"}, running("b")), []string{"a", "b"}, nil},
			{"b removed", pod("u", 2, 1, []string{"a"}, running("b")), []string{"a", "b"}, nil},
			{"replaced", pod("other", 1, 0, []string{"a"}), []string{"a"}, []string{"b"}},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewGraph()
			authz := NewAuthorizer(g, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules())
			p := &graphPopulator{graph: g}
			check := func(what, name string, want authorizer.Decision) {
				t.Helper()
				for _, resource := range []string{"secrets", "configmaps"} {
					got, _, err := authz.Authorize(context.Background(), authorizer.AttributesRecord{
						User: node1, ResourceRequest: true, Verb: "get", Resource: resource, Namespace: "ns1", Name: name})
					if err != nil {
						t.Fatal(err)
					}
					if got != want {
						t.Errorf("%s: %s %s: want %v, got %v", what, resource, name, want, got)
					}
				}
			}
			var last *corev1.Pod
			for _, s := range steps {
				if s.what == restarted {
					g = NewGraph()
					authz = NewAuthorizer(g, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules())
					p, last = &graphPopulator{graph: g}, nil
				}
				switch {
				case s.pod == nil:
					p.deletePod(cache.DeletedFinalStateUnknown{Obj: last})
				case last == nil:
					p.addPod(s.pod)
				default:
					p.updatePod(last, s.pod)
				}
				last = s.pod
				for _, name := range s.want {
					check(s.what, name, authorizer.DecisionAllow)
				}
				for _, name := range s.deny {
					check(s.what, name, authorizer.DecisionNoOpinion)
				}
			}
			if last == nil && len(p.removed.byPod) > 0 {
				t.Errorf("removed containers of a pod that is gone are still remembered: %v", p.removed.byPod)
			}
			if len(p.removed.byPod["u"]) > 0 && last != nil && last.UID != "u" {
				t.Errorf("removed containers of a pod that was replaced are still remembered: %v", p.removed.byPod)
			}
		})
	}
}

// Every kind of reference follows its container; what the pod itself refers to stays.
func TestNodeAuthorizerReferencesOfDynamicContainers(t *testing.T) {
	g := NewGraph()
	authz := NewAuthorizer(g, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules())
	p := &graphPopulator{graph: g}
	check := func(what, verb, resource, subresource, name string, want authorizer.Decision) {
		t.Helper()
		got, reason, err := authz.Authorize(context.Background(), authorizer.AttributesRecord{
			User:            &user.DefaultInfo{Name: "system:node:node1", Groups: []string{"system:nodes"}},
			ResourceRequest: true, Verb: verb, Resource: resource, Subresource: subresource, Namespace: "ns1", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: %s %s %s: want %v, got %v (%s)", what, verb, resource, name, want, got, reason)
		}
	}

	pod := func(generation int64, containers ...corev1.Container) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod1", Namespace: "ns1", UID: "u", Generation: generation},
			Spec: corev1.PodSpec{
				NodeName:           "node1",
				ServiceAccountName: "account",
				ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "pull"}},
				InitContainers:     []corev1.Container{containerReading("init", "init")},
				Containers:         containers,
				Volumes: []corev1.Volume{
					{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}},
					{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
				},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: generation},
		}
	}
	main := corev1.Container{Name: "main"}
	env := corev1.Container{
		Name: "new",
		Env: []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "env"}}}},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "env"}}}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "secret"}, {Name: "claim"}},
	}
	steps := []struct {
		what string
		pod  *corev1.Pod
		want authorizer.Decision
	}{
		{"before", pod(1, main), authorizer.DecisionNoOpinion},
		{"with the container", pod(2, main, env), authorizer.DecisionAllow},
		{"after", pod(3, main), authorizer.DecisionNoOpinion},
	}
	var last *corev1.Pod
	for _, s := range steps {
		if last == nil {
			p.addPod(s.pod)
		} else {
			p.updatePod(last, s.pod)
		}
		last = s.pod
		check(s.what, "get", "secrets", "", "env", s.want)
		check(s.what, "get", "configmaps", "", "env", s.want)
		for _, secret := range []string{"pull", "init", "volume"} {
			check(s.what, "get", "secrets", "", secret, authorizer.DecisionAllow)
		}
		check(s.what, "get", "persistentvolumeclaims", "", "claim", authorizer.DecisionAllow)
		check(s.what, "create", "serviceaccounts", "token", "account", authorizer.DecisionAllow)
		check(s.what, "get", "secrets", "", "other", authorizer.DecisionNoOpinion)
	}
}

// The graph is left alone by containers that refer to nothing, and by updates of the status.
func TestRemovedContainersObserve(t *testing.T) {
	pod := func(generation int64, containers ...corev1.Container) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: generation}, Spec: corev1.PodSpec{Containers: containers}}
	}
	plain := func(name string) corev1.Container {
		return corev1.Container{Name: name, Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}}}}
	}
	image := containerReading("a", "a")
	image.Image = "other"
	tests := map[string]struct {
		old, new *corev1.Pod
		want     bool
	}{
		"the status changes":                                {pod(1, containerReading("a", "a")), pod(1, containerReading("a", "a")), false},
		"an image changes":                                  {pod(1, containerReading("a", "a")), pod(2, image), false},
		"containers are reordered":                          {pod(1, containerReading("a", "a"), containerReading("b", "b")), pod(2, containerReading("b", "b"), containerReading("a", "a")), false},
		"a container that reads nothing is added":           {pod(1, plain("a")), pod(2, plain("b"), plain("a")), false},
		"a container that reads nothing goes":               {pod(1, plain("a"), plain("b")), pod(2, plain("a")), false},
		"a container is added":                              {pod(1, plain("a")), pod(2, plain("a"), containerReading("b", "b")), true},
		"a container is removed":                            {pod(1, plain("a"), containerReading("b", "b")), pod(2, plain("a")), true},
		"a container is replaced by one that reads nothing": {pod(1, containerReading("a", "a")), pod(2, plain("a")), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var r removedContainers
			if got := r.observe(tc.old, tc.new); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

// Containers that come and go cost nothing once the node has reported, and little as long as it does not.
func TestRemovedContainersAreBounded(t *testing.T) {
	const names = 2000
	for _, reports := range []bool{true, false} {
		t.Run(fmt.Sprintf("the node reports: %v", reports), func(t *testing.T) {
			p := &graphPopulator{graph: NewGraph()}
			pod := func(generation int64, containers ...corev1.Container) *corev1.Pod {
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "pod1", Namespace: "ns1", UID: "u", Generation: generation},
					Spec:       corev1.PodSpec{NodeName: "node1", Containers: containers},
					Status:     corev1.PodStatus{Phase: corev1.PodRunning},
				}
				if reports {
					pod.Status.ObservedGeneration = generation
				}
				return pod
			}
			last := pod(1, containerReading("main", "main"))
			p.addPod(last)
			for i := range names {
				next := pod(int64(i)+2, containerReading("main", "main"), containerReading(fmt.Sprint("c", i), fmt.Sprint("c", i)))
				p.updatePod(last, next)
				last = next
			}
			want := 0
			if !reports {
				want = maxRemovedContainers
			}
			if got := len(p.removed.byPod["u"]); got != want {
				t.Errorf("want %d removed containers remembered, got %d", want, got)
			}
			// The secrets of the containers in the spec, and of those that are remembered.
			if got := len(p.graph.vertices[secretVertexType]["ns1"]); got != want+2 {
				t.Errorf("want %d secrets in the graph, got %d", want+2, got)
			}
			p.deletePod(last)
			if len(p.removed.byPod) != 0 || len(p.graph.vertices[secretVertexType]) != 0 {
				t.Errorf("something is left of a deleted pod: %v, %v", p.removed.byPod, p.graph.vertices[secretVertexType])
			}
		})
	}
}
