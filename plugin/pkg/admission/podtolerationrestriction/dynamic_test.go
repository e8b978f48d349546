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

package podtolerationrestriction

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/fake"
	api "k8s.io/kubernetes/pkg/apis/core"
)

func TestDynamicUpdate(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        "ns",
		Annotations: map[string]string{NSWLTolerations: `[{"key": "allowed", "operator": "Exists", "effect": "NoSchedule"}]`},
	}}
	for _, tc := range []struct {
		name          string
		key           string
		wantForbidden bool
	}{
		{name: "toleration on the whitelist", key: "allowed"},
		{name: "toleration that is not on the whitelist", key: "forbidden", wantForbidden: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			handler, factory, err := newHandlerForTest(fake.NewClientset(namespace))
			if err != nil {
				t.Fatal(err)
			}
			factory.Start(t.Context().Done())
			factory.WaitForCacheSync(t.Context().Done())

			oldPod := &api.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"},
				Spec:       api.PodSpec{Containers: []api.Container{{Name: "main"}}},
			}
			pod := oldPod.DeepCopy()
			pod.Spec.Tolerations = []api.Toleration{{Key: tc.key, Operator: api.TolerationOpExists, Effect: api.TaintEffectNoSchedule}}
			attr := admission.NewAttributesRecord(pod, oldPod, api.Kind("Pod").WithVersion("version"), "ns", "p",
				api.Resource("pods").WithVersion("version"), "dynamic", admission.Update, &metav1.UpdateOptions{}, false, nil)
			for name, admit := range map[string]func() error{
				"Admit":    func() error { return handler.Admit(t.Context(), attr, nil) },
				"Validate": func() error { return handler.Validate(t.Context(), attr, nil) },
			} {
				err := admit()
				if got := err != nil && strings.Contains(err.Error(), "conflict with its namespace whitelist"); got != tc.wantForbidden {
					t.Errorf("%s: wantForbidden: %v, got error: %v", name, tc.wantForbidden, err)
				}
			}
		})
	}
}
