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

package metrics

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	// SyncResultErrors counts the results of the actions of a pod sync that carry an error, by action.
	// The action is SyncPod for errors that do not belong to a single action.
	SyncResultErrors = metrics.NewCounterVec(
		&metrics.CounterOpts{
			Subsystem:      KubeletSubsystem,
			Name:           "sync_result_errors_total",
			Help:           "Cumulative number of results with an error of the actions of pod syncs. Broken down by action.",
			StabilityLevel: metrics.ALPHA,
		},
		[]string{"action"},
	)

	// PodWorkerErrors counts the iterations of pod workers that ended with an error, other than that
	// they were canceled, by the type of operation that PodWorkerDuration records.
	PodWorkerErrors = metrics.NewCounterVec(
		&metrics.CounterOpts{
			Subsystem:      KubeletSubsystem,
			Name:           "pod_worker_errors_total",
			Help:           "Cumulative number of errors when syncing a single pod, not counting canceled syncs. Broken down by operation type: create, update, or sync",
			StabilityLevel: metrics.ALPHA,
		},
		[]string{"operation_type"},
	)

	// PodUpdateAllocationDuration is the time in seconds from when the kubelet saw an update of a pod
	// until it allocated it.
	PodUpdateAllocationDuration = metrics.NewHistogram(
		&metrics.HistogramOpts{
			Subsystem:      KubeletSubsystem,
			Name:           "pod_update_allocation_duration_seconds",
			Help:           "Duration in seconds from when an update of a running pod was seen until it was allocated, including the time that it was deferred.",
			Buckets:        metrics.ExponentialBuckets(0.001, 4, 11),
			StabilityLevel: metrics.ALPHA,
		},
	)

	// AddedContainerStartDuration is the time in seconds from when a container that was added to a
	// running pod was allocated until it runs, including the pull of its image.
	AddedContainerStartDuration = metrics.NewHistogram(
		&metrics.HistogramOpts{
			Subsystem:      KubeletSubsystem,
			Name:           "added_container_start_duration_seconds",
			Help:           "Duration in seconds from when a container that was added to a running pod was allocated until it runs, including the pull of its image.",
			Buckets:        []float64{0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300},
			StabilityLevel: metrics.ALPHA,
		},
	)

	// AllocationCheckpointDuration is the time in seconds that it takes to save what is allocated to a
	// pod, by result (success or error).
	AllocationCheckpointDuration = metrics.NewHistogramVec(
		&metrics.HistogramOpts{
			Subsystem:      KubeletSubsystem,
			Name:           "allocation_checkpoint_duration_seconds",
			Help:           "Duration in seconds to save what is allocated to a pod. Broken down by result: success or error.",
			Buckets:        metrics.ExponentialBuckets(0.00025, 2, 13),
			StabilityLevel: metrics.ALPHA,
		},
		[]string{"result"},
	)
)

func registerDynamicContainers() {
	legacyregistry.MustRegister(
		SyncResultErrors,
		PodWorkerErrors,
		PodUpdateAllocationDuration,
		AddedContainerStartDuration,
		AllocationCheckpointDuration,
	)
}
