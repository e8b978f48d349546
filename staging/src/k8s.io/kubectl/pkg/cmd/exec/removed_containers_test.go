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

package exec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/scheme"
)

// A removed container that still runs can be used by who names it. The server
// decides whether it still runs.
func TestExecInRemovedContainer(t *testing.T) {
	pod := execPod()
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "removed"}, {Name: "bar"}}
	for container, want := range map[string]struct{ container, err string }{
		"removed": {container: "removed"},
		"bar":     {container: "bar"},
		"":        {container: "bar"},
		"gone":    {err: "container gone is not valid for pod foo out of: bar"},
	} {
		t.Run("container "+container, func(t *testing.T) {
			executor := &fakeRemoteExecutor{}
			options := &ExecOptions{
				StreamOptions: StreamOptions{
					PodName: pod.Name, Namespace: pod.Namespace, ContainerName: container, Quiet: true,
					IOStreams: genericiooptions.NewTestIOStreamsDiscard(),
				},
				Command:   []string{"command"},
				Executor:  executor,
				PodClient: fake.NewClientset(pod).CoreV1(),
				Config: &restclient.Config{APIPath: "/api", ContentConfig: restclient.ContentConfig{
					NegotiatedSerializer: scheme.Codecs, GroupVersion: &schema.GroupVersion{Version: "v1"},
				}},
			}
			err := options.Run()
			if want.err != "" {
				if err == nil || err.Error() != want.err {
					t.Errorf("want error %q, got %v", want.err, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := executor.url.RawQuery; !strings.Contains(got, "container="+want.container) {
				t.Errorf("want a request for container %s, got %s", want.container, got)
			}
		})
	}
}
