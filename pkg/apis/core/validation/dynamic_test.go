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

package validation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	podtest "k8s.io/kubernetes/pkg/api/pod/testing"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
)

// runningPod returns a pod to which containers can be added, with the main
// containers "main" and "side".
func runningPod(tweaks ...podtest.Tweak) *core.Pod {
	status := func(name string) core.ContainerStatus {
		return core.ContainerStatus{Name: name, Resources: &core.ResourceRequirements{}, State: core.ContainerState{Running: &core.ContainerStateRunning{}}}
	}
	all := []podtest.Tweak{
		podtest.SetResourceVersion("1"),
		podtest.SetNodeName("node"),
		podtest.SetContainers(podtest.MakeContainer("main"), podtest.MakeContainer("side")),
		podtest.SetStatus(core.PodStatus{
			Phase:             core.PodRunning,
			Conditions:        []core.PodCondition{{Type: core.PodInitialized, Status: core.ConditionTrue}},
			ContainerStatuses: []core.ContainerStatus{status("main"), status("side")},
		}),
	}
	return podtest.MakePod("pod", append(all, tweaks...)...)
}

func add(ctrs ...core.Container) podtest.Tweak {
	return func(pod *core.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, ctrs...) }
}

func remove(names ...string) podtest.Tweak {
	return func(pod *core.Pod) {
		pod.Spec.Containers = slices.DeleteFunc(pod.Spec.Containers, func(c core.Container) bool { return slices.Contains(names, c.Name) })
	}
}

func change(name string, f func(*core.Container)) podtest.Tweak {
	return func(pod *core.Pod) {
		for i := range pod.Spec.Containers {
			if pod.Spec.Containers[i].Name == name {
				f(&pod.Spec.Containers[i])
			}
		}
	}
}

func tweaks(all ...podtest.Tweak) podtest.Tweak {
	return func(pod *core.Pod) {
		for _, tweak := range all {
			tweak(pod)
		}
	}
}

func resources(requests, limits map[string]string) podtest.TweakContainer {
	return podtest.SetContainerResources(podtest.MakeResourceRequirements(requests, limits))
}

func env(name string, source *core.EnvVarSource) func(*core.Container) {
	return func(c *core.Container) { c.Env = append(c.Env, core.EnvVar{Name: name, ValueFrom: source}) }
}

func cpuOf(ctr string) *core.EnvVarSource {
	return &core.EnvVarSource{ResourceFieldRef: &core.ResourceFieldSelector{ContainerName: ctr, Resource: "limits.cpu"}}
}

func debugger(target string) core.EphemeralContainer {
	return core.EphemeralContainer{
		EphemeralContainerCommon: core.EphemeralContainerCommon{
			Name: "debugger", Image: "image", ImagePullPolicy: "IfNotPresent", TerminationMessagePolicy: "File",
		},
		TargetContainerName: target,
	}
}

