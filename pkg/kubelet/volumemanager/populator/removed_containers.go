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

package populator

import (
	"context"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/volume/util"
)

// addVolumesOfRemovedContainers adds to the desired state of world the volumes that are in the
// directory of the pod and that no container in its spec uses any more. Without a restart of the
// kubelet they are in it already, since nothing but the end of the pod takes a volume from it.
// After a restart they would be unmounted under a removed container that still runs, and what a
// container to be added later is to find in them would be deleted.
func (dswp *desiredStateOfWorldPopulator) addVolumesOfRemovedContainers(ctx context.Context, pod *v1.Pod) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return
	}
	// Looking up a volume may take calls of the API, so first see whether there is one to look up.
	left := dswp.volumesLeftOnDisk(pod)
	if left.Len() == 0 {
		return
	}
	logger := klog.FromContext(ctx)
	mounts, devices, _ := util.GetPodVolumeNames(pod, false)
	// The removed container is not known any more; most have the options of their pod.
	var seLinuxContexts []*v1.SELinuxOptions
	if pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.SELinuxOptions != nil {
		seLinuxContexts = append(seLinuxContexts, pod.Spec.SecurityContext.SELinuxOptions)
	}
	for _, podVolume := range pod.Spec.Volumes {
		if mounts.Has(podVolume.Name) || devices.Has(podVolume.Name) {
			continue
		}
		_, volumeSpec, volumeGIDValue, err := dswp.createVolumeSpec(ctx, podVolume, pod, mounts, devices)
		if err == nil && left.Has(volumeSpec.Name()) {
			_, err = dswp.desiredStateOfWorld.AddPodToVolume(
				logger, util.GetUniquePodName(pod), pod, volumeSpec, podVolume.Name, volumeGIDValue, seLinuxContexts)
		}
		if err != nil {
			// The containers in the spec do not need it, and must not wait for it.
			logger.Error(err, "Failed to look up a volume that no container of the pod uses", "pod", klog.KObj(pod), "volumeName", podVolume.Name)
		}
	}
}

// volumesLeftOnDisk returns the names of the volume specs that have a directory in that of the pod
// and are not in the desired state of world.
func (dswp *desiredStateOfWorldPopulator) volumesLeftOnDisk(pod *v1.Pod) sets.Set[string] {
	host := dswp.volumePluginMgr.Host
	left := sets.New[string]()
	for _, pattern := range []string{
		host.GetPodVolumeDir(pod.UID, "*", "*"),
		filepath.Join(host.GetPodVolumeDeviceDir(pod.UID, "*"), "*"),
	} {
		// The pattern is well-formed, and a directory that cannot be read has no volumes.
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if name := filepath.Base(path); !dswp.desiredStateOfWorld.VolumeExistsWithSpecName(util.GetUniquePodName(pod), name) {
				left.Insert(name)
			}
		}
	}
	return left
}
