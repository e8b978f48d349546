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
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	admissiontesting "k8s.io/apiserver/pkg/admission/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
)

func TestDynamicUpdate(t *testing.T) {
	container := func(name, image string, policy api.PullPolicy) api.Container {
		return api.Container{Name: name, Image: image, ImagePullPolicy: policy}
	}
	always, ifNotPresent, never := api.PullAlways, api.PullIfNotPresent, api.PullNever

	tests := []struct {
		name           string
		old, new       []api.Container
		want           []api.PullPolicy
		wantForbidden  bool
		skipAdmit      bool
		initImage      string
		initPullPolicy api.PullPolicy
	}{
		{
			name: "added container is made to pull",
			old:  []api.Container{container("main", "a", always)},
			new:  []api.Container{container("main", "a", always), container("w", "b", ifNotPresent)},
			want: []api.PullPolicy{always, always},
		},
		{
			name: "added container with an image that the pod uses already is made to pull",
			old:  []api.Container{container("main", "a", always)},
			new:  []api.Container{container("w", "a", never), container("main", "a", always)},
			want: []api.PullPolicy{always, always},
		},
		{
			name: "containers that are older than the plugin's configuration are left alone",
			old:  []api.Container{container("main", "a", ifNotPresent), container("x", "a", ifNotPresent)},
			new:  []api.Container{container("main", "a", ifNotPresent), container("w", "a", ifNotPresent)},
			want: []api.PullPolicy{ifNotPresent, always},
		},
		{
			name:          "a later plugin's container that does not pull is refused",
			old:           []api.Container{container("main", "a", always)},
			new:           []api.Container{container("main", "a", always), container("w", "a", ifNotPresent)},
			want:          []api.PullPolicy{always, ifNotPresent},
			skipAdmit:     true,
			wantForbidden: true,
		},
		{
			name:          "another image for a container that does not pull is refused",
			old:           []api.Container{container("main", "a", ifNotPresent), container("x", "b", ifNotPresent)},
			new:           []api.Container{container("main", "b", ifNotPresent), container("x", "b", ifNotPresent)},
			want:          []api.PullPolicy{ifNotPresent, ifNotPresent},
			wantForbidden: true,
		},
		{
			name:           "another image for an init container that does not pull is refused",
			old:            []api.Container{container("main", "a", always)},
			new:            []api.Container{container("main", "a", always)},
			want:           []api.PullPolicy{always},
			initImage:      "b",
			initPullPolicy: ifNotPresent,
			wantForbidden:  true,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			oldPod := &api.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: api.PodSpec{Containers: tc.old}}
			pod := &api.Pod{ObjectMeta: oldPod.ObjectMeta, Spec: api.PodSpec{Containers: tc.new}}
			if tc.initImage != "" {
				oldPod.Spec.InitContainers = []api.Container{container("init", "a", tc.initPullPolicy)}
				pod.Spec.InitContainers = []api.Container{container("init", tc.initImage, tc.initPullPolicy)}
			}
			attr := admission.NewAttributesRecord(pod, oldPod, api.Kind("Pod").WithVersion("version"), "ns", "p",
				api.Resource("pods").WithVersion("version"), "dynamic", admission.Update, &metav1.UpdateOptions{}, false, nil)
			handler := &AlwaysPullImages{}
			if !tc.skipAdmit {
				if err := admissiontesting.WithReinvocationTesting(t, handler).Admit(t.Context(), attr, nil); err != nil {
					t.Fatalf("unexpected error: %v", err)
				}
			}
			var got []api.PullPolicy
			for _, c := range pod.Spec.Containers {
				got = append(got, c.ImagePullPolicy)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected pull policies (-want +got):\n%s", diff)
			}
			if err := handler.Validate(t.Context(), attr, nil); (err != nil) != tc.wantForbidden {
				t.Errorf("wantForbidden: %v, got error: %v", tc.wantForbidden, err)
			}
		})
	}
}
