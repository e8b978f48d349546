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
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	checkpointerrors "k8s.io/kubernetes/pkg/kubelet/checkpointmanager/errors"
)

// podCheckpointsDirSuffix makes the name of the directory with the checkpoints of the pods from
// that of the checkpoint that holds the resources of all pods.
const podCheckpointsDirSuffix = "_by_pod"

// PodCheckpointState is a State with one checkpoint per pod, so that what is allocated to one pod
// is written at a cost that does not depend on how many others there are. What is on disk is
// changed first, and in memory only if that succeeded.
//
// A write survives the end of the kubelet at any time; the rename that completes it may be lost if
// the machine itself goes down, which ends all containers: the change is then decided again.
//
// The checkpoint of version 1, which holds the resources of all pods, is kept up to date by Flush,
// for a kubelet that knows no other, and to fall back to when the checkpoint of a pod is damaged.
// No checkpoint that cannot be read is an error: it costs the pod its pending change.
type PodCheckpointState struct {
	// stateMemory is locked for as long as it is changed, and never while the disk is written.
	*stateMemory

	stateDir         string
	sharedCheckpoint string

	// mux serializes all changes of the state.
	mux sync.Mutex
	// podCheckpoints is nil until prepare succeeded.
	podCheckpoints checkpointmanager.CheckpointManager
	// shared is nil if the state directory cannot be used.
	shared checkpointmanager.CheckpointManager
	// obsolete is true as long as the directory may hold checkpoints of pods that are older than
	// the shared checkpoint.
	obsolete bool
	// written are the pods with a checkpoint on disk, and whether it holds what is in memory.
	written map[types.UID]bool
	// unwritten are the pods in memory of which no checkpoint could be written.
	unwritten sets.Set[types.UID]
	// sharedIsStale is true if the state changed since the shared checkpoint was written.
	sharedIsStale bool
}

var _ State = &PodCheckpointState{}

// NewPodCheckpointState restores the state from the checkpoints in stateDir. sharedCheckpoint is
// the name of the checkpoint that holds the resources of all pods.
func NewPodCheckpointState(logger klog.Logger, stateDir, sharedCheckpoint string) *PodCheckpointState {
	s := &PodCheckpointState{
		stateDir:         stateDir,
		sharedCheckpoint: sharedCheckpoint,
		written:          map[types.UID]bool{},
		unwritten:        sets.New[types.UID](),
		sharedIsStale:    true,
	}
	s.stateMemory = NewStateMemory(logger, s.restore(logger)).(*stateMemory)
	if err := s.prepare(); err != nil {
		logger.Error(err, "Allocations cannot be saved until this is resolved", "directory", s.podDir())
	}
	return s
}

func (s *PodCheckpointState) podDir() string {
	return filepath.Join(s.stateDir, s.sharedCheckpoint+podCheckpointsDirSuffix)
}

// restore reads all checkpoints. A pod whose own checkpoint cannot be read has what the shared
// checkpoint says of it.
func (s *PodCheckpointState) restore(logger klog.Logger) PodResourceInfoMap {
	pods, accompanied, err := s.restoreShared()
	if err != nil {
		logger.Error(err, "Ignoring the checkpoint of the resources allocated to all pods", "checkpointPath", filepath.Join(s.stateDir, s.sharedCheckpoint))
	}
	if pods != nil && !accompanied {
		// The last kubelet on this node did not know the checkpoints of the pods.
		s.obsolete = true
		return pods
	}
	if pods == nil {
		pods = PodResourceInfoMap{}
	}

	entries, err := os.ReadDir(s.podDir())
	if err != nil {
		if !os.IsNotExist(err) {
			logger.Error(err, "Ignoring the checkpoints of what is allocated to the pods", "directory", s.podDir())
		}
		return pods
	}
	checkpoints, err := checkpointmanager.NewCheckpointManager(s.podDir())
	if err != nil {
		logger.Error(err, "Ignoring the checkpoints of what is allocated to the pods", "directory", s.podDir())
		return pods
	}
	for _, entry := range entries {
		if isTemporary(entry.Name()) {
			continue
		}
		uid := types.UID(entry.Name())
		s.written[uid] = false
		checkpoint := &podCheckpoint{}
		err := checkpoints.GetCheckpoint(entry.Name(), checkpoint)
		if err == nil {
			var info PodResourceInfo
			if info, err = checkpoint.info(uid); err == nil {
				pods[uid] = info
				s.written[uid] = true
				continue
			}
		}
		_, fallback := pods[uid]
		logger.Error(err, "Ignoring the checkpoint of what is allocated to a pod; its pending changes are lost",
			"podUID", uid, "checkpointPath", filepath.Join(s.podDir(), entry.Name()), "resourcesKnown", fallback)
	}
	return pods
}

