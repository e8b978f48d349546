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

package validation

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper/qos"
	podshelper "k8s.io/kubernetes/pkg/apis/core/pods"
	"k8s.io/kubernetes/pkg/features"
)

// ContainerChanges is the difference between the main containers of two
// versions of a pod. Containers are matched by name; order does not matter.
type ContainerChanges struct {
	// Added are the indices in newPod.Spec.Containers of containers whose name
	// the old pod does not have.
	Added []int
	// Retained are the indices in newPod.Spec.Containers of containers whose
	// name the old pod has.
	Retained []int
	// Removed are the containers of the old pod whose name the new pod does not
	// have. They point into the old pod and must not be written to.
	Removed []*core.Container
	// old are the containers of the old pod by name.
	old map[string]*core.Container
}

// DiffContainers returns what changed in the list of main containers.
func DiffContainers(newSpec, oldSpec *core.PodSpec) ContainerChanges {
	changes := ContainerChanges{old: make(map[string]*core.Container, len(oldSpec.Containers))}
	for i := range oldSpec.Containers {
		changes.old[oldSpec.Containers[i].Name] = &oldSpec.Containers[i]
	}
	kept := sets.New[string]()
	for i := range newSpec.Containers {
		name := newSpec.Containers[i].Name
		if _, found := changes.old[name]; found {
			changes.Retained = append(changes.Retained, i)
		} else {
			changes.Added = append(changes.Added, i)
		}
		kept.Insert(name)
	}
	for i := range oldSpec.Containers {
		if !kept.Has(oldSpec.Containers[i].Name) {
			changes.Removed = append(changes.Removed, &oldSpec.Containers[i])
		}
	}
	return changes
}

// Any returns true if a container was added or removed.
func (c ContainerChanges) Any() bool {
	return len(c.Added) > 0 || len(c.Removed) > 0
}

// validateNoContainerChanges tests that an update which did not come through
// pods/dynamic adds and removes no main containers, to say where that can be
// done. With the feature off it finds nothing, and leaves such updates to the
// checks that were always there.
func validateNoContainerChanges(newPod, oldPod *core.Pod, path *field.Path) field.ErrorList {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) || !DiffContainers(&newPod.Spec, &oldPod.Spec).Any() {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "pod updates may not add or remove containers, unless they are made through the "+
		"pods/dynamic subresource: with kubectl, use edit, patch, replace or apply --server-side with --subresource=dynamic")}
}

// ValidatePodDynamicUpdate tests that an update through the pods/dynamic
// subresource is valid. Such an update may add and remove main containers, and
// change what the main resource and pods/resize may change; everything else is
// an error on the field that changed.
//
// opts are the options for an update of oldPod. addedOpts are the options for a
// new pod: added containers are judged as if the pod were created with them, so
// that they cannot use what is only tolerated because the old pod has it.
func ValidatePodDynamicUpdate(newPod, oldPod *core.Pod, opts, addedOpts PodValidationOptions) field.ErrorList {
	metaPath, specPath := field.NewPath("metadata"), field.NewPath("spec")
	containersPath := specPath.Child("containers")

	if _, isMirror := oldPod.Annotations[core.MirrorPodAnnotationKey]; isMirror {
		return field.ErrorList{field.Forbidden(metaPath.Child("annotations").Key(core.MirrorPodAnnotationKey),
			"static pods cannot be changed through pods/dynamic: the node runs them from a manifest; change the manifest instead")}
	}
	if oldPod.Spec.OS != nil && oldPod.Spec.OS.Name == core.Windows {
		return field.ErrorList{field.Forbidden(specPath.Child("os", "name"),
			"windows pods cannot be changed through pods/dynamic: they can be neither resized nor given other containers; create a new pod instead")}
	}
	if len(newPod.Spec.Containers) == 0 {
		return field.ErrorList{field.Required(containersPath,
			"a pod must keep at least one main container; delete the pod to stop all of them")}
	}

	changes := DiffContainers(&newPod.Spec, &oldPod.Spec)

	// The result as a whole, by the rules that every pod update must meet.
	allErrs := ValidateObjectMetaUpdate(&newPod.ObjectMeta, &oldPod.ObjectMeta, metaPath)
	allErrs = append(allErrs, validateAnnotationsAfterRemoval(newPod, oldPod, changes.Removed, metaPath.Child("annotations"), opts)...)
	allErrs = append(allErrs, dropErrorsOfMissingTargets(validatePodMetadataAndSpec(newPod, opts), newPod, missingTargets(&oldPod.Spec, &newPod.Spec))...)
	allErrs = append(allErrs, validateDynamicPodFields(newPod, oldPod, specPath, opts)...)
	if len(changes.Removed) > 0 && len(changes.Added) == 0 {
		allErrs = dropErrorsOfOldPod(allErrs, newPod, oldPod, opts)
	}

	// What the update does, container by container.
	if changes.Any() {
		allErrs = append(allErrs, validatePodAcceptsContainerChanges(oldPod)...)
	}
	for _, i := range changes.Added {
		allErrs = append(allErrs, validateAddedContainer(i, newPod, oldPod, containersPath.Index(i))...)
	}
	allErrs = append(allErrs, validateAddedContainersAsOnCreate(newPod, changes.Added, specPath, addedOpts)...)
	if len(changes.Removed) > 0 {
		references := resourceFieldReferences(newPod, &oldPod.Status)
		for _, removed := range changes.Removed {
			allErrs = append(allErrs, validateRemovedContainer(removed, references[removed.Name], oldPod, containersPath.Key(removed.Name))...)
		}
	}
	for _, i := range changes.Retained {
		allErrs = append(allErrs, validateRetainedContainer(&newPod.Spec.Containers[i], changes.old[newPod.Spec.Containers[i].Name], containersPath.Index(i))...)
	}
	allErrs = append(allErrs, validateDynamicInitContainers(newPod.Spec.InitContainers, oldPod.Spec.InitContainers, specPath.Child("initContainers"))...)
	if !apiequality.Semantic.DeepEqual(newPod.Spec.EphemeralContainers, oldPod.Spec.EphemeralContainers) {
		allErrs = append(allErrs, field.Forbidden(specPath.Child("ephemeralContainers"),
			"ephemeral containers cannot be changed through pods/dynamic; add them through pods/ephemeralcontainers"))
	}
	allErrs = append(allErrs, validateDynamicVolumes(newPod, oldPod, specPath.Child("volumes"), opts)...)
	allErrs = append(allErrs, validateDynamicResources(newPod, oldPod, changes, specPath, opts)...)

	return explainAddedReferences(dedupeErrors(allErrs), changes.Added)
}

