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

package admission

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/expansion"
	"k8s.io/apiserver/pkg/admission/initializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

// newEquivalentExpansions returns an initializer that tells admission plugins which pod requests amount to others.
//
// An update of pods/dynamic may bring in a container, as only the creation of a pod could before, and may change what
// an update of the pod may change. A webhook or policy that guards either must be configured to see it.
func newEquivalentExpansions() admission.PluginInitializer {
	var expansions expansion.Table
	if utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		pods := schema.GroupResource{Resource: "pods"}
		expansions = expansion.Table{
			{Resource: pods, Subresource: "dynamic", Operation: admission.Update}: {
				{Resource: pods, Operation: admission.Create},
				{Resource: pods, Operation: admission.Update},
			},
		}
	}
	return initializer.NewEquivalentExpansions(expansions)
}
