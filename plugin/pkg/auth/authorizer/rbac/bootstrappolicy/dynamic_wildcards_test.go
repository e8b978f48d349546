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

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

func podsDynamic(verb string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{ResourceRequest: true, Verb: verb, APIVersion: "v1", Resource: "pods", Subresource: "dynamic", Namespace: "ns", Name: "pod"}
}

// No default role may change the containers of running pods, except those that may do everything.
func TestNoDefaultRoleHasPodsDynamic(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, feature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.KubeletAllocatedPodsEndpoint: true,
		features.DynamicContainers:            true,
	})
	// Only roles that may do so with all resources there are, by the verbs that pods/dynamic has.
	wildcards := map[string]map[string]bool{
		"cluster-admin": {"get": true, "update": true, "patch": true},
		"system:controller:generic-garbage-collector":           {"get": true, "update": true, "patch": true},
		"system:controller:namespace-controller":                {"get": true},
		"system:controller:storage-version-migrator-controller": {"patch": true},
	}
	rules := map[string][]rbacv1.PolicyRule{"the rules of the node authorizer": bootstrappolicy.NodeRules()}
	for _, role := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		rules[role.Name] = role.Rules
	}
	for namespace, roles := range bootstrappolicy.NamespaceRoles() {
		for _, role := range roles {
			rules[fmt.Sprintf("%s/%s", namespace, role.Name)] = role.Rules
		}
	}
	for name, rules := range rules {
		for _, verb := range []string{"get", "update", "patch"} {
			if got := rbac.RulesAllow(podsDynamic(verb), rules...); got != wildcards[name][verb] {
				t.Errorf("role %q: %s pods/dynamic: want %v, got %v", name, verb, wildcards[name][verb], got)
			}
		}
	}
}

// Roles with wildcards were written when there was no such subresource, and have it now.
func TestWildcardsAndPodsDynamic(t *testing.T) {
	tests := map[string]struct {
		resources []string
		want      bool
	}{
		"everything":                 {[]string{"*"}, true},
		"dynamic of everything":      {[]string{"*/dynamic"}, true},
		"dynamic of pods":            {[]string{"pods/dynamic"}, true},
		"pods":                       {[]string{"pods"}, false},
		"other subresources of pods": {[]string{"pods/resize", "pods/ephemeralcontainers", "pods/status"}, false},
		"all subresources, which RBAC knows not to be a wildcard": {[]string{"pods/*"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			rule := rbacv1helpers.NewRule("update").Groups("").Resources(tc.resources...).RuleOrDie()
			if got := rbac.RulesAllow(podsDynamic("update"), rule); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}