// validatePodAcceptsContainerChanges tests that containers can be added to and
// removed from the pod in its present state.
func validatePodAcceptsContainerChanges(pod *core.Pod) field.ErrorList {
	var allErrs field.ErrorList
	if pod.DeletionTimestamp != nil {
		allErrs = append(allErrs, field.Forbidden(field.NewPath("metadata", "deletionTimestamp"),
			"containers cannot be added to or removed from a pod that is being deleted"))
	}
	if len(pod.Spec.NodeName) == 0 {
		allErrs = append(allErrs, field.Forbidden(field.NewPath("spec", "nodeName"),
			"containers cannot be added to or removed from a pod that is not scheduled; wait until the pod is Running"))
	}
	switch pod.Status.Phase {
	case core.PodRunning:
		if !podIsInitialized(pod) {
			allErrs = append(allErrs, field.Forbidden(field.NewPath("status", "conditions"),
				"containers cannot be added or removed before all init containers have completed; wait until the condition Initialized is True"))
		}
	case core.PodSucceeded, core.PodFailed:
		allErrs = append(allErrs, field.Forbidden(field.NewPath("status", "phase"),
			fmt.Sprintf("containers can only be added to and removed from a Running pod, and this pod has ended (%s); create a new pod instead", pod.Status.Phase)))
	default:
		allErrs = append(allErrs, field.Forbidden(field.NewPath("status", "phase"),
			fmt.Sprintf("containers can only be added to and removed from a Running pod, and this pod is %s; wait until it is Running", pod.Status.Phase)))
	}
	return allErrs
}

func podIsInitialized(pod *core.Pod) bool {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == core.PodInitialized {
			return pod.Status.Conditions[i].Status == core.ConditionTrue
		}
	}
	return false
}

// validateAddedContainer tests the limits that apply to an added container on
// top of what is required of every container.
func validateAddedContainer(index int, newPod, oldPod *core.Pod, path *field.Path) field.ErrorList {
	var allErrs field.ErrorList
	ctr := &newPod.Spec.Containers[index]

	if where := statusWithName(&oldPod.Status, ctr.Name); where != "" {
		allErrs = append(allErrs, nameHasStatus(path.Child("name"), ctr.Name, where))
	}
	for i := range newPod.Spec.InitContainers {
		if newPod.Spec.InitContainers[i].Name == ctr.Name {
			allErrs = append(allErrs, field.Invalid(path.Child("name"), ctr.Name, "is the name of an init container of this pod; use another name"))
		}
	}
	for i := range newPod.Spec.EphemeralContainers {
		if newPod.Spec.EphemeralContainers[i].Name == ctr.Name {
			allErrs = append(allErrs, field.Invalid(path.Child("name"), ctr.Name, "is the name of an ephemeral container of this pod; use another name"))
		}
	}

	if ctr.SecurityContext != nil && ctr.SecurityContext.Privileged != nil && *ctr.SecurityContext.Privileged {
		allErrs = append(allErrs, field.Forbidden(path.Child("securityContext", "privileged"),
			"privileged containers cannot be added to a running pod; they can only be part of a new pod"))
	}

	for j := range ctr.Ports {
		if ctr.Ports[j].HostPort == 0 {
			continue
		}
		msg := "host ports cannot be used by containers that are added to a running pod: the scheduler did not reserve them; remove hostPort"
		if newPod.Spec.HostNetwork {
			msg = "host ports cannot be used by containers that are added to a running pod: the scheduler did not reserve them; " +
				"this pod uses the host network, where hostPort is set to containerPort by default, so list no ports for this container"
		}
		allErrs = append(allErrs, field.Forbidden(path.Child("ports").Index(j).Child("hostPort"), msg))
	}

	allErrs = append(allErrs, validateOnlyResizableResources(&ctr.Resources, path.Child("resources"),
		"containers that are added to a running pod can only ask for cpu and memory, as in-place resize; create a new pod instead")...)
	return allErrs
}

