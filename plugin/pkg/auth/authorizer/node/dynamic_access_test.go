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
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// A node decides on the containers that the API asks for. It neither adds containers to its own
// pods, nor asks the API server to ask it what it has allocated.
func TestNodeAuthorizerRefusesDynamicAndAllocated(t *testing.T) {
	graph := NewGraph()
	authz := NewAuthorizer(graph, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules())
	graph.AddPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "pod1", UID: "uid"},
		Spec:       corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "main"}}},
	})
	attributes := func(verb, subresource string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{
			User:            &user.DefaultInfo{Name: "system:node:node1", Groups: []string{"system:nodes"}},
			ResourceRequest: true, Verb: verb, APIVersion: "v1", Resource: "pods", Subresource: subresource, Namespace: "ns1", Name: "pod1",
		}
	}
	if decision, reason, err := authz.Authorize(t.Context(), attributes("get", "")); decision != authorizer.DecisionAllow || err != nil {
		t.Fatalf("get pods: got %v, %q, %v, want allow", decision, reason, err)
	}
	for _, test := range []struct{ verb, subresource string }{
		{"get", "allocated"}, {"get", "dynamic"}, {"update", "dynamic"}, {"patch", "dynamic"},
	} {
		decision, _, err := authz.Authorize(t.Context(), attributes(test.verb, test.subresource))
		if decision == authorizer.DecisionAllow || err != nil {
			t.Errorf("%s pods/%s: got %v, %v, want no allow", test.verb, test.subresource, decision, err)
		}
	}
}
