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
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/expansion"
	"k8s.io/apiserver/pkg/admission/initializer"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
)

// Everything that dispatches by rules is told of the expansions.
var (
	_ initializer.WantsEquivalentExpansions = &mutatingpolicy.Plugin{}
	_ initializer.WantsEquivalentExpansions = &validatingpolicy.Plugin{}
	_ initializer.WantsEquivalentExpansions = &mutatingwebhook.Plugin{}
	_ initializer.WantsEquivalentExpansions = &validatingwebhook.Plugin{}
)

type recorder struct {
	*admission.Handler
	expansions expansion.Table
}

func (r *recorder) SetEquivalentExpansions(expansions expansion.Table) { r.expansions = expansions }
func (r *recorder) ValidateInitialization() error                      { return nil }

func TestEquivalentExpansions(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for enabled, want := range map[bool]expansion.Table{
		false: nil,
		true: {
			{Resource: pods, Subresource: "dynamic", Operation: admission.Update}: {
				{Resource: pods, Operation: admission.Create},
				{Resource: pods, Operation: admission.Update},
			},
		},
	} {
		t.Run(fmt.Sprintf("DynamicContainers=%v", enabled), func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				features.KubeletAllocatedPodsEndpoint: enabled,
				features.DynamicContainers:            enabled,
			})
			initializers, err := (&Config{}).New()
			if err != nil {
				t.Fatal(err)
			}
			got := &recorder{}
			for _, i := range initializers {
				i.Initialize(got)
			}
			if diff := cmp.Diff(want, got.expansions); diff != "" {
				t.Errorf("unexpected expansions (-want +got):\n%s", diff)
			}
		})
	}
}