// restoreShared returns the resources of all pods, or nil if there is no shared checkpoint, and
// whether the checkpoints of the pods accompany it.
func (s *PodCheckpointState) restoreShared() (pods PodResourceInfoMap, accompanied bool, err error) {
	manager, err := checkpointmanager.NewCheckpointManager(s.stateDir)
	if err != nil {
		return nil, false, err
	}
	checkpoint := &Checkpoint{}
	if err := manager.GetCheckpoint(s.sharedCheckpoint, checkpoint); err != nil {
		if errors.Is(err, checkpointerrors.ErrCheckpointNotFound) {
			return nil, false, nil
		}
		return nil, false, err
	}
	var info sharedCheckpointInfo
	if err := json.Unmarshal([]byte(checkpoint.Data), &info); err != nil {
		return nil, false, err
	}
	if info.Entries == nil {
		info.Entries = PodResourceInfoMap{}
	}
	return info.Entries, info.AccompaniesVersion != 0, nil
}

func isTemporary(fileName string) bool {
	return strings.HasPrefix(fileName, ".")
}

// prepare makes the directory fit for writing: no checkpoint in it is older than the shared one,
// and the shared one says so. The caller holds the lock.
func (s *PodCheckpointState) prepare() error {
	if s.podCheckpoints != nil {
		return nil
	}
	checkpoints, err := checkpointmanager.NewCheckpointManager(s.podDir())
	if err != nil {
		return fmt.Errorf("failed to create the directory: %w", err)
	}
	entries, err := os.ReadDir(s.podDir())
	if err != nil {
		return fmt.Errorf("failed to list the checkpoints: %w", err)
	}
	for _, entry := range entries {
		// A kubelet that was killed leaves the file that it was writing, and nothing but a file can
		// be replaced by one.
		if s.obsolete || isTemporary(entry.Name()) || !entry.Type().IsRegular() {
			if err := os.RemoveAll(filepath.Join(s.podDir(), entry.Name())); err != nil {
				return fmt.Errorf("failed to remove an obsolete checkpoint: %w", err)
			}
		}
	}
	if s.shared == nil {
		if s.shared, err = checkpointmanager.NewCheckpointManager(s.stateDir); err != nil {
			return fmt.Errorf("failed to create the directory: %w", err)
		}
	}
	checkpoint, err := s.snapshot()
	if err != nil {
		return err
	}
	if err := s.shared.CreateCheckpoint(s.sharedCheckpoint, checkpoint); err != nil {
		return fmt.Errorf("failed to write the resources allocated to all pods: %w", err)
	}
	s.sharedIsStale = false
	s.obsolete = false
	s.podCheckpoints = checkpoints
	return nil
}

// snapshot returns the shared checkpoint of what is in memory. The caller holds the lock.
func (s *PodCheckpointState) snapshot() (*Checkpoint, error) {
	s.RLock()
	defer s.RUnlock()
	return newSharedCheckpoint(s.podResources)
}

// write writes the checkpoint of a pod, unless that is what is on disk. The caller holds the lock.
func (s *PodCheckpointState) write(podUID types.UID, info PodResourceInfo) error {
	if s.written[podUID] {
		if current, ok := s.GetPodResourceInfo(podUID); ok && apiequality.Semantic.DeepEqual(current, info) {
			return nil
		}
	}
	if err := s.prepare(); err != nil {
		return err
	}
	checkpoint, err := newPodCheckpoint(podUID, info)
	if err != nil {
		return err
	}
	if err := s.podCheckpoints.CreateCheckpoint(string(podUID), checkpoint); err != nil {
		return fmt.Errorf("failed to write what is allocated to the pod: %w", err)
	}
	s.written[podUID] = true
	s.unwritten.Delete(podUID)
	s.sharedIsStale = true
	return nil
}

// SetPodResourceInfo saves what is allocated to the pod. If that fails, what was allocated to the
// pod before still is. If nothing was, which is to say that the pod is new, or if only its spec was
// not known, it is allocated all the same, for as long as the kubelet runs and until Flush can write
// it.
func (s *PodCheckpointState) SetPodResourceInfo(logger klog.Logger, podUID types.UID, info PodResourceInfo) error {
	s.mux.Lock()
	defer s.mux.Unlock()

	err := s.write(podUID, info)
	if err != nil {
		resources := info
		resources.AllocatedSpec = nil
		current, isAllocated := s.GetPodResourceInfo(podUID)
		if isAllocated && !apiequality.Semantic.DeepEqual(current, resources) {
			return err
		}
		s.unwritten.Insert(podUID)
		s.sharedIsStale = true
	}
	s.stateMemory.Lock()
	s.podResources[podUID] = info
	s.stateMemory.Unlock()
	logger.V(3).Info("Updated what is allocated to the pod", "podUID", podUID)
	return err
}

