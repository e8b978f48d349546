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
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSave(t *testing.T) {
	const header = "Why: The test needs a patch.\nKEP: correctness\n\n"
	for name, tc := range map[string]struct {
		edit func(*house)
		// want are the files of the overlay that differ afterwards; "" stands for a file that is gone.
		want map[string]string
		// say is what is printed.
		say string
	}{
		"nothing edited": {
			edit: func(*house) {},
			say:  "_output/tree has no edits\n",
		},
		"an upstream file": {
			edit: func(h *house) { h.replace("cmd/folder with space/main.go", "main\n", "main\n\nfunc main() {}\n") },
			want: map[string]string{"cmd/folder with space/main.go.patch": "Why:\nKEP:\n\n" +
				"diff --git a/cmd/folder with space/main.go b/cmd/folder with space/main.go\n" +
				"INDEX\n--- a/cmd/folder with space/main.go\t\n+++ b/cmd/folder with space/main.go\t\n@@ -1 +1,3 @@\n package main\n+\n+func main() {}\n"},
			say: "wrote   cmd/folder with space/main.go.patch\nnote: cmd/folder with space/main.go.patch needs its header filled in\n",
		},
		"a patched file again, with its header kept": {
			edit: func(h *house) { h.replace("pkg/numbers.go", "v30 = 30", "v30 = 3000") },
			want: map[string]string{"pkg/numbers.go.patch": header +
				"diff --git a/pkg/numbers.go b/pkg/numbers.go\nINDEX\n--- a/pkg/numbers.go\n+++ b/pkg/numbers.go\n" +
				"@@ -13,3 +13,3 @@ var (\n \tv09 = 9\n-\tv10 = 10\n+\tv10 = 1000\n \tv11 = 11\n" +
				"@@ -33,3 +33,3 @@ var (\n \tv29 = 29\n-\tv30 = 30\n+\tv30 = 3000\n \tv31 = 31\n"},
			say: "wrote   pkg/numbers.go.patch\n",
		},
		"a generated file again, with its command kept": {
			edit: func(h *house) { h.replace("pkg/zz_generated.deepcopy.go", "generated = 1", "generated = 2") },
			want: map[string]string{"pkg/zz_generated.deepcopy.go.patch": "Why: The test needs a patch.\nKEP: correctness\nGenerated-by: hack/update-codegen.sh\n\n" +
				"diff --git a/pkg/zz_generated.deepcopy.go b/pkg/zz_generated.deepcopy.go\nINDEX\n--- a/pkg/zz_generated.deepcopy.go\n+++ b/pkg/zz_generated.deepcopy.go\n" +
				"@@ -3 +3,3 @@\n package numbers\n+\n+var generated = 2\n"},
			say: "wrote   pkg/zz_generated.deepcopy.go.patch\n",
		},
		"an edit undone": {
			edit: func(h *house) { h.edit("pkg/numbers.go", numbers(40)) },
			want: map[string]string{"pkg/numbers.go.patch": ""},
			say:  "removed pkg/numbers.go.patch\n",
		},
		"an upstream file deleted": {
			edit: func(h *house) { h.remove(h.tree("pkg/numbers_test.go")) },
			want: map[string]string{"pkg/numbers_test.go.patch": "Why:\nKEP:\n\n" +
				"diff --git a/pkg/numbers_test.go b/pkg/numbers_test.go\ndeleted file mode 100644\nINDEX\n--- a/pkg/numbers_test.go\n+++ /dev/null\n@@ -1 +0,0 @@\n-package numbers\n"},
			say: "wrote   pkg/numbers_test.go.patch\nnote: pkg/numbers_test.go.patch needs its header filled in\n",
		},
		"a new file": {
			edit: func(h *house) { h.edit("staging/src/k8s.io/api/new/new.go", "package new\n") },
			want: map[string]string{"staging/src/k8s.io/api/new/new.go": "package new\n"},
			say:  "wrote   staging/src/k8s.io/api/new/new.go\n",
		},
		"a new file that is empty": {
			edit: func(h *house) { h.edit("pkg/empty", "") },
			want: map[string]string{"pkg/empty": ""},
			say:  "wrote   pkg/empty\n",
		},
		"a new file with line ends that upstream's .gitattributes would change": {
			edit: func(h *house) { h.edit("pkg/new.txt", "line\r\n") },
			want: map[string]string{"pkg/new.txt": "line\r\n"},
			say:  "wrote   pkg/new.txt\n",
		},
		"one of our files": {
			edit: func(h *house) { h.replace("pkg/dynamic/dynamic.go", "package dynamic", "package dynamic // edited") },
			want: map[string]string{"pkg/dynamic/dynamic.go": license + "package dynamic // edited\n"},
			say:  "wrote   pkg/dynamic/dynamic.go\n",
		},
		"one of our files deleted": {
			edit: func(h *house) { h.remove(h.tree("pkg/dynamic/dynamic.go")) },
			want: map[string]string{"pkg/dynamic/dynamic.go": ""},
			say:  "removed pkg/dynamic/dynamic.go\n",
		},
		"commits and a binary file": {
			edit: func(h *house) {
				h.edit("pkg/binary.bin", "\x00\x03")
				h.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "--quiet", "--all", "-m", "my work")
			},
			want: map[string]string{"pkg/binary.bin.patch": "Why:\nKEP:\n\n" +
				"diff --git a/pkg/binary.bin b/pkg/binary.bin\nINDEX\nGIT binary patch\nliteral 2\nJcmZQz1^@sB00aO4\n\nliteral 3\nKcmZQzWC8#H2LJ>B\n\n"},
			say: "wrote   pkg/binary.bin.patch\nnote: pkg/binary.bin.patch needs its header filled in\n",
		},
		"line ends are kept": {
			edit: func(h *house) { h.edit("pkg/dos.txt", "line ends\r\nthat stay\r\n") },
			want: map[string]string{"pkg/dos.txt.patch": "Why:\nKEP:\n\n" +
				"diff --git a/pkg/dos.txt b/pkg/dos.txt\nINDEX\n--- a/pkg/dos.txt\n+++ b/pkg/dos.txt\n@@ -1,2 +1,2 @@\n line ends\r\n-that must stay\r\n+that stay\r\n"},
			say: "wrote   pkg/dos.txt.patch\nnote: pkg/dos.txt.patch needs its header filled in\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := withOverlay(t)
			before := h.overlayFiles()
			tc.edit(h)
			edited := h.files(h.tree(""))
			if diff := cmp.Diff(tc.say, h.must(h.save)); diff != "" {
				t.Errorf("unexpected output (-want +got):\n%s", diff)
			}

			changed := map[string]string{}
			after := h.overlayFiles()
			for file, content := range after {
				if old, ok := before[file]; !ok || old != content {
					changed[file] = content
				}
			}
			for file := range before {
				if _, ok := after[file]; !ok {
					changed[file] = ""
				}
			}
			for file := range changed {
				if want, ok := tc.want[file]; ok {
					tc.want[file] = maskIndex(want)
					changed[file] = maskIndex(changed[file])
				}
			}
			if diff := cmp.Diff(tc.want, changed); diff != "" && len(tc.want)+len(changed) > 0 {
				t.Errorf("unexpected changes of the overlay (-want +got):\n%s", diff)
			}

			// What was saved is what is composed: the tree is clean, and a new one is the same.
			if out := h.must(h.compose); !strings.Contains(out, "up to date") {
				t.Errorf("compose after save had something to do: %s", out)
			}
			if got := h.git("status", "--porcelain"); got != "" {
				t.Errorf("git sees changes after save:\n%s", got)
			}
			if err := os.RemoveAll(h.tree("")); err != nil {
				t.Fatal(err)
			}
			h.must(h.compose)
			if diff := cmp.Diff(edited, h.files(h.tree(""))); diff != "" {
				t.Errorf("a new tree is not the one that was saved (-want +got):\n%s", diff)
			}
		})
	}
}

