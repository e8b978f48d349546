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

package pod

import (
	"context"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/features"
)

type podDynamicStrategy struct {
	podStrategy
}

// DynamicStrategy is the logic that applies when main containers are added to
// and removed from a pod through the pods/dynamic subresource.
var DynamicStrategy = podDynamicStrategy{Strategy}

// GetResetFields returns the set of fields that get reset by the strategy
// and should not be modified by the user.
func (podDynamicStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		"v1": fieldpath.NewSet(
			fieldpath.MakePathOrDie("status"),
			fieldpath.MakePathOrDie("metadata", "finalizers"),
			fieldpath.MakePathOrDie("metadata", "ownerReferences"),
		),
	}
}

// PrepareForUpdate resets what the subresource does not write. Everything else
// that must not change is left for ValidateUpdate to reject.
func (podDynamicStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	newPod := obj.(*api.Pod)
	oldPod := old.(*api.Pod)

	newPod.Status = oldPod.Status
	// Who owns a pod and what keeps it from going away is for the main resource:
	// whether a client may change it is decided by its permissions there.
	newPod.OwnerReferences = oldPod.OwnerReferences
	newPod.Finalizers = oldPod.Finalizers

	dropAppArmorAnnotationsOfRemovedContainers(newPod, oldPod)

	if utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResourcesFixDefaulting) {
		if newPod.Spec.Resources == nil && oldPod.Spec.Resources != nil {
			// Preserve pod-level resources for clients that do not know them and dropped the field.
			newPod.Spec.Resources = oldPod.Spec.Resources.DeepCopy()
		}
		if newPod.Spec.Resources != nil {
			podutil.DefaultPodLevelResources(newPod)
		}
	}

	podutil.DropDisabledPodFields(newPod, oldPod)
	dropDisabledFieldsOfAddedContainers(newPod, oldPod)
	updatePodGeneration(newPod, oldPod)
}

// dropAppArmorAnnotationsOfRemovedContainers drops the legacy annotations of
// containers that the update removes. They may not exist without the container.
func dropAppArmorAnnotationsOfRemovedContainers(newPod, oldPod *api.Pod) {
	for _, removed := range corevalidation.DiffContainers(&newPod.Spec, &oldPod.Spec).Removed {
		delete(newPod.Annotations, api.DeprecatedAppArmorAnnotationKeyPrefix+removed.Name)
	}
}

// dropDisabledFieldsOfAddedContainers drops fields as for a new pod: that other
// containers of the old pod have them does not mean that new ones may.
func dropDisabledFieldsOfAddedContainers(newPod, oldPod *api.Pod) {
	added := corevalidation.DiffContainers(&newPod.Spec, &oldPod.Spec).Added
	if len(added) == 0 {
		return
	}
	alone := &api.Pod{ObjectMeta: *newPod.ObjectMeta.DeepCopy(), Spec: *newPod.Spec.DeepCopy()}
	alone.Spec.InitContainers, alone.Spec.EphemeralContainers, alone.Spec.Containers = nil, nil, nil
	for _, i := range added {
		alone.Spec.Containers = append(alone.Spec.Containers, *newPod.Spec.Containers[i].DeepCopy())
	}
	podutil.DropDisabledPodFields(alone, nil)
	for n, i := range added {
		newPod.Spec.Containers[i] = alone.Spec.Containers[n]
	}
}

// ValidateUpdate tests that the update changes nothing but what pods/dynamic
// may change.
func (podDynamicStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	newPod := obj.(*api.Pod)
	oldPod := old.(*api.Pod)
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "containers"), "pods/dynamic cannot be used: the feature gate DynamicContainers is off")}
	}
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&newPod.Spec, &oldPod.Spec, &newPod.ObjectMeta, &oldPod.ObjectMeta)
	opts.ResourceIsPod = true
	addedOpts := podutil.GetValidationOptionsFromPodSpecAndMeta(&newPod.Spec, nil, &newPod.ObjectMeta, nil)
	addedOpts.ResourceIsPod = true
	return corevalidation.ValidatePodDynamicUpdate(newPod, oldPod, opts, addedOpts)
}

// WarningsOnUpdate returns the warnings about added containers that would have
// been given if the pod were created with them.
func (podDynamicStrategy) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	newPod := obj.(*api.Pod)
	oldPod := old.(*api.Pod)
	var prefixes []string
	for _, i := range corevalidation.DiffContainers(&newPod.Spec, &oldPod.Spec).Added {
		prefixes = append(prefixes, field.NewPath("spec", "containers").Index(i).String())
	}
	if len(prefixes) == 0 {
		return nil
	}
	return slices.DeleteFunc(podutil.GetWarningsForPod(ctx, newPod, nil), func(warning string) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(warning, prefix) })
	})
}
