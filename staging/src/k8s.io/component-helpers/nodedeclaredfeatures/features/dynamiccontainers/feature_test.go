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

package dynamiccontainers

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
)

func TestDiscover(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		cfg := &types.NodeConfiguration{FeatureGates: types.FeatureGateMap{DynamicContainersFeatureGate: enabled}}
		if got := Feature.Discover(cfg); got != enabled {
			t.Errorf("gate %v: got %v", enabled, got)
		}
	}
}

func pod(names ...string) *types.PodInfo {
	spec := &v1.PodSpec{}
	for _, name := range names {
		spec.Containers = append(spec.Containers, v1.Container{Name: name, Image: "image"})
	}
	return &types.PodInfo{Spec: spec, Status: &v1.PodStatus{}}
}

func TestInferForScheduling(t *testing.T) {
	if Feature.InferForScheduling(pod("a", "b")) {
		t.Error("any node can run a pod whose containers do not change")
	}
}

func TestInferForUpdate(t *testing.T) {
	resized := pod("a")
	resized.Spec.Containers[0].Image = "other"
	withInit := pod("a")
	withInit.Spec.InitContainers = pod("init").Spec.Containers

	tests := map[string]struct {
		old, new *types.PodInfo
		want     bool
	}{
		"nothing changes":                       {pod("a", "b"), pod("a", "b"), false},
		"an image changes":                      {pod("a"), resized, false},
		"containers are reordered":              {pod("a", "b"), pod("b", "a"), false},
		"a container is added":                  {pod("a"), pod("b", "a"), true},
		"a container is removed":                {pod("a", "b"), pod("b"), true},
		"a container is replaced":               {pod("a", "b"), pod("c", "b"), true},
		"an init container is not for this one": {pod("a"), withInit, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Feature.InferForUpdate(tc.old, tc.new); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}
