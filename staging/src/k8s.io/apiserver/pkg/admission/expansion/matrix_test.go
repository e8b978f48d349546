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

package expansion_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/expansion"
	"k8s.io/apiserver/pkg/admission/initializer"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	webhooktesting "k8s.io/apiserver/pkg/admission/plugin/webhook/testing"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"
)

// What becomes of an update of pods/dynamic under a single webhook or policy.
const (
	sees      = "sees"      // The webhook or policy is called, and its verdict stands.
	passes    = "passes"    // The webhook or policy is not concerned: the request is allowed.
	refuses   = "REFUSES"   // 403, because the webhook or policy would have seen an equivalent request, but not this one.
	undecided = "UNDECIDED" // An error, because it cannot be found out whether the webhook or policy is concerned.
)

// The kinds of interceptors, which are the columns of the matrix.
const (
	validatingWebhook = "validating webhook"
	mutatingWebhook   = "mutating webhook"
	validatingPolicy  = "VAP"
	mutatingPolicy    = "MAP"
)

var interceptorKinds = []string{validatingWebhook, mutatingWebhook, validatingPolicy, mutatingPolicy}

// interceptor describes a webhook or policy without saying which.
type interceptor struct {
	rules             []admissionregistrationv1.NamedRuleWithOperations
	excludes          []admissionregistrationv1.NamedRuleWithOperations
	namespaceSelector *metav1.LabelSelector
	objectSelector    *metav1.LabelSelector
	matchPolicy       admissionregistrationv1.MatchPolicyType
	failurePolicy     admissionregistrationv1.FailurePolicyType
	condition         string
	// The remaining fields are for policies.
	expression string
	paramKind  *admissionregistrationv1.ParamKind
	bindings   []binding
}

type binding struct {
	resources *admissionregistrationv1.MatchResources
	actions   []admissionregistrationv1.ValidationAction
	paramRef  *admissionregistrationv1.ParamRef
}

type ops []admissionregistrationv1.OperationType

var (
	create = ops{admissionregistrationv1.Create}
	update = ops{admissionregistrationv1.Update}
	both   = ops{admissionregistrationv1.Create, admissionregistrationv1.Update}
	all    = ops{admissionregistrationv1.OperationAll}
)

func rule(operations ops, resources ...string) admissionregistrationv1.NamedRuleWithOperations {
	return admissionregistrationv1.NamedRuleWithOperations{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: operations,
			Rule: admissionregistrationv1.Rule{
				APIGroups:   []string{""},
				APIVersions: []string{"v1"},
				Resources:   resources,
			},
		},
	}
}

func everything(operations ops, resources ...string) admissionregistrationv1.NamedRuleWithOperations {
	r := rule(operations, resources...)
	r.APIGroups = []string{"*"}
	r.APIVersions = []string{"*"}
	return r
}

func scoped(scope admissionregistrationv1.ScopeType, r admissionregistrationv1.NamedRuleWithOperations) admissionregistrationv1.NamedRuleWithOperations {
	r.Scope = &scope
	return r
}

func group(group string, r admissionregistrationv1.NamedRuleWithOperations) admissionregistrationv1.NamedRuleWithOperations {
	r.APIGroups = []string{group}
	return r
}

func named(r admissionregistrationv1.NamedRuleWithOperations, names ...string) admissionregistrationv1.NamedRuleWithOperations {
	r.ResourceNames = names
	return r
}

func rules(r ...admissionregistrationv1.NamedRuleWithOperations) []admissionregistrationv1.NamedRuleWithOperations {
	return r
}

func labeled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func resources(mutate func(*admissionregistrationv1.MatchResources)) *admissionregistrationv1.MatchResources {
	m := &admissionregistrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{},
		ObjectSelector:    &metav1.LabelSelector{},
		MatchPolicy:       ptr.To(admissionregistrationv1.Equivalent),
	}
	mutate(m)
	return m
}

// The namespaces and labels of the pod whose update every case of the matrix asks for.
const (
	namespace        = "prod"    // labeled env=prod
	missingNamespace = "missing" // does not exist
	podName          = "p"
)

// pods/dynamic of one namespace, sent by u.
type request struct {
	namespace string
	dryRun    bool
	// subresource and table are set by the tests of what must not be affected.
	subresource string
	table       expansion.Table
}

