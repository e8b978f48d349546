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

package features_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
)

// An added container may need more of the node than the pod needed before.
func TestFeaturesOfAddedContainers(t *testing.T) {
	restartAll := v1.Container{Name: "new", RestartPolicyRules: []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}}
	mountOptions := v1.Container{Name: "new", VolumeMounts: []v1.VolumeMount{{Name: "v", BindMountOptions: []string{"noexec"}}}}
	plain := v1.Container{Name: "main"}
	init := v1.Container{Name: "init"}
	named := func(name string, c v1.Container) v1.Container {
		c.Name = name
		return c
	}
	const dynamic = "DynamicContainers"

	tests := map[string]struct {
		old, new v1.PodSpec
		want     []string
	}{
		"a plain container is added": {
			old:  v1.PodSpec{Containers: []v1.Container{plain}},
			new:  v1.PodSpec{Containers: []v1.Container{plain, {Name: "new"}}},
			want: []string{dynamic},
		},
		"a container that restarts all others is added": {
			old:  v1.PodSpec{Containers: []v1.Container{plain}},
			new:  v1.PodSpec{Containers: []v1.Container{restartAll, plain}},
			want: []string{dynamic, "RestartAllContainersOnContainerExits"},
		},
		"a container that restarts all others is removed": {
			old:  v1.PodSpec{Containers: []v1.Container{plain, restartAll}},
			new:  v1.PodSpec{Containers: []v1.Container{plain}},
			want: []string{dynamic},
		},
		"a container with mount options is added": {
			old:  v1.PodSpec{Containers: []v1.Container{plain}},
			new:  v1.PodSpec{Containers: []v1.Container{plain, mountOptions}},
			want: []string{dynamic, "VolumeBindMountOptions"},
		},
		"another container that restarts all others is added": {
			old:  v1.PodSpec{Containers: []v1.Container{named("main", restartAll)}},
			new:  v1.PodSpec{Containers: []v1.Container{named("main", restartAll), restartAll}},
			want: []string{dynamic, "RestartAllContainersOnContainerExits"},
		},
		"a container with mount options is replaced by another": {
			old:  v1.PodSpec{Containers: []v1.Container{plain, named("old", mountOptions)}},
			new:  v1.PodSpec{Containers: []v1.Container{plain, mountOptions}},
			want: []string{dynamic, "VolumeBindMountOptions"},
		},
		"a plain container is added to a pod that uses everything": {
			old:  v1.PodSpec{Containers: []v1.Container{named("a", restartAll), named("b", mountOptions)}},
			new:  v1.PodSpec{Containers: []v1.Container{named("a", restartAll), named("b", mountOptions), plain}},
			want: []string{dynamic},
		},
		"nothing changes in a pod that uses everything": {
			old: v1.PodSpec{Containers: []v1.Container{plain, restartAll, mountOptions}},
			new: v1.PodSpec{Containers: []v1.Container{plain, restartAll, mountOptions}},
		},
		"init containers are dropped, which validation refuses": {
			old: v1.PodSpec{InitContainers: []v1.Container{init}, Containers: []v1.Container{plain}},
			new: v1.PodSpec{Containers: []v1.Container{plain}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			set, err := ndf.DefaultFramework.InferForPodUpdate(&types.PodInfo{Spec: &tc.old}, &types.PodInfo{Spec: &tc.new}, version.MustParse("1.37.0"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := ndf.DefaultFramework.Unmap(set)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Sort(got); !slices.Equal(got, tc.want) {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}
