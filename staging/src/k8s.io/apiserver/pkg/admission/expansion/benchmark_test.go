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

package expansion_test

import (
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/admission"
)

// BenchmarkUpdate measures what webhooks and policies that have nothing to say about a pod add to an update of it through
// pods/dynamic, where they may have to refuse, and through pods/resize, where they never do: n of each of the four kinds,
// every other one for other resources and for other namespaces.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{0, 10, 100} {
		var interceptors []interceptor
		for len(interceptors) < n {
			interceptors = append(interceptors,
				interceptor{rules: rules(rule(both, "services", "configmaps"))},
				interceptor{rules: rules(rule(both, "pods", "pods/*")), namespaceSelector: labeled("env", "test")})
		}
		plugins := map[string]admission.Interface{}
		var objects admission.ObjectInterfaces
		for _, kind := range interceptorKinds {
			plugins[kind], objects = start(b, podTable, kind, interceptors...)
		}
		for _, subresource := range []string{"dynamic", "resize"} {
			b.Run(fmt.Sprintf("%s/%d", subresource, n), func(b *testing.B) {
				update := func() {
					attr := newAttributes(request{namespace: namespace, subresource: subresource})
					for _, kind := range interceptorKinds {
						var err error
						switch p := plugins[kind].(type) {
						case admission.MutationInterface:
							err = p.Admit(b.Context(), attr, objects)
						case admission.ValidationInterface:
							err = p.Validate(b.Context(), attr, objects)
						}
						if err != nil {
							b.Fatal(err)
						}
					}
				}
				// The first one waits until the policies are compiled.
				update()
				for b.Loop() {
					update()
				}
			})
		}
	}
}