var podTable = expansion.Table{
	{Resource: schema.GroupResource{Resource: "pods"}, Subresource: "dynamic", Operation: admission.Update}: {
		{Resource: schema.GroupResource{Resource: "pods"}, Operation: admission.Create},
		{Resource: schema.GroupResource{Resource: "pods"}, Operation: admission.Update},
	},
}

// TestMatrix runs the real plugins against one webhook or policy at a time, and prints the verdicts as a table.
func TestMatrix(t *testing.T) {
	ignore, equivalent, exact := admissionregistrationv1.Ignore, admissionregistrationv1.Equivalent, admissionregistrationv1.Exact
	legacy := "legacy.example.com"

	tests := []struct {
		name         string
		interceptor  interceptor
		request      request
		want         string
		policiesOnly bool
	}{
		// Rules: resources and operations.
		{name: "CREATE pods", interceptor: interceptor{rules: rules(rule(create, "pods"))}, want: refuses},
		{name: "UPDATE pods", interceptor: interceptor{rules: rules(rule(update, "pods"))}, want: refuses},
		{name: "CREATE, UPDATE pods", interceptor: interceptor{rules: rules(rule(both, "pods"))}, want: refuses},
		{name: "* pods", interceptor: interceptor{rules: rules(rule(all, "pods"))}, want: refuses},
		{name: "CREATE *", interceptor: interceptor{rules: rules(rule(create, "*"))}, want: refuses},
		{name: "* * in all groups and versions", interceptor: interceptor{rules: rules(everything(all, "*"))}, want: refuses},
		{name: "CREATE */*", interceptor: interceptor{rules: rules(rule(create, "*/*"))}, want: refuses},
		{name: "CREATE pods/*", interceptor: interceptor{rules: rules(rule(create, "pods/*"))}, want: refuses},
		{name: "CREATE pods, pods/dynamic", interceptor: interceptor{rules: rules(rule(create, "pods", "pods/dynamic"))}, want: refuses},
		{name: "UPDATE pods, pods/resize, pods/ephemeralcontainers", interceptor: interceptor{rules: rules(rule(update, "pods", "pods/resize", "pods/ephemeralcontainers"))}, want: refuses},
		{name: "CREATE namespaced pods", interceptor: interceptor{rules: rules(scoped(admissionregistrationv1.NamespacedScope, rule(create, "pods")))}, want: refuses},
		{name: "CREATE pods; UPDATE services", interceptor: interceptor{rules: rules(rule(create, "pods"), rule(update, "services"))}, want: refuses},
		{name: "UPDATE pods; CREATE pods/dynamic", interceptor: interceptor{rules: rules(rule(update, "pods"), rule(create, "pods/dynamic"))}, want: refuses},

		{name: "UPDATE pods/dynamic", interceptor: interceptor{rules: rules(rule(update, "pods/dynamic"))}, want: sees},
		{name: "CREATE, UPDATE pods, pods/dynamic", interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic"))}, want: sees},
		{name: "CREATE pods; UPDATE pods/dynamic", interceptor: interceptor{rules: rules(rule(create, "pods"), rule(update, "pods/dynamic"))}, want: sees},
		{name: "UPDATE pods/*", interceptor: interceptor{rules: rules(rule(update, "pods/*"))}, want: sees},
		{name: "UPDATE */dynamic; CREATE pods", interceptor: interceptor{rules: rules(rule(update, "*/dynamic"), rule(create, "pods"))}, want: sees},
		{name: "* */* in all groups and versions", interceptor: interceptor{rules: rules(everything(all, "*/*"))}, want: sees},

		{name: "DELETE, CONNECT pods", interceptor: interceptor{rules: rules(rule(ops{admissionregistrationv1.Delete, admissionregistrationv1.Connect}, "pods"))}, want: passes},
		{name: "* pods/resize, pods/ephemeralcontainers, pods/status", interceptor: interceptor{rules: rules(rule(all, "pods/resize", "pods/ephemeralcontainers", "pods/status"))}, want: passes},
		{name: "CREATE, UPDATE deployments", interceptor: interceptor{rules: rules(group("apps", rule(both, "deployments")))}, want: passes},
		{name: "CREATE pods in group apps", interceptor: interceptor{rules: rules(group("apps", rule(create, "pods")))}, want: passes},
		{name: "CREATE cluster-scoped pods", interceptor: interceptor{rules: rules(scoped(admissionregistrationv1.ClusterScope, rule(create, "pods")))}, want: passes},

		// Match policy.
		{name: "Equivalent: CREATE pods by their other group", interceptor: interceptor{matchPolicy: equivalent, rules: rules(group(legacy, rule(create, "pods")))}, want: refuses},
		{name: "Equivalent: both by their other group", interceptor: interceptor{matchPolicy: equivalent, rules: rules(group(legacy, rule(both, "pods", "pods/dynamic")))}, want: sees},
		{name: "Exact: CREATE pods by their other group", interceptor: interceptor{matchPolicy: exact, rules: rules(group(legacy, rule(create, "pods")))}, want: passes},
		{name: "Exact: CREATE pods", interceptor: interceptor{matchPolicy: exact, rules: rules(rule(create, "pods"))}, want: refuses},

		// Selectors scope the webhook or policy; one that matches only the old or only the new pod counts.
		{name: "namespaceSelector matches", interceptor: interceptor{rules: rules(rule(create, "pods")), namespaceSelector: labeled("env", "prod")}, want: refuses},
		{name: "namespaceSelector misses", interceptor: interceptor{rules: rules(rule(create, "pods")), namespaceSelector: labeled("env", "test")}, want: passes},
		{name: "namespaceSelector matches, covered", interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic")), namespaceSelector: labeled("env", "prod")}, want: sees},
		{name: "namespaceSelector misses, covered", interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic")), namespaceSelector: labeled("env", "test")}, want: passes},
		{name: "objectSelector matches old and new", interceptor: interceptor{rules: rules(rule(create, "pods")), objectSelector: labeled("app", "web")}, want: refuses},
		{name: "objectSelector matches only old", interceptor: interceptor{rules: rules(rule(create, "pods")), objectSelector: labeled("only", "old")}, want: refuses},
		{name: "objectSelector matches only new", interceptor: interceptor{rules: rules(rule(create, "pods")), objectSelector: labeled("only", "new")}, want: refuses},
		{name: "objectSelector misses both", interceptor: interceptor{rules: rules(rule(create, "pods")), objectSelector: labeled("app", "db")}, want: passes},
		{name: "objectSelector misses both, covered", interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic")), objectSelector: labeled("app", "db")}, want: passes},

		// A failing lookup refuses, but only what the rules are concerned with.
		{name: "namespace cannot be found", interceptor: interceptor{rules: rules(rule(create, "pods")), namespaceSelector: labeled("env", "prod")}, request: request{namespace: missingNamespace}, want: undecided},
		{name: "namespace cannot be found, Ignore", interceptor: interceptor{rules: rules(rule(create, "pods")), namespaceSelector: labeled("env", "prod"), failurePolicy: ignore}, request: request{namespace: missingNamespace}, want: undecided},
		{name: "namespace cannot be found, covered, Ignore", interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic")), namespaceSelector: labeled("env", "prod"), failurePolicy: ignore}, request: request{namespace: missingNamespace}, want: undecided},
		{name: "namespace cannot be found, other resource", interceptor: interceptor{rules: rules(rule(create, "services")), namespaceSelector: labeled("env", "prod")}, request: request{namespace: missingNamespace}, want: passes},

		// What does not count.
		{name: "failurePolicy Ignore", interceptor: interceptor{rules: rules(rule(create, "pods")), failurePolicy: ignore}, want: refuses},
		{name: "failurePolicy Ignore, covered", interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic")), failurePolicy: ignore}, want: sees},
		{name: "match condition is false", interceptor: interceptor{rules: rules(rule(create, "pods")), condition: "false"}, want: refuses},
		{name: "match condition is false, covered", interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic")), condition: "false"}, want: passes},
		{name: "match condition fails, Ignore", interceptor: interceptor{rules: rules(rule(create, "pods")), condition: "object.nothing == 'here'", failurePolicy: ignore}, want: refuses},
		{name: "dry run", interceptor: interceptor{rules: rules(rule(create, "pods"))}, request: request{dryRun: true}, want: refuses},
		{name: "dry run, covered", interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic"))}, request: request{dryRun: true}, want: sees},

		// Excludes and names.
		{name: "UPDATE pods/*, pods/dynamic excluded", policiesOnly: true, interceptor: interceptor{rules: rules(rule(both, "pods", "pods/*")), excludes: rules(rule(update, "pods/dynamic"))}, want: refuses},
		{name: "CREATE pods, CREATE pods excluded", policiesOnly: true, interceptor: interceptor{rules: rules(rule(create, "pods")), excludes: rules(rule(create, "pods"))}, want: passes},
		{name: "CREATE, UPDATE pods, CREATE pods excluded", policiesOnly: true, interceptor: interceptor{rules: rules(rule(both, "pods")), excludes: rules(rule(create, "pods"))}, want: refuses},
		{name: "CREATE pods, pods/dynamic excluded", policiesOnly: true, interceptor: interceptor{rules: rules(rule(create, "pods")), excludes: rules(rule(update, "pods/dynamic"))}, want: refuses},
		{name: "UPDATE pods/*, pods/status excluded", policiesOnly: true, interceptor: interceptor{rules: rules(rule(update, "pods", "pods/*")), excludes: rules(rule(update, "pods/status"))}, want: sees},
		{name: "resourceNames with the pod", policiesOnly: true, interceptor: interceptor{rules: rules(named(rule(update, "pods"), podName))}, want: refuses},
		{name: "resourceNames without the pod", policiesOnly: true, interceptor: interceptor{rules: rules(named(rule(update, "pods"), "q"))}, want: passes},
		{name: "resourceNames with the pod, pods/dynamic without", policiesOnly: true, interceptor: interceptor{rules: rules(named(rule(update, "pods"), podName), named(rule(update, "pods/dynamic"), "q"))}, want: refuses},
		{name: "resourceNames with the pod in both", policiesOnly: true, interceptor: interceptor{rules: rules(named(rule(update, "pods", "pods/dynamic"), podName))}, want: sees},

		// Bindings.
		{name: "no binding", policiesOnly: true, interceptor: interceptor{rules: rules(rule(create, "pods")), bindings: []binding{}}, want: passes},
		{name: "binding adds pods/dynamic, policy does not", policiesOnly: true, interceptor: interceptor{rules: rules(rule(create, "pods")), bindings: []binding{{
			resources: resources(func(m *admissionregistrationv1.MatchResources) {
				m.ResourceRules = rules(rule(both, "pods", "pods/dynamic"))
			}),
		}}}, want: refuses},
		{name: "binding narrower than the policy", policiesOnly: true, interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic")), bindings: []binding{{
			resources: resources(func(m *admissionregistrationv1.MatchResources) { m.ResourceRules = rules(rule(create, "pods")) }),
		}}}, want: refuses},
		{name: "binding excludes pods/dynamic", policiesOnly: true, interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic")), bindings: []binding{{
			resources: resources(func(m *admissionregistrationv1.MatchResources) {
				m.ExcludeResourceRules = rules(rule(update, "pods/dynamic"))
			}),
		}}}, want: refuses},
		{name: "one of two bindings narrower", policiesOnly: true, interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic")), bindings: []binding{{}, {
			resources: resources(func(m *admissionregistrationv1.MatchResources) { m.ResourceRules = rules(rule(create, "pods")) }),
		}}}, want: refuses},
		{name: "binding for other resources", policiesOnly: true, interceptor: interceptor{rules: rules(rule(create, "pods", "services")), bindings: []binding{{
			resources: resources(func(m *admissionregistrationv1.MatchResources) {
				m.ResourceRules = rules(rule(create, "services"))
			}),
		}}}, want: passes},
		{name: "binding for another namespace", policiesOnly: true, interceptor: interceptor{rules: rules(rule(create, "pods")), bindings: []binding{{
			resources: resources(func(m *admissionregistrationv1.MatchResources) { m.NamespaceSelector = labeled("env", "test") }),
		}}}, want: passes},
		{name: "binding for this namespace", policiesOnly: true, interceptor: interceptor{rules: rules(rule(create, "pods")), bindings: []binding{{
			resources: resources(func(m *admissionregistrationv1.MatchResources) { m.NamespaceSelector = labeled("env", "prod") }),
		}}}, want: refuses},
		{name: "binding for other pods", policiesOnly: true, interceptor: interceptor{rules: rules(rule(create, "pods")), bindings: []binding{{
			resources: resources(func(m *admissionregistrationv1.MatchResources) { m.ObjectSelector = labeled("app", "db") }),
		}}}, want: passes},
		{name: "binding's namespace cannot be found, Ignore", policiesOnly: true, interceptor: interceptor{rules: rules(rule(create, "pods")), failurePolicy: ignore, bindings: []binding{{
			resources: resources(func(m *admissionregistrationv1.MatchResources) { m.NamespaceSelector = labeled("env", "prod") }),
		}}}, request: request{namespace: missingNamespace}, want: undecided},
		{name: "binding only audits and warns", policiesOnly: true, interceptor: interceptor{rules: rules(rule(create, "pods")), bindings: []binding{{
			actions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit, admissionregistrationv1.Warn},
		}}}, want: refuses},
		{name: "policy cannot be compiled, Ignore", policiesOnly: true, interceptor: interceptor{rules: rules(rule(create, "pods")), expression: "this is not CEL", failurePolicy: ignore}, want: refuses},
		{name: "policy cannot be compiled, Ignore, covered", policiesOnly: true, interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic")), expression: "this is not CEL", failurePolicy: ignore}, want: passes},
		{name: "parameters not found, Ignore", policiesOnly: true, interceptor: interceptor{
			rules: rules(rule(create, "pods")), failurePolicy: ignore,
			paramKind: &admissionregistrationv1.ParamKind{APIVersion: "example.com/v1", Kind: "Limits"},
			bindings: []binding{{paramRef: &admissionregistrationv1.ParamRef{
				Name: "none", ParameterNotFoundAction: ptr.To(admissionregistrationv1.AllowAction),
			}}},
		}, want: refuses},

		// Requests that amount to nothing else.
		{name: "pods/resize under CREATE, UPDATE pods", interceptor: interceptor{rules: rules(rule(both, "pods"))}, request: request{subresource: "resize"}, want: passes},
		{name: "pods under CREATE pods", interceptor: interceptor{rules: rules(rule(create, "pods"))}, request: request{subresource: "-"}, want: passes},
		{name: "no table: CREATE, UPDATE pods", interceptor: interceptor{rules: rules(rule(both, "pods"))}, request: request{table: expansion.Table{}}, want: passes},
	}

	verdicts := make([]map[string]string, len(tests))
	var lock sync.Mutex
	t.Run("cases", func(t *testing.T) {
		for n, tc := range tests {
			verdicts[n] = map[string]string{}
			for _, kind := range interceptorKinds {
				if tc.policiesOnly && (kind == validatingWebhook || kind == mutatingWebhook) {
					verdicts[n][kind] = "-"
					continue
				}
				t.Run(kind+"/"+tc.name, func(t *testing.T) {
					t.Parallel()
					request := tc.request
					if request.namespace == "" {
						request.namespace = namespace
					}
					if request.subresource == "" {
						request.subresource = "dynamic"
					}
					if request.table == nil {
						request.table = podTable
					}
					got, err := send(t, request, kind, tc.interceptor)
					if got != tc.want {
						t.Errorf("the update of pods/%s %s, want %s; error: %v", request.subresource, got, tc.want, err)
					}
					lock.Lock()
					defer lock.Unlock()
					verdicts[n][kind] = got
				})
			}
		}
	})

	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\ncase\t%s\n", strings.Join(interceptorKinds, "\t"))
	for n, tc := range tests {
		row := []string{tc.name}
		for _, kind := range interceptorKinds {
			row = append(row, verdicts[n][kind])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Log(table.String())
}

// TestMessages pins what a refused user reads: it must name what refused, and be enough to repair it.
func TestMessages(t *testing.T) {
	tests := []struct {
		name        string
		kind        string
		interceptor interceptor
		want        string
		metric      string
	}{
		{
			name:        "validating webhook",
			kind:        validatingWebhook,
			interceptor: interceptor{rules: rules(rule(create, "pods"))},
			want:        `pods "p" is forbidden: webhook "interceptor.example.com" of ValidatingWebhookConfiguration "configuration" intercepts CREATE of pods but not UPDATE of pods/dynamic, which can have the same effect; to allow it, add to the rules of the webhook: {apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["pods/dynamic"]}`,
			metric:      `{kind="webhook",name="interceptor.example.com",operation="UPDATE",resource="pods/dynamic",type="validate"}`,
		},
		{
			name:        "mutating webhook",
			kind:        mutatingWebhook,
			interceptor: interceptor{rules: rules(rule(update, "pods"))},
			want:        `pods "p" is forbidden: webhook "interceptor.example.com" of MutatingWebhookConfiguration "configuration" intercepts UPDATE of pods but not UPDATE of pods/dynamic, which can have the same effect; to allow it, add to the rules of the webhook: {apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["pods/dynamic"]}`,
			metric:      `{kind="webhook",name="interceptor.example.com",operation="UPDATE",resource="pods/dynamic",type="admit"}`,
		},
		{
			name:        "policy",
			kind:        validatingPolicy,
			interceptor: interceptor{rules: rules(rule(create, "pods"))},
			want:        `pods "p" is forbidden: ValidatingAdmissionPolicy "configuration" with binding "configuration-binding-0" intercepts CREATE of pods but not UPDATE of pods/dynamic, which can have the same effect; to allow it, add to spec.matchConstraints.resourceRules of the policy: {apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["pods/dynamic"]}`,
			metric:      `{kind="policy",name="configuration",operation="UPDATE",resource="pods/dynamic",type="validate"}`,
		},
		{
			name: "the second binding of a policy",
			kind: mutatingPolicy,
			interceptor: interceptor{rules: rules(rule(both, "pods", "pods/dynamic")), bindings: []binding{{}, {
				resources: resources(func(m *admissionregistrationv1.MatchResources) { m.ResourceRules = rules(rule(update, "pods")) }),
			}}},
			want:   `pods "p" is forbidden: MutatingAdmissionPolicy "configuration" with binding "configuration-binding-1" intercepts UPDATE of pods but not UPDATE of pods/dynamic, which can have the same effect; to allow it, add to spec.matchResources.resourceRules of the binding: {apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["pods/dynamic"]}`,
			metric: `{kind="policy",name="configuration",operation="UPDATE",resource="pods/dynamic",type="admit"}`,
		},
		{
			name: "policy that excludes and its binding",
			kind: validatingPolicy,
			interceptor: interceptor{rules: rules(rule(all, "*/*")), excludes: rules(rule(update, "*/dynamic")), bindings: []binding{{
				resources: resources(func(m *admissionregistrationv1.MatchResources) { m.ResourceRules = rules(rule(create, "pods")) }),
			}}},
			want:   `pods "p" is forbidden: ValidatingAdmissionPolicy "configuration" with binding "configuration-binding-0" intercepts CREATE of pods but not UPDATE of pods/dynamic, which can have the same effect; to allow it, add to spec.matchConstraints.resourceRules of the policy (and make sure that its spec.matchConstraints.excludeResourceRules do not match it) and spec.matchResources.resourceRules of the binding: {apiGroups: [""], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["pods/dynamic"]}`,
			metric: `{kind="policy",name="configuration",operation="UPDATE",resource="pods/dynamic",type="validate"}`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			legacyregistry.Reset()
			_, err := send(t, request{namespace: namespace, subresource: "dynamic", table: podTable}, tc.kind, tc.interceptor)
			if !apierrors.IsForbidden(err) {
				t.Fatalf("want a 403, got: %v", err)
			}
			if err.Error() != tc.want {
				t.Errorf("unexpected message\n got: %s\nwant: %s", err, tc.want)
			}
			const metric = "apiserver_admission_equivalent_expansion_rejections_total"
			if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(
				"# HELP "+metric+" [ALPHA] Requests refused because a webhook or policy intercepts a request that the refused one amounts to, but not the refused one itself. Identified by name of the webhook or policy and broken out for each kind (webhook or policy), admission type (validate or admit), operation and resource (with subresource) of the refused request.\n"+
					"# TYPE "+metric+" counter\n"+metric+tc.metric+" 1\n"), metric); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReinvocation has a mutating webhook and policy evaluated a second time, as happens when a later plugin changes the
// object: the labels that it adds then may make a selector match for the first time.
func TestReinvocation(t *testing.T) {
	for _, kind := range []string{mutatingWebhook, mutatingPolicy} {
		t.Run(kind, func(t *testing.T) {
			plugin, objects := start(t, podTable, kind, interceptor{rules: rules(rule(create, "pods")), objectSelector: labeled("added", "later")})
			attr := newAttributes(request{namespace: namespace, subresource: "dynamic"})
			if err := plugin.(admission.MutationInterface).Admit(t.Context(), attr, objects); err != nil {
				t.Fatalf("no label matches in the first round, so it should have passed: %v", err)
			}
			attr.GetObject().(*corev1.Pod).Labels["added"] = "later"
			attr.GetReinvocationContext().SetIsReinvoke()
			if err := plugin.(admission.MutationInterface).Admit(t.Context(), attr, objects); !isRefusal(err) {
				t.Errorf("the label matches in the second round, so it should have been refused, got: %v", err)
			}
		})
	}
}

func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "which can have the same effect")
}

// send has a plugin with nothing but the given interceptor look at the request.
func send(t *testing.T, r request, kind string, i interceptor) (string, error) {
	t.Helper()
	plugin, objects := start(t, r.table, kind, i)
	attr := newAttributes(r)

	var err error
	var seen bool
	switch p := plugin.(type) {
	case admission.MutationInterface:
		err = p.Admit(t.Context(), attr, objects)
		// Mutating policies read the OpenAPI documents in the background.
		for err != nil && strings.Contains(err.Error(), "There can be a delay") && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
			err = p.Admit(t.Context(), attr, objects)
		}
		seen = attr.GetObject().(*corev1.Pod).Annotations["seen"] == "true"
	case admission.ValidationInterface:
		err = p.Validate(t.Context(), attr, objects)
	}
	switch {
	case isRefusal(err):
		return refuses, err
	case err != nil && strings.Contains(err.Error(), "denied"), seen:
		return sees, err
	case err != nil:
		return undecided, err
	}
	return passes, nil
}

