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

package rest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/registry/rest"
)

func TestRemoveSubresources(t *testing.T) {
	tests := map[string]struct {
		disabled []string
		want     []string
	}{
		"nothing is disabled": {
			want: []string{"nodes/proxy", "pods", "pods/dynamic", "pods/exec", "pods/proxy", "pods/status"},
		},
		"only subresources of this resource go": {
			disabled: []string{"proxy", "dynamic"},
			want:     []string{"nodes/proxy", "pods", "pods/exec", "pods/status"},
		},
		"what is not served does not matter": {
			disabled: []string{"allocated", "exec"},
			want:     []string{"nodes/proxy", "pods", "pods/dynamic", "pods/proxy", "pods/status"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			storage := map[string]rest.Storage{
				"nodes/proxy": nil, "pods": nil, "pods/dynamic": nil, "pods/exec": nil, "pods/proxy": nil, "pods/status": nil,
			}
			removeSubresources(storage, "pods", tc.disabled)
			if diff := cmp.Diff(tc.want, sets.List(sets.KeySet(storage))); diff != "" {
				t.Errorf("unexpected storage map (-want +got):\n%s", diff)
			}
		})
	}
}