// statusWithName returns the name of the list in the pod status that has an
// entry for a container of the given name, or "" if there is none.
func statusWithName(status *core.PodStatus, name string) string {
	hasName := func(s core.ContainerStatus) bool { return s.Name == name }
	switch {
	case slices.ContainsFunc(status.ContainerStatuses, hasName):
		return "containerStatuses"
	case slices.ContainsFunc(status.InitContainerStatuses, hasName):
		return "initContainerStatuses"
	case slices.ContainsFunc(status.EphemeralContainerStatuses, hasName):
		return "ephemeralContainerStatuses"
	}
	return ""
}

// validateOnlyResizableResources tests that there is nothing but cpu and memory
// among the requests and limits. Claims are not looked at: they are part of the
// pod, and naming them asks the node for nothing new.
func validateOnlyResizableResources(resources *core.ResourceRequirements, path *field.Path, msg string) field.ErrorList {
	var allErrs field.ErrorList
	for _, list := range []struct {
		name string
		core.ResourceList
	}{{"limits", resources.Limits}, {"requests", resources.Requests}} {
		for _, name := range sortedResourceNames(list.ResourceList) {
			if !supportedResizeResources.Has(name) {
				allErrs = append(allErrs, field.Forbidden(path.Child(list.name).Key(string(name)), msg))
			}
		}
	}
	return allErrs
}

func sortedResourceNames(lists ...core.ResourceList) []core.ResourceName {
	names := sets.New[core.ResourceName]()
	for _, list := range lists {
		names = names.Union(sets.KeySet(list))
	}
	return sets.List(names)
}

// validateAddedContainersAsOnCreate applies the rules for the creation of a pod
// to the added containers alone, and returns what is wrong with them.
func validateAddedContainersAsOnCreate(newPod *core.Pod, added []int, specPath *field.Path, opts PodValidationOptions) field.ErrorList {
	if len(added) == 0 {
		return nil
	}
	spec := newPod.Spec
	spec.InitContainers, spec.EphemeralContainers = nil, nil
	spec.Containers = make([]core.Container, 0, len(added))
	for _, i := range added {
		spec.Containers = append(spec.Containers, newPod.Spec.Containers[i])
	}

	errs := ValidatePodSpec(&spec, &newPod.ObjectMeta, specPath, opts)
	errs = append(errs, validateContainersOnlyForPod(spec.Containers, specPath.Child("containers"))...)
	errs = append(errs, validateSeccompAnnotationsAndFields(newPod.ObjectMeta, &spec, specPath)...)
	errs = append(errs, validateAppArmorAnnotationsAndFieldsMatchOnCreate(newPod.ObjectMeta, &spec, specPath)...)

	var allErrs field.ErrorList
	for _, err := range errs {
		// What is wrong with the rest of the pod is not for this function to judge.
		index, rest, ok := splitContainerPath(err.Field)
		if !ok || index >= len(added) {
			continue
		}
		err.Field = specPath.Child("containers").Index(added[index]).String() + rest
		allErrs = append(allErrs, err)
	}
	return allErrs
}

// splitContainerPath splits the path of a field in a main container into the
// index of the container and the path from there.
func splitContainerPath(path string) (index int, rest string, ok bool) {
	path, ok = strings.CutPrefix(path, "spec.containers[")
	if !ok {
		return 0, "", false
	}
	number, rest, ok := strings.Cut(path, "]")
	if !ok {
		return 0, "", false
	}
	index, err := strconv.Atoi(number)
	return index, rest, err == nil
}

// validateRemovedContainer tests that nothing in the pod needs a container
// which the update removes. refs are the paths of what reads its resources.
func validateRemovedContainer(removed *core.Container, refs []string, oldPod *core.Pod, path *field.Path) field.ErrorList {
	var allErrs field.ErrorList

	if len(refs) > 0 {
		allErrs = append(allErrs, field.Forbidden(path, fmt.Sprintf(
			"the container cannot be removed while the downward API reads its resources in %s; remove the containers that read them in the same update (volumes cannot be changed)", strings.Join(refs, ", "))))
	}

	allErrs = append(allErrs, validateOnlyResizableResources(&removed.Resources, path.Child("resources"),
		"a container can only be removed from a running pod if it asks for nothing but cpu and memory, as in-place resize; delete the pod instead")...)
	if claims := oldPod.Status.ExtendedResourceClaimStatus; claims != nil {
		for i := range claims.RequestMappings {
			if claims.RequestMappings[i].ContainerName == removed.Name {
				allErrs = append(allErrs, field.Forbidden(path, fmt.Sprintf(
					"the container cannot be removed while status.extendedResourceClaimStatus maps its extended resource %s to a resource claim; delete the pod instead", claims.RequestMappings[i].ResourceName)))
			}
		}
	}
	return allErrs
}

