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
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// origin says which pod a field comes from.
type origin int

const (
	// fromAPI is a field that takes effect at once, or that the API does not let anyone change.
	fromAPI origin = iota + 1
	// fromAllocation is a field that takes effect when it is allocated.
	fromAllocation
)

// podSpecFields has every field of the spec of a pod. One that is new must be decided: whether the
// containers that run may see it change before the kubelet agreed to it.
var podSpecFields = map[string]origin{
	"Containers": fromAllocation,
	"Resources":  fromAllocation,

	// By container, see initContainerFields.
	"InitContainers": fromAPI,
	// Except for the limits of memory-backed volumes.
	"Volumes": fromAPI,

	// Are changed, and take effect at once.
	"ActiveDeadlineSeconds":         fromAPI,
	"EphemeralContainers":           fromAPI,
	"SchedulingGates":               fromAPI,
	"TerminationGracePeriodSeconds": fromAPI,
	"Tolerations":                   fromAPI,

	// Are not changed once the pod runs.
	"Affinity":                     fromAPI,
	"AutomountServiceAccountToken": fromAPI,
	"DNSConfig":                    fromAPI,
	"DNSPolicy":                    fromAPI,
	"DeprecatedServiceAccount":     fromAPI,
	"EnableServiceLinks":           fromAPI,
	"EvictionResponders":           fromAPI,
	"HostAliases":                  fromAPI,
	"HostIPC":                      fromAPI,
	"HostNetwork":                  fromAPI,
	"HostPID":                      fromAPI,
	"HostUsers":                    fromAPI,
	"Hostname":                     fromAPI,
	"HostnameOverride":             fromAPI,
	"ImagePullSecrets":             fromAPI,
	"NodeName":                     fromAPI,
	"NodeSelector":                 fromAPI,
	"OS":                           fromAPI,
	"Overhead":                     fromAPI,
	"PreemptionPolicy":             fromAPI,
	"Priority":                     fromAPI,
	"PriorityClassName":            fromAPI,
	"ReadinessGates":               fromAPI,
	"ResourceClaims":               fromAPI,
	"RestartPolicy":                fromAPI,
	"RuntimeClassName":             fromAPI,
	"SchedulerName":                fromAPI,
	"SchedulingGroup":              fromAPI,
	"SecurityContext":              fromAPI,
	"ServiceAccountName":           fromAPI,
	"SetHostnameAsFQDN":            fromAPI,
	"ShareProcessNamespace":        fromAPI,
	"Subdomain":                    fromAPI,
	"TopologySpreadConstraints":    fromAPI,
}

// containerChange says what a main container is that differs from the allocated one of its name.
type containerChange int

const (
	// sameAfterChange is a change that the API allows in a container, or that nothing which runs depends
	// on.
	sameAfterChange containerChange = iota + 1
	// anotherContainer is a change that nobody makes but by removing the container and adding another
	// one of that name, which has to be admitted like any other that is added.
	anotherContainer
)

// containerFields has every field of a container. All are allocated for main containers; a new one
// must be decided.
var containerFields = map[string]containerChange{
	"Image":           sameAfterChange,
	"ImagePullPolicy": sameAfterChange,
	"ResizePolicy":    sameAfterChange,
	"Resources":       sameAfterChange, // but its claims

	"Args":                     anotherContainer,
	"Command":                  anotherContainer,
	"Env":                      anotherContainer,
	"EnvFrom":                  anotherContainer,
	"Lifecycle":                anotherContainer,
	"LivenessProbe":            anotherContainer,
	"Name":                     anotherContainer,
	"Ports":                    anotherContainer,
	"ReadinessProbe":           anotherContainer,
	"RestartPolicy":            anotherContainer,
	"RestartPolicyRules":       anotherContainer,
	"SecurityContext":          anotherContainer,
	"StartupProbe":             anotherContainer,
	"Stdin":                    anotherContainer,
	"StdinOnce":                anotherContainer,
	"TTY":                      anotherContainer,
	"TerminationMessagePath":   anotherContainer,
	"TerminationMessagePolicy": anotherContainer,
	"VolumeDevices":            anotherContainer,
	"VolumeMounts":             anotherContainer,
	"WorkingDir":               anotherContainer,
}

// initContainerFields are the fields of init containers that are allocated.
var initContainerFields = []string{"Image", "Resources"}

