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

package priority

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	admissiontesting "k8s.io/apiserver/pkg/admission/testing"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/utils/ptr"
)

// A client that replaces the pod without the priority that was computed for it must not be refused for that.
func TestDynamicUpdateKeepsPriority(t *testing.T) {
	oldPod := &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"},
		Spec:       core.PodSpec{Priority: ptr.To[int32](7), PreemptionPolicy: ptr.To(core.PreemptNever)},
	}
	pod := &core.Pod{ObjectMeta: oldPod.ObjectMeta}
	attr := admission.NewAttributesRecord(pod, oldPod, core.Kind("Pod").WithVersion("version"), "ns", "p",
		core.Resource("pods").WithVersion("version"), "dynamic", admission.Update, &metav1.UpdateOptions{}, false, nil)
	if err := admissiontesting.WithReinvocationTesting(t, NewPlugin()).Admit(t.Context(), attr, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(oldPod.Spec, pod.Spec); diff != "" {
		t.Errorf("unexpected spec (-want +got):\n%s", diff)
	}
}