func TestValidatePodDynamicUpdate(t *testing.T) {
	capabilities.ResetForTest()
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	t.Cleanup(capabilities.ResetForTest)

	type m = map[string]string
	small, guaranteed := m{"cpu": "100m"}, m{"cpu": "100m", "memory": "100Mi"}
	const hugepages = "hugepages-2Mi"
	appArmor := func(ctr string) string { return v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + ctr }

	tests := map[string]struct {
		// opts changes the options for the old pod.
		opts func(*PodValidationOptions)
		// old changes the pod before the update, and update changes it then.
		old, update podtest.Tweak
		// wantErrs are the starts of the errors in any order, empty if the update is valid.
		wantErrs []string
	}{
		"nothing changes": {},
		"a container is added at the end": {
			update: add(podtest.MakeContainer("new")),
		},
		"a container is added in front": {
			update: func(pod *core.Pod) {
				pod.Spec.Containers = append([]core.Container{podtest.MakeContainer("new")}, pod.Spec.Containers...)
			},
		},
		"the first container is removed": {
			update: remove("main"),
		},
		"containers are added, removed, changed and reordered at once": {
			update: func(pod *core.Pod) {
				remove("main")(pod)
				change("side", func(c *core.Container) { c.Image = "other" })(pod)
				pod.Spec.Containers = []core.Container{podtest.MakeContainer("a"), pod.Spec.Containers[0], podtest.MakeContainer("b")}
			},
		},
		"containers are only reordered": {
			update: func(pod *core.Pod) { slices.Reverse(pod.Spec.Containers) },
		},
		"containers are reordered in a pod that is not running": {
			old:    func(pod *core.Pod) { pod.Status = core.PodStatus{Phase: core.PodPending} },
			update: func(pod *core.Pod) { slices.Reverse(pod.Spec.Containers) },
		},

		// State of the pod.
		"a static pod is refused": {
			old:      podtest.SetAnnotations(m{core.MirrorPodAnnotationKey: "hash"}),
			update:   add(podtest.MakeContainer("new")),
			wantErrs: []string{`metadata.annotations[kubernetes.io/config.mirror]: Forbidden: static pods cannot be changed through pods/dynamic`},
		},
		"a windows pod is refused": {
			old:      podtest.SetOS(core.Windows),
			update:   remove("side"),
			wantErrs: []string{`spec.os.name: Forbidden: windows pods cannot be changed through pods/dynamic`},
		},
		"a pending pod is refused": {
			old:      func(pod *core.Pod) { pod.Status.Phase = core.PodPending },
			update:   add(podtest.MakeContainer("new")),
			wantErrs: []string{`status.phase: Forbidden: containers can only be added to and removed from a Running pod, and this pod is Pending; wait until it is Running`},
		},
		"a pod that succeeded is refused": {
			old:      func(pod *core.Pod) { pod.Status.Phase = core.PodSucceeded },
			update:   remove("side"),
			wantErrs: []string{`status.phase: Forbidden: containers can only be added to and removed from a Running pod, and this pod has ended (Succeeded); create a new pod instead`},
		},
		"a pod that failed is refused": {
			old:      func(pod *core.Pod) { pod.Status.Phase = core.PodFailed },
			update:   remove("side"),
			wantErrs: []string{`status.phase: Forbidden: containers can only be added to and removed from a Running pod, and this pod has ended (Failed); create a new pod instead`},
		},
		"a pod that is not scheduled is refused": {
			old:    tweaks(podtest.SetNodeName(""), podtest.SetStatus(core.PodStatus{Phase: core.PodPending})),
			update: add(podtest.MakeContainer("new")),
			wantErrs: []string{
				`spec.nodeName: Forbidden: containers cannot be added to or removed from a pod that is not scheduled`,
				`status.phase: Forbidden: `,
			},
		},
		"a pod that is not initialized is refused": {
			old:      func(pod *core.Pod) { pod.Status.Conditions[0].Status = core.ConditionFalse },
			update:   add(podtest.MakeContainer("new")),
			wantErrs: []string{`status.conditions: Forbidden: containers cannot be added or removed before all init containers have completed`},
		},
		"a pod without the condition Initialized is refused": {
			old:      func(pod *core.Pod) { pod.Status.Conditions = nil },
			update:   remove("side"),
			wantErrs: []string{`status.conditions: Forbidden: containers cannot be added or removed before all init containers have completed`},
		},
		"a pod that is being deleted is refused": {
			old: func(pod *core.Pod) {
				pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, ptr.To[int64](30)
			},
			update:   remove("side"),
			wantErrs: []string{`metadata.deletionTimestamp: Forbidden: containers cannot be added to or removed from a pod that is being deleted`},
		},
		"the image of a pending pod can be changed, as on the main resource": {
			old:    func(pod *core.Pod) { pod.Status = core.PodStatus{Phase: core.PodPending} },
			update: change("main", func(c *core.Container) { c.Image = "other" }),
		},

		// Names.
		"the last container cannot be removed": {
			update:   remove("main", "side"),
			wantErrs: []string{`spec.containers: Required value: a pod must keep at least one main container`},
		},
		"all containers can be replaced": {
			update: tweaks(remove("main", "side"), add(podtest.MakeContainer("new"))),
		},
		"two added containers have the same name": {
			update:   add(podtest.MakeContainer("new"), podtest.MakeContainer("new")),
			wantErrs: []string{`spec.containers[3].name: Duplicate value: "new"`},
		},
		"an added container has the name of an existing one": {
			update:   add(podtest.MakeContainer("main")),
			wantErrs: []string{`spec.containers[2].name: Duplicate value: "main"`},
		},
		"an added container has the name of an init container": {
			old:    podtest.SetInitContainers(podtest.MakeContainer("init")),
			update: add(podtest.MakeContainer("init")),
			wantErrs: []string{
				`spec.containers[2].name: Invalid value: "init": is the name of an init container`,
				`spec.initContainers[0].name: Duplicate value: "init"`,
			},
		},
		"an added container has the name of an ephemeral container": {
			old:    podtest.SetEphemeralContainers(debugger("")),
			update: add(podtest.MakeContainer("debugger")),
			wantErrs: []string{
				`spec.containers[2].name: Invalid value: "debugger": is the name of an ephemeral container`,
				`spec.ephemeralContainers[0].name: Duplicate value: "debugger"`,
			},
		},
		"an added container has the name of one that was removed and whose status is kept": {
			old: func(pod *core.Pod) {
				pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, core.ContainerStatus{
					Name: "gone", State: core.ContainerState{Terminated: &core.ContainerStateTerminated{}}})
			},
			update:   add(podtest.MakeContainer("gone")),
			wantErrs: []string{`spec.containers[2].name: Invalid value: "gone": a container of this name still has an entry in status.containerStatuses; use another name, or wait`},
		},
		"an added container has a name that is in the init container statuses": {
			old:      func(pod *core.Pod) { pod.Status.InitContainerStatuses = []core.ContainerStatus{{Name: "new"}} },
			update:   add(podtest.MakeContainer("new")),
			wantErrs: []string{`spec.containers[2].name: Invalid value: "new": a container of this name still has an entry in status.initContainerStatuses`},
		},
		"an added container has a name that is in the ephemeral container statuses": {
			old:      func(pod *core.Pod) { pod.Status.EphemeralContainerStatuses = []core.ContainerStatus{{Name: "new"}} },
			update:   add(podtest.MakeContainer("new")),
			wantErrs: []string{`spec.containers[2].name: Invalid value: "new": a container of this name still has an entry in status.ephemeralContainerStatuses`},
		},

		// Added containers.
		"an added container is privileged": {
			update: add(podtest.MakeContainer("new", podtest.SetContainerSecurityContext(core.SecurityContext{Privileged: ptr.To(true)}))),
			wantErrs: []string{
				`spec.containers[2].securityContext.privileged: Forbidden: privileged containers cannot be added to a running pod`,
			},
		},
		"an added container is explicitly not privileged": {
			update: add(podtest.MakeContainer("new", podtest.SetContainerSecurityContext(core.SecurityContext{Privileged: ptr.To(false)}))),
		},
		"an existing container is privileged": {
			old:    change("main", func(c *core.Container) { c.SecurityContext = &core.SecurityContext{Privileged: ptr.To(true)} }),
			update: add(podtest.MakeContainer("new")),
		},
		"an added container has a container port": {
			update: add(podtest.MakeContainer("new", podtest.SetContainerPorts(core.ContainerPort{ContainerPort: 80, Protocol: core.ProtocolTCP}))),
		},
		"an added container has a host port": {
			update: add(podtest.MakeContainer("new", podtest.SetContainerPorts(
				core.ContainerPort{ContainerPort: 80, Protocol: core.ProtocolTCP},
				core.ContainerPort{ContainerPort: 81, HostPort: 81, Protocol: core.ProtocolTCP}))),
			wantErrs: []string{`spec.containers[2].ports[1].hostPort: Forbidden: host ports cannot be used by containers that are added to a running pod: the scheduler did not reserve them; remove hostPort`},
		},
		"an added container has a port in a pod on the host network": {
			old: podtest.SetHostNetwork(true),
			update: add(podtest.MakeContainer("new", podtest.SetContainerPorts(
				core.ContainerPort{ContainerPort: 81, HostPort: 81, Protocol: core.ProtocolTCP}))),
			wantErrs: []string{`spec.containers[2].ports[0].hostPort: Forbidden: host ports cannot be used by containers that are added to a running pod: the scheduler did not reserve them; this pod uses the host network, where hostPort is set to containerPort by default, so list no ports for this container`},
		},
		"an added container mounts a volume of the pod": {
			old: podtest.SetVolumes(podtest.MakeEmptyVolume("data")),
			update: add(podtest.MakeContainer("new", func(c *core.Container) {
				c.VolumeMounts = []core.VolumeMount{{Name: "data", MountPath: "/data"}}
			})),
		},
		"an added container mounts a volume that the pod does not have": {
			update: add(podtest.MakeContainer("new", func(c *core.Container) {
				c.VolumeMounts = []core.VolumeMount{{Name: "data", MountPath: "/data"}}
			})),
			wantErrs: []string{`spec.containers[2].volumeMounts[0].name: Not found: "data": an added container can only use volumes in spec.volumes`},
		},
		"an added container comes with its volume": {
			update: tweaks(add(podtest.MakeContainer("new", func(c *core.Container) {
				c.VolumeMounts = []core.VolumeMount{{Name: "data", MountPath: "/data"}}
			})), podtest.SetVolumes(podtest.MakeEmptyVolume("data"))),
			wantErrs: []string{`spec.volumes[0]: Forbidden: volumes cannot be added, removed, changed or reordered`},
		},
		"an added container uses a block device that the pod does not have": {
			update: add(podtest.MakeContainer("new", func(c *core.Container) {
				c.VolumeDevices = []core.VolumeDevice{{Name: "disk", DevicePath: "/dev/disk"}}
			})),
			wantErrs: []string{`spec.containers[2].volumeDevices[0].name: Not found: "disk": an added container can only use volumes in spec.volumes`},
		},
		"an added container names a resource claim of the pod": {
			old: podtest.SetResourceClaims(core.PodResourceClaim{Name: "gpu", ResourceClaimName: ptr.To("gpu")}),
			update: add(podtest.MakeContainer("new", func(c *core.Container) {
				c.Resources.Claims = []core.ResourceClaim{{Name: "gpu"}}
			})),
		},
		"an added container names a resource claim that the pod does not have": {
			update: add(podtest.MakeContainer("new", func(c *core.Container) {
				c.Resources.Claims = []core.ResourceClaim{{Name: "gpu"}}
			})),
			wantErrs: []string{`spec.containers[2].resources.claims[0]: Not found: "gpu": an added container can only name resource claims in spec.resourceClaims`},
		},
		"an added container comes with its resource claim": {
			update: tweaks(add(podtest.MakeContainer("new", func(c *core.Container) {
				c.Resources.Claims = []core.ResourceClaim{{Name: "gpu"}}
			})), podtest.SetResourceClaims(core.PodResourceClaim{Name: "gpu", ResourceClaimName: ptr.To("gpu")})),
			wantErrs: []string{`spec.resourceClaims: Forbidden: cannot be changed on an existing pod`},
		},
		"an added container is invalid by the rules for every container": {
			update: add(podtest.MakeContainer("new", podtest.SetContainerImage(""))),
			wantErrs: []string{
				`spec.containers[2].image: Required value`,
			},
		},
		"an added container uses what is only tolerated because the old pod has it": {
			opts:     func(opts *PodValidationOptions) { opts.AllowSysAdminWhenPrivilegeEscalationFalse = true },
			old:      change("main", sysAdminWithoutEscalation),
			update:   func(pod *core.Pod) { c := podtest.MakeContainer("new"); sysAdminWithoutEscalation(&c); add(c)(pod) },
			wantErrs: []string{`spec.containers[2].securityContext: Invalid value`},
		},
		"the seccomp profile of an added container contradicts an old annotation": {
			old: podtest.SetAnnotations(m{v1.SeccompContainerAnnotationKeyPrefix + "new": v1.SeccompProfileNameUnconfined}),
			update: func(pod *core.Pod) {
				pod.Spec.Containers = append([]core.Container{podtest.MakeContainer("new", podtest.SetContainerSecurityContext(core.SecurityContext{
					SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault}}))}, pod.Spec.Containers...)
			},
			wantErrs: []string{`spec.containers[0].securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match`},
		},
		"an added container comes with a legacy AppArmor annotation": {
			update: tweaks(add(podtest.MakeContainer("new")), podtest.SetAnnotations(m{appArmor("new"): "runtime/default"})),
			wantErrs: []string{
				`metadata.annotations[container.apparmor.security.beta.kubernetes.io/new]: Forbidden: may not add AppArmor annotations`,
			},
		},

		// Resources and QoS.
		"a container without resources is added to a burstable pod": {
			old:    change("main", func(c *core.Container) { resources(small, nil)(c) }),
			update: add(podtest.MakeContainer("new")),
		},
		"a container with cpu and memory is added to a burstable pod": {
			old:    change("main", func(c *core.Container) { resources(small, nil)(c) }),
			update: add(podtest.MakeContainer("new", resources(guaranteed, guaranteed))),
		},
		"a container with requests is added to a best-effort pod": {
			update:   add(podtest.MakeContainer("new", resources(small, nil))),
			wantErrs: []string{`spec.containers[2].resources: Forbidden: the QoS class of the pod cannot change from BestEffort to Burstable: neither a BestEffort pod nor any of its containers can have cpu or memory`},
		},
		"the pod gets resources, and no container does": {
			update:   podtest.SetPodResources(&core.ResourceRequirements{Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("100m")}}),
			wantErrs: []string{`spec.resources: Forbidden: the QoS class of the pod cannot change from BestEffort to Burstable: neither a BestEffort pod nor any of its containers can have cpu or memory`},
		},
		"a container without resources is added to a guaranteed pod": {
			old:      podtest.SetContainers(podtest.MakeContainer("main", resources(guaranteed, guaranteed))),
			update:   add(podtest.MakeContainer("fine", resources(guaranteed, guaranteed)), podtest.MakeContainer("new")),
			wantErrs: []string{`spec.containers[2].resources: Forbidden: the QoS class of the pod cannot change from Guaranteed to Burstable: all containers of a Guaranteed pod must`},
		},
		"a guaranteed container is added to a guaranteed pod": {
			old:    podtest.SetContainers(podtest.MakeContainer("main", resources(guaranteed, guaranteed))),
			update: add(podtest.MakeContainer("new", resources(guaranteed, guaranteed))),
		},
		"the only container with requests is removed": {
			old:      change("main", func(c *core.Container) { resources(small, nil)(c) }),
			update:   remove("main"),
			wantErrs: []string{`spec.containers: Forbidden: the QoS class of the pod cannot change from Burstable to BestEffort: a Burstable pod must keep`},
		},
		"the only container that is not guaranteed is removed": {
			old:      change("main", func(c *core.Container) { resources(guaranteed, guaranteed)(c) }),
			update:   remove("side"),
			wantErrs: []string{`spec.containers: Forbidden: the QoS class of the pod cannot change from Burstable to Guaranteed: a Burstable pod must keep`},
		},
		"the QoS class in the status is off, and only an image changes": {
			old:    func(pod *core.Pod) { pod.Status.QOSClass = core.PodQOSGuaranteed },
			update: change("main", func(c *core.Container) { c.Image = "other" }),
		},
		"an added container asks for hugepages": {
			old: change("main", func(c *core.Container) { resources(small, nil)(c) }),
			update: add(podtest.MakeContainer("new", resources(
				m{"cpu": "100m", hugepages: "2Mi"}, m{"cpu": "100m", hugepages: "2Mi"}))),
			wantErrs: []string{
				`spec.containers[2].resources.limits[hugepages-2Mi]: Forbidden: containers that are added to a running pod can only ask for cpu and memory`,
				`spec.containers[2].resources.requests[hugepages-2Mi]: Forbidden: containers that are added to a running pod can only ask for cpu and memory`,
			},
		},
		"an added container asks for an extended resource": {
			update: add(podtest.MakeContainer("new", resources(m{"example.com/gpu": "1"}, m{"example.com/gpu": "1"}))),
			wantErrs: []string{
				`spec.containers[2].resources.limits[example.com/gpu]: Forbidden`,
				`spec.containers[2].resources.requests[example.com/gpu]: Forbidden`,
			},
		},
		"an added container asks for ephemeral storage": {
			update:   add(podtest.MakeContainer("new", resources(m{"ephemeral-storage": "1Gi"}, nil))),
			wantErrs: []string{`spec.containers[2].resources.requests[ephemeral-storage]: Forbidden`},
		},
		"an added container asks for more than the pod-level request": {
			old: podtest.SetPodResources(&core.ResourceRequirements{
				Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("1")}}),
			opts:     func(opts *PodValidationOptions) { opts.PodLevelResourcesEnabled = true },
			update:   add(podtest.MakeContainer("new", resources(m{"cpu": "2"}, nil))),
			wantErrs: []string{`spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2`},
		},
		"an added container fits into the pod-level request": {
			old: podtest.SetPodResources(&core.ResourceRequirements{
				Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("1")}}),
			update: add(podtest.MakeContainer("new", resources(m{"cpu": "1"}, nil))),
		},
		"a container is added to a pod with pod-level resources that cannot be resized": {
			old: podtest.SetPodResources(&core.ResourceRequirements{
				Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("1")}}),
			opts:     func(opts *PodValidationOptions) { opts.InPlacePodLevelResourcesVerticalScalingEnabled = false },
			update:   add(podtest.MakeContainer("new")),
			wantErrs: []string{`spec.resources: Forbidden: a pod with pod-level resources can be neither resized nor given other containers: the feature gate InPlacePodLevelResourcesVerticalScaling is off`},
		},
		"the pod-level resources grow with an added container": {
			old: podtest.SetPodResources(&core.ResourceRequirements{
				Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("1")}}),
			update: tweaks(add(podtest.MakeContainer("new", resources(m{"cpu": "2"}, nil))), podtest.SetPodResources(&core.ResourceRequirements{
				Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("2")}})),
		},
		"the pod-level hugepages change": {
			old: podtest.SetPodResources(&core.ResourceRequirements{
				Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("1")}}),
			update: podtest.SetPodResources(&core.ResourceRequirements{
				Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("1"), hugepages: resource.MustParse("2Mi")},
				Limits:   core.ResourceList{hugepages: resource.MustParse("2Mi")}}),
			wantErrs: []string{
				`spec.resources.limits[hugepages-2Mi]: Forbidden: only cpu and memory can be changed`,
				`spec.resources.requests[hugepages-2Mi]: Forbidden: only cpu and memory can be changed`,
			},
		},

		// Containers that stay.
		"the image of a container changes": {
			update: change("side", func(c *core.Container) { c.Image = "other" }),
		},
		"the image of a container is dropped": {
			update:   change("side", func(c *core.Container) { c.Image = "" }),
			wantErrs: []string{`spec.containers[1].image: Required value`},
		},
		"the image of a container gets a trailing space": {
			update:   change("side", func(c *core.Container) { c.Image = "image " }),
			wantErrs: []string{`spec.containers[1].image: Invalid value: "image ": must not have leading or trailing whitespace`},
		},
		"the cpu of a container changes together with images and order": {
			old: change("main", func(c *core.Container) { resources(small, nil)(c) }),
			update: func(pod *core.Pod) {
				change("main", func(c *core.Container) { resources(m{"cpu": "200m"}, nil)(c); c.Image = "other" })(pod)
				slices.Reverse(pod.Spec.Containers)
			},
		},
		"a request of a container is removed": {
			old: tweaks(change("main", func(c *core.Container) { resources(guaranteed, nil)(c) }), change("side", func(c *core.Container) { resources(small, nil)(c) })),
			update: func(pod *core.Pod) {
				change("main", func(c *core.Container) { resources(small, nil)(c) })(pod)
				slices.Reverse(pod.Spec.Containers)
			},
			wantErrs: []string{`spec.containers[1].resources.requests: Forbidden: resource requests cannot be removed`},
		},
		"the extended resource of a container changes": {
			old:    change("main", func(c *core.Container) { resources(m{"example.com/gpu": "1"}, m{"example.com/gpu": "1"})(c) }),
			update: change("main", func(c *core.Container) { resources(m{"example.com/gpu": "2"}, m{"example.com/gpu": "2"})(c) }),
			wantErrs: []string{
				`spec.containers[0].resources.limits[example.com/gpu]: Forbidden: only cpu and memory can be changed`,
				`spec.containers[0].resources.requests[example.com/gpu]: Forbidden: only cpu and memory can be changed`,
			},
		},
		"a container names another claim": {
			old: podtest.SetResourceClaims(core.PodResourceClaim{Name: "gpu", ResourceClaimName: ptr.To("gpu")}),
			update: change("main", func(c *core.Container) {
				c.Resources.Claims = []core.ResourceClaim{{Name: "gpu"}}
			}),
			wantErrs: []string{`spec.containers[0].resources.claims: Forbidden: resource claims cannot be changed`},
		},
		"a container is resized on a node without in-place resize": {
			old: tweaks(change("main", func(c *core.Container) { resources(small, nil)(c) }), func(pod *core.Pod) {
				pod.Status.ContainerStatuses[0].Resources = nil
			}),
			update:   change("main", func(c *core.Container) { resources(m{"cpu": "200m"}, nil)(c) }),
			wantErrs: []string{`spec: Forbidden: resources cannot be changed: the node of this pod does not support in-place resize`},
		},
		"a container is resized while the status of a removed one has no resources": {
			old: tweaks(change("main", func(c *core.Container) { resources(small, nil)(c) }), func(pod *core.Pod) {
				pod.Status.ContainerStatuses = append([]core.ContainerStatus{{Name: "gone", State: core.ContainerState{Running: &core.ContainerStateRunning{}}}}, pod.Status.ContainerStatuses...)
			}),
			update: change("main", func(c *core.Container) { resources(m{"cpu": "200m"}, nil)(c) }),
		},
		"the environment and the command of a container change": {
			update: func(pod *core.Pod) {
				change("main", func(c *core.Container) { c.Env = []core.EnvVar{{Name: "A", Value: "b"}}; c.Command = []string{"sh"} })(pod)
				slices.Reverse(pod.Spec.Containers)
			},
			wantErrs: []string{
				`spec.containers[1].command: Forbidden: only the image and the cpu and memory resources of the existing container "main" can be changed; to change more, remove it and add a container of another name`,
				`spec.containers[1].env: Forbidden: only the image and`,
			},
		},
		"the tty and the resize policy of a container change": {
			update: change("main", func(c *core.Container) {
				c.TTY = true
				c.ResizePolicy = []core.ContainerResizePolicy{{ResourceName: core.ResourceCPU, RestartPolicy: core.NotRequired}}
			}),
			wantErrs: []string{
				`spec.containers[0].resizePolicy: Forbidden`,
				`spec.containers[0].tty: Forbidden`,
			},
		},
		"a container becomes privileged": {
			update:   change("main", func(c *core.Container) { c.SecurityContext = &core.SecurityContext{Privileged: ptr.To(true)} }),
			wantErrs: []string{`spec.containers[0].securityContext: Forbidden`},
		},

		// Init and ephemeral containers, volumes.
		"the image of an init container changes": {
			old:    podtest.SetInitContainers(podtest.MakeContainer("init")),
			update: podtest.SetInitContainers(podtest.MakeContainer("init", podtest.SetContainerImage("other"))),
		},
		"an init container is added": {
			update:   podtest.SetInitContainers(podtest.MakeContainer("init")),
			wantErrs: []string{`spec.initContainers: Forbidden: init containers cannot be added, removed, renamed or reordered`},
		},
		"an init container is removed": {
			old:      podtest.SetInitContainers(podtest.MakeContainer("init")),
			update:   podtest.SetInitContainers(),
			wantErrs: []string{`spec.initContainers: Forbidden: init containers cannot be added, removed, renamed or reordered`},
		},
		"init containers are reordered": {
			old:      podtest.SetInitContainers(podtest.MakeContainer("a"), podtest.MakeContainer("b")),
			update:   podtest.SetInitContainers(podtest.MakeContainer("b"), podtest.MakeContainer("a")),
			wantErrs: []string{`spec.initContainers: Forbidden: init containers cannot be added, removed, renamed or reordered`},
		},
		"the command of an init container changes": {
			old:      podtest.SetInitContainers(podtest.MakeContainer("init")),
			update:   podtest.SetInitContainers(podtest.MakeContainer("init", func(c *core.Container) { c.Command = []string{"sh"} })),
			wantErrs: []string{`spec.initContainers[0].command: Forbidden: only the image and`},
		},
		"a sidecar is resized": {
			old: podtest.SetInitContainers(podtest.MakeContainer("sidecar", resources(small, nil),
				podtest.SetContainerRestartPolicy(core.ContainerRestartPolicyAlways))),
			update: podtest.SetInitContainers(podtest.MakeContainer("sidecar", resources(m{"cpu": "200m"}, nil),
				podtest.SetContainerRestartPolicy(core.ContainerRestartPolicyAlways))),
		},
		"an init container that is not a sidecar is resized": {
			old:    podtest.SetInitContainers(podtest.MakeContainer("init", resources(small, nil))),
			update: podtest.SetInitContainers(podtest.MakeContainer("init", resources(m{"cpu": "200m"}, nil))),
		},
		"an init container that is not a sidecar is resized but would have to restart": {
			opts: func(opts *PodValidationOptions) { opts.AllowExistingRestartContainerForNonSidecarInitContainer = true },
			old: podtest.SetInitContainers(podtest.MakeContainer("init", resources(small, nil),
				podtest.SetContainerResizePolicy(core.ContainerResizePolicy{ResourceName: core.ResourceCPU, RestartPolicy: core.RestartContainer}))),
			update: func(pod *core.Pod) {
				resources(m{"cpu": "200m"}, nil)(&pod.Spec.InitContainers[0])
			},
			wantErrs: []string{`spec.initContainers[0].resources: Forbidden: non-sidecar init containers with a resize policy of RestartContainer cannot be resized`},
		},
		"an ephemeral container is added": {
			update:   podtest.SetEphemeralContainers(debugger("")),
			wantErrs: []string{`spec.ephemeralContainers: Forbidden: ephemeral containers cannot be changed through pods/dynamic; add them through pods/ephemeralcontainers`},
		},
		"an ephemeral container is removed": {
			old:      podtest.SetEphemeralContainers(debugger("")),
			update:   podtest.SetEphemeralContainers(),
			wantErrs: []string{`spec.ephemeralContainers: Forbidden`},
		},
		"the limit of a memory-backed volume changes where resize allows it": {
			opts:   func(opts *PodValidationOptions) { opts.InPlacePodVerticalScalingMemoryBackedVolumesEnabled = true },
			old:    podtest.SetVolumes(memoryVolume("1Gi")),
			update: tweaks(podtest.SetVolumes(memoryVolume("2Gi")), add(podtest.MakeContainer("new"))),
		},
		"the limit of a memory-backed volume changes where resize does not allow it": {
			old:      podtest.SetVolumes(memoryVolume("1Gi")),
			update:   podtest.SetVolumes(memoryVolume("2Gi")),
			wantErrs: []string{`spec.volumes[0]: Forbidden: volumes cannot be added, removed, changed or reordered`},
		},
		"a volume is removed where resize allows limits to change": {
			opts:     func(opts *PodValidationOptions) { opts.InPlacePodVerticalScalingMemoryBackedVolumesEnabled = true },
			old:      podtest.SetVolumes(memoryVolume("1Gi")),
			update:   podtest.SetVolumes(),
			wantErrs: []string{`spec.volumes: Forbidden: volumes may not be added or removed on resize`},
		},

		// The rest of the pod.
		"labels, annotations, a toleration and the deadline change together with containers": {
			old: podtest.SetActiveDeadlineSeconds(100),
			update: tweaks(
				podtest.SetLabels(m{"a": "b"}), podtest.SetAnnotations(m{"a": "b"}), podtest.SetActiveDeadlineSeconds(50),
				podtest.SetTolerations(core.Toleration{Key: "k", Operator: "Exists", Effect: "NoSchedule"}),
				remove("main"), add(podtest.MakeContainer("new"))),
		},
		"a toleration is removed": {
			old:      podtest.SetTolerations(core.Toleration{Key: "k", Operator: "Exists", Effect: "NoSchedule"}),
			update:   podtest.SetTolerations(),
			wantErrs: []string{`spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds`},
		},
		"the deadline grows": {
			old:      podtest.SetActiveDeadlineSeconds(100),
			update:   podtest.SetActiveDeadlineSeconds(200),
			wantErrs: []string{`spec.activeDeadlineSeconds: Invalid value: 200: must be less than or equal to previous value`},
		},
		"a negative grace period becomes 1": {
			old:    podtest.SetTerminationGracePeriodSeconds(-1),
			update: podtest.SetTerminationGracePeriodSeconds(1),
		},
		"the grace period changes": {
			update:   podtest.SetTerminationGracePeriodSeconds(5),
			wantErrs: []string{`spec.terminationGracePeriodSeconds: Forbidden: cannot be changed on an existing pod`},
		},
		"the node, the service account and the host network change": {
			update: func(pod *core.Pod) {
				pod.Spec.NodeName, pod.Spec.HostNetwork = "other", true
				pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = "a", "a"
			},
			wantErrs: []string{
				`spec.hostNetwork: Forbidden: cannot be changed on an existing pod`,
				`spec.nodeName: Forbidden: cannot be changed on an existing pod`,
				`spec.serviceAccount: Forbidden: cannot be changed on an existing pod`,
				`spec.serviceAccountName: Forbidden: cannot be changed on an existing pod`,
			},
		},
		"the node selector of a running pod changes": {
			update:   podtest.SetNodeSelector(m{"a": "b"}),
			wantErrs: []string{`spec.nodeSelector: Forbidden: cannot be changed on an existing pod`},
		},
		"the node selector of a gated pod is extended": {
			old:    tweaks(podtest.SetNodeName(""), podtest.SetSchedulingGates(core.PodSchedulingGate{Name: "a.b/c"}), podtest.SetStatus(core.PodStatus{Phase: core.PodPending})),
			update: podtest.SetNodeSelector(m{"a": "b"}),
		},
		"a label is invalid": {
			update:   podtest.SetLabels(m{"a b": "c"}),
			wantErrs: []string{`metadata.labels: Invalid value: "a b"`},
		},
		"a mirror annotation is added": {
			update:   podtest.SetAnnotations(m{core.MirrorPodAnnotationKey: "a"}),
			wantErrs: []string{`metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation`},
		},

		// Removed containers.
		"a removed container is read by a downward API volume": {
			old: podtest.SetVolumes(core.Volume{Name: "v", VolumeSource: core.VolumeSource{DownwardAPI: &core.DownwardAPIVolumeSource{
				Items: []core.DownwardAPIVolumeFile{{Path: "cpu", ResourceFieldRef: cpuOf("side").ResourceFieldRef}}}}}),
			update:   remove("side"),
			wantErrs: []string{`spec.containers[side]: Forbidden: the container cannot be removed while the downward API reads its resources in spec.volumes[0].downwardAPI.items[0].resourceFieldRef`},
		},
		"a removed container is read by a projected volume": {
			old: podtest.SetVolumes(core.Volume{Name: "v", VolumeSource: core.VolumeSource{Projected: &core.ProjectedVolumeSource{
				Sources: []core.VolumeProjection{{DownwardAPI: &core.DownwardAPIProjection{
					Items: []core.DownwardAPIVolumeFile{{Path: "cpu", ResourceFieldRef: cpuOf("side").ResourceFieldRef}}}}}}}}),
			update:   remove("side"),
			wantErrs: []string{`spec.containers[side]: Forbidden: the container cannot be removed while the downward API reads its resources in spec.volumes[0].projected.sources[0].downwardAPI.items[0].resourceFieldRef`},
		},
		"a removed container is read by the environment of one that stays": {
			old:      change("main", env("CPU", cpuOf("side"))),
			update:   remove("side"),
			wantErrs: []string{`spec.containers[side]: Forbidden: the container cannot be removed while the downward API reads its resources in spec.containers[0].env[0].valueFrom.resourceFieldRef; remove the containers that read them in the same update`},
		},
		"a removed container is read by the environment of one that is added": {
			update: tweaks(remove("side"), func(pod *core.Pod) {
				c := podtest.MakeContainer("new")
				env("CPU", cpuOf("side"))(&c)
				add(c)(pod)
			}),
			wantErrs: []string{`spec.containers[side]: Forbidden: the container cannot be removed while the downward API reads its resources in spec.containers[1].env[0]`},
		},
		"a removed container is read by the environment of one that is removed too": {
			old:    change("side", env("CPU", cpuOf("main"))),
			update: tweaks(remove("main", "side"), add(podtest.MakeContainer("new"))),
		},
		"a removed container is read by an ephemeral container that has started": {
			old: func(pod *core.Pod) {
				ec := debugger("")
				env("CPU", cpuOf("side"))((*core.Container)(&ec.EphemeralContainerCommon))
				pod.Spec.EphemeralContainers = []core.EphemeralContainer{ec}
				pod.Status.EphemeralContainerStatuses = []core.ContainerStatus{{Name: "debugger", State: core.ContainerState{Running: &core.ContainerStateRunning{}}}}
			},
			update: remove("side"),
		},
		"a removed container is read by an ephemeral container that has not started": {
			old: func(pod *core.Pod) {
				ec := debugger("")
				env("CPU", cpuOf("side"))((*core.Container)(&ec.EphemeralContainerCommon))
				pod.Spec.EphemeralContainers = []core.EphemeralContainer{ec}
			},
			update:   remove("side"),
			wantErrs: []string{`spec.containers[side]: Forbidden: the container cannot be removed while the downward API reads its resources in spec.ephemeralContainers[0].env[0]`},
		},
		"a removed container has an extended resource": {
			old:    change("side", func(c *core.Container) { resources(m{"example.com/gpu": "1"}, m{"example.com/gpu": "1"})(c) }),
			update: remove("side"),
			wantErrs: []string{
				`spec.containers[side].resources.limits[example.com/gpu]: Forbidden: a container can only be removed from a running pod if it asks for nothing but cpu and memory`,
				`spec.containers[side].resources.requests[example.com/gpu]: Forbidden`,
			},
		},
		"a removed container has an extended resource that is mapped to a claim": {
			old: func(pod *core.Pod) {
				pod.Status.ExtendedResourceClaimStatus = &core.PodExtendedResourceClaimStatus{ResourceClaimName: "c",
					RequestMappings: []core.ContainerExtendedResourceRequest{{ContainerName: "side", ResourceName: "example.com/gpu", RequestName: "r"}}}
			},
			update:   remove("side"),
			wantErrs: []string{`spec.containers[side]: Forbidden: the container cannot be removed while status.extendedResourceClaimStatus maps its extended resource example.com/gpu to a resource claim`},
		},
		"a removed container names a resource claim": {
			old: tweaks(podtest.SetResourceClaims(core.PodResourceClaim{Name: "gpu", ResourceClaimName: ptr.To("gpu")}),
				change("side", func(c *core.Container) { c.Resources.Claims = []core.ResourceClaim{{Name: "gpu"}} })),
			update: remove("side"),
		},
		"a removed container is the target of an ephemeral container": {
			old:    podtest.SetEphemeralContainers(debugger("side")),
			update: remove("side"),
		},
		"an ephemeral container is pointed at a container that does not exist": {
			old:    podtest.SetEphemeralContainers(debugger("side")),
			update: tweaks(remove("side"), podtest.SetEphemeralContainers(debugger("other"))),
			wantErrs: []string{
				`spec.ephemeralContainers: Forbidden`,
				`spec.ephemeralContainers[0].targetContainerName: Not found: "other"`,
			},
		},
		"the legacy AppArmor annotation of a removed container goes with it": {
			old:    podtest.SetAnnotations(m{appArmor("side"): "runtime/default", appArmor("main"): "runtime/default"}),
			update: tweaks(remove("side"), podtest.SetAnnotations(m{appArmor("main"): "runtime/default"})),
		},
		"the legacy AppArmor annotation of a container that stays is dropped": {
			old:      podtest.SetAnnotations(m{appArmor("side"): "runtime/default", appArmor("main"): "runtime/default"}),
			update:   tweaks(remove("side"), podtest.SetAnnotations(nil)),
			wantErrs: []string{`metadata.annotations[container.apparmor.security.beta.kubernetes.io/main]: Forbidden: may not remove or update AppArmor annotations`},
		},

		// Old pods that are invalid by today's rules.
		"an old pod that is invalid loses a container": {
			old: tweaks(change("side", func(c *core.Container) { c.TerminationMessagePolicy = "Odd" }), func(pod *core.Pod) { pod.Spec.DNSPolicy = "Odd" }),
			update: func(pod *core.Pod) {
				remove("main")(pod)
			},
		},
		"an old pod that is invalid loses the container that is": {
			old:    change("side", func(c *core.Container) { c.TerminationMessagePolicy = "Odd" }),
			update: remove("side"),
		},
		"an old pod that is invalid loses a container and breaks another rule": {
			old:      change("side", func(c *core.Container) { c.TerminationMessagePolicy = "Odd" }),
			update:   tweaks(remove("main"), change("side", func(c *core.Container) { c.Image = "" })),
			wantErrs: []string{`spec.containers[0].image: Required value`},
		},
		"an old pod that is invalid gets a container": {
			old:      change("side", func(c *core.Container) { c.TerminationMessagePolicy = "Odd" }),
			update:   add(podtest.MakeContainer("new")),
			wantErrs: []string{`spec.containers[1].terminationMessagePolicy: Unsupported value: "Odd"`},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.KubeletAllocatedPodsEndpoint, true)
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DynamicContainers, true)
			noop := func(*core.Pod) {}
			if tc.old == nil {
				tc.old = noop
			}
			if tc.update == nil {
				tc.update = noop
			}
			oldPod := runningPod(tc.old)
			newPod := oldPod.DeepCopy()
			tc.update(newPod)
			before := newPod.DeepCopy()

			addedOpts := PodValidationOptions{
				AllowSidecarResizePolicy:                       true,
				PodLevelResourcesEnabled:                       true,
				InPlacePodLevelResourcesVerticalScalingEnabled: true,
			}
			opts := addedOpts
			if tc.opts != nil {
				tc.opts(&opts)
			}
			errs := ValidatePodDynamicUpdate(newPod, oldPod, opts, addedOpts)

			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			slices.Sort(got)
			want := slices.Clone(tc.wantErrs)
			slices.Sort(want)
			if len(got) != len(want) || !slices.EqualFunc(got, want, strings.HasPrefix) {
				t.Errorf("errors do not start as wanted:\ngot:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
			if diff := cmp.Diff(before, newPod); diff != "" {
				t.Errorf("validation changed the pod (-before +after):\n%s", diff)
			}
		})
	}
}