// filled returns a value of the type with everything in it set, different for each seed.
func filled(typ reflect.Type, seed int) reflect.Value {
	v := reflect.New(typ).Elem()
	if typ == reflect.TypeFor[resource.Quantity]() {
		return reflect.ValueOf(resource.MustParse(fmt.Sprint(seed)))
	}
	switch typ.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("value-%d", seed))
	case reflect.Bool:
		v.SetBool(seed%2 == 1)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(seed))
	case reflect.Uint8:
		v.SetUint(uint64(seed))
	case reflect.Pointer:
		v.Set(reflect.New(typ.Elem()))
		v.Elem().Set(filled(typ.Elem(), seed))
	case reflect.Slice:
		v = reflect.Append(v, filled(typ.Elem(), seed))
	case reflect.Map:
		v.Set(reflect.MakeMap(typ))
		v.SetMapIndex(filled(typ.Key(), 0), filled(typ.Elem(), seed))
	case reflect.Struct:
		for i := range typ.NumField() {
			if typ.Field(i).IsExported() {
				v.Field(i).Set(filled(typ.Field(i).Type, seed))
			}
		}
	default:
		panic(fmt.Sprintf("fill %s", typ))
	}
	return v
}

// differing returns two pods with one main and one init container that differ in what change does.
func differing(change func(spec *v1.PodSpec, seed int)) (allocated, desired *v1.Pod) {
	pods := [2]*v1.Pod{}
	for i := range pods {
		pods[i] = runningPod(container("main", "main:1", "1"))
		pods[i].Spec.InitContainers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		change(&pods[i].Spec, i+1)
	}
	return pods[0], pods[1]
}

// overlaid returns the desired pod with what is allocated.
func overlaid(allocated, desired *v1.Pod) *v1.Pod {
	info := ResourceInfoForPod(allocated)
	info.AllocatedSpec = allocatedSpec(allocated)
	pod, _ := updatePodFromAllocation(desired, info)
	return pod
}

func TestEveryPodSpecFieldIsDecided(t *testing.T) {
	enableDynamicContainers(t)
	typ := reflect.TypeFor[v1.PodSpec]()
	for name := range podSpecFields {
		if _, ok := typ.FieldByName(name); !ok {
			t.Errorf("field %s is gone: drop it from podSpecFields", name)
		}
	}
	for i := range typ.NumField() {
		field := typ.Field(i)
		t.Run(field.Name, func(t *testing.T) {
			want, ok := podSpecFields[field.Name]
			if !ok {
				t.Fatalf("decide in podSpecFields whether PodSpec.%s takes effect at once or when it is allocated", field.Name)
			}
			allocated, desired := differing(func(spec *v1.PodSpec, seed int) {
				value := filled(field.Type, seed)
				if field.Name == "InitContainers" {
					return // by container
				}
				reflect.ValueOf(spec).Elem().FieldByIndex(field.Index).Set(value)
			})
			wantPod := desired
			if want == fromAllocation {
				wantPod = allocated
			}
			if diff := cmp.Diff(wantPod.Spec, overlaid(allocated, desired).Spec); diff != "" {
				t.Errorf("allocated spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryContainerFieldIsDecided(t *testing.T) {
	enableDynamicContainers(t)
	typ := reflect.TypeFor[v1.Container]()
	for name := range containerFields {
		if _, ok := typ.FieldByName(name); !ok {
			t.Errorf("field %s is gone: drop it from containerFields", name)
		}
	}
	for i := range typ.NumField() {
		field := typ.Field(i)
		t.Run(field.Name, func(t *testing.T) {
			want, ok := containerFields[field.Name]
			if !ok {
				t.Fatalf("decide in containerFields whether a container with another %s is another one", field.Name)
			}
			set := func(c *v1.Container, seed int) {
				reflect.ValueOf(c).Elem().FieldByIndex(field.Index).Set(filled(field.Type, seed))
				c.Resources.Claims = nil
			}

			allocated, desired := differing(func(spec *v1.PodSpec, seed int) { set(&spec.Containers[0], seed) })
			if diff := cmp.Diff(allocated.Spec, overlaid(allocated, desired).Spec); diff != "" {
				t.Errorf("allocated spec with another %s of the main container (-want +got):\n%s", field.Name, diff)
			}
			if added := len(addedContainers(allocated, desired)) > 0; added != (want == anotherContainer) {
				t.Errorf("main container with another %s is taken for an added one: %t", field.Name, added)
			}

			if field.Name == "Name" || field.Name == "RestartPolicy" {
				return // make it another kind of init container
			}
			allocated, desired = differing(func(spec *v1.PodSpec, seed int) { set(&spec.InitContainers[0], seed) })
			wantPod := desired
			if slices.Contains(initContainerFields, field.Name) {
				wantPod = allocated
			}
			if got := overlaid(allocated, desired); !apiequality.Semantic.DeepEqual(wantPod.Spec, got.Spec) {
				t.Errorf("allocated spec with another %s of the init container (-want +got):\n%s", field.Name, cmp.Diff(wantPod.Spec, got.Spec))
			}
		})
	}
}
