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

package alwayspullimages

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/pods"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

// isDynamicUpdate returns true for updates through pods/dynamic, which may add containers and change images.
func isDynamicUpdate(attributes admission.Attributes) bool {
	return attributes.GetResource().GroupResource() == api.Resource("pods") &&
		attributes.GetSubresource() == "dynamic" && attributes.GetOperation() == admission.Update
}

// admitDynamic sets the pull policy of the containers that the update adds. That of the others cannot be changed.
func admitDynamic(attributes admission.Attributes) error {
	pod, oldPod, err := podsOf(attributes)
	if err != nil {
		return err
	}
	for _, i := range validation.DiffContainers(&pod.Spec, &oldPod.Spec).Added {
		pod.Spec.Containers[i].ImagePullPolicy = api.PullAlways
	}
	return nil
}

// validateDynamic makes sure that containers which the update adds, or gives another image, always pull it. That another
// container of the pod already uses the image does not count: whoever adds the container may not be who could pull it.
// Everything else is left alone, so that a pod which is older than this plugin's configuration can still be changed.
func validateDynamic(attributes admission.Attributes) error {
	pod, oldPod, err := podsOf(attributes)
	if err != nil {
		return err
	}
	oldImages := map[string]string{}
	pods.VisitContainersWithPath(&oldPod.Spec, field.NewPath("spec"), func(c *api.Container, _ *field.Path) bool {
		oldImages[c.Name] = c.Image
		return true
	})
	var allErrs []error
	pods.VisitContainersWithPath(&pod.Spec, field.NewPath("spec"), func(c *api.Container, p *field.Path) bool {
		if oldImage, found := oldImages[c.Name]; (!found || oldImage != c.Image) && c.ImagePullPolicy != api.PullAlways {
			allErrs = append(allErrs, admission.NewForbidden(attributes,
				field.NotSupported(p.Child("imagePullPolicy"), c.ImagePullPolicy, []string{string(api.PullAlways)})))
		}
		return true
	})
	return utilerrors.NewAggregate(allErrs)
}

func podsOf(attributes admission.Attributes) (pod, oldPod *api.Pod, err error) {
	pod, ok := attributes.GetObject().(*api.Pod)
	if !ok {
		return nil, nil, apierrors.NewBadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	oldPod, ok = attributes.GetOldObject().(*api.Pod)
	if !ok {
		return nil, nil, apierrors.NewBadRequest("Resource was marked with kind Pod but old pod was unable to be converted")
	}
	return pod, oldPod, nil
}
