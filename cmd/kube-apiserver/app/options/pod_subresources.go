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

package options

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/sets"
)

// disableablePodSubresources are the subresources of pods that a cluster works without.
var disableablePodSubresources = sets.New(
	"allocated",
	"attach",
	"dynamic",
	"ephemeralcontainers",
	"exec",
	"log",
	"portforward",
	"proxy",
	"resize",
)

// requiredPodSubresources maps the subresources of pods that cannot be disabled to what needs them.
var requiredPodSubresources = map[string]string{
	"binding":  "the scheduler assigns pods to nodes with it",
	"eviction": "drains, and controllers that respect disruption budgets, need it",
	"status":   "kubelets report the state of pods with it",
}

func addDisablePodSubresourcesFlag(fs *pflag.FlagSet, disabled *[]string) {
	fs.StringSliceVar(disabled, "disable-pod-subresources", *disabled, ""+
		"A comma-separated list of subresources of pods that this server does not serve, whatever the permissions of "+
		"the client: requests get 404, and discovery and OpenAPI do not list them. What one subresource allows, another "+
		"may allow too: resources of containers can also be changed through dynamic. Possible values: "+
		strings.Join(sets.List(disableablePodSubresources), ", ")+".")
}

// validateDisabledPodSubresources returns an error for each name that cannot be disabled.
func validateDisabledPodSubresources(disabled []string) []error {
	var errs []error
	for _, name := range disabled {
		if disableablePodSubresources.Has(name) {
			continue
		}
		if reason, required := requiredPodSubresources[name]; required {
			errs = append(errs, fmt.Errorf("--disable-pod-subresources: %q cannot be disabled: %s", name, reason))
			continue
		}
		errs = append(errs, fmt.Errorf("--disable-pod-subresources: %q is not the name of a subresource of pods, use any of: %s",
			name, strings.Join(sets.List(disableablePodSubresources), ", ")))
	}
	return errs
}