// resourceFieldReferences returns the paths of everything in the pod that reads
// the resources of a container through the downward API, by the name of that
// container.
func resourceFieldReferences(pod *core.Pod, status *core.PodStatus) map[string][]string {
	refs := map[string][]string{}
	specPath := field.NewPath("spec")
	add := func(ref *core.ResourceFieldSelector, path *field.Path) {
		if ref != nil {
			refs[ref.ContainerName] = append(refs[ref.ContainerName], path.Child("resourceFieldRef").String())
		}
	}
	for i := range pod.Spec.Volumes {
		volume, path := &pod.Spec.Volumes[i], specPath.Child("volumes").Index(i)
		if volume.DownwardAPI != nil {
			for j := range volume.DownwardAPI.Items {
				add(volume.DownwardAPI.Items[j].ResourceFieldRef, path.Child("downwardAPI", "items").Index(j))
			}
		}
		if volume.Projected != nil {
			for j := range volume.Projected.Sources {
				if source := volume.Projected.Sources[j].DownwardAPI; source != nil {
					for k := range source.Items {
						add(source.Items[k].ResourceFieldRef, path.Child("projected", "sources").Index(j).Child("downwardAPI", "items").Index(k))
					}
				}
			}
		}
	}
	// An ephemeral container is started once: after that, what its environment
	// was made from does not matter.
	started := sets.New[string]()
	for i := range status.EphemeralContainerStatuses {
		if s := &status.EphemeralContainerStatuses[i]; s.State.Running != nil || s.State.Terminated != nil {
			started.Insert(s.Name)
		}
	}
	podshelper.VisitContainersWithPath(&pod.Spec, specPath, func(c *core.Container, path *field.Path) bool {
		if started.Has(c.Name) {
			return true
		}
		for i := range c.Env {
			if c.Env[i].ValueFrom != nil && c.Env[i].ValueFrom.ResourceFieldRef != nil {
				add(c.Env[i].ValueFrom.ResourceFieldRef, path.Child("env").Index(i).Child("valueFrom"))
			}
		}
		return true
	})
	return refs
}

// validateAnnotationsAfterRemoval is ValidatePodSpecificAnnotationUpdates, but
// the AppArmor annotation of a container that is removed goes with it.
func validateAnnotationsAfterRemoval(newPod, oldPod *core.Pod, removed []*core.Container, path *field.Path, opts PodValidationOptions) field.ErrorList {
	old := &core.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: make(map[string]string, len(oldPod.Annotations))}}
	for k, v := range oldPod.Annotations {
		old.Annotations[k] = v
	}
	for _, ctr := range removed {
		delete(old.Annotations, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+ctr.Name)
	}
	return ValidatePodSpecificAnnotationUpdates(newPod, old, path, opts)
}

// validateContainerUnchanged tests that only the image changes in a container
// that stays. Whether its resources may change is for the caller to judge.
func validateContainerUnchanged(newCtr, oldCtr *core.Container, path *field.Path) field.ErrorList {
	var allErrs field.ErrorList
	for _, name := range changedFields(newCtr, oldCtr) {
		switch name {
		case "Image", "Resources":
		default:
			allErrs = append(allErrs, field.Forbidden(path.Child(jsonName(v1.Container{}, name)), fmt.Sprintf(
				"only the image and the cpu and memory resources of the existing container %q can be changed; to change more, remove it and add a container of another name", newCtr.Name)))
		}
	}
	return allErrs
}

// validateRetainedContainer tests an update to a main container that stays, by
// the rules of the main resource and of pods/resize.
func validateRetainedContainer(newCtr, oldCtr *core.Container, path *field.Path) field.ErrorList {
	return append(validateContainerUnchanged(newCtr, oldCtr, path),
		validateRetainedResources(newCtr, oldCtr, path.Child("resources"))...)
}

func validateRetainedResources(newCtr, oldCtr *core.Container, path *field.Path) field.ErrorList {
	if apiequality.Semantic.DeepEqual(newCtr.Resources, oldCtr.Resources) {
		return nil
	}
	allErrs := validateContainerResize(&newCtr.Resources, &oldCtr.Resources, newCtr.ResizePolicy, path)
	allErrs = append(allErrs, validateOnlyResizableChanges(&newCtr.Resources, &oldCtr.Resources, path)...)
	return allErrs
}

