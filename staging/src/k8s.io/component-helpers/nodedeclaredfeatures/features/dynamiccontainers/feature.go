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
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
)

// Ensure the feature struct implements the unified Feature interface.
var _ types.Feature = &dynamicContainersFeature{}

// DynamicContainersFeatureGate is the feature gate for DynamicContainers, and
// the name under which nodes declare the feature.
const DynamicContainersFeatureGate = "DynamicContainers"

// Feature is the implementation of the DynamicContainers feature: a node that
// declares it can add main containers to running pods and remove them.
var Feature = &dynamicContainersFeature{}

type dynamicContainersFeature struct{}

func (f *dynamicContainersFeature) Name() string {
	return DynamicContainersFeatureGate
}

func (f *dynamicContainersFeature) Discover(cfg *types.NodeConfiguration) bool {
	return cfg.FeatureGates.Enabled(DynamicContainersFeatureGate)
}

func (f *dynamicContainersFeature) Requirements() *types.FeatureRequirements {
	return &types.FeatureRequirements{
		EnabledFeatureGates: []string{DynamicContainersFeatureGate},
	}
}

func (f *dynamicContainersFeature) InferForScheduling(podInfo *types.PodInfo) bool {
	// Nothing in a pod says at creation that its containers will change.
	return false
}

// InferForUpdate returns true if a main container is added or removed.
func (f *dynamicContainersFeature) InferForUpdate(oldPodInfo, newPodInfo *types.PodInfo) bool {
	return !containerNames(oldPodInfo.Spec).Equal(containerNames(newPodInfo.Spec))
}

func (f *dynamicContainersFeature) MaxVersion() *version.Version {
	return nil
}

func containerNames(spec *v1.PodSpec) sets.Set[string] {
	names := sets.New[string]()
	for i := range spec.Containers {
		names.Insert(spec.Containers[i].Name)
	}
	return names
}
