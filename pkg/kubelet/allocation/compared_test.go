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

package allocation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	containertest "k8s.io/kubernetes/pkg/kubelet/container/testing"
	"k8s.io/kubernetes/test/utils/ktesting"
)

func TestComparedPods(t *testing.T) {
	enableDynamicContainers(t)
	logger, _ := ktesting.NewTestContext(t)
	m := makeAllocationManager(t, &containertest.FakeRuntime{}, nil, nil).(*manager)
	image := func(pod *v1.Pod) string {
		pod, _ = m.UpdatePodFromAllocation(pod)
		return pod.Spec.Containers[0].Image
	}
	pod := runningPod(container("main", "main:1", "1"))
	pod.ResourceVersion = "1"
	require.NoError(t, m.SetAllocatedResources(logger, pod))
	assert.Equal(t, "main:1", image(pod))
	assert.Len(t, m.compared.pods, 1, "pods that need not be compared")

	// Another pod of the API.
	updated := pod.DeepCopy()
	updated.ResourceVersion = "2"
	updated.Spec.Containers[0].Image = "main:2"
	assert.Equal(t, "main:1", image(updated))
	stale, _ := m.UpdatePodFromAllocation(updated)
	again, isUpdated := m.UpdatePodFromAllocation(updated)
	assert.True(t, isUpdated)
	assert.Same(t, stale, again, "what was compared and copied before")

	// Another allocation.
	require.NoError(t, m.SetAllocatedResources(logger, updated))
	assert.Equal(t, "main:2", image(updated))
	assert.Equal(t, "main:2", image(pod))
	assert.Equal(t, "main:2", image(stale), "what was allocated before, although it has the same version")

	m.RemoveOrphanedPods(sets.New[types.UID]())
	assert.Empty(t, m.compared.pods)
}
