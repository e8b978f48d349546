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

package pod

import (
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/client"
)

func setDynamicContainers(t *testing.T, enabled bool) {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.KubeletAllocatedPodsEndpoint: enabled,
		features.DynamicContainers:            enabled,
	})
}

func statusRunning(name string) api.ContainerStatus {
	return api.ContainerStatus{Name: name, State: api.ContainerState{Running: &api.ContainerStateRunning{}}}
}

func statusTerminated(name string) api.ContainerStatus {
	return api.ContainerStatus{Name: name, State: api.ContainerState{Terminated: &api.ContainerStateTerminated{}}}
}

func statusWaiting(name, reason string) api.ContainerStatus {
	return api.ContainerStatus{Name: name, State: api.ContainerState{Waiting: &api.ContainerStateWaiting{Reason: reason}}}
}

// Logs, exec and attach find a container for as long as there is something to find.
func TestLocationsOfRemovedContainers(t *testing.T) {
	pod := &api.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod1"},
		Spec:       api.PodSpec{NodeName: "node1", Containers: []api.Container{{Name: "main"}}},
		Status: api.PodStatus{ContainerStatuses: []api.ContainerStatus{
			statusRunning("main"),
			statusRunning("stopping"),
			statusTerminated("stopped"),
			statusWaiting("crashing", "CrashLoopBackOff"),
		}},
	}

	type result struct {
		// container is the one that the node is asked for, empty if it is not asked.
		container string
		code      int32
		err       string
	}
	invalid := result{code: http.StatusBadRequest, err: "is not valid for pod pod1"}
	tests := map[string]struct {
		container string
		// wantLog is for logs, want for exec and attach.
		wantLog, want result
		// wantOff is for all of them with the feature off.
		wantOff result
	}{
		"a container of the spec": {
			container: "main",
			wantLog:   result{container: "main"},
			want:      result{container: "main"},
			wantOff:   result{container: "main"},
		},
		"the default is the container of the spec": {
			wantLog: result{container: "main"},
			want:    result{container: "main"},
			wantOff: result{container: "main"},
		},
		"a removed container that still runs": {
			container: "stopping",
			wantLog:   result{container: "stopping"},
			want:      result{container: "stopping"},
			wantOff:   invalid,
		},
		"a removed container that has terminated": {
			container: "stopped",
			wantLog:   result{container: "stopped"},
			want:      result{code: http.StatusBadRequest, err: "container stopped was removed from pod pod1 and has terminated; only its logs are left"},
			wantOff:   invalid,
		},
		"a removed container that waits to be restarted": {
			container: "crashing",
			wantLog:   result{container: "crashing"},
			want:      result{code: http.StatusBadRequest, err: "container crashing was removed from pod pod1 and does not run"},
			wantOff:   invalid,
		},
		"a container whose status is gone": {
			container: "gone",
			wantLog:   result{code: http.StatusNotFound, err: "container gone is not valid for pod pod1: neither spec nor status list it"},
			want:      invalid,
			wantOff:   invalid,
		},
	}
	for name, tc := range tests {
		for _, enabled := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "/feature on", false: "/feature off"}[enabled], func(t *testing.T) {
				setDynamicContainers(t, enabled)
				getter, connInfo := &mockPodGetter{pod}, &mockConnectionInfoGetter{&client.ConnectionInfo{}}
				ctx := genericapirequest.NewDefaultContext()

				got := map[string]result{}
				record := func(path string, locPath string, err error) {
					got[path] = result{container: locPath}
					if status, ok := err.(errors.APIStatus); ok {
						got[path] = result{code: status.Status().Code, err: err.Error()}
					} else if err != nil {
						t.Fatalf("%s: not an API status: %v", path, err)
					}
				}
				path := func(prefix, path string) string { return strings.TrimPrefix(path, "/"+prefix+"/ns/pod1/") }
				stream := api.LogStreamAll
				if loc, _, err := LogLocation(ctx, getter, connInfo, "pod1", &api.PodLogOptions{Container: tc.container, Stream: &stream}); err != nil {
					record("log", "", err)
				} else {
					record("log", path("containerLogs", loc.Path), nil)
				}
				if loc, _, err := ExecLocation(ctx, getter, connInfo, "pod1", &api.PodExecOptions{Container: tc.container}); err != nil {
					record("exec", "", err)
				} else {
					record("exec", path("exec", loc.Path), nil)
				}
				if loc, _, err := AttachLocation(ctx, getter, connInfo, "pod1", &api.PodAttachOptions{Container: tc.container}); err != nil {
					record("attach", "", err)
				} else {
					record("attach", path("attach", loc.Path), nil)
				}

				for path, want := range map[string]result{"log": tc.wantLog, "exec": tc.want, "attach": tc.want} {
					if !enabled {
						want = tc.wantOff
					}
					if got := got[path]; got.container != want.container || got.code != want.code || !strings.Contains(got.err, want.err) {
						t.Errorf("%s: want %+v, got %+v", path, want, got)
					}
				}
			})
		}
	}
}