func sysAdminWithoutEscalation(c *core.Container) {
	c.SecurityContext = &core.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &core.Capabilities{Add: []core.Capability{"CAP_SYS_ADMIN"}},
	}
}

func memoryVolume(limit string) core.Volume {
	return core.Volume{Name: "cache", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{
		Medium: core.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse(limit))}}}
}

// After a container was removed that an ephemeral container targets, the spec
// does not have the target any more. That must not block any later update.
func TestValidatePodUpdatesAfterTargetWasRemoved(t *testing.T) {
	pod := runningPod(podtest.SetEphemeralContainers(debugger("removed")))
	opts := PodValidationOptions{}

	relabeled := pod.DeepCopy()
	relabeled.Labels = map[string]string{"a": "b"}
	if errs := ValidatePodUpdate(relabeled, pod, opts); len(errs) != 0 {
		t.Errorf("main resource: unexpected errors: %v", errs)
	}
	if errs := ValidatePodResize(pod.DeepCopy(), pod, opts); len(errs) != 0 {
		t.Errorf("pods/resize: unexpected errors: %v", errs)
	}
	if errs := ValidatePodDynamicUpdate(relabeled, pod, opts, opts); len(errs) != 0 {
		t.Errorf("pods/dynamic: unexpected errors: %v", errs)
	}
	if errs := ValidatePodStatusUpdate(pod.DeepCopy(), pod, opts); len(errs) != 0 {
		t.Errorf("pods/status: unexpected errors: %v", errs)
	}

	debugged := pod.DeepCopy()
	second := debugger("main")
	second.Name = "second"
	debugged.Spec.EphemeralContainers = append(debugged.Spec.EphemeralContainers, second)
	if errs := ValidatePodEphemeralContainersUpdate(debugged, pod, opts); len(errs) != 0 {
		t.Errorf("pods/ephemeralcontainers: unexpected errors: %v", errs)
	}

	debugged.Spec.EphemeralContainers[1].TargetContainerName = "removed"
	errs := ValidatePodEphemeralContainersUpdate(debugged, pod, opts)
	if len(errs) != 1 || errs[0].Error() != `spec.ephemeralContainers[1].targetContainerName: Not found: "removed"` {
		t.Errorf("pods/ephemeralcontainers: a new container may not target one that was removed, got errors: %v", errs)
	}
}

