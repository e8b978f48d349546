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

// A node may read what the containers in the spec refer to as soon as they are
// there, and what removed containers refer to until they are gone.
func TestNodeAuthorizerDynamicContainers(t *testing.T) {
	node1 := &user.DefaultInfo{Name: "system:node:node1", Groups: []string{"system:nodes"}}

	// Container x reads the secret and the config map x.
	pod := func(uid types.UID, generation, observed int64, containers []string, statuses ...corev1.ContainerStatus) *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod1", Namespace: "ns1", UID: uid, Generation: generation},
			Spec:       corev1.PodSpec{NodeName: "node1"},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: observed, ContainerStatuses: statuses},
		}
		for _, name := range containers {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}},
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}},
			}})
		}
		return pod
	}
	running := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
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