func newAttributes(r request) admission.Attributes {
	if r.subresource == "-" {
		r.subresource = ""
	}
	pod := func(only string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: podName, Namespace: r.namespace,
			Labels: map[string]string{"app": "web", "only": only},
		}}
	}
	return admission.NewAttributesRecord(pod("new"), pod("old"), corev1.SchemeGroupVersion.WithKind("Pod"), r.namespace, podName,
		corev1.SchemeGroupVersion.WithResource("pods"), r.subresource, admission.Update, &metav1.UpdateOptions{}, r.dryRun, &user.DefaultInfo{Name: "u"})
}

// start returns a running admission plugin of the kind, with nothing but the interceptors configured.
func start(t testing.TB, expansions expansion.Table, kind string, interceptors ...interceptor) (admission.Interface, admission.ObjectInterfaces) {
	t.Helper()
	server := webhooktesting.NewTestServer(t)
	server.StartTLS()
	t.Cleanup(server.Close)
	serverURL, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}

	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"env": "prod"}}}}
	for n, i := range interceptors {
		name := "configuration"
		if n > 0 {
			name += fmt.Sprintf("-%d", n)
		}
		objects = append(objects, i.build(kind, name, server.URL+"/disallow")...)
	}
	client := clientWithOpenAPI{fake.NewClientset(objects...)}
	factory := informers.NewSharedInformerFactory(client, 0)

	var plugin admission.Interface
	switch kind {
	case validatingWebhook:
		plugin, err = validatingwebhook.NewValidatingAdmissionWebhook(nil)
	case mutatingWebhook:
		plugin, err = mutatingwebhook.NewMutatingWebhook(nil)
	case validatingPolicy:
		plugin, err = validatingpolicy.NewPlugin(nil)
	case mutatingPolicy:
		plugin, err = mutatingpolicy.NewPlugin(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if wants, ok := plugin.(interface {
		SetAuthenticationInfoResolverWrapper(webhookutil.AuthenticationInfoResolverWrapper)
		SetServiceResolver(webhookutil.ServiceResolver)
	}); ok {
		wants.SetAuthenticationInfoResolverWrapper(webhooktesting.Wrapper(webhooktesting.NewAuthenticationInfoResolver(new(int32))))
		wants.SetServiceResolver(webhooktesting.NewServiceResolver(*serverURL))
	}
	initializer.New(client, dynamicfake.NewSimpleDynamicClient(scheme.Scheme), factory, authorizerfactory.NewAlwaysAllowAuthorizer(),
		utilfeature.DefaultFeatureGate, nil, t.Context().Done(), meta.NewDefaultRESTMapper(nil)).Initialize(plugin)
	initializer.NewEquivalentExpansions(expansions).Initialize(plugin)
	if err := admission.ValidateInitialization(plugin); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	// Pods are known by a second group, to which matchPolicy Equivalent reaches out.
	equivalents := runtime.NewEquivalentResourceRegistryWithIdentity(func(gr schema.GroupResource) string { return gr.Resource })
	for _, group := range []string{"", "legacy.example.com"} {
		for _, subresource := range []string{"", "dynamic", "resize"} {
			equivalents.RegisterKindFor(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "pods"}, subresource, corev1.SchemeGroupVersion.WithKind("Pod"))
		}
	}
	return plugin, &admission.RuntimeObjectInterfaces{
		ObjectCreater: scheme.Scheme, ObjectTyper: scheme.Scheme, ObjectDefaulter: scheme.Scheme, ObjectConvertor: scheme.Scheme,
		EquivalentResourceMapper: equivalents,
	}
}

