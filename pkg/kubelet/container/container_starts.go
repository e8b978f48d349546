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

package container

import "k8s.io/apimachinery/pkg/types"

// BackgroundStartRuntime is implemented by runtimes that start containers of running pods in the
// background.
type BackgroundStartRuntime interface {
	// EndedStarts returns the results of the starts in the pod that have ended since its last sync,
	// which the next SyncPod will return.
	EndedStarts(podUID types.UID) PodSyncResult
	// HasStarts returns true if a start in the pod is in flight, or was since its last sync.
	HasStarts(podUID types.UID) bool
}