// validateOnlyResizableChanges tests that no resources other than cpu and
// memory change.
func validateOnlyResizableChanges(newResources, oldResources *core.ResourceRequirements, path *field.Path) field.ErrorList {
	var allErrs field.ErrorList
	for _, list := range []struct {
		name     string
		new, old core.ResourceList
	}{
		{"limits", newResources.Limits, oldResources.Limits},
		{"requests", newResources.Requests, oldResources.Requests},
	} {
		for _, name := range sortedResourceNames(list.new, list.old) {
			newQuantity, inNew := list.new[name]
			oldQuantity, inOld := list.old[name]
			if !supportedResizeResources.Has(name) && (inNew != inOld || newQuantity.Cmp(oldQuantity) != 0) {
				allErrs = append(allErrs, field.Forbidden(path.Child(list.name).Key(string(name)), "only cpu and memory can be changed while the pod runs"))
			}
		}
	}
	if !apiequality.Semantic.DeepEqual(newResources.Claims, oldResources.Claims) {
		allErrs = append(allErrs, field.Forbidden(path.Child("claims"), "resource claims cannot be changed while the pod runs"))
	}
	return allErrs
}

// validateDynamicInitContainers tests that init containers change only where
// the main resource and pods/resize allow it. Their order is the order in which
// they run, so it must not change.
func validateDynamicInitContainers(newCtrs, oldCtrs []core.Container, path *field.Path) field.ErrorList {
	if !slices.EqualFunc(newCtrs, oldCtrs, func(a, b core.Container) bool { return a.Name == b.Name }) {
		return field.ErrorList{field.Forbidden(path,
			"init containers cannot be added, removed, renamed or reordered: only main containers can be added and removed; create a new pod instead")}
	}
	var allErrs field.ErrorList
	for i := range newCtrs {
		newCtr, oldCtr, ctrPath := &newCtrs[i], &oldCtrs[i], path.Index(i)
		allErrs = append(allErrs, validateContainerUnchanged(newCtr, oldCtr, ctrPath)...)
		if apiequality.Semantic.DeepEqual(newCtr.Resources, oldCtr.Resources) {
			continue
		}
		allErrs = append(allErrs, validateRetainedResources(newCtr, oldCtr, ctrPath.Child("resources"))...)
		if !isRestartableInitContainer(newCtr) && slices.ContainsFunc(newCtr.ResizePolicy, func(p core.ContainerResizePolicy) bool { return p.RestartPolicy == core.RestartContainer }) {
			allErrs = append(allErrs, field.Forbidden(ctrPath.Child("resources"), "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
		}
	}
	return allErrs
}

// validateDynamicPodFields tests that, outside of containers, volumes and
// resources, only such fields of the spec change as ValidatePodUpdate allows.
func validateDynamicPodFields(newPod, oldPod *core.Pod, specPath *field.Path, opts PodValidationOptions) field.ErrorList {
	var allErrs field.ErrorList
	newSpec, oldSpec := newPod.Spec, oldPod.Spec
	for _, name := range changedFields(&newSpec, &oldSpec) {
		switch name {
		case "Containers", "InitContainers", "EphemeralContainers", "Volumes", "Resources":
			// Judged on their own.
			continue
		case "ActiveDeadlineSeconds", "Tolerations", "SchedulingGates":
			// ValidatePodUpdate has the rules, and says which field breaks them.
			continue
		case "NodeSelector", "Affinity":
			if len(oldSpec.SchedulingGates) > 0 {
				continue
			}
		case "TerminationGracePeriodSeconds":
			if oldSpec.TerminationGracePeriodSeconds != nil && *oldSpec.TerminationGracePeriodSeconds < 0 &&
				newSpec.TerminationGracePeriodSeconds != nil && *newSpec.TerminationGracePeriodSeconds == 1 {
				continue
			}
		}
		allErrs = append(allErrs, field.Forbidden(specPath.Child(jsonName(v1.PodSpec{}, name)),
			"cannot be changed on an existing pod, also not through pods/dynamic; create a new pod instead"))
		// Report it once.
		reflect.ValueOf(&newSpec).Elem().FieldByName(name).Set(reflect.ValueOf(&oldSpec).Elem().FieldByName(name))
	}

	// The same stand-ins on both sides hide what is judged elsewhere.
	for _, spec := range []*core.PodSpec{&newSpec, &oldSpec} {
		standIns(spec)
	}
	return append(allErrs, ValidatePodUpdate(standInPod(newPod, newSpec), standInPod(oldPod, oldSpec), opts)...)
}

// standIns replaces everything that validateDynamicPodFields leaves to others.
func standIns(spec *core.PodSpec) {
	spec.Containers = []core.Container{{
		Name:                     "stand-in",
		Image:                    "stand-in",
		ImagePullPolicy:          core.PullIfNotPresent,
		TerminationMessagePolicy: core.TerminationMessageReadFile,
	}}
	spec.InitContainers, spec.EphemeralContainers, spec.Volumes, spec.Resources = nil, nil, nil, nil
}

func standInPod(pod *core.Pod, spec core.PodSpec) *core.Pod {
	return &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, ResourceVersion: "1"},
		Spec:       spec,
	}
}

