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

package allocation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"
)

func TestChangeLatency(t *testing.T) {
	toAllocation, toStart := kubeletmetrics.PodUpdateAllocationDuration, kubeletmetrics.AddedContainerStartDuration
	toAllocation.Create(nil)
	toStart.Create(nil)
	sum := func(m *metrics.Histogram) float64 {
		t.Helper()
		value, err := testutil.GetHistogramMetricValue(m.ObserverMetric)
		require.NoError(t, err)
		return value
	}
	// Other tests observe as well.
	allocationBefore, startBefore := sum(toAllocation), sum(toStart)
	const delta = 1e-6

	synctest.Test(t, func(t *testing.T) {
		l := changeLatency{}
		status := func(name string, started time.Time) *kubecontainer.PodStatus {
			return &kubecontainer.PodStatus{ID: "uid", ContainerStatuses: []*kubecontainer.Status{{Name: name, StartedAt: started}}}
		}

		// An update that is deferred is measured from when it was first seen; another one from there.
		l.updated("uid", 2)
		time.Sleep(10 * time.Second)
		l.updated("uid", 3)
		time.Sleep(time.Second)
		l.updated("uid", 3)
		time.Sleep(time.Second)
		l.allocated("uid", []string{"new", "removed before it started"})
		assert.InDelta(t, allocationBefore+2, sum(toAllocation), delta)

		l.observe(status("new", time.Now().Add(-time.Hour)))
		l.observe(status("new", time.Time{}))
		assert.InDelta(t, startBefore, sum(toStart), delta, "an earlier container of the name is not the one that was added")
		time.Sleep(time.Second)
		started := time.Now()
		time.Sleep(time.Second)
		l.observe(status("new", started))
		l.observe(status("new", started))
		assert.InDelta(t, startBefore+1, sum(toStart), delta, "from the allocation to the start, whenever that is seen, once")

		l.updated("gone", 1)
		l.allocated("uid", []string{"a"})
		l.forgetOthers(sets.New[types.UID]("other"))
		assert.Empty(t, l.pending)
		assert.Empty(t, l.starting)
	})
}
