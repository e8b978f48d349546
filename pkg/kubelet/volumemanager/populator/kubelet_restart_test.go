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

package populator_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubetypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	volumetest "k8s.io/kubernetes/pkg/volume/testing"
	"k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/test/utils/ktesting"
	"k8s.io/mount-utils"
)

// A container is the last user of an emptyDir when it is removed, and may still write to it while
// the kubelet is restarted.
func TestVolumesOfRemovedContainersOutliveARestartOfTheKubelet(t *testing.T) {
	for name, enabled := range map[string]bool{"feature on": true, "feature off": false} {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
				features.InPlacePodVerticalScaling:    true,
				features.NodeDeclaredFeatures:         true,
				features.KubeletAllocatedPodsEndpoint: true,
				features.DynamicContainers:            enabled,
			})
			tCtx := ktesting.Init(t)
			rootDir := t.TempDir()
			pod := &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "uid"},
				Spec: v1.PodSpec{
					Containers: []v1.Container{{Name: "main"}, {Name: "w", VolumeMounts: []v1.VolumeMount{{Name: "scratch"}}}},
					Volumes:    []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
				},
			}
			podName := util.GetUniquePodName(pod)
			file := filepath.Join(rootDir, "pods/uid/volumes/kubernetes.io~empty-dir/scratch/file")

			kubelet, stop := startVolumeManager(tCtx, t, rootDir, podStates{}, pod)
			require.NoError(t, kubelet.WaitForAttachAndMount(tCtx, pod))
			require.NoError(t, os.WriteFile(file, nil, 0o644))
			stop()

			pod = pod.DeepCopy()
			pod.Spec.Containers = pod.Spec.Containers[:1]
			kubelet, stop = startVolumeManager(tCtx, t, rootDir, podStates{}, pod)
			defer stop()

			if !enabled {
				waitFor(tCtx, t, "the volume to be unmounted, as ever", func() bool { return !kubelet.HasPossiblyMountedVolumesForPod(podName) && !exists(file) })
				return
			}
			waitFor(tCtx, t, "the volume to be mounted", func() bool { return len(kubelet.GetMountedVolumesForPod(podName)) > 0 })
			assert.True(t, exists(file), "the content of the volume is kept")

			// The pod has ended while the kubelet was down once more.
			stop()
			kubelet, stop = startVolumeManager(tCtx, t, rootDir, podStates{pod.UID: true}, pod)
			defer stop()
			waitFor(tCtx, t, "the volume to be unmounted after the end of the pod", func() bool { return !exists(file) })
		})
	}
}

// podStates are the pods of which nothing is to be kept.
type podStates map[kubetypes.UID]bool

func (s podStates) ShouldPodContainersBeTerminating(uid kubetypes.UID) bool { return s[uid] }
func (s podStates) ShouldPodRuntimeBeRemoved(uid kubetypes.UID) bool        { return s[uid] }

// startVolumeManager starts a volume manager with the real plugin for emptyDir volumes.
func startVolumeManager(ctx context.Context, t *testing.T, rootDir string, ended podStates, pod *v1.Pod) (volumemanager.VolumeManager, func()) {
	t.Helper()
	pluginMgr := &volume.VolumePluginMgr{}
	host := volumetest.NewFakeKubeletVolumeHost(t, rootDir, nil, nil)
	require.NoError(t, pluginMgr.InitPlugins(emptydir.ProbeVolumePlugins(), nil, host))
	podManager := kubepod.NewBasicPodManager()
	podManager.SetPods([]*v1.Pod{pod})
	manager := volumemanager.NewVolumeManager(true, "node", podManager, ended, nil, pluginMgr,
		mount.NewFakeMounter(nil), hostutil.NewFakeHostUtil(nil), filepath.Join(rootDir, "pods"), &record.FakeRecorder{},
		volumetest.NewBlockVolumePathHandler(), nil, 0)
	ctx, cancel := context.WithCancel(ctx)
	go manager.Run(ctx, config.NewSourcesReady(func(sets.Set[string]) bool { return true }))
	return manager, cancel
}

func waitFor(ctx context.Context, t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return condition(), nil })
	require.NoError(t, err, "waiting for %s", what)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