// build returns the API objects for an interceptor that makes itself noticed: it denies what it can deny, and leaves an
// annotation on what it cannot.
func (i interceptor) build(kind, name, webhookURL string) []runtime.Object {
	if i.failurePolicy == "" {
		i.failurePolicy = admissionregistrationv1.Fail
	}
	if i.matchPolicy == "" {
		i.matchPolicy = admissionregistrationv1.Equivalent
	}
	if i.namespaceSelector == nil {
		i.namespaceSelector = &metav1.LabelSelector{}
	}
	if i.objectSelector == nil {
		i.objectSelector = &metav1.LabelSelector{}
	}
	if i.bindings == nil {
		i.bindings = []binding{{}}
	}
	var conditions []admissionregistrationv1.MatchCondition
	if i.condition != "" {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: "condition", Expression: i.condition})
	}
	var webhookRules []admissionregistrationv1.RuleWithOperations
	for _, r := range i.rules {
		webhookRules = append(webhookRules, r.RuleWithOperations)
	}
	constraints := resources(func(m *admissionregistrationv1.MatchResources) {
		m.NamespaceSelector, m.ObjectSelector = i.namespaceSelector, i.objectSelector
		m.ResourceRules, m.ExcludeResourceRules = i.rules, i.excludes
		m.MatchPolicy = &i.matchPolicy
	})
	objectMeta := metav1.ObjectMeta{Name: name}
	bindingName := func(n int) string { return fmt.Sprintf("%s-binding-%d", name, n) }
	const webhookName = "interceptor.example.com"
	clientConfig := admissionregistrationv1.WebhookClientConfig{URL: &webhookURL}

	var objects []runtime.Object
	switch kind {
	case validatingWebhook:
		return append(objects, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: objectMeta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: webhookName, ClientConfig: clientConfig, Rules: webhookRules,
			NamespaceSelector: i.namespaceSelector, ObjectSelector: i.objectSelector,
			MatchPolicy: &i.matchPolicy, FailurePolicy: &i.failurePolicy, MatchConditions: conditions,
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1beta1"},
		}}})
	case mutatingWebhook:
		return append(objects, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: objectMeta, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: webhookName, ClientConfig: clientConfig, Rules: webhookRules,
			NamespaceSelector: i.namespaceSelector, ObjectSelector: i.objectSelector,
			MatchPolicy: &i.matchPolicy, FailurePolicy: &i.failurePolicy, MatchConditions: conditions,
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1beta1"},
		}}})
	case validatingPolicy:
		if i.expression == "" {
			i.expression = "false"
		}
		objects = append(objects, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: objectMeta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: constraints, MatchConditions: conditions, FailurePolicy: &i.failurePolicy, ParamKind: i.paramKind,
			Validations: []admissionregistrationv1.Validation{{Expression: i.expression}},
		}})
		for n, b := range i.bindings {
			if b.actions == nil {
				b.actions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
			}
			objects = append(objects, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
				ObjectMeta: metav1.ObjectMeta{Name: bindingName(n)},
				Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
					PolicyName: objectMeta.Name, MatchResources: b.resources, ParamRef: b.paramRef, ValidationActions: b.actions,
				},
			})
		}
	case mutatingPolicy:
		if i.expression == "" {
			i.expression = `[JSONPatch{op: "add", path: "/metadata/annotations", value: {"seen": "true"}}]`
		}
		objects = append(objects, &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: objectMeta, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: constraints, MatchConditions: conditions, FailurePolicy: &i.failurePolicy, ParamKind: i.paramKind,
			ReinvocationPolicy: admissionregistrationv1.IfNeededReinvocationPolicy,
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeJSONPatch,
				JSONPatch: &admissionregistrationv1.JSONPatch{Expression: i.expression},
			}},
		}})
		for n, b := range i.bindings {
			objects = append(objects, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
				ObjectMeta: metav1.ObjectMeta{Name: bindingName(n)},
				Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: objectMeta.Name, MatchResources: b.resources, ParamRef: b.paramRef},
			})
		}
	}
	return objects
}

// clientWithOpenAPI serves the OpenAPI documents that mutating policies watch, which the fake client does not.
type clientWithOpenAPI struct{ *fake.Clientset }

func (c clientWithOpenAPI) Discovery() discovery.DiscoveryInterfaces {
	return discoveryWithOpenAPI{c.Clientset.Discovery()}
}

type discoveryWithOpenAPI struct{ discovery.DiscoveryInterfaces }

func (d discoveryWithOpenAPI) OpenAPIV3() openapi.Client { return openapitest.NewEmbeddedFileClient() }
