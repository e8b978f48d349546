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

package kubelet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// A container that was removed can be attached to for as long as it runs.
func TestAttachToRemovedContainer(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		t.Run(fmt.Sprintf("DynamicContainers=%v", enabled), func(t *testing.T) {
			if enabled {
				enableDynamicContainers(t)
			}
			tCtx := ktesting.Init(t)
			testKubelet := newTestKubelet(t, false)
			defer testKubelet.Cleanup()
			kl := testKubelet.kubelet
			runtime := &containertest.FakeStreamingRuntime{FakeRuntime: testKubelet.fakeRuntime}
			kl.containerRuntime, kl.streamingRuntime = runtime, runtime

			allocated := podWithUIDNameNsSpec("uid", "p", "ns", v1.PodSpec{
				Containers: []v1.Container{{Name: "main", Image: "i"}, {Name: "deferred", Image: "i", TTY: true}},
			})
			require.NoError(t, kl.allocationManager.SetAllocatedResources(tCtx.Logger(), allocated))
			pod := allocated.DeepCopy()
			pod.Spec.Containers = pod.Spec.Containers[:1]
			kl.podManager.SetPods([]*v1.Pod{pod})

			running := &kubecontainer.Pod{ID: "uid", Name: "p", Namespace: "ns"}
			for _, name := range []string{"main", "deferred", "stopping"} {
				running.Containers = append(running.Containers, &kubecontainer.Container{Name: name, ID: kubecontainer.ContainerID{Type: "test", ID: name}})
			}
			testKubelet.fakeRuntime.PodList = []*containertest.FakePod{{Pod: running}}

			attach := func(name string) error {
				_, err := kl.GetAttach(tCtx, kubecontainer.GetPodFullName(pod), "uid", name, remotecommand.Options{})
				return err
			}
			require.NoError(t, attach("main"))
			require.Error(t, attach("gone"))
			for _, name := range []string{"deferred", "stopping"} {
				if err := attach(name); (err == nil) != enabled {
					t.Errorf("attach to container %q: %v", name, err)
				}
			}
			if enabled {
				assert.True(t, kl.specForAttach(pod, "deferred", false).TTY, "the spec of the allocation counts")
				assert.True(t, kl.specForAttach(pod, "stopping", true).TTY, "the client has to know")
				assert.False(t, kl.specForAttach(pod, "main", true).TTY, "the spec of the pod counts")
			}
		})
	}
}
