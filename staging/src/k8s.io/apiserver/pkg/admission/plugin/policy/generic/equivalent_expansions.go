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

package generic

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/expansion"
	"k8s.io/apiserver/pkg/admission/initializer"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
)

var _ initializer.WantsEquivalentExpansions = &Plugin[any]{}

// SetEquivalentExpansions implements the WantsEquivalentExpansions interface.
func (c *Plugin[H]) SetEquivalentExpansions(expansions expansion.Table) {
	c.expansions = expansions
}

// PolicyKind names the API of the policies that a dispatcher serves.
type PolicyKind struct {
	// Kind of the policies; that of the bindings is the same with "Binding" appended.
	Kind string
	// Type of admission in metrics: validate or admit.
	Type string
}

// expansionDispatcher refuses the requests that a policy, as bound, would have seen had they been made as one of the
// requests that they amount to, but does not see as they are. Everything else it leaves to the wrapped dispatcher.
type expansionDispatcher[P runtime.Object, B runtime.Object, E Evaluator] struct {
	Dispatcher[PolicyHook[P, B, E]]

	kind               PolicyKind
	newPolicyAccessor  func(P) PolicyAccessor
	newBindingAccessor func(B) BindingAccessor
	matcher            PolicyMatcher
	expansions         expansion.Table
}

// NewExpansionDispatcher returns a dispatcher that enforces the matcher's equivalent expansions before it hands the
// request to the given one. It does so on its own, and not as one more error of a policy, because those are subject to
// the policy's failurePolicy, and to a binding's validationActions.
func NewExpansionDispatcher[P runtime.Object, B runtime.Object, E Evaluator](
	kind PolicyKind,
	newPolicyAccessor func(P) PolicyAccessor,
	newBindingAccessor func(B) BindingAccessor,
	matcher *matching.Matcher,
	dispatcher Dispatcher[PolicyHook[P, B, E]],
) Dispatcher[PolicyHook[P, B, E]] {
	return &expansionDispatcher[P, B, E]{
		Dispatcher:         dispatcher,
		kind:               kind,
		newPolicyAccessor:  newPolicyAccessor,
		newBindingAccessor: newBindingAccessor,
		matcher:            NewPolicyMatcher(matcher),
		expansions:         matcher.EquivalentExpansions(),
	}
}

// Dispatch implements generic.Dispatcher.
func (d *expansionDispatcher[P, B, E]) Dispatch(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, hooks []PolicyHook[P, B, E]) error {
	if expandedRequests := d.expansions.Expand(a); len(expandedRequests) > 0 {
		for _, hook := range hooks {
			if err := d.checkEquivalentExpansions(ctx, a, expandedRequests, o, hook); err != nil {
				return err
			}
		}
	}
	return d.Dispatcher.Dispatch(ctx, a, o, hooks)
}

// checkEquivalentExpansions returns an error if some binding of the policy applies to one of the expanded requests, but
// not to the request itself, or if that cannot be found out. Errors in the policy, its match conditions and its
// parameters do not count.
func (d *expansionDispatcher[P, B, E]) checkEquivalentExpansions(ctx context.Context, a admission.Attributes, expandedRequests []admission.Attributes, o admission.ObjectInterfaces, hook PolicyHook[P, B, E]) error {
	if len(hook.Bindings) == 0 {
		return nil
	}
	policy := d.newPolicyAccessor(hook.Policy)
	for _, expanded := range expandedRequests {
		expandedMatches, _, _, err := d.matcher.DefinitionMatches(expanded, o, policy)
		if err != nil {
			return d.undecided(a, policy, nil, err)
		}
		if !expandedMatches {
			continue
		}
		policyMatches, _, _, err := d.matcher.DefinitionMatches(a, o, policy)
		if err != nil {
			return d.undecided(a, policy, nil, err)
		}
		for _, b := range hook.Bindings {
			binding := d.newBindingAccessor(b)
			expandedMatches, err := d.matcher.BindingMatches(expanded, o, binding)
			if err != nil {
				return d.undecided(a, policy, binding, err)
			}
			if !expandedMatches {
				continue
			}
			bindingMatches, err := d.matcher.BindingMatches(a, o, binding)
			if err != nil {
				return d.undecided(a, policy, binding, err)
			}
			if policyMatches && bindingMatches {
				continue
			}

			var missing []string
			if !policyMatches {
				missing = append(missing, whereToAdd("policy", "spec.matchConstraints", policy.GetMatchConstraints()))
			}
			if !bindingMatches {
				missing = append(missing, whereToAdd("binding", "spec.matchResources", binding.GetMatchResources()))
			}
			admissionmetrics.Metrics.ObserveEquivalentExpansionRejection(ctx, policy.GetName(), "policy", d.kind.Type, a)
			return expansion.NewForbidden(a, expanded, d.describe(policy, binding), strings.Join(missing, " and "))
		}
	}
	return nil
}

// undecided refuses the request because it is not known whether the policy would have been concerned with it.
func (d *expansionDispatcher[P, B, E]) undecided(a admission.Attributes, policy PolicyAccessor, binding BindingAccessor, err error) error {
	// Not wrapped: NewForbidden would return a wrapped forbidden error as it is, without the name of the policy.
	return admission.NewForbidden(a, fmt.Errorf("unable to find out whether %s applies: %v", d.describe(policy, binding), err))
}

func (d *expansionDispatcher[P, B, E]) describe(policy PolicyAccessor, binding BindingAccessor) string {
	if binding == nil {
		return fmt.Sprintf("%s %q", d.kind.Kind, policy.GetName())
	}
	return fmt.Sprintf("%s %q with binding %q", d.kind.Kind, policy.GetName(), binding.GetName())
}

// whereToAdd names the list that lacks a rule, and the one that may be what keeps a rule that is there from matching.
func whereToAdd(object, field string, resources *v1.MatchResources) string {
	where := fmt.Sprintf("%s.resourceRules of the %s", field, object)
	if resources != nil && len(resources.ExcludeResourceRules) > 0 {
		where += fmt.Sprintf(" (and make sure that its %s.excludeResourceRules do not match it)", field)
	}
	return where
}
