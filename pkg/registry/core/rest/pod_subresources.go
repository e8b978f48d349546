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
	"k8s.io/apiserver/pkg/registry/rest"
)

// removeSubresources removes the named subresources of the resource from the
// storage map, which is what requests, discovery and OpenAPI are served from. A
// name that is not in the map, because its feature is off, changes nothing.
func removeSubresources(storage map[string]rest.Storage, resource string, subresources []string) {
	for _, subresource := range subresources {
		delete(storage, resource+"/"+subresource)
	}
}
