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

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// RecordErrors counts the errors of the result by the action that failed, and one that belongs to no
// action as that of SyncPod.
func (p *PodSyncResult) RecordErrors() {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return
	}
	for _, result := range p.SyncResults {
		if result.Error != nil {
			metrics.SyncResultErrors.WithLabelValues(string(result.Action)).Inc()
		}
	}
	if p.SyncError != nil {
		metrics.SyncResultErrors.WithLabelValues("SyncPod").Inc()
	}
}
