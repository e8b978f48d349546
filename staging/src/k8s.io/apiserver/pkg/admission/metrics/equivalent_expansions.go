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

package metrics

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var equivalentExpansionRejections = metrics.NewCounterVec(
	&metrics.CounterOpts{
		Namespace:      namespace,
		Subsystem:      subsystem,
		Name:           "equivalent_expansion_rejections_total",
		Help:           "Requests refused because a webhook or policy intercepts a request that the refused one amounts to, but not the refused one itself. Identified by name of the webhook or policy and broken out for each kind (webhook or policy), admission type (validate or admit), operation and resource (with subresource) of the refused request.",
		StabilityLevel: metrics.ALPHA,
	},
	[]string{"name", "kind", "type", "operation", "resource"})

func init() {
	legacyregistry.MustRegister(equivalentExpansionRejections)
}

// ObserveEquivalentExpansionRejection records that the webhook or policy refused a request that it does not intercept
// because the request amounts to one that it does intercept.
func (m *AdmissionMetrics) ObserveEquivalentExpansionRejection(ctx context.Context, name, kind, stepType string, attr admission.Attributes) {
	resource := attr.GetResource().Resource
	if subresource := attr.GetSubresource(); subresource != "" {
		resource += "/" + subresource
	}
	equivalentExpansionRejections.WithContext(ctx).WithLabelValues(name, kind, stepType, string(attr.GetOperation()), resource).Inc()
}