// maskIndex hides the hashes, which say nothing to a reader; that they are right is checked by compose.
func maskIndex(patch string) string {
	return indexLine.ReplaceAllString(patch, "INDEX")
}

func TestSaveRefusesWhatTheOverlayCannotHold(t *testing.T) {
	h := withOverlay(t)
	h.edit("go.mod", "module k8s.io/kubernetes\n")
	h.edit("new-at-the-top.txt", "x\n")
	h.edit("pkg/new.patch", "x\n")
	h.edit("pkg/new.ignored", "x\n")
	if err := os.Symlink("numbers.go", h.tree("pkg/link.go")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(h.tree("pkg/other.go"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.edit("pkg/fine.go", "package numbers\n")

	overlay, tree := h.overlayFiles(), h.files(h.tree(""))
	h.wantLines(h.fails(h.save),
		"nothing was saved:",
		"go.mod: only changes in api, cmd, pkg, plugin, staging, test can be saved",
		"new-at-the-top.txt: only changes in api, cmd, pkg, plugin, staging, test can be saved",
		"pkg/link.go: only regular files can be saved",
		"pkg/new.patch: a file of ours cannot be called *.patch: in the overlay that is a patch",
		"pkg/other.go: the mode of an upstream file cannot be changed (it is 100644)")
	for _, file := range []string{"new-at-the-top.txt", "pkg/new.patch", "pkg/link.go"} {
		h.remove(h.tree(file))
	}
	h.git("checkout", "--quiet", "go.mod", "pkg/other.go")
	h.wantLines(h.fails(h.save), "nothing was saved:", "pkg/new.ignored: ignored by this repository (.gitignore or your own excludes)")
	if diff := cmp.Diff(overlay, h.overlayFiles()); diff != "" {
		t.Errorf("the overlay was changed:\n%s", diff)
	}
	if got := h.read(h.tree("pkg/fine.go")); got != tree["pkg/fine.go"] {
		t.Errorf("an edit was lost: %q", got)
	}
}

func TestSaveRefusesConflicts(t *testing.T) {
	h := withOverlay(t)
	// Another clone's commits arrive in the overlay, while the same files are edited in the tree.
	h.write("pkg/dynamic/dynamic.go", license+"package dynamic // theirs\n")
	h.remove(h.own("pkg/numbers.go.patch"))
	h.write("pkg/both.go", "package numbers // theirs\n")
	h.write("pkg/theirs.go", "package numbers\n")

	h.replace("pkg/dynamic/dynamic.go", "package dynamic", "package dynamic // ours")
	h.replace("pkg/numbers.go", "v30 = 30", "v30 = 3000")
	h.edit("pkg/both.go", "package numbers // ours\n")
	h.edit("pkg/ours.go", "package numbers\n")

	before := h.overlayFiles()
	h.wantLines(h.fails(h.save),
		"nothing was saved:",
		"pkg/both.go: conflict: changed in the overlay as well since the tree was composed",
		"pkg/dynamic/dynamic.go: conflict: changed in the overlay as well since the tree was composed",
		"pkg/numbers.go: conflict: changed in the overlay as well since the tree was composed")
	if diff := cmp.Diff(before, h.overlayFiles()); diff != "" {
		t.Errorf("the overlay was changed:\n%s", diff)
	}

	// Once both say the same, there is nothing in the way, and what came in elsewhere is composed afterwards.
	h.edit("pkg/dynamic/dynamic.go", license+"package dynamic // theirs\n")
	h.edit("pkg/numbers.go", numbers(40))
	h.edit("pkg/both.go", "package numbers // theirs\n")
	if diff := cmp.Diff("wrote   pkg/ours.go\n", h.must(h.save)); diff != "" {
		t.Errorf("unexpected output (-want +got):\n%s", diff)
	}
	h.must(h.compose)
	if got := h.read(h.tree("pkg/theirs.go")); got != "package numbers\n" {
		t.Errorf("got %q", got)
	}
}

func TestSaveKeepsTheModeOfOurFiles(t *testing.T) {
	h := withOverlay(t)
	h.edit("test/run.sh", "#!/bin/sh\n")
	if err := os.Chmod(h.tree("test/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.must(h.save)
	if err := os.RemoveAll(h.tree("")); err != nil {
		t.Fatal(err)
	}
	h.must(h.compose)
	for _, file := range []string{h.own("test/run.sh"), h.tree("test/run.sh")} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o111 == 0 {
			t.Errorf("%s is not executable (%v)", file, err)
		}
	}
}

// Save can be interrupted after it wrote the overlay and before the tree knows: the edits are then found once more.
func TestSaveCanBeRepeated(t *testing.T) {
	h := withOverlay(t)
	composed := h.git("rev-parse", "HEAD")
	h.replace("pkg/numbers.go", "v30 = 30", "v30 = 3000")
	h.edit("pkg/new.go", "package numbers\n")
	h.must(h.save)
	after := h.overlayFiles()
	h.git("reset", "--quiet", "--mixed", composed)
	h.git("update-ref", composedTag, composed)

	h.must(h.save)
	if diff := cmp.Diff(after, h.overlayFiles()); diff != "" {
		t.Errorf("the overlay is not the same (-want +got):\n%s", diff)
	}
	if out := h.must(h.compose); !strings.Contains(out, "up to date") {
		t.Errorf("got: %s", out)
	}
}

func TestSaveNeedsATree(t *testing.T) {
	h := newHouse(t, fakeModules())
	h.wantLines(h.fails(h.save), "there is no _output/tree: make one with 'make tree'")
	if left, _ := filepath.Glob(h.own("_output/tree/*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
