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
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/test/integration/framework"
)

// BenchmarkDynamicUpdate measures dry runs of updates through pods/dynamic and pods/resize, on an API server with n webhooks
// and policies of each kind that are for the pods of another namespace.
func BenchmarkDynamicUpdate(b *testing.B) {
	client, _ := startDynamicServer(b, true)
	webhookURL := startDenyingWebhook(b)
	ns := framework.CreateNamespaceOrDie(client, "dynamic-benchmark", b)
	defer framework.DeleteNamespaceOrDie(client, ns, b)
	pod := createRunningPod(b, client, ns.Name, dynamicNode)
	for i := range pod.Status.ContainerStatuses {
		// As of a node that can resize.
		pod.Status.ContainerStatuses[i].Resources = &v1.ResourceRequirements{}
	}
	pod, err := client.CoreV1().Pods(ns.Name).UpdateStatus(b.Context(), pod, metav1.UpdateOptions{})
	if err != nil {
		b.Fatal(err)
	}

	configured := 0
	for _, n := range []int{0, 10, 100} {
		for ; configured < n; configured++ {
			for _, kind := range interceptorKinds {
				objects := interceptor{
					kind: kind, name: fmt.Sprintf("elsewhere-%s-%d", strings.ToLower(kind), configured), namespaced: true, webhookURL: webhookURL,
					rules: []admissionregistrationv1.RuleWithOperations{createPods, updateDynamic, ruleFor("pods/resize", admissionregistrationv1.Update)},
				}.objects()
				replaceObjects(b, client, objects)
				defer deleteObjects(b, client, objects)
			}
		}
		// Once one that came last has had its effect, the others are known, too.
		for _, kind := range interceptorKinds {
			last := interceptor{kind: kind, name: ns.Name, namespaced: true, webhookURL: webhookURL, rules: []admissionregistrationv1.RuleWithOperations{createPods}}
			replaceObjects(b, client, last.objects())
			eventually(b, client, pod, last.refusal(pod))
			deleteObjects(b, client, last.objects())
			eventually(b, client, pod, "allowed")
		}
		for _, subresource := range []string{"dynamic", "resize"} {
			b.Run(fmt.Sprintf("%s/%d", subresource, n), func(b *testing.B) {
				for b.Loop() {
					if _, err := client.CoreV1().Pods(ns.Name).Patch(b.Context(), pod.Name, types.StrategicMergePatchType,
						[]byte(`{"spec":{"containers":[{"name":"a","resources":{}}]}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresource); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
