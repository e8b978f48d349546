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

package state

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/checksum"
)

// podCheckpointVersion is the version of the checkpoint that holds the whole spec of one pod. The
// checkpoint that holds the resources of all pods (Checkpoint) counts as version 1.
const podCheckpointVersion = 2

var _ checkpointmanager.Checkpoint = &podCheckpoint{}

// podAllocation is what is allocated to one pod.
type podAllocation struct {
	PodUID types.UID `json:"podUID"`
	// Resources are what version 1 knows of the pod.
	Resources PodResourceInfo `json:"resources"`
	// Spec is nil if only the resources of the pod are allocated, as for static pods.
	Spec *v1.PodSpec `json:"spec,omitempty"`
}

// podCheckpoint is the file of one pod. None of its fields is one of Checkpoint, so that neither
// can be taken for the other.
type podCheckpoint struct {
	Version int `json:"podAllocationVersion"`
	// Allocation is a podAllocation as it is in the file: the checksum is that of these bytes, and
	// does not depend on how the values are formatted when they are read and written again.
	Allocation json.RawMessage   `json:"podAllocation"`
	Checksum   checksum.Checksum `json:"podAllocationChecksum"`
}

func newPodCheckpoint(podUID types.UID, info PodResourceInfo) (*podCheckpoint, error) {
	allocation, err := json.Marshal(podAllocation{PodUID: podUID, Resources: info, Spec: info.AllocatedSpec})
	if err != nil {
		return nil, fmt.Errorf("failed to serialize the allocation of the pod: %w", err)
	}
	return &podCheckpoint{
		Version:    podCheckpointVersion,
		Allocation: allocation,
		Checksum:   checksum.New(string(allocation)),
	}, nil
}

// MarshalCheckpoint implements checkpointmanager.Checkpoint.
func (cp *podCheckpoint) MarshalCheckpoint() ([]byte, error) {
	return json.Marshal(cp)
}

// UnmarshalCheckpoint implements checkpointmanager.Checkpoint.
func (cp *podCheckpoint) UnmarshalCheckpoint(blob []byte) error {
	return json.Unmarshal(blob, cp)
}

// VerifyChecksum implements checkpointmanager.Checkpoint.
func (cp *podCheckpoint) VerifyChecksum() error {
	return cp.Checksum.Verify(string(cp.Allocation))
}

// info returns what is allocated to the pod, or an error if the checkpoint was written by a newer
// kubelet, or for another pod.
func (cp *podCheckpoint) info(podUID types.UID) (PodResourceInfo, error) {
	if cp.Version != podCheckpointVersion {
		return PodResourceInfo{}, fmt.Errorf("version %d of the allocation is not supported, only %d is", cp.Version, podCheckpointVersion)
	}
	var allocation podAllocation
	if err := json.Unmarshal(cp.Allocation, &allocation); err != nil {
		return PodResourceInfo{}, fmt.Errorf("failed to read the allocation of the pod: %w", err)
	}
	if allocation.PodUID != podUID {
		return PodResourceInfo{}, fmt.Errorf("the allocation is that of pod %q", allocation.PodUID)
	}
	if allocation.Spec != nil && len(allocation.Spec.Containers) == 0 {
		return PodResourceInfo{}, fmt.Errorf("the allocated pod has no containers")
	}
	info := allocation.Resources
	info.AllocatedSpec = allocation.Spec
	return info, nil
}

// sharedCheckpointInfo is the content of the checkpoint that holds the resources of all pods, when
// it accompanies the checkpoints of the pods. A kubelet that knows only this checkpoint reads it,
// and drops the mark when it writes it.
type sharedCheckpointInfo struct {
	PodResourceCheckpointInfo
	// AccompaniesVersion is the version of the checkpoints of the pods. If it is not set, a kubelet
	// that does not know them has had the last word about all pods.
	AccompaniesVersion int `json:"accompaniesPodAllocationVersion,omitempty"`
}

func newSharedCheckpoint(pods PodResourceInfoMap) (*Checkpoint, error) {
	data, err := json.Marshal(sharedCheckpointInfo{
		PodResourceCheckpointInfo: PodResourceCheckpointInfo{Entries: pods},
		AccompaniesVersion:        podCheckpointVersion,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to serialize the resources of all pods: %w", err)
	}
	return &Checkpoint{Data: string(data), Checksum: checksum.New(string(data))}, nil
}
