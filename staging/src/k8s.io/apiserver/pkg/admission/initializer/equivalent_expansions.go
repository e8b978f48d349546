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

package initializer

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/expansion"
)

// WantsEquivalentExpansions is implemented by admission plugins that dispatch requests to webhooks or policies by the
// rules of those, and that must refuse a request when it amounts to one that a webhook or policy intercepts, while the
// request itself is not intercepted.
type WantsEquivalentExpansions interface {
	SetEquivalentExpansions(expansions expansion.Table)
	admission.InitializationValidator
}

type equivalentExpansions expansion.Table

// NewEquivalentExpansions returns an initializer that hands the table to the admission plugins that want it.
func NewEquivalentExpansions(expansions expansion.Table) admission.PluginInitializer {
	return equivalentExpansions(expansions)
}

// Initialize implements admission.PluginInitializer.
func (e equivalentExpansions) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(WantsEquivalentExpansions); ok {
		wants.SetEquivalentExpansions(expansion.Table(e))
	}
}
