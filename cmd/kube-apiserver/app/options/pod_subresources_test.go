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

package options

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestDisablePodSubresourcesFlag(t *testing.T) {
	tests := map[string]struct {
		args []string
		want []string
		// wantErrs has a part of each validation error.
		wantErrs []string
	}{
		"nothing is disabled by default": {},
		"an empty value disables nothing": {
			args: []string{"--disable-pod-subresources="},
			want: []string{},
		},
		"one is disabled": {
			args: []string{"--disable-pod-subresources=dynamic"},
			want: []string{"dynamic"},
		},
		"all that a cluster works without are disabled, in several flags": {
			args: []string{
				"--disable-pod-subresources=dynamic,allocated,resize,ephemeralcontainers",
				"--disable-pod-subresources=exec,attach,portforward,proxy,log",
			},
			want: []string{"dynamic", "allocated", "resize", "ephemeralcontainers", "exec", "attach", "portforward", "proxy", "log"},
		},
		"those without which a cluster does not work": {
			args: []string{"--disable-pod-subresources=status,dynamic,binding,eviction"},
			want: []string{"status", "dynamic", "binding", "eviction"},
			wantErrs: []string{
				`"status" cannot be disabled: kubelets report`,
				`"binding" cannot be disabled: the scheduler assigns`,
				`"eviction" cannot be disabled: drains`,
			},
		},
		"a full name, a typing error, an empty name": {
			args: []string{"--disable-pod-subresources=pods/exec,Dynamic,"},
			want: []string{"pods/exec", "Dynamic", ""},
			wantErrs: []string{
				`"pods/exec" is not the name of a subresource of pods, use any of: allocated, attach, dynamic, ephemeralcontainers, exec, log, portforward, proxy, resize`,
				`"Dynamic" is not the name of a subresource of pods`,
				`"" is not the name of a subresource of pods`,
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewServerRunOptions()
			fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
			for _, f := range s.Flags().FlagSets {
				fs.AddFlagSet(f)
			}
			if err := fs.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, s.DisabledPodSubresources); diff != "" {
				t.Errorf("unexpected subresources (-want +got):\n%s", diff)
			}
			errs := validateDisabledPodSubresources(s.DisabledPodSubresources)
			if len(errs) != len(tc.wantErrs) {
				t.Fatalf("want %d errors, got %v", len(tc.wantErrs), errs)
			}
			for i, want := range tc.wantErrs {
				if !strings.Contains(errs[i].Error(), want) {
					t.Errorf("want an error with %q, got %q", want, errs[i])
				}
			}
		})
	}
}

// The whole of the validation has to know the flag.
func TestValidateDisablePodSubresources(t *testing.T) {
	for subresource, want := range map[string]bool{"dynamic": false, "status": true} {
		s := NewServerRunOptions()
		s.DisabledPodSubresources = []string{subresource}
		completed, err := s.Complete(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := false
		for _, err := range completed.Validate() {
			got = got || strings.Contains(err.Error(), "--disable-pod-subresources")
		}
		if got != want {
			t.Errorf("%s: want an error: %v, got %v", subresource, want, completed.Validate())
		}
	}
}
