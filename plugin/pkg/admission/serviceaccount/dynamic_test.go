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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	admissiontesting "k8s.io/apiserver/pkg/admission/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/utils/ptr"
)

func dynamicUpdate(pod, oldPod *api.Pod) admission.Attributes {
	return admission.NewAttributesRecord(pod, oldPod, api.Kind("Pod").WithVersion("version"), "ns", "p",
		api.Resource("pods").WithVersion("version"), "dynamic", admission.Update, &metav1.UpdateOptions{}, false, nil)
}

func newPluginWith(t *testing.T, serviceAccount *corev1.ServiceAccount) *Plugin {
	t.Helper()
	plugin := NewServiceAccount()
	factory := informers.NewSharedInformerFactory(nil, 0)
	plugin.SetExternalKubeClientSet(fake.NewClientset())
	plugin.SetExternalKubeInformerFactory(factory)
	plugin.MountServiceAccountToken = true
	if serviceAccount != nil {
		if err := factory.Core().V1().ServiceAccounts().Informer().GetStore().Add(serviceAccount); err != nil {
			t.Fatal(err)
		}
	}
	return plugin
}

func TestDynamicUpdateLimitsSecrets(t *testing.T) {
	envOf := func(secret string) api.Container {
		return api.Container{Name: "w", Env: []api.EnvVar{{Name: "E", ValueFrom: &api.EnvVarSource{SecretKeyRef: &api.SecretKeySelector{
			LocalObjectReference: api.LocalObjectReference{Name: secret},
		}}}}}
	}
	envFrom := func(secret string) api.Container {
		return api.Container{Name: "w", EnvFrom: []api.EnvFromSource{{SecretRef: &api.SecretEnvSource{
			LocalObjectReference: api.LocalObjectReference{Name: secret},
		}}}}
	}
	mounting := func(volume string) api.Container {
		return api.Container{Name: "w", VolumeMounts: []api.VolumeMount{{Name: volume, MountPath: "/secret"}}}
	}
	tests := []struct {
		name     string
		enforced bool
		added    *api.Container
		want     string
	}{
		{name: "env of a mountable secret", enforced: true, added: ptr.To(envOf("mine"))},
		{name: "envFrom of a mountable secret", enforced: true, added: ptr.To(envFrom("mine"))},
		{name: "mount of a volume with a mountable secret", enforced: true, added: ptr.To(mounting("mine"))},
		{name: "env of another secret", enforced: true, added: ptr.To(envOf("other")), want: `container w with envVar E referencing secret.secretName="other" is not allowed`},
		{name: "envFrom of another secret", enforced: true, added: ptr.To(envFrom("other")), want: `container w with envFrom referencing secret.secretName="other" is not allowed`},
		{name: "mount of a volume that the pod got before it was enforced", enforced: true, added: ptr.To(mounting("other")), want: `volume with secret.secretName="other" is not allowed`},
		{name: "env of another secret, not enforced", added: ptr.To(envOf("other"))},
		{name: "nothing added to a pod that uses another secret", enforced: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			plugin := newPluginWith(t, &corev1.ServiceAccount{
				ObjectMeta: metav1.ObjectMeta{Name: "sa", Namespace: "ns"},
				Secrets:    []corev1.ObjectReference{{Name: "mine"}},
			})
			plugin.LimitSecretReferences = tc.enforced
			secretVolume := func(name string) api.Volume {
				return api.Volume{Name: name, VolumeSource: api.VolumeSource{Secret: &api.SecretVolumeSource{SecretName: name}}}
			}
			main := envOf("other")
			main.Name = "main"
			removed := envOf("other")
			removed.Name = "removed"
			oldPod := &api.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: api.PodSpec{
				ServiceAccountName: "sa",
				Containers:         []api.Container{main, removed},
				Volumes:            []api.Volume{secretVolume("mine"), secretVolume("other")},
			}}
			pod := oldPod.DeepCopy()
			pod.Spec.Containers = pod.Spec.Containers[:1]
			if tc.added != nil {
				pod.Spec.Containers = append(pod.Spec.Containers, *tc.added)
			}
			err := plugin.Validate(t.Context(), dynamicUpdate(pod, oldPod), nil)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("want an error with %q, got: %v", tc.want, err)
			}
		})
	}
}

func TestDynamicUpdateRefusesUnknownServiceAccount(t *testing.T) {
	plugin := newPluginWith(t, nil)
	oldPod := &api.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: api.PodSpec{
		ServiceAccountName: "gone",
		Containers:         []api.Container{{Name: "main"}, {Name: "removed"}},
	}}
	removal := oldPod.DeepCopy()
	removal.Spec.Containers = removal.Spec.Containers[:1]
	if err := plugin.Validate(t.Context(), dynamicUpdate(removal, oldPod), nil); err != nil {
		t.Errorf("a removal needs no service account: %v", err)
	}
	addition := oldPod.DeepCopy()
	addition.Spec.Containers = append(addition.Spec.Containers, api.Container{Name: "w"})
	if err := plugin.Validate(t.Context(), dynamicUpdate(addition, oldPod), nil); err == nil {
		t.Errorf("a container was added although it cannot be known which secrets it may use")
	}
}

func TestDynamicUpdateMountsToken(t *testing.T) {
	tokenVolume := api.Volume{Name: ServiceAccountVolumeName + "-x7k2p", VolumeSource: api.VolumeSource{Projected: TokenVolumeSource()}}
	tokenMount := api.VolumeMount{Name: tokenVolume.Name, ReadOnly: true, MountPath: DefaultAPITokenMountPath}
	ownMount := api.VolumeMount{Name: "data", MountPath: DefaultAPITokenMountPath}

	tests := []struct {
		name      string
		volumes   []api.Volume
		automount *bool
		added     []api.VolumeMount
		want      []api.VolumeMount
	}{
		{name: "pod with the volume", volumes: []api.Volume{tokenVolume}, want: []api.VolumeMount{tokenMount}},
		{name: "pod without the volume", volumes: []api.Volume{{Name: "data"}}},
		{name: "pod that opted out", volumes: []api.Volume{tokenVolume}, automount: ptr.To(false)},
		{name: "container that mounts something else there", volumes: []api.Volume{tokenVolume, {Name: "data"}}, added: []api.VolumeMount{ownMount}, want: []api.VolumeMount{ownMount}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			plugin := newPluginWith(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa", Namespace: "ns"}})
			oldPod := &api.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: api.PodSpec{
				ServiceAccountName:           "sa",
				AutomountServiceAccountToken: tc.automount,
				Containers:                   []api.Container{{Name: "main"}},
				Volumes:                      tc.volumes,
			}}
			pod := oldPod.DeepCopy()
			pod.Spec.Containers = append([]api.Container{{Name: "w", VolumeMounts: tc.added}}, pod.Spec.Containers...)
			want := pod.DeepCopy()
			want.Spec.Containers[0].VolumeMounts = tc.want
			if err := admissiontesting.WithReinvocationTesting(t, plugin).Admit(t.Context(), dynamicUpdate(pod, oldPod), nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, pod); diff != "" {
				t.Errorf("unexpected pod (-want +got):\n%s", diff)
			}
		})
	}
}
