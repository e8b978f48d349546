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

package priority

import "k8s.io/apiserver/pkg/admission"

// isDynamicUpdate returns true for updates through pods/dynamic: they carry the whole pod, and a client that does not
// know its priority must not be refused for having dropped it.
func isDynamicUpdate(a admission.Attributes) bool {
	return a.GetResource().GroupResource() == podResource && a.GetSubresource() == "dynamic" && a.GetOperation() == admission.Update
}
