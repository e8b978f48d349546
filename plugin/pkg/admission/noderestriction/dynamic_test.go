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

package noderestriction

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
)

// Where an authorizer gives too much to nodes, admission still keeps them from adding containers
// to their own pods.
func TestNodesCannotUseDynamic(t *testing.T) {
	pod := &api.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: api.PodSpec{NodeName: "mynode"}}
	plugin := NewPlugin(nodeidentifier.NewDefaultNodeIdentifier())
	node := &user.DefaultInfo{Name: "system:node:mynode", Groups: []string{"system:nodes"}}
	err := plugin.Admit(t.Context(), admission.NewAttributesRecord(pod, pod, api.Kind("Pod").WithVersion("v1"), pod.Namespace, pod.Name,
		api.Resource("pods").WithVersion("v1"), "dynamic", admission.Update, &metav1.UpdateOptions{}, false, node), nil)
	if want := `unexpected pod subresource "dynamic"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
}
