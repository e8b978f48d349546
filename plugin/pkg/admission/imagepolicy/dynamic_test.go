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

package imagepolicy

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// recordingService denies the image "bad", and records what it was asked about.
type recordingService struct{ images []string }

func (r *recordingService) Review(review *v1alpha1.ImageReview) {
	review.Status.Allowed = true
	for _, c := range review.Spec.Containers {
		r.images = append(r.images, c.Image)
		if c.Image == "bad" {
			review.Status.Allowed = false
			review.Status.Reason = "bad image"
		}
	}
}
func (r *recordingService) HTTPStatusCode() int { return http.StatusOK }

func TestDynamicUpdate(t *testing.T) {
	for _, tc := range []struct {
		name      string
		added     string
		wantError string
	}{
		{name: "added container with an allowed image", added: "good"},
		{name: "added container with a denied image", added: "bad", wantError: `pods "p" is forbidden: image policy webhook backend denied one or more images: bad image`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			service := &recordingService{}
			server, err := NewTestServer(service, serverCert, serverKey, caCert)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			plugin, err := newImagePolicyWebhook(server.URL, clientCert, clientKey, caCert, 0, false)
			if err != nil {
				t.Fatal(err)
			}
			oldPod := &api.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"},
				Spec: api.PodSpec{
					InitContainers: []api.Container{{Name: "init", Image: "init"}},
					Containers:     []api.Container{{Name: "main", Image: "main"}},
				},
			}
			pod := oldPod.DeepCopy()
			pod.Spec.Containers = append(pod.Spec.Containers, api.Container{Name: "w", Image: tc.added})
			attr := admission.NewAttributesRecord(pod, oldPod, api.Kind("Pod").WithVersion("version"), "ns", "p",
				api.Resource("pods").WithVersion("version"), "dynamic", admission.Update, &metav1.UpdateOptions{}, false, &user.DefaultInfo{})

			var got string
			if err := plugin.Validate(t.Context(), attr, nil); err != nil {
				got = err.Error()
			}
			if got != tc.wantError {
				t.Errorf("unexpected error %q, want %q", got, tc.wantError)
			}
			if diff := cmp.Diff([]string{"main", tc.added, "init"}, service.images); diff != "" {
				t.Errorf("unexpected images reviewed (-want +got):\n%s", diff)
			}
		})
	}
}
