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

package admission

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	admissionapi "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
)

// An update through pods/dynamic can replace containers, so that there is
// another container with the same image at the same index.
func TestValidatePodOnDynamicUpdate(t *testing.T) {
	container := func(name, image string) corev1.Container {
		return corev1.Container{Name: name, Image: image}
	}
	privileged := func(name, image string) corev1.Container {
		c := container(name, image)
		c.SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		return c
	}

	tests := map[string]struct {
		old, new    []corev1.Container
		wantAllowed bool
	}{
		"a container is replaced by a privileged one with the same image": {
			old: []corev1.Container{container("a", "image")},
			new: []corev1.Container{privileged("b", "image")},
		},
		"two containers swap places with a privileged one of the same image": {
			old: []corev1.Container{container("a", "image"), container("b", "image")},
			new: []corev1.Container{container("b", "image"), privileged("c", "image")},
		},
		"a privileged container is added": {
			old: []corev1.Container{container("a", "image")},
			new: []corev1.Container{container("a", "image"), privileged("b", "image")},
		},
		"a container that meets the policy is added": {
			old:         []corev1.Container{container("a", "image")},
			new:         []corev1.Container{container("b", "image"), container("a", "image")},
			wantAllowed: true,
		},
		"a container is removed from a pod that does not meet the policy any more": {
			old:         []corev1.Container{container("a", "image"), privileged("b", "other")},
			new:         []corev1.Container{privileged("b", "other")},
			wantAllowed: true,
		},
		"containers of a pod that does not meet the policy are reordered": {
			old:         []corev1.Container{container("a", "image"), privileged("b", "other")},
			new:         []corev1.Container{privileged("b", "other"), container("a", "image")},
			wantAllowed: true,
		},
		"an image of a pod that does not meet the policy changes as containers are reordered": {
			old: []corev1.Container{container("a", "image"), privileged("b", "other")},
			new: []corev1.Container{privileged("b", "image"), container("a", "other")},
		},
	}

	config := &admissionapi.PodSecurityConfiguration{
		Defaults: admissionapi.PodSecurityDefaults{
			Enforce: string(api.LevelBaseline), EnforceVersion: "latest",
			Audit: string(api.LevelPrivileged), AuditVersion: "latest",
			Warn: string(api.LevelPrivileged), WarnVersion: "latest",
		},
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &Admission{
		Configuration:    config,
		Evaluator:        evaluator,
		Metrics:          &FakeRecorder{},
		PodSpecExtractor: &DefaultPodSpecExtractor{},
		NamespaceGetter:  testNamespaceGetter{"ns": &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}},
	}
	if err := a.CompleteConfiguration(); err != nil {
		t.Fatal(err)
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := func(containers []corev1.Container) *corev1.Pod {
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns"}, Spec: corev1.PodSpec{Containers: containers}}
			}
			response := a.ValidatePod(context.Background(), &api.AttributesRecord{
				Name: "pod", Namespace: "ns", Operation: admissionv1.Update,
				Resource:    schema.GroupVersionResource{Version: "v1", Resource: "pods"},
				Kind:        schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
				Subresource: "dynamic",
				Object:      pod(tc.new), OldObject: pod(tc.old),
			})
			if response.Allowed != tc.wantAllowed {
				t.Errorf("allowed: want %v, got %v: %v", tc.wantAllowed, response.Allowed, response.Result)
			}
		})
	}
}
