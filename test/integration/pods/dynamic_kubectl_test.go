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

package pods

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubernetes/test/integration/framework"
	"k8s.io/kubernetes/test/utils/kubeconfig"
)

// kubectl runs kubectl in a namespace. It returns what kubectl writes to stdout
// and to stderr, and an error with the message of a failure.
func kubectl(t *testing.T, config *rest.Config, namespace string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home) // no files of the user who runs the test
	file := filepath.Join(home, "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig.CreateKubeConfig(config), file); err != nil {
		t.Fatal(err)
	}
	type fatal struct{ message string }
	cmdutil.BehaviorOnFatal(func(message string, code int) { panic(fatal{message}) })
	defer cmdutil.DefaultBehaviorOnFatal()
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(fatal)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("%s", f.message)
		}
	}()

	var out, errOut bytes.Buffer
	defer func() { stdout, stderr = out.String(), errOut.String() }()
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut}
	cmd := kubectlcmd.NewKubectlCommand(kubectlcmd.KubectlOptions{ConfigFlags: genericclioptions.NewConfigFlags(true), IOStreams: streams})
	cmd.SetArgs(append([]string{"--kubeconfig=" + file, "--namespace=" + namespace}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	return "", "", cmd.Execute()
}

// Every verb of kubectl that can change a pod adds and removes containers with
// --subresource=dynamic, and says so without it.
func TestDynamicWithKubectl(t *testing.T) {
	client, config := startDynamicServer(t, true)
	ns := framework.CreateNamespaceOrDie(client, "dynamic-kubectl", t)
	defer framework.DeleteNamespaceOrDie(client, ns, t)
	pods := client.CoreV1().Pods(ns.Name)

	manifest := func(t *testing.T, format string, pod *v1.Pod) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "pod.yaml")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(format, "NAME", pod.Name)), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const withContainerC = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"containers":[{"name":"c","image":"image"}]}}`
	// edited collects what the editor shows.
	edited := filepath.Join(t.TempDir(), "edited")
	tests := map[string]struct {
		// args returns the arguments, without --subresource.
		args func(t *testing.T, pod *v1.Pod) []string
		want []string
	}{
		"edit": {
			args: func(t *testing.T, pod *v1.Pod) []string {
				// On the second call the file says why the first edit was refused.
				script := "#!/bin/sh\ncat \"$1\" >>" + edited + "\nsed -i 's/^    name: b$/    name: c/' \"$1\"\n"
				editor := filepath.Join(t.TempDir(), "editor")
				if err := os.WriteFile(editor, []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
				t.Setenv("KUBE_EDITOR", editor)
				return []string{"edit", "pod", pod.Name}
			},
			want: []string{"a", "c"},
		},
		"patch": {
			args: func(t *testing.T, pod *v1.Pod) []string {
				return []string{"patch", "pod", pod.Name, "-p", `{"spec":{"containers":[{"name":"c","image":"image"},{"name":"b","$patch":"delete"}]}}`}
			},
			want: []string{"a", "c"},
		},
		"apply --server-side": {
			args: func(t *testing.T, pod *v1.Pod) []string {
				return []string{"apply", "--server-side", "-f", manifest(t, withContainerC, pod)}
			},
			want: []string{"a", "b", "c"},
		},
		"replace": {
			args: func(t *testing.T, pod *v1.Pod) []string {
				out, _, err := kubectl(t, config, ns.Name, "get", "pod", pod.Name, "-o", "yaml", "--subresource=dynamic")
				if err != nil {
					t.Fatal(err)
				}
				return []string{"replace", "-f", manifest(t, strings.ReplaceAll(out, "\n    name: b\n", "\n    name: c\n"), pod)}
			},
			want: []string{"a", "c"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := createRunningPod(t, client, ns.Name, dynamicNode)
			_ = os.Remove(edited)
			stdout, stderr, err := kubectl(t, config, ns.Name, tc.args(t, pod)...)
			shown, _ := os.ReadFile(edited) // by edit only
			said := stdout + stderr + string(shown)
			if err != nil {
				said += err.Error()
			}
			if err == nil || !strings.Contains(said, "pods/dynamic") || !strings.Contains(said, "--subresource=dynamic") {
				t.Errorf("without --subresource: want an error that names pods/dynamic, got %v and\n%s", err, said)
			}
			got, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(pod.Spec, got.Spec); diff != "" {
				t.Errorf("the refused change is stored (-want +got):\n%s", diff)
			}

			if stdout, stderr, err = kubectl(t, config, ns.Name, append(tc.args(t, pod), "--subresource=dynamic")...); err != nil {
				t.Fatalf("with --subresource=dynamic: %v\n%s%s", err, stdout, stderr)
			}
			if got, err = pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sets.New(tc.want...), sets.New(containerNames(got)...)); diff != "" {
				t.Errorf("unexpected containers (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("client-side apply", func(t *testing.T) {
		pod := createRunningPod(t, client, ns.Name, dynamicNode)
		file := manifest(t, withContainerC, pod)
		if _, _, err := kubectl(t, config, ns.Name, "apply", "-f", file); err == nil || !strings.Contains(err.Error(), "pods/dynamic") {
			t.Errorf("want an error that names pods/dynamic, got %v", err)
		}
		if _, _, err := kubectl(t, config, ns.Name, "apply", "-f", file, "--subresource=dynamic"); err == nil || !strings.Contains(err.Error(), "--subresource can only be specified for --server-side") {
			t.Errorf("want an error that names --server-side, got %v", err)
		}
	})

	t.Run("get and describe", func(t *testing.T) {
		pod := createRunningPod(t, client, ns.Name, dynamicNode)
		if _, _, err := kubectl(t, config, ns.Name, "patch", "pod", pod.Name, "--subresource=dynamic", "-p", `{"spec":{"containers":[{"name":"b","$patch":"delete"}]}}`); err != nil {
			t.Fatal(err)
		}
		reported, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		a, b := &reported.Status.ContainerStatuses[0], &reported.Status.ContainerStatuses[1]
		a.Ready = true
		b.RestartCount = 5
		b.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Error", ExitCode: 137, ContainerID: b.ContainerID}}
		if _, err := pods.UpdateStatus(t.Context(), reported, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"get", "pod", pod.Name}, {"get", "pod", pod.Name, "--subresource=dynamic"}} {
			out, _, err := kubectl(t, config, ns.Name, args...)
			if err != nil {
				t.Fatal(err)
			}
			// Container b is in the status, but not in the spec any more.
			lines := strings.Split(out, "\n")
			if len(lines) < 2 || !strings.HasPrefix(strings.Join(strings.Fields(lines[1]), " "), pod.Name+" 1/1 Running 0 ") {
				t.Errorf("%s: unexpected columns:\n%s", strings.Join(args, " "), out)
			}
		}
		out, _, err := kubectl(t, config, ns.Name, "describe", "pod", pod.Name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out, "\nRemoved Containers:\n  b:\n") {
			t.Errorf("describe does not show the removed container:\n%s", out)
		}
	})

	t.Run("completion", func(t *testing.T) {
		for _, verb := range []string{"get", "edit", "patch", "apply", "replace"} {
			out, _, err := kubectl(t, config, ns.Name, "__complete", verb, "--subresource", "")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, "\ndynamic\n") || !strings.Contains(out, "\nallocated\n") {
				t.Errorf("%s: completion does not list the subresources:\n%s", verb, out)
			}
		}
	})
}
