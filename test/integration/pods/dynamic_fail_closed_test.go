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
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/test/integration/framework"
	testutils "k8s.io/kubernetes/test/utils"
	"k8s.io/utils/ptr"
)

// The four kinds of webhooks and policies.
var interceptorKinds = []string{
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy",
}

// seen is how an interceptor shows that it was asked: in its denial, or as a label if it cannot deny.
const seen = "seen-by-interceptor"

// interceptor is a webhook or policy for pods with the label interceptor=<name>, or all pods of the namespace <name>.
type interceptor struct {
	kind, name, webhookURL string
	namespaced             bool
	rules                  []admissionregistrationv1.RuleWithOperations
}

func ruleFor(resource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
	}
}

var (
	createPods    = ruleFor("pods", admissionregistrationv1.Create)
	updateDynamic = ruleFor("pods/dynamic", admissionregistrationv1.Update)
)

// objects returns what makes up the interceptor. All of them have failurePolicy Ignore, which must not matter.
func (i interceptor) objects() []runtime.Object {
	namespaceSelector, objectSelector := &metav1.LabelSelector{}, &metav1.LabelSelector{}
	if i.namespaced {
		namespaceSelector.MatchLabels = map[string]string{v1.LabelMetadataName: i.name}
	} else {
		objectSelector.MatchLabels = map[string]string{"interceptor": i.name}
	}
	var namedRules []admissionregistrationv1.NamedRuleWithOperations
	for _, r := range i.rules {
		namedRules = append(namedRules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: r})
	}
	constraints := &admissionregistrationv1.MatchResources{
		NamespaceSelector: namespaceSelector, ObjectSelector: objectSelector, ResourceRules: namedRules,
	}
	typeMeta := metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: i.kind}
	bindingMeta := metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: i.kind + "Binding"}
	objectMeta := metav1.ObjectMeta{Name: i.name}
	webhookName := "interceptor.example.com"
	clientConfig := admissionregistrationv1.WebhookClientConfig{URL: &i.webhookURL, CABundle: testutils.LocalhostCert}

	switch i.kind {
	case "ValidatingWebhookConfiguration":
		return []runtime.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{TypeMeta: typeMeta, ObjectMeta: objectMeta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: webhookName, ClientConfig: clientConfig, Rules: i.rules, NamespaceSelector: namespaceSelector, ObjectSelector: objectSelector,
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}}}}
	case "MutatingWebhookConfiguration":
		return []runtime.Object{&admissionregistrationv1.MutatingWebhookConfiguration{TypeMeta: typeMeta, ObjectMeta: objectMeta, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: webhookName, ClientConfig: clientConfig, Rules: i.rules, NamespaceSelector: namespaceSelector, ObjectSelector: objectSelector,
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}}}}
	case "ValidatingAdmissionPolicy":
		return []runtime.Object{
			&admissionregistrationv1.ValidatingAdmissionPolicy{TypeMeta: typeMeta, ObjectMeta: objectMeta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: constraints, FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
				// The pod itself must get into the cluster.
				Validations: []admissionregistrationv1.Validation{{Expression: "oldObject == null", Message: seen}},
			}},
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{TypeMeta: bindingMeta, ObjectMeta: objectMeta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: i.name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			}},
		}
	case "MutatingAdmissionPolicy":
		return []runtime.Object{
			&admissionregistrationv1.MutatingAdmissionPolicy{TypeMeta: typeMeta, ObjectMeta: objectMeta, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				MatchConstraints: constraints, FailurePolicy: ptr.To(admissionregistrationv1.Ignore), ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
					Expression: fmt.Sprintf(`Object{metadata: Object.metadata{annotations: {%q: "true"}}}`, seen),
				}}},
			}},
			&admissionregistrationv1.MutatingAdmissionPolicyBinding{TypeMeta: bindingMeta, ObjectMeta: objectMeta, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
				PolicyName: i.name,
			}},
		}
	}
	panic("unknown kind " + i.kind)
}

