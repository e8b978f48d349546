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

package mutating

import (
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
)

// newExpansionDispatcher makes the dispatcher refuse what amounts to a request that a policy would have seen.
func newExpansionDispatcher(m *matching.Matcher, dispatcher generic.Dispatcher[PolicyHook]) generic.Dispatcher[PolicyHook] {
	return generic.NewExpansionDispatcher(
		generic.PolicyKind{Kind: "MutatingAdmissionPolicy", Type: "admit"},
		NewMutatingAdmissionPolicyAccessor,
		NewMutatingAdmissionPolicyBindingAccessor,
		m,
		dispatcher,
	)
}
