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

package bootstrappolicy_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-helpers/auth/rbac/validation"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// Who may read pods may read what is allocated for them. Nobody may add containers to running pods
// unless a cluster administrator grants it.
func TestDynamicContainersDefaultRoles(t *testing.T) {
	rule := func(verb, resource string) rbacv1.PolicyRule {
		return rbacv1helpers.NewRule(verb).Groups("").Resources(resource).RuleOrDie()
	}
	tests := []struct {
		name    string
		enabled bool
		rule    rbacv1.PolicyRule
		want    []string
	}{
		{"get pods/allocated, gate on", true, rule("get", "pods/allocated"), []string{"cluster-admin", "system:aggregate-to-view"}},
		{"get pods/allocated, gate off", false, rule("get", "pods/allocated"), []string{"cluster-admin"}},
		{"get pods/dynamic", true, rule("get", "pods/dynamic"), []string{"cluster-admin"}},
		{"update pods/dynamic", true, rule("update", "pods/dynamic"), []string{"cluster-admin"}},
		{"patch pods/dynamic", true, rule("patch", "pods/dynamic"), []string{"cluster-admin"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, feature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				features.InPlacePodVerticalScaling:    true,
				features.NodeDeclaredFeatures:         true,
				features.KubeletAllocatedPodsEndpoint: true,
				features.DynamicContainers:            test.enabled,
			})
			var got []string
			for _, role := range bootstrappolicy.ClusterRoles() {
				if covers, _ := validation.Covers(role.Rules, []rbacv1.PolicyRule{test.rule}); covers {
					got = append(got, role.Name)
				}
			}
			for namespace, roles := range bootstrappolicy.NamespaceRoles() {
				for _, role := range roles {
					if covers, _ := validation.Covers(role.Rules, []rbacv1.PolicyRule{test.rule}); covers {
						got = append(got, fmt.Sprintf("%s/%s", namespace, role.Name))
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected roles (-want +got):\n%s", diff)
			}
		})
	}
}
