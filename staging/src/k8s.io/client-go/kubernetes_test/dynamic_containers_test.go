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

package kubernetes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// Controllers that add containers to running pods can be tested with the fake client.
func TestFakePodsDynamicAndAllocated(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "image"}}},
	}
	client := fake.NewClientset(pod)
	pods := client.CoreV1().Pods("ns")

	want := pod.DeepCopy()
	want.Spec.Containers = append(want.Spec.Containers, v1.Container{Name: "added", Image: "image"})
	updated, err := pods.UpdateDynamic(t.Context(), "p", want, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Spec, updated.Spec); diff != "" {
		t.Errorf("unexpected updated pod (-want +got):\n%s", diff)
	}
	allocated, err := pods.GetAllocated(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Spec, allocated.Spec); diff != "" {
		t.Errorf("unexpected allocated pod (-want +got):\n%s", diff)
	}

	var got []string
	for _, action := range client.Actions() {
		got = append(got, action.GetVerb()+" "+action.GetResource().Resource+"/"+action.GetSubresource())
	}
	if diff := cmp.Diff([]string{"update pods/dynamic", "get pods/allocated"}, got); diff != "" {
		t.Errorf("unexpected actions (-want +got):\n%s", diff)
	}
}

// A manager that applies through pods/dynamic can read back what it applied there.
func TestExtractPodDynamic(t *testing.T) {
	owns := func(subresource, container string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: "manager", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", Subresource: subresource,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:containers":{"k:{\"name\":\"` + container + `\"}":{".":{},"f:image":{},"f:name":{}}}}}`)},
		}
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", ManagedFields: []metav1.ManagedFieldsEntry{owns("", "main"), owns("dynamic", "added")}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "image"}, {Name: "added", Image: "image"}}},
	}
	got, err := corev1ac.ExtractPodDynamic(pod, "manager")
	if err != nil {
		t.Fatal(err)
	}
	want := corev1ac.Pod("p", "ns").WithSpec(corev1ac.PodSpec().WithContainers(corev1ac.Container().WithName("added").WithImage("image")))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected apply configuration (-want +got):\n%s", diff)
	}
}