// The default container is a matter of the spec, whatever else still runs.
func TestDefaultContainerIsOfSpec(t *testing.T) {
	setDynamicContainers(t, true)
	pod := &api.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod1"},
		Spec:       api.PodSpec{Containers: []api.Container{{Name: "a"}, {Name: "b"}}},
		Status:     api.PodStatus{ContainerStatuses: []api.ContainerStatus{statusRunning("removed")}},
	}
	const want = "a container name must be specified for pod pod1, choose one of: [a b]"
	for name, validate := range map[string]func(string, *api.Pod) (string, error){"log": validateLogContainer, "stream": validateStreamContainer} {
		if got, err := validate("", pod); err == nil || err.Error() != want {
			t.Errorf("%s: want error %q, got container %q and error %v", name, want, got, err)
		}
	}
}

// An added container does not get requests to the default port before the node has allocated it.
func TestDefaultPortOfAllocatedContainer(t *testing.T) {
	container := func(name string, port int32) api.Container {
		c := api.Container{Name: name}
		if port != 0 {
			c.Ports = []api.ContainerPort{{ContainerPort: port}}
		}
		return c
	}
	containers := []api.Container{container("new", 1), container("plain", 0), container("main", 2), container("side", 3)}
	tests := map[string]struct {
		statuses []api.ContainerStatus
		want     string
		wantOff  string
	}{
		"no status yet": {
			want: "1.2.3.4:1", wantOff: "1.2.3.4:1",
		},
		"the first has no status yet": {
			statuses: []api.ContainerStatus{statusRunning("main"), statusRunning("side"), statusRunning("plain")},
			want:     "1.2.3.4:2", wantOff: "1.2.3.4:1",
		},
		"the first is not allocated": {
			statuses: []api.ContainerStatus{statusWaiting("new", v1.ContainerReasonUnallocated), statusRunning("main"), statusRunning("side"), statusRunning("plain")},
			want:     "1.2.3.4:2", wantOff: "1.2.3.4:1",
		},
		"the first is being created": {
			statuses: []api.ContainerStatus{statusWaiting("new", "ContainerCreating"), statusRunning("main")},
			want:     "1.2.3.4:1", wantOff: "1.2.3.4:1",
		},
		"a container that crashes keeps its port": {
			statuses: []api.ContainerStatus{statusWaiting("new", v1.ContainerReasonUnallocated), statusTerminated("main"), statusRunning("side")},
			want:     "1.2.3.4:2", wantOff: "1.2.3.4:1",
		},
		"only removed containers have a status": {
			statuses: []api.ContainerStatus{statusRunning("removed")},
			want:     "1.2.3.4:1", wantOff: "1.2.3.4:1",
		},
	}
	for name, tc := range tests {
		for _, enabled := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "/feature on", false: "/feature off"}[enabled], func(t *testing.T) {
				setDynamicContainers(t, enabled)
				want := tc.want
				if !enabled {
					want = tc.wantOff
				}
				pod := &api.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "pod1"},
					Spec:       api.PodSpec{Containers: containers},
					Status:     api.PodStatus{PodIPs: []api.PodIP{{IP: "1.2.3.4"}}, ContainerStatuses: tc.statuses},
				}
				loc, _, err := ResourceLocation(genericapirequest.NewDefaultContext(), &mockPodGetter{pod}, nil, "pod1")
				if err != nil {
					t.Fatal(err)
				}
				if loc.Host != want {
					t.Errorf("want %s, got %s", want, loc.Host)
				}
			})
		}
	}
}
