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

package populator

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/volume"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	"k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/kubernetes/test/utils/ktesting"
	"k8s.io/utils/ptr"
)

// A kubelet that was restarted knows the pod without the containers that were removed from it, and
// finds their volumes on disk.
func TestVolumesOfRemovedContainersAreDesiredAfterARestart(t *testing.T) {
	filesystemDir := func(host volume.VolumeHost, pod *v1.Pod) string {
		return host.GetPodVolumeDir(pod.UID, "fake-plugin", "pv")
	}
	blockDir := func(host volume.VolumeHost, pod *v1.Pod) string {
		return filepath.Join(host.GetPodVolumeDeviceDir(pod.UID, "fake-plugin"), "pv")
	}
	options := &v1.SELinuxOptions{User: "system_u", Role: "object_r", Type: "container_t", Level: "s0:c1,c2"}

	for name, tc := range map[string]struct {
		featureOff bool
		mode       v1.PersistentVolumeMode
		// leftDir returns the directory that is left of the volume, if there is one.
		leftDir        func(volume.VolumeHost, *v1.Pod) string
		notBound       bool
		seLinuxOptions *v1.SELinuxOptions
		wantVolumes    []string
		wantContext    string
		wantLookedUp   bool
	}{
		"a volume that was mounted for a removed container": {
			leftDir:      filesystemDir,
			wantVolumes:  []string{"left", "used"},
			wantLookedUp: true,
		},
		"a block volume that was mapped for a removed container": {
			mode:         v1.PersistentVolumeBlock,
			leftDir:      blockDir,
			wantVolumes:  []string{"left", "used"},
			wantLookedUp: true,
		},
		"a volume that was mounted with the SELinux context of the pod": {
			leftDir:        filesystemDir,
			seLinuxOptions: options,
			wantVolumes:    []string{"left", "used"},
			wantContext:    "system_u:object_r:container_file_t:s0:c1,c2",
			wantLookedUp:   true,
		},
		"a volume that nothing has mounted is not even looked up": {
			wantVolumes: []string{"used"},
		},
		"a volume that cannot be looked up does not fail the pod": {
			leftDir:      filesystemDir,
			notBound:     true,
			wantVolumes:  []string{"used"},
			wantLookedUp: true,
		},
		"the feature is off": {
			featureOff:  true,
			leftDir:     filesystemDir,
			wantVolumes: []string{"used"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				features.InPlacePodVerticalScaling:    true,
				features.NodeDeclaredFeatures:         true,
				features.KubeletAllocatedPodsEndpoint: true,
				features.DynamicContainers:            !tc.featureOff,
				features.SELinuxMountReadWriteOncePod: true,
			})
			if tc.mode == "" {
				tc.mode = v1.PersistentVolumeFilesystem
			}
			pod := &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "uid"},
				Spec: v1.PodSpec{
					Containers: []v1.Container{{Name: "main", VolumeMounts: []v1.VolumeMount{{Name: "used"}}}},
					Volumes: []v1.Volume{
						{Name: "left", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
						{Name: "used", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
					},
				},
			}
			if tc.seLinuxOptions != nil {
				pod.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: tc.seLinuxOptions}
			}
			pv := &v1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "pv"},
				Spec: v1.PersistentVolumeSpec{
					ClaimRef:               &v1.ObjectReference{Namespace: "ns", Name: "claim"},
					VolumeMode:             ptr.To(tc.mode),
					AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod},
					PersistentVolumeSource: v1.PersistentVolumeSource{RBD: &v1.RBDPersistentVolumeSource{}},
				},
			}
			pvc := &v1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "claim", Namespace: "ns"},
				Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv"},
				Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
			}
			if tc.notBound {
				pvc.Status.Phase = v1.ClaimPending
			}
			pluginMgr, plugin := volumetesting.GetTestKubeletVolumePluginMgr(t)
			plugin.SupportsSELinux = true
			dswp, podManager, dsw, _, _ := createDswpWithVolumeWithCustomPluginMgr(pv, pvc, pluginMgr)
			client := fake.NewClientset(pv, pvc)
			dswp.kubeClient = client
			podManager.AddPod(pod)
			if tc.leftDir != nil {
				if err := os.MkdirAll(tc.leftDir(pluginMgr.Host, pod), 0o755); err != nil {
					t.Fatal(err)
				}
			}

			dswp.findAndAddNewPods(ktesting.Init(t))

			podName := util.GetUniquePodName(pod)
			volumes := dsw.GetVolumeNamesForPod(podName)
			if diff := cmp.Diff(tc.wantVolumes, sets.List(sets.KeySet(volumes))); diff != "" {
				t.Errorf("volumes of the pod in the desired state of world (-want +got):\n%s", diff)
			}
			if left, ok := volumes["left"]; ok && !dsw.PodExistsInVolume(podName, left, tc.wantContext) {
				t.Errorf("the volume is not desired with the SELinux context %q, and would be unmounted", tc.wantContext)
			}
			if lookedUp := len(client.Actions()) > 0; lookedUp != tc.wantLookedUp {
				t.Errorf("calls of the API: %v, want some: %v", client.Actions(), tc.wantLookedUp)
			}
			if errs := dsw.PopPodErrors(podName); len(errs) > 0 {
				t.Errorf("errors of the pod: %v", errs)
			}
			if !dswp.podPreviouslyProcessed(podName) {
				t.Error("the pod is not processed")
			}
		})
	}
}