// validateDynamicVolumes tests that volumes change only as pods/resize allows.
func validateDynamicVolumes(newPod, oldPod *core.Pod, path *field.Path, opts PodValidationOptions) field.ErrorList {
	if apiequality.Semantic.DeepEqual(newPod.Spec.Volumes, oldPod.Spec.Volumes) {
		return nil
	}
	if opts.InPlacePodVerticalScalingMemoryBackedVolumesEnabled {
		newSpec, oldSpec := oldPod.Spec, oldPod.Spec
		standIns(&newSpec)
		standIns(&oldSpec)
		newSpec.Volumes, oldSpec.Volumes = newPod.Spec.Volumes, oldPod.Spec.Volumes
		return ValidatePodResize(standInPod(newPod, newSpec), standInPod(oldPod, oldSpec), opts)
	}

	const hint = "volumes cannot be added, removed, changed or reordered: containers can only mount volumes that the pod was created with"
	old := make(map[string]*core.Volume, len(oldPod.Spec.Volumes))
	for i := range oldPod.Spec.Volumes {
		old[oldPod.Spec.Volumes[i].Name] = &oldPod.Spec.Volumes[i]
	}
	var allErrs field.ErrorList
	for i := range newPod.Spec.Volumes {
		if oldVolume, found := old[newPod.Spec.Volumes[i].Name]; !found || !apiequality.Semantic.DeepEqual(&newPod.Spec.Volumes[i], oldVolume) {
			allErrs = append(allErrs, field.Forbidden(path.Index(i), hint))
		}
	}
	if len(allErrs) == 0 {
		allErrs = append(allErrs, field.Forbidden(path, hint))
	}
	return allErrs
}

// withoutRemovedStatuses returns a pod with the statuses of containers in the
// spec alone. Only those tell whether the node can resize the pod: the status of
// a container that was removed may never get to know its resources.
func withoutRemovedStatuses(pod *core.Pod) core.Pod {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return *pod
	}
	result := core.Pod{}
	for _, status := range pod.Status.ContainerStatuses {
		if hasContainer(pod.Spec.Containers, status.Name) {
			result.Status.ContainerStatuses = append(result.Status.ContainerStatuses, status)
		}
	}
	return result
}

// validateDynamicResources tests what an update does to the resources of the
// pod as a whole, by the rules of pods/resize.
func validateDynamicResources(newPod, oldPod *core.Pod, changes ContainerChanges, specPath *field.Path, opts PodValidationOptions) field.ErrorList {
	var allErrs field.ErrorList
	resized := resourcesChanged(newPod, oldPod, changes)
	if !resized && !changes.Any() {
		return nil
	}

	if resized {
		if !isPodResizeRequestSupported(withoutRemovedStatuses(oldPod)) {
			allErrs = append(allErrs, field.Forbidden(specPath, "resources cannot be changed: the node of this pod does not support in-place resize"))
		}
	}

	allErrs = append(allErrs, validateQOSUnchanged(newPod, oldPod, changes.Added, specPath)...)

	isSet := func(r *core.ResourceRequirements) bool {
		return r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0)
	}
	if isSet(newPod.Spec.Resources) || isSet(oldPod.Spec.Resources) {
		path := specPath.Child("resources")
		if !opts.InPlacePodLevelResourcesVerticalScalingEnabled {
			return append(allErrs, field.Forbidden(path,
				"a pod with pod-level resources can be neither resized nor given other containers: the feature gate InPlacePodLevelResourcesVerticalScaling is off"))
		}
		if newPod.Spec.Resources != nil {
			oldResources := oldPod.Spec.Resources
			if oldResources == nil {
				oldResources = &core.ResourceRequirements{}
			}
			if errs := validateOnlyResizableChanges(newPod.Spec.Resources, oldResources, path); len(errs) > 0 {
				return append(allErrs, errs...)
			}
		}
		allErrs = append(allErrs, validatePodLevelResourcesResize(newPod, oldPod, newPod.Spec.DeepCopy(), specPath, opts)...)
	}
	return allErrs
}

// resourcesChanged returns true if the resources of the pod or of a container
// that stays are changed.
func resourcesChanged(newPod, oldPod *core.Pod, changes ContainerChanges) bool {
	if !apiequality.Semantic.DeepEqual(newPod.Spec.Resources, oldPod.Spec.Resources) {
		return true
	}
	for _, i := range changes.Retained {
		ctr := &newPod.Spec.Containers[i]
		if !apiequality.Semantic.DeepEqual(ctr.Resources, changes.old[ctr.Name].Resources) {
			return true
		}
	}
	return !slices.EqualFunc(newPod.Spec.InitContainers, oldPod.Spec.InitContainers, func(a, b core.Container) bool {
		return apiequality.Semantic.DeepEqual(a.Resources, b.Resources)
	})
}