func TestValidatePodStatusUpdateOfRemovedContainers(t *testing.T) {
	terminated := func(name string) core.ContainerStatus {
		return core.ContainerStatus{Name: name, State: core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: 0, Reason: "Completed", ContainerID: "docker://x"}}}
	}
	running := func(name string) core.ContainerStatus {
		return core.ContainerStatus{Name: name, State: core.ContainerState{Running: &core.ContainerStateRunning{}}}
	}
	waiting := func(name string) core.ContainerStatus {
		return core.ContainerStatus{Name: name, State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "RestartingAllContainers"}}}
	}
	withID := func(status core.ContainerStatus, id string) core.ContainerStatus {
		status.ContainerID = "docker://" + id
		return status
	}
	type statuses = []core.ContainerStatus
	restarting := core.PodCondition{Type: core.AllContainersRestarting, Status: core.ConditionTrue}

	tests := map[string]struct {
		old, new   statuses
		conditions []core.PodCondition
		wantOn     []string
		wantOff    []string
	}{
		"a container that is not in the spec any more is restarted by its own policy": {
			old:     statuses{running("main"), terminated("removed")},
			new:     statuses{running("main"), running("removed")},
			wantOff: []string{"status.containerStatuses[1].state: Forbidden"},
		},
		"the status of a container that is not in the spec any more is dropped": {
			old: statuses{running("main"), terminated("removed")},
			new: statuses{running("main")},
		},
		"a container was added with the name of a removed one": {
			old:     statuses{withID(terminated("main"), "old")},
			new:     statuses{withID(running("main"), "new")},
			wantOff: []string{"status.containerStatuses[0].state: Forbidden"},
		},
		"a container that was added with the name of a removed one waits": {
			old:     statuses{withID(terminated("main"), "old")},
			new:     statuses{waiting("main")},
			wantOff: []string{"status.containerStatuses[0].state: Forbidden"},
		},
		"a container that is in the spec may not be restarted": {
			old:     statuses{terminated("main")},
			new:     statuses{running("main")},
			wantOn:  []string{"status.containerStatuses[0].state: Forbidden"},
			wantOff: []string{"status.containerStatuses[0].state: Forbidden"},
		},
	}
	restartAllTests := map[string]struct {
		old, new   statuses
		conditions []core.PodCondition
		wantOn     []string
		wantOff    []string
	}{
		"all containers restart because of a rule of a container that was removed": {
			old:     statuses{terminated("main"), terminated("side"), terminated("removed")},
			new:     statuses{waiting("main"), running("side"), terminated("removed")},
			wantOff: []string{"status.containerStatuses[0].state: Forbidden", "status.containerStatuses[1].state: Forbidden"},
		},
		"all containers restart and the status of the container with the rule is gone": {
			old:        statuses{terminated("main"), running("side")},
			new:        statuses{running("main"), running("side")},
			conditions: []core.PodCondition{restarting},
			wantOff:    []string{"status.containerStatuses[0].state: Forbidden"},
		},
		"no container was removed": {
			old:     statuses{terminated("main"), running("side")},
			new:     statuses{running("main"), running("side")},
			wantOn:  []string{"status.containerStatuses[0].state: Forbidden"},
			wantOff: []string{"status.containerStatuses[0].state: Forbidden"},
		},
	}

	run := func(t *testing.T, oldStatuses, newStatuses statuses, conditions []core.PodCondition, gate bool, opts PodValidationOptions, want []string) {
		t.Helper()
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.KubeletAllocatedPodsEndpoint, true)
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DynamicContainers, gate)
		oldPod := runningPod(podtest.SetRestartPolicy(core.RestartPolicyNever))
		oldPod.Status.Conditions = append(oldPod.Status.Conditions, conditions...)
		newPod := oldPod.DeepCopy()
		oldPod.Status.ContainerStatuses, newPod.Status.ContainerStatuses = oldStatuses, newStatuses
		var got []string
		for _, err := range ValidatePodStatusUpdate(newPod, oldPod, opts) {
			got = append(got, err.Error())
		}
		if len(got) != len(want) || !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("unexpected errors, got:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
	for name, tc := range tests {
		for _, rules := range []bool{false, true} {
			opts := PodValidationOptions{AllowContainerRestartPolicyRules: rules}
			t.Run(fmt.Sprintf("%s, container restart rules %v, gate on", name, rules), func(t *testing.T) {
				run(t, tc.old, tc.new, tc.conditions, true, opts, tc.wantOn)
			})
			t.Run(fmt.Sprintf("%s, container restart rules %v, gate off", name, rules), func(t *testing.T) {
				run(t, tc.old, tc.new, tc.conditions, false, opts, tc.wantOff)
			})
		}
	}
	for name, tc := range restartAllTests {
		opts := PodValidationOptions{AllowContainerRestartPolicyRules: true, AllowRestartAllContainers: true}
		t.Run(name+", gate on", func(t *testing.T) { run(t, tc.old, tc.new, tc.conditions, true, opts, tc.wantOn) })
		t.Run(name+", gate off", func(t *testing.T) { run(t, tc.old, tc.new, tc.conditions, false, opts, tc.wantOff) })
	}
}

