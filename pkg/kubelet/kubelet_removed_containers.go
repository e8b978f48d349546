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

package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/mount-utils"
)

// splitRemovedContainers returns podStatus with the containers that were removed from the pod set
// apart, so that what knows only of the containers in the spec does not take them for those.
func (kl *Kubelet) splitRemovedContainers(pod *v1.Pod, podStatus *kubecontainer.PodStatus) *kubecontainer.PodStatus {
	if runtime, ok := kl.containerRuntime.(kubecontainer.RemovedContainerRuntime); ok {
		return runtime.SplitRemovedContainers(pod, podStatus)
	}
	return kubecontainer.SplitRemovedContainers(pod, podStatus, nil)
}

// syncRemovedContainers kills the containers that were removed from the pod, and deletes what is
// left of those that have exited and whose status is not kept. It waits for neither: it comes
// before all that a sync may have to wait for, like volumes and the network.
func (kl *Kubelet) syncRemovedContainers(ctx context.Context, pod *v1.Pod, podStatus *kubecontainer.PodStatus) {
	runtime, ok := kl.containerRuntime.(kubecontainer.RemovedContainerRuntime)
	if !ok {
		return
	}
	runtime.KillRemovedContainers(ctx, pod, podStatus)
	if !allocation.AllocatesPodSpec(pod) {
		return
	}
	reported, expired := kubecontainer.KeptRemovedContainers(pod, podStatus)
	for _, name := range kl.leftContainerDirs(pod, reported) {
		if err := kl.removeContainerDirs(pod, name); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to remove the directories of a container that was removed from the pod",
				"pod", klog.KObj(pod), "containerName", name)
		}
	}
	runtime.DeleteRemovedContainers(ctx, pod, expired)
}

// leftContainerDirs returns the names of the containers that have a directory in that of the pod and
// are neither in its spec nor reported. They may have failed before the runtime knew of them.
func (kl *Kubelet) leftContainerDirs(pod *v1.Pod, reported []*kubecontainer.Status) []string {
	entries, err := os.ReadDir(filepath.Dir(kl.getPodContainerDir(pod.UID, "any")))
	if err != nil {
		return nil // No container of the pod was started yet.
	}
	var names []string
	for _, entry := range entries {
		isReported := slices.ContainsFunc(reported, func(s *kubecontainer.Status) bool { return s.Name == entry.Name() })
		if !isReported && kubecontainer.GetContainerSpec(pod, entry.Name()) == nil {
			names = append(names, entry.Name())
		}
	}
	return names
}

// removeContainerDirs removes the directory of a container and an empty one for its logs, and
// unmounts and removes the subpaths of volumes that were made for it.
func (kl *Kubelet) removeContainerDirs(pod *v1.Pod, containerName string) error {
	// The runtime removes it with the logs, unless it has never known the container.
	_ = os.Remove(kuberuntime.BuildContainerLogsDirectory(kl.podLogsDirectory, pod.Namespace, pod.Name, pod.UID, containerName))
	// As in subpath.CleanSubPaths: <pod>/volume-subpaths/<volume>/<container>/<index of the mount>
	subPaths, err := filepath.Glob(filepath.Join(kl.getPodVolumeSubpathsDir(pod.UID), "*", containerName, "*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, subPath := range subPaths {
		if err := mount.CleanupMountPoint(subPath, kl.mounter, true); err != nil {
			errs = append(errs, fmt.Errorf("clean up subpath mount %s: %w", subPath, err))
			continue
		}
		// The directory of the container goes with its last subpath.
		_ = os.Remove(filepath.Dir(subPath))
	}
	return utilerrors.NewAggregate(append(errs, os.RemoveAll(kl.getPodContainerDir(pod.UID, containerName))))
}

// withoutRemovedInstances returns the previous statuses without those of containers that were
// removed and whose name is in the spec again: the new container does not continue the old one.
func withoutRemovedInstances(pod *v1.Pod, podStatus *kubecontainer.PodStatus, previous v1.PodStatus) v1.PodStatus {
	previous.ContainerStatuses = slices.DeleteFunc(slices.Clone(previous.ContainerStatuses), func(status v1.ContainerStatus) bool {
		return slices.ContainsFunc(podStatus.RemovedContainerStatuses, func(removed *kubecontainer.Status) bool {
			return removed.Name == status.Name && removed.ID.String() == status.ContainerID
		})
	})
	return previous
}

// removedContainerTTY returns whether a container that was removed from its pod has a terminal.
func (kl *Kubelet) removedContainerTTY(ctx context.Context, podUID types.UID, id kubecontainer.ContainerID) (bool, error) {
	status, err := kl.containerRuntime.GetContainerStatus(ctx, podUID, id)
	if err != nil {
		return false, err
	}
	return status.TTY, nil
}
