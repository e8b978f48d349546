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
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

func TestRecordSyncResultErrors(t *testing.T) {
	metrics.SyncResultErrors.Create(nil)
	result := PodSyncResult{SyncError: errors.New("no action")}
	for _, action := range []SyncAction{StartContainer, KillContainer, KillContainer, CreatePodSandbox} {
		r := NewSyncResult(action, "target")
		if action != CreatePodSandbox {
			r.Fail(errors.New("failed"), "")
		}
		result.AddSyncResult(r)
	}
	for name, tc := range map[string]struct {
		enabled bool
		want    map[string]float64
	}{
		"feature on":  {enabled: true, want: map[string]float64{"StartContainer": 1, "KillContainer": 2, "CreatePodSandbox": 0, "SyncPod": 1}},
		"feature off": {want: map[string]float64{"StartContainer": 0, "KillContainer": 0, "SyncPod": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				features.KubeletAllocatedPodsEndpoint: tc.enabled,
				features.DynamicContainers:            tc.enabled,
			})
			metrics.SyncResultErrors.Reset()
			result.RecordErrors()
			for action, want := range tc.want {
				got, err := testutil.GetCounterMetricValue(metrics.SyncResultErrors.WithLabelValues(action))
				require.NoError(t, err)
				assert.Equal(t, want, got, action)
			}
		})
	}
}