// update changes a part of what is allocated to the pod.
func (s *PodCheckpointState) update(logger klog.Logger, podUID types.UID, change func(*PodResourceInfo)) error {
	info := PodResourceInfo{ContainerResources: map[string]v1.ResourceRequirements{}}
	if current, ok := s.GetPodResourceInfo(podUID); ok {
		info = PodResourceInfoMap{podUID: current}.Clone()[podUID]
	}
	change(&info)
	return s.SetPodResourceInfo(logger, podUID, info)
}

// SetContainerResources implements State.
func (s *PodCheckpointState) SetContainerResources(logger klog.Logger, podUID types.UID, containerName string, resources v1.ResourceRequirements) error {
	return s.update(logger, podUID, func(info *PodResourceInfo) { info.ContainerResources[containerName] = resources })
}

// SetPodLevelResources implements State.
func (s *PodCheckpointState) SetPodLevelResources(logger klog.Logger, podUID types.UID, resources *v1.ResourceRequirements) error {
	return s.update(logger, podUID, func(info *PodResourceInfo) { info.PodLevelResources = resources })
}

// SetEmptyDirVolumeLimit implements State.
func (s *PodCheckpointState) SetEmptyDirVolumeLimit(podUID types.UID, volumeName string, limit *resource.Quantity) error {
	return s.update(klog.TODO(), podUID, func(info *PodResourceInfo) {
		if info.EmptyDirVolumeLimits == nil {
			info.EmptyDirVolumeLimits = map[string]*resource.Quantity{}
		}
		info.EmptyDirVolumeLimits[volumeName] = limit
	})
}

// RemovePod forgets the pod. The error is that of the removal of its checkpoint, which
// RemoveOrphanedPods will try again.
func (s *PodCheckpointState) RemovePod(logger klog.Logger, podUID types.UID) error {
	s.mux.Lock()
	defer s.mux.Unlock()
	return s.removePod(logger, podUID)
}

func (s *PodCheckpointState) removePod(logger klog.Logger, podUID types.UID) error {
	if _, ok := s.GetPodResourceInfo(podUID); ok {
		s.sharedIsStale = true
		if err := s.stateMemory.RemovePod(logger, podUID); err != nil {
			return err
		}
	}
	s.unwritten.Delete(podUID)
	if _, ok := s.written[podUID]; !ok {
		return nil
	}
	// Whatever has the name of the pod goes, even if it is not a file.
	if err := os.RemoveAll(filepath.Join(s.podDir(), string(podUID))); err != nil {
		return fmt.Errorf("failed to remove what was allocated to the pod: %w", err)
	}
	delete(s.written, podUID)
	return nil
}

// RemoveOrphanedPods forgets all pods that are not among the remaining ones, and removes their
// checkpoints.
func (s *PodCheckpointState) RemoveOrphanedPods(remainingPods sets.Set[types.UID]) {
	logger := klog.TODO()
	s.mux.Lock()
	defer s.mux.Unlock()

	s.RLock()
	orphans := sets.KeySet(s.podResources).Union(sets.KeySet(s.written)).Difference(remainingPods)
	s.RUnlock()
	for podUID := range orphans {
		if err := s.removePod(logger, podUID); err != nil {
			logger.V(3).Info("Failed to remove the allocation of an orphaned pod; will retry", "podUID", podUID, "err", err)
		}
	}
}

// Flush writes what could not be written before, and the shared checkpoint if it is stale. It is
// to be called from time to time, by one caller.
func (s *PodCheckpointState) Flush() error {
	checkpoint, err := s.flushPods()
	if checkpoint == nil {
		return err
	}
	// Allocations go on while the shared checkpoint, which grows with the number of pods, is written.
	if writeErr := s.shared.CreateCheckpoint(s.sharedCheckpoint, checkpoint); writeErr != nil {
		s.mux.Lock()
		defer s.mux.Unlock()
		s.sharedIsStale = true
		return errors.Join(err, fmt.Errorf("failed to write the resources allocated to all pods: %w", writeErr))
	}
	return err
}

// flushPods writes the checkpoints of pods that could not be written before. It returns the shared
// checkpoint if that is to be written.
func (s *PodCheckpointState) flushPods() (*Checkpoint, error) {
	s.mux.Lock()
	defer s.mux.Unlock()

	if err := s.prepare(); err != nil {
		return nil, err
	}
	var errs []error
	for podUID := range s.unwritten.Clone() {
		info, _ := s.GetPodResourceInfo(podUID)
		if err := s.write(podUID, info); err != nil {
			errs = append(errs, fmt.Errorf("pod %q: %w", podUID, err))
		}
	}
	if !s.sharedIsStale {
		return nil, errors.Join(errs...)
	}
	checkpoint, err := s.snapshot()
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	s.sharedIsStale = false
	return checkpoint, errors.Join(errs...)
}