// validateQOSUnchanged tests that the QoS class stays, and points at the added
// containers that would change it where that can be told.
func validateQOSUnchanged(newPod, oldPod *core.Pod, added []int, specPath *field.Path) field.ErrorList {
	oldClass, newClass := qos.GetPodQOS(oldPod), qos.ComputePodQOS(newPod)
	if oldClass == newClass {
		return nil
	}
	var todo string
	switch oldClass {
	case core.PodQOSBestEffort:
		todo = "neither a BestEffort pod nor any of its containers can have cpu or memory requests or limits"
	case core.PodQOSGuaranteed:
		todo = "all containers of a Guaranteed pod must have cpu and memory limits, and requests equal to them"
	default:
		todo = "a Burstable pod must keep a container with cpu or memory requests or limits, and one without or with requests below its limits"
	}
	msg := fmt.Sprintf("the QoS class of the pod cannot change from %s to %s: %s", oldClass, newClass, todo)

	var allErrs field.ErrorList
	if oldClass != core.PodQOSBurstable {
		for _, i := range added {
			alone := &core.Pod{Spec: core.PodSpec{Containers: newPod.Spec.Containers[i : i+1]}}
			if qos.ComputePodQOS(alone) != oldClass {
				allErrs = append(allErrs, field.Forbidden(specPath.Child("containers").Index(i).Child("resources"), msg))
			}
		}
	}
	if len(allErrs) > 0 {
		return allErrs
	}
	path := specPath.Child("containers")
	if !apiequality.Semantic.DeepEqual(newPod.Spec.Resources, oldPod.Spec.Resources) {
		path = specPath.Child("resources")
	}
	return field.ErrorList{field.Forbidden(path, msg)}
}

// changedFields returns the names of the fields that differ between two structs
// of the same type, given as pointers.
func changedFields(a, b any) []string {
	var names []string
	aValue, bValue := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range aValue.NumField() {
		if !apiequality.Semantic.DeepEqual(aValue.Field(i).Interface(), bValue.Field(i).Interface()) {
			names = append(names, aValue.Type().Field(i).Name)
		}
	}
	return names
}

// jsonName returns the name in the v1 API of a field of an internal type.
func jsonName(v1Type any, name string) string {
	if f, found := reflect.TypeOf(v1Type).FieldByName(name); found {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" {
			return tag
		}
	}
	return strings.ToLower(name[:1]) + name[1:]
}

// dedupeErrors drops errors that say the same about the same field: several
// sets of rules are applied, and some of them overlap.
func dedupeErrors(errs field.ErrorList) field.ErrorList {
	var result field.ErrorList
	seen := sets.New[string]()
	for _, err := range errs {
		if key := err.Error(); !seen.Has(key) {
			seen.Insert(key)
			result = append(result, err)
		}
	}
	return result
}

// dropErrorsOfOldPod drops what is wrong with the old pod already, so that a
// pod which today's rules do not accept can still lose a container.
func dropErrorsOfOldPod(errs field.ErrorList, newPod, oldPod *core.Pod, opts PodValidationOptions) field.ErrorList {
	if len(errs) == 0 {
		return errs
	}
	// The index of a container may change, its name does not.
	key := func(err *field.Error, spec *core.PodSpec) string {
		named := *err
		if index, rest, ok := splitContainerPath(err.Field); ok && index < len(spec.Containers) {
			named.Field = fmt.Sprintf("spec.containers[%q]%s", spec.Containers[index].Name, rest)
		}
		return named.Error()
	}
	old := sets.New[string]()
	for _, err := range validatePodMetadataAndSpec(oldPod, opts) {
		old.Insert(key(err, &oldPod.Spec))
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return old.Has(key(err, &newPod.Spec)) })
}

// explainAddedReferences says what can be referred to, where an added container
// refers to something that the pod does not have.
func explainAddedReferences(errs field.ErrorList, added []int) field.ErrorList {
	for _, err := range errs {
		index, rest, ok := splitContainerPath(err.Field)
		if !ok || err.Type != field.ErrorTypeNotFound || !slices.Contains(added, index) {
			continue
		}
		switch {
		case strings.HasPrefix(rest, ".resources.claims"):
			err.Detail = "an added container can only name resource claims in spec.resourceClaims, which cannot be changed on an existing pod"
		case err.Detail == "":
			err.Detail = "an added container can only use volumes in spec.volumes, which cannot be changed on an existing pod"
		}
	}
	return errs
}

// missingTargets returns the ephemeral containers of the old spec, and their
// targetContainerName, for which spec has no container of that name.
func missingTargets(oldSpec, spec *core.PodSpec) map[string]string {
	if len(oldSpec.EphemeralContainers) == 0 {
		return nil
	}
	names := sets.New[string]()
	for i := range spec.Containers {
		names.Insert(spec.Containers[i].Name)
	}
	for i := range spec.InitContainers {
		names.Insert(spec.InitContainers[i].Name)
	}
	missing := make(map[string]string)
	for i := range oldSpec.EphemeralContainers {
		if ec := &oldSpec.EphemeralContainers[i]; ec.TargetContainerName != "" && !names.Has(ec.TargetContainerName) {
			missing[ec.Name] = ec.TargetContainerName
		}
	}
	return missing
}