// FuzzValidatePodDynamicUpdate looks for panics, and for accepted updates that
// break a limit: the pairs are made from the bits of the input.
func FuzzValidatePodDynamicUpdate(f *testing.F) {
	for _, seed := range []uint64{0, 1, 0xff, 0xffff, 1 << 40, ^uint64(0)} {
		f.Add(seed, uint8(seed))
	}
	f.Fuzz(func(t *testing.T, bits uint64, order uint8) {
		take := func() bool { bit := bits&1 == 1; bits >>= 1; return bit }
		oldPod := runningPod()
		if take() {
			resources(map[string]string{"cpu": "100m"}, nil)(&oldPod.Spec.Containers[0])
		}
		if take() {
			oldPod.Spec.EphemeralContainers = []core.EphemeralContainer{debugger("side")}
		}
		if take() {
			oldPod.Spec.InitContainers = []core.Container{podtest.MakeContainer("init")}
		}
		if take() {
			env("CPU", cpuOf("side"))(&oldPod.Spec.Containers[0])
		}
		if take() {
			oldPod.Status.Phase = core.PodPending
		}
		newPod := oldPod.DeepCopy()
		if take() {
			remove("side")(newPod)
		}
		if take() {
			remove("main")(newPod)
		}
		for _, name := range []string{"new", "main", "init", "debugger"} {
			if !take() {
				continue
			}
			ctr := podtest.MakeContainer(name)
			if take() {
				ctr.Ports = []core.ContainerPort{{ContainerPort: 1, HostPort: 1, Protocol: core.ProtocolTCP}}
			}
			if take() {
				ctr.SecurityContext = &core.SecurityContext{Privileged: ptr.To(true)}
			}
			if take() {
				resources(map[string]string{"example.com/gpu": "1"}, map[string]string{"example.com/gpu": "1"})(&ctr)
			}
			if take() {
				env("CPU", cpuOf("side"))(&ctr)
			}
			add(ctr)(newPod)
		}
		if n := len(newPod.Spec.Containers); n > 0 {
			i := int(order) % n
			newPod.Spec.Containers = append(newPod.Spec.Containers[i:], newPod.Spec.Containers[:i]...)
		}
		if take() {
			newPod.Spec.InitContainers = nil
		}
		if take() {
			newPod.Spec.EphemeralContainers = nil
		}

		if errs := ValidatePodDynamicUpdate(newPod, oldPod, PodValidationOptions{}, PodValidationOptions{}); len(errs) > 0 {
			return
		}
		changes := DiffContainers(&newPod.Spec, &oldPod.Spec)
		if changes.Any() && oldPod.Status.Phase != core.PodRunning {
			t.Errorf("accepted a container change in phase %s", oldPod.Status.Phase)
		}
		if len(newPod.Spec.InitContainers) != len(oldPod.Spec.InitContainers) || len(newPod.Spec.EphemeralContainers) != len(oldPod.Spec.EphemeralContainers) {
			t.Errorf("accepted a change of init or ephemeral containers")
		}
		for _, i := range changes.Added {
			ctr := newPod.Spec.Containers[i]
			if len(ctr.Ports) > 0 || ctr.SecurityContext != nil || len(ctr.Resources.Requests) > 0 {
				t.Errorf("accepted an added container that breaks a limit: %v", ctr)
			}
		}
		for _, removed := range changes.Removed {
			if refs := resourceFieldReferences(newPod, &oldPod.Status)[removed.Name]; len(refs) > 0 {
				t.Errorf("accepted the removal of %s, which %v refer to", removed.Name, refs)
			}
		}
	})
}
