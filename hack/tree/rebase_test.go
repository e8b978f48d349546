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

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRebase(t *testing.T) {
	h := withOverlay(t)
	h.replace("pkg/other.go", "v05 = 5", "v05 = 50")
	h.edit("staging/src/k8s.io/api/core/v1/types.go", "package v1\n\n// Pod can be changed.\ntype Pod struct{}\n")
	h.must(h.save)
	h.fillHeaders()
	h.must(h.compose)
	before := h.overlayFiles()

	next := nextRelease()
	kubernetes := next["k8s.io/kubernetes@v1.37.3"]
	// Elsewhere in the file, in the same place, and what we had changed ourselves.
	kubernetes["pkg/numbers.go"] = "// Package numbers counts.\n" + strings.Replace(numbers(40), "v35 = 35", "v35 = 3500", 1)
	kubernetes["pkg/other.go"] = strings.Replace(numbers(20), "v05 = 5", "v05 = 55", 1)
	next["k8s.io/api@v0.37.3"]["core/v1/types.go"] = "package v1\n\n// Pod can be changed.\ntype Pod struct{}\n"
	h.pin(next)
	if got := h.fails(h.compose); len(got) != 3 {
		t.Errorf("want three patches to fail, got: %q", got)
	}

	out := h.must(h.rebase)
	want := `rebased  pkg/numbers.go.patch
CONFLICT pkg/other.go.patch
removed, as upstream has the change now:  staging/src/k8s.io/api/core/v1/types.go.patch
Next: 'make tree', resolve the <<<<<<< marks in _output/tree, 'make save'.
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("unexpected output (-want +got):\n%s", diff)
	}
	after := h.overlayFiles()
	for name := range before {
		switch name {
		case "pkg/numbers.go.patch", "pkg/other.go.patch", "staging/src/k8s.io/api/core/v1/types.go.patch":
		default:
			if before[name] != after[name] {
				t.Errorf("%s was changed", name)
			}
		}
	}

	h.must(h.compose)
	if got, want := h.read(h.tree("pkg/numbers.go")), strings.Replace(kubernetes["pkg/numbers.go"], "v10 = 10", "v10 = 1000", 1); got != want {
		t.Errorf("unexpected merge (-want +got):\n%s", cmp.Diff(want, got))
	}
	if got := strings.Join(h.fails(h.verify), "\n"); !strings.Contains(got, "pkg/other.go.patch: has conflict markers") {
		t.Errorf("verify accepts conflict markers: %s", got)
	}
	h.edit("pkg/other.go", strings.Replace(numbers(20), "v05 = 5", "v05 = 5550", 1))
	h.must(h.save)
	h.must(h.verify)
	if out := h.must(h.rebase); out != "no patch needs a rebase to upstream v1.37.3\n" {
		t.Errorf("got: %s", out)
	}
}

func TestRebaseNeedsTheOldRelease(t *testing.T) {
	h := withOverlay(t)
	if err := os.RemoveAll(h.own("_output")); err != nil {
		t.Fatal(err)
	}
	next := nextRelease()
	next["k8s.io/kubernetes@v1.37.3"]["pkg/numbers.go"] = numbers(41)
	delete(next["k8s.io/kubernetes@v1.37.3"], "pkg/zz_generated.deepcopy.go")
	h.pin(next)
	before := h.overlayFiles()
	h.wantLines(h.fails(h.rebase),
		"nothing was changed:",
		"pkg/zz_generated.deepcopy.go.patch: upstream has no pkg/zz_generated.deepcopy.go any more: see where it went, and move or remove the patch",
		"pkg/numbers.go.patch: the upstream file that it was made for is not at hand: 'make tree' with the pins of that release first")
	if diff := cmp.Diff(before, h.overlayFiles()); diff != "" {
		t.Errorf("the overlay was changed:\n%s", diff)
	}
}