// dropErrorsOfMissingTargets drops the errors that the targets of the given
// ephemeral containers do not exist.
func dropErrorsOfMissingTargets(errs field.ErrorList, pod *core.Pod, missing map[string]string) field.ErrorList {
	if len(missing) == 0 {
		return errs
	}
	tolerated := sets.New[string]()
	for i := range pod.Spec.EphemeralContainers {
		ec := &pod.Spec.EphemeralContainers[i]
		if target, found := missing[ec.Name]; found && target == ec.TargetContainerName {
			tolerated.Insert(field.NewPath("spec", "ephemeralContainers").Index(i).Child("targetContainerName").String())
		}
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return err.Type == field.ErrorTypeNotFound && tolerated.Has(err.Field)
	})
}

// validateExistingPodMetadataAndSpec is validatePodMetadataAndSpec for the
// update of a pod. Ephemeral containers cannot be removed, so one that targets
// a container which was removed since must not make every later update invalid.
func validateExistingPodMetadataAndSpec(newPod, oldPod *core.Pod, opts PodValidationOptions) field.ErrorList {
	return dropErrorsOfMissingTargets(validatePodMetadataAndSpec(newPod, opts), newPod, missingTargets(&oldPod.Spec, &oldPod.Spec))
}

// statusesForTransition returns the statuses whose transitions can be judged by
// the spec. A container that was removed from the spec can still run, and can
// still be restarted by its own restart policy until the node has allocated the
// removal: nothing in the spec says what it may do. And a container that was
// added since with the name of a removed one does not continue that one.
func statusesForTransition(newStatuses, oldStatuses []core.ContainerStatus, containers []core.Container) []core.ContainerStatus {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return oldStatuses
	}
	result := slices.Clone(oldStatuses)
	for i := range result {
		if !hasContainer(containers, result[i].Name) || slices.ContainsFunc(newStatuses, func(s core.ContainerStatus) bool {
			return s.Name == result[i].Name && s.RestartCount == 0 && s.ContainerID != result[i].ContainerID
		}) {
			// Keep the index, it is part of the error messages.
			result[i].State = core.ContainerState{}
		}
	}
	return result
}

// validateAddedEphemeralContainers tests that an added ephemeral container does
// not take the name of a container that was removed from the spec and still has a
// status: it may still run, and would be taken for the ephemeral container.
func validateAddedEphemeralContainers(newPod, oldPod *core.Pod, path *field.Path) field.ErrorList {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) {
		return nil
	}
	old := sets.New[string]()
	for i := range oldPod.Spec.EphemeralContainers {
		old.Insert(oldPod.Spec.EphemeralContainers[i].Name)
	}
	var allErrs field.ErrorList
	for i := range newPod.Spec.EphemeralContainers {
		name := newPod.Spec.EphemeralContainers[i].Name
		if old.Has(name) {
			continue
		}
		if where := statusWithName(&oldPod.Status, name); where != "" {
			allErrs = append(allErrs, nameHasStatus(path.Index(i).Child("name"), name, where))
		}
	}
	return allErrs
}

// nameHasStatus is the error for an added container whose name is in the status of the pod.
func nameHasStatus(path *field.Path, name, where string) *field.Error {
	return field.Invalid(path, name, fmt.Sprintf("a container of this name still has an entry in status.%s; use another name, or wait until that entry is gone", where))
}

// restartAllMayBeInProgress returns true if all containers of the pod may be
// restarting because of a rule that the spec does not show any more: it may
// have been a rule of a container that was removed since.
func restartAllMayBeInProgress(newPod, oldPod *core.Pod, opts PodValidationOptions) bool {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicContainers) || !opts.AllowContainerRestartPolicyRules || !opts.AllowRestartAllContainers {
		return false
	}
	for _, pod := range []*core.Pod{newPod, oldPod} {
		for i := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[i]; c.Type == core.AllContainersRestarting && c.Status == core.ConditionTrue {
				return true
			}
		}
	}
	return slices.ContainsFunc(oldPod.Status.ContainerStatuses, func(s core.ContainerStatus) bool {
		return !hasContainer(oldPod.Spec.Containers, s.Name)
	})
}

func hasContainer(containers []core.Container, name string) bool {
	return slices.ContainsFunc(containers, func(c core.Container) bool { return c.Name == name })
}

// validateContainerStateTransitions tests that main and init containers only
// leave the terminated state where a restart is allowed.
func validateContainerStateTransitions(newPod, oldPod *core.Pod, statusPath *field.Path, opts PodValidationOptions) field.ErrorList {
	if restartAllMayBeInProgress(newPod, oldPod, opts) {
		return nil
	}
	oldStatuses := statusesForTransition(newPod.Status.ContainerStatuses, oldPod.Status.ContainerStatuses, oldPod.Spec.Containers)
	allErrs := ValidateContainerStateTransition(newPod.Status.ContainerStatuses, oldStatuses, statusPath.Child("containerStatuses"), oldPod.Spec, opts)
	return append(allErrs, ValidateInitContainerStateTransition(newPod.Status.InitContainerStatuses, oldPod.Status.InitContainerStatuses, statusPath.Child("initContainerStatuses"), oldPod.Spec, opts)...)
}
