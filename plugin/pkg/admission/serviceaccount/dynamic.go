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

package serviceaccount

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

// isDynamicUpdate returns true for updates through pods/dynamic, which may add containers.
func isDynamicUpdate(a admission.Attributes) bool {
	return a.GetResource().GroupResource() == api.Resource("pods") &&
		a.GetSubresource() == "dynamic" && a.GetOperation() == admission.Update
}

// admitDynamic mounts the service account token into the containers that the update adds, if the pod has a volume for
// it. Nobody could write that mount down: the name of the volume has a random suffix.
func (s *Plugin) admitDynamic(a admission.Attributes) error {
	pod, added, err := addedContainers(a)
	if err != nil || len(added) == 0 || !s.MountServiceAccountToken || !hasTokenVolume(pod) {
		return err
	}
	serviceAccount, err := s.getServiceAccount(a.GetNamespace(), pod.Spec.ServiceAccountName)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("error looking up service account %s/%s: %w", a.GetNamespace(), pod.Spec.ServiceAccountName, err))
	}
	if !shouldAutomount(serviceAccount, pod) {
		return nil
	}
	// mountServiceAccountToken adds no volume to a pod that has one.
	partial := &api.Pod{Spec: api.PodSpec{Volumes: pod.Spec.Volumes, Containers: copyContainers(pod, added)}}
	s.mountServiceAccountToken(serviceAccount, partial)
	for n, i := range added {
		pod.Spec.Containers[i].VolumeMounts = partial.Spec.Containers[n].VolumeMounts
	}
	return nil
}

// validateDynamic makes sure that the containers which the update adds use only secrets that the service account may
// mount, also by way of a volume that the pod got before that was enforced.
func (s *Plugin) validateDynamic(a admission.Attributes) error {
	pod, added, err := addedContainers(a)
	if err != nil || len(added) == 0 {
		return err
	}
	if len(pod.Spec.ServiceAccountName) == 0 {
		return admission.NewForbidden(a, fmt.Errorf("no service account specified for pod %s/%s", a.GetNamespace(), pod.Name))
	}
	serviceAccount, err := s.getServiceAccount(a.GetNamespace(), pod.Spec.ServiceAccountName)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("error looking up service account %s/%s: %w", a.GetNamespace(), pod.Spec.ServiceAccountName, err))
	}
	if !s.enforceMountableSecrets(serviceAccount) {
		return nil
	}
	partial := &api.Pod{Spec: api.PodSpec{Containers: copyContainers(pod, added)}}
	for _, volume := range pod.Spec.Volumes {
		if mounts(partial.Spec.Containers, volume.Name) {
			partial.Spec.Volumes = append(partial.Spec.Volumes, volume)
		}
	}
	if err := s.limitSecretReferences(serviceAccount, partial); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// addedContainers returns the updated pod, and the indices of the containers that the update adds.
func addedContainers(a admission.Attributes) (*api.Pod, []int, error) {
	pod, ok := a.GetObject().(*api.Pod)
	if !ok {
		return nil, nil, errors.NewBadRequest(fmt.Sprintf("expected a pod but got a %T", a.GetObject()))
	}
	oldPod, ok := a.GetOldObject().(*api.Pod)
	if !ok {
		return nil, nil, errors.NewBadRequest(fmt.Sprintf("expected an old pod but got a %T", a.GetOldObject()))
	}
	return pod, validation.DiffContainers(&pod.Spec, &oldPod.Spec).Added, nil
}

func copyContainers(pod *api.Pod, indices []int) []api.Container {
	var containers []api.Container
	for _, i := range indices {
		containers = append(containers, *pod.Spec.Containers[i].DeepCopy())
	}
	return containers
}

func hasTokenVolume(pod *api.Pod) bool {
	for _, volume := range pod.Spec.Volumes {
		if strings.HasPrefix(volume.Name, ServiceAccountVolumeName+"-") {
			return true
		}
	}
	return false
}

func mounts(containers []api.Container, volume string) bool {
	for _, container := range containers {
		for _, mount := range container.VolumeMounts {
			if mount.Name == volume {
				return true
			}
		}
	}
	return false
}