// replaceObjects creates the objects in place of those of that name, if there are any.
func replaceObjects(t testing.TB, client clientset.Interface, objects []runtime.Object) {
	t.Helper()
	deleteObjects(t, client, objects)
	admission := client.AdmissionregistrationV1()
	for _, object := range objects {
		var err error
		switch o := object.(type) {
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			_, err = admission.ValidatingWebhookConfigurations().Create(t.Context(), o, metav1.CreateOptions{})
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			_, err = admission.MutatingWebhookConfigurations().Create(t.Context(), o, metav1.CreateOptions{})
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			_, err = admission.ValidatingAdmissionPolicies().Create(t.Context(), o, metav1.CreateOptions{})
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			_, err = admission.ValidatingAdmissionPolicyBindings().Create(t.Context(), o, metav1.CreateOptions{})
		case *admissionregistrationv1.MutatingAdmissionPolicy:
			_, err = admission.MutatingAdmissionPolicies().Create(t.Context(), o, metav1.CreateOptions{})
		case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
			_, err = admission.MutatingAdmissionPolicyBindings().Create(t.Context(), o, metav1.CreateOptions{})
		default:
			err = fmt.Errorf("unexpected object %T", object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func deleteObjects(t testing.TB, client clientset.Interface, objects []runtime.Object) {
	t.Helper()
	admission := client.AdmissionregistrationV1()
	for _, object := range objects {
		// What is not there needs no deletion; that it is gone shows in what follows.
		switch o := object.(type) {
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			_ = admission.ValidatingWebhookConfigurations().Delete(t.Context(), o.Name, metav1.DeleteOptions{})
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			_ = admission.MutatingWebhookConfigurations().Delete(t.Context(), o.Name, metav1.DeleteOptions{})
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			_ = admission.ValidatingAdmissionPolicies().Delete(t.Context(), o.Name, metav1.DeleteOptions{})
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			_ = admission.ValidatingAdmissionPolicyBindings().Delete(t.Context(), o.Name, metav1.DeleteOptions{})
		case *admissionregistrationv1.MutatingAdmissionPolicy:
			_ = admission.MutatingAdmissionPolicies().Delete(t.Context(), o.Name, metav1.DeleteOptions{})
		case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
			_ = admission.MutatingAdmissionPolicyBindings().Delete(t.Context(), o.Name, metav1.DeleteOptions{})
		}
	}
}

// startDenyingWebhook starts a webhook that denies everything but creates.
func startDenyingWebhook(t testing.TB) string {
	t.Helper()
	url, stop, err := testutils.NewAdmissionWebhookServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &review)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: review.Request.Operation == admissionv1.Create}
		if !review.Response.Allowed {
			review.Response.Result = &metav1.Status{Message: seen + " as an update of " + review.Request.SubResource, Code: http.StatusForbidden}
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
	return url
}

// addContainer adds a container and returns what came of it: "allowed", "seen", or the message of the error.
func addContainer(t testing.TB, client clientset.Interface, pod *v1.Pod, dryRun bool) string {
	t.Helper()
	options := metav1.PatchOptions{}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	patched, err := client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType,
		[]byte(`{"spec":{"containers":[{"name":"w","image":"image"}]}}`), options, "dynamic")
	switch {
	case err != nil && strings.Contains(err.Error(), seen), err == nil && patched.Annotations[seen] == "true":
		return "seen"
	case err != nil:
		return err.Error()
	}
	return "allowed"
}

// eventually waits until adding a container, without doing it, comes to what is wanted: informers see new webhooks and
// policies after a while.
func eventually(t testing.TB, client clientset.Interface, pod *v1.Pod, want string) {
	t.Helper()
	var got string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = addContainer(t, client, pod, true); got == want {
			return
		}
	}
	t.Fatalf("adding a container to a running pod\n got: %s\nwant: %s", got, want)
}

// refusal is the error with which the interceptor must refuse.
func (i interceptor) refusal(pod *v1.Pod) string {
	prefix := fmt.Sprintf(`pods %q is forbidden: `, pod.Name)
	const rest = ` intercepts CREATE of pods but not UPDATE of pods/dynamic, which can have the same effect; to allow it, add to %s: ` +
		`{apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["pods/dynamic"]}`
	if strings.HasSuffix(i.kind, "Policy") {
		return prefix + fmt.Sprintf("%s %q with binding %q"+rest, i.kind, i.name, i.name, "spec.matchConstraints.resourceRules of the policy")
	}
	return prefix + fmt.Sprintf("webhook %q of %s %q"+rest, "interceptor.example.com", i.kind, i.name, "the rules of the webhook")
}

func TestDynamicFailClosed(t *testing.T) {
	client, _ := startDynamicServer(t, true)
	webhookURL := startDenyingWebhook(t)
	elsewhere := framework.CreateNamespaceOrDie(client, "dynamic-elsewhere", t)
	defer framework.DeleteNamespaceOrDie(client, elsewhere, t)
	otherPod := createRunningPod(t, client, elsewhere.Name, dynamicNode)

	for _, kind := range interceptorKinds {
		t.Run(kind, func(t *testing.T) {
			ns := framework.CreateNamespaceOrDie(client, "dynamic-fail-closed-"+strings.ToLower(kind), t)
			defer framework.DeleteNamespaceOrDie(client, ns, t)
			pod := createRunningPod(t, client, ns.Name, dynamicNode)
			eventually(t, client, pod, "allowed")

			i := interceptor{kind: kind, name: ns.Name, namespaced: true, webhookURL: webhookURL, rules: []admissionregistrationv1.RuleWithOperations{createPods}}
			replaceObjects(t, client, i.objects())
			defer deleteObjects(t, client, i.objects())
			eventually(t, client, pod, i.refusal(pod))
			if got := addContainer(t, client, pod, false); got != i.refusal(pod) {
				t.Errorf("without dry run: got %s, want %s", got, i.refusal(pod))
			}
			if _, err := client.CoreV1().Pods(ns.Name).Patch(t.Context(), pod.Name, types.StrategicMergePatchType,
				[]byte(`{"metadata":{"labels":{"some":"label"}}}`), metav1.PatchOptions{}); err != nil {
				t.Errorf("an update of the pod is no concern of an interceptor of creates: %v", err)
			}
			if got := addContainer(t, client, otherPod, true); got != "allowed" {
				t.Errorf("another namespace is no concern of the interceptor, got: %s", got)
			}

			i.rules = append(i.rules, updateDynamic)
			replaceObjects(t, client, i.objects())
			eventually(t, client, pod, "seen")
		})
	}
}

// Webhooks and policies that are read from files on the server's disk.
func TestDynamicFailClosedStaticManifests(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, genericfeatures.ManifestBasedAdmissionControlConfig, true)
	webhookURL := startDenyingWebhook(t)

	config := "apiVersion: apiserver.k8s.io/v1alpha1\nkind: AdmissionConfiguration\nplugins:\n"
	var interceptors []interceptor
	for _, plugin := range []struct{ name, kind, configVersion, configKind string }{
		{"ValidatingAdmissionWebhook", "ValidatingWebhookConfiguration", "apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration"},
		{"MutatingAdmissionWebhook", "MutatingWebhookConfiguration", "apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration"},
		{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicy", "apiserver.config.k8s.io/v1", "ValidatingAdmissionPolicyConfiguration"},
		{"MutatingAdmissionPolicy", "MutatingAdmissionPolicy", "apiserver.config.k8s.io/v1", "MutatingAdmissionPolicyConfiguration"},
	} {
		dir := t.TempDir()
		config += fmt.Sprintf("- name: %s\n  configuration:\n    apiVersion: %s\n    kind: %s\n    staticManifestsDir: %q\n", plugin.name, plugin.configVersion, plugin.configKind, dir)
		for _, rules := range [][]admissionregistrationv1.RuleWithOperations{{createPods}, {createPods, updateDynamic}} {
			i := interceptor{kind: plugin.kind, name: fmt.Sprintf("%s-%d.static.k8s.io", strings.ToLower(plugin.kind), len(rules)), webhookURL: webhookURL, rules: rules}
			interceptors = append(interceptors, i)
			for n, object := range i.objects() {
				data, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.json", i.name, n)), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	configFile := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(configFile, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}

	client, _ := startDynamicServer(t, true, "--admission-control-config-file="+configFile)
	ns := framework.CreateNamespaceOrDie(client, "dynamic-static-manifests", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	eventually(t, client, createRunningPod(t, client, ns.Name, dynamicNode), "allowed")
	for _, i := range interceptors {
		t.Run(i.name, func(t *testing.T) {
			pod := createRunningPodWith(t, client, ns.Name, dynamicNode, func(pod *v1.Pod) {
				pod.Labels = map[string]string{"interceptor": i.name}
			})
			if len(i.rules) > 1 {
				eventually(t, client, pod, "seen")
			} else {
				eventually(t, client, pod, i.refusal(pod))
			}
		})
	}
}

// With the gate off, webhooks and policies are asked, or not, by their rules alone.
func TestDynamicFailClosedOff(t *testing.T) {
	client, _ := startDynamicServer(t, false)
	ns := framework.CreateNamespaceOrDie(client, "dynamic-fail-open", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	pod := createRunningPod(t, client, ns.Name, "")
	for i := range pod.Status.ContainerStatuses {
		// As of a node that can resize.
		pod.Status.ContainerStatuses[i].Resources = &v1.ResourceRequirements{}
	}
	pod, err := client.CoreV1().Pods(ns.Name).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	i := interceptor{kind: "ValidatingWebhookConfiguration", name: ns.Name, namespaced: true, webhookURL: startDenyingWebhook(t),
		rules: []admissionregistrationv1.RuleWithOperations{createPods, ruleFor("pods/ephemeralcontainers", admissionregistrationv1.Update)}}
	replaceObjects(t, client, i.objects())
	defer deleteObjects(t, client, i.objects())
	patch := func(body, subresource string) error {
		_, err := client.CoreV1().Pods(ns.Name).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, subresource)
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = patch(`{"spec":{"ephemeralContainers":[{"name":"debug","image":"image"}]}}`, "ephemeralcontainers"); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), seen) {
		t.Fatalf("the webhook was not called: %v", err)
	}
	if err := patch(`{"spec":{"containers":[{"name":"a","resources":{}}]}}`, "resize"); err != nil {
		t.Errorf("pods/resize amounts to nothing but itself: %v", err)
	}
}

// What mutating webhooks make of an update is held to the same rules as what users ask for.
func TestDynamicMutatingWebhook(t *testing.T) {
	client, _ := startDynamicServer(t, true)
	url, stop, err := testutils.NewAdmissionWebhookServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var pod metav1.PartialObjectMetadata
		if err := json.Unmarshal(review.Request.Object.Raw, &pod); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true,
			PatchType: ptr.To(admissionv1.PatchTypeJSONPatch), Patch: []byte(pod.Annotations["patch"]),
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
	ns := framework.CreateNamespaceOrDie(client, "dynamic-mutating-webhook", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	i := interceptor{kind: "MutatingWebhookConfiguration", name: ns.Name, namespaced: true, webhookURL: url,
		rules: []admissionregistrationv1.RuleWithOperations{updateDynamic}}
	replaceObjects(t, client, i.objects())
	defer deleteObjects(t, client, i.objects())

	tests := map[string]struct {
		patch string
		want  string
	}{
		"sidecar that is not there yet":      {patch: `[{"op":"add","path":"/spec/containers/-","value":{"name":"sidecar","image":"image"}}]`, want: "allowed"},
		"sidecar that is there":              {patch: `[{"op":"add","path":"/spec/containers/-","value":{"name":"a","image":"image"}}]`, want: `spec.containers[3].name: Duplicate value: "a"`},
		"init container":                     {patch: `[{"op":"add","path":"/spec/initContainers","value":[{"name":"init","image":"image"}]}]`, want: "spec.initContainers"},
		"volume":                             {patch: `[{"op":"add","path":"/spec/volumes","value":[{"name":"data","emptyDir":{}}]}]`, want: "spec.volumes"},
		"privileged container":               {patch: `[{"op":"add","path":"/spec/containers/-","value":{"name":"sidecar","image":"image","securityContext":{"privileged":true}}}]`, want: "privileged"},
		"environment of a container":         {patch: `[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"E","value":"v"}]}]`, want: "spec.containers[0].env"},
		"another name for the new container": {patch: `[{"op":"replace","path":"/spec/containers/2/name","value":"b"}]`, want: "Duplicate value"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := createRunningPodWith(t, client, ns.Name, dynamicNode, func(pod *v1.Pod) {
				pod.Annotations = map[string]string{"patch": tc.patch}
			})
			var got string
			for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				updated, err := client.CoreV1().Pods(ns.Name).Patch(t.Context(), pod.Name, types.JSONPatchType,
					[]byte(`[{"op":"add","path":"/spec/containers/-","value":{"name":"w","image":"image"}}]`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "dynamic")
				switch {
				case err != nil:
					got = err.Error()
				case len(updated.Spec.Containers) == 4:
					got = "allowed"
				default:
					// The webhook is not known yet.
					got = "not patched"
					continue
				}
				break
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("got: %s\nwant: %s", got, tc.want)
			}
		})
	}
}
