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

	v1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/expansion"
	genericadmissioninit "k8s.io/apiserver/pkg/admission/initializer"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
)

var _ genericadmissioninit.WantsEquivalentExpansions = &Webhook{}

// SetEquivalentExpansions implements the WantsEquivalentExpansions interface.
func (a *Webhook) SetEquivalentExpansions(expansions expansion.Table) {
	a.expansions = expansions
}

// checkEquivalentExpansions decides about a request that no rule of the webhook matches although its selectors do, or
// could not be evaluated (then with the error of that evaluation). It refuses the request if it amounts to one that
// the webhook would have been called for. The webhook's match conditions and failure policy do not count: a gap in
// the rules is not an outage of the webhook, and whether the conditions would have held on the other request is not
// known.
func (a *Webhook) checkEquivalentExpansions(ctx context.Context, h webhook.WebhookAccessor, attr admission.Attributes, o admission.ObjectInterfaces, matchNsErr, matchObjErr *apierrors.StatusError) *apierrors.StatusError {
	for _, expanded := range a.expansions.Expand(attr) {
		if !matchesAnyRule(h, expanded, o) {
			continue
		}
		if matchNsErr != nil {
			return matchNsErr
		}
		if matchObjErr != nil {
			return matchObjErr
		}
		kind := "ValidatingWebhookConfiguration"
		if _, mutating := h.GetMutatingWebhook(); mutating {
			kind = "MutatingWebhookConfiguration"
		}
		admissionmetrics.Metrics.ObserveEquivalentExpansionRejection(ctx, h.GetName(), "webhook", h.GetType(), attr)
		return expansion.NewForbidden(attr, expanded,
			fmt.Sprintf("webhook %q of %s %q", h.GetName(), kind, h.GetConfigurationName()), "the rules of the webhook")
	}
	return nil
}

// matchesAnyRule tells whether ShouldCallHook would find a rule for the request.
func matchesAnyRule(h webhook.WebhookAccessor, attr admission.Attributes, o admission.ObjectInterfaces) bool {
	matches := func(attr admission.Attributes) bool {
		for _, r := range h.GetRules() {
			m := rules.Matcher{Rule: r, Attr: attr}
			if m.Matches() {
				return true
			}
		}
		return false
	}
	if matches(attr) {
		return true
	}
	if h.GetMatchPolicy() == nil || *h.GetMatchPolicy() != v1.Equivalent {
		return false
	}
	for _, equivalent := range o.GetEquivalentResourceMapper().EquivalentResourcesFor(attr.GetResource(), attr.GetSubresource()) {
		if matches(&attrWithResourceOverride{Attributes: attr, resource: equivalent}) {
			return true
		}
	}
	return false
}
