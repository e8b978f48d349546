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
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestComposeLaysUpstreamOut(t *testing.T) {
	h := newHouse(t, fakeModules())
	h.must(h.compose)

	want := map[string]string{}
	for file, content := range fakeModules()["k8s.io/kubernetes@v1.37.2"] {
		want[file] = content
	}
	for file, content := range fakeModules()["k8s.io/api@v0.37.2"] {
		want["staging/src/k8s.io/api/"+file] = content
	}
	delete(want, "vendor/OWNERS")
	want["go.mod"] = "module k8s.io/kubernetes\n\ngo 1.26.0\n\nrequire k8s.io/api v0.0.0\n\nreplace k8s.io/api => ./staging/src/k8s.io/api\n"
	want["go.work"] = "go 1.26.0\n\nuse (\n\t.\n\t./staging/src/k8s.io/api\n)\n"
	if diff := cmp.Diff(want, h.files(h.tree(""))); diff != "" {
		t.Errorf("unexpected tree (-want +got):\n%s", diff)
	}

	if info, err := os.Stat(h.tree("hack/run.sh")); err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("a script must be executable: %v %v", info.Mode(), err)
	}
	if got, want := h.git("log", "--format=%s"), "dynamic containers\nupstream v1.37.2"; got != want {
		t.Errorf("unexpected commits: %s", got)
	}
	if got := h.git("status", "--porcelain"); got != "" {
		t.Errorf("git sees changes in a new tree:\n%s", got)
	}
	if leftovers, _ := filepath.Glob(h.tree(".new*")); len(leftovers) > 0 {
		t.Errorf("left behind: %v", leftovers)
	}
}

func TestComposeTwiceChangesNothing(t *testing.T) {
	h := withOverlay(t)
	before, head := modTimes(h), h.git("rev-parse", "HEAD")
	if out := h.must(h.compose); !strings.Contains(out, "up to date") {
		t.Errorf("expected to be told that nothing is to do, got: %s", out)
	}
	if diff := cmp.Diff(before, modTimes(h)); diff != "" {
		t.Errorf("files were touched:\n%s", diff)
	}
	if got := h.git("rev-parse", "HEAD"); got != head {
		t.Errorf("HEAD moved from %s to %s", head, got)
	}
}

func TestComposeIsTheSameOnAnotherMachine(t *testing.T) {
	h := withOverlay(t)
	head := h.git("rev-parse", "HEAD")
	if err := os.RemoveAll(h.tree("")); err != nil {
		t.Fatal(err)
	}
	h.must(h.compose)
	if got := h.git("rev-parse", "HEAD"); got != head {
		t.Errorf("a new tree has commit %s, the old one had %s", got, head)
	}
}

func TestComposeTouchesOnlyWhatChanged(t *testing.T) {
	h := withOverlay(t)
	before := modTimes(h)
	h.write("pkg/dynamic/dynamic.go", license+"package dynamic // changed\n")
	h.write("pkg/new.go", license+"package pkg\n")
	h.remove(h.own("staging/src/k8s.io/api/core/v1/dynamic.go"))
	h.remove(h.own("pkg/dynamic/dynamic_test.go"))
	h.must(h.compose)

	after := modTimes(h)
	var touched []string
	for name, when := range after {
		if !when.Equal(before[name]) {
			touched = append(touched, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			touched = append(touched, "-"+name)
		}
	}
	slices.Sort(touched)
	h.wantLines(touched, "-pkg/dynamic/dynamic_test.go", "-staging/src/k8s.io/api/core/v1/dynamic.go", "pkg/dynamic/dynamic.go", "pkg/new.go")
	if got := h.read(h.tree("pkg/dynamic/dynamic.go")); !strings.Contains(got, "changed") {
		t.Errorf("the change did not arrive: %s", got)
	}
	if got := h.git("status", "--porcelain"); got != "" {
		t.Errorf("git sees changes:\n%s", got)
	}
}

// A folder of ours may make way for a file of ours, and the other way round.
func TestComposeTurnsFoldersIntoFiles(t *testing.T) {
	h := newHouse(t, fakeModules())
	h.write("pkg/thing/a/b.txt", "b\n")
	h.must(h.compose)
	if err := os.RemoveAll(h.own("pkg/thing")); err != nil {
		t.Fatal(err)
	}
	h.write("pkg/thing", "file\n")
	h.must(h.compose)
	if got := h.read(h.tree("pkg/thing")); got != "file\n" {
		t.Errorf("got %q", got)
	}
	h.remove(h.own("pkg/thing"))
	h.write("pkg/thing/a/b.txt", "b\n")
	h.must(h.compose)
	if got := h.read(h.tree("pkg/thing/a/b.txt")); got != "b\n" {
		t.Errorf("got %q", got)
	}
}

func modTimes(h *house) map[string]time.Time {
	h.Helper()
	times := map[string]time.Time{}
	for name := range h.files(h.tree("")) {
		info, err := os.Stat(h.tree(name))
		if err != nil {
			h.Fatal(err)
		}
		times[name] = info.ModTime()
	}
	return times
}

func TestComposeRefusesUnsavedEdits(t *testing.T) {
	h := withOverlay(t)
	h.replace("pkg/other.go", "v05 = 5", "v05 = 50")
	h.git("add", "pkg/other.go") // staged is no more saved than not staged
	h.remove(h.tree("pkg/dos.txt"))
	h.edit("pkg/untracked.go", "package numbers\n")
	h.edit("pkg/ignored.out", "not an edit\n")
	h.replace("pkg/numbers.go", "v20 = 20", "v20 = 2000")
	h.git("-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "--quiet", "-m", "my work", "pkg/numbers.go")
	h.write("pkg/more.go", license+"package numbers\n")

	before := h.files(h.tree(""))
	h.wantLines(h.fails(h.compose),
		"_output/tree has edits that are not saved:",
		"  deleted   pkg/dos.txt",
		"  modified  pkg/numbers.go",
		"  modified  pkg/other.go",
		"  added     pkg/untracked.go",
		"  commit    "+h.git("log", "-1", "--format=%h")+" my work",
		"Nothing was changed. 'make save' writes them into the overlay.")
	if diff := cmp.Diff(before, h.files(h.tree(""))); diff != "" {
		t.Errorf("the tree was changed:\n%s", diff)
	}

	h.must(h.save)
	h.must(h.compose)
	if got := h.read(h.tree("pkg/more.go")); got != license+"package numbers\n" {
		t.Errorf("got %q", got)
	}
}

func TestComposeListsEveryFailure(t *testing.T) {
	h := withOverlay(t)
	zeros := strings.Repeat("0", 40)
	numbers := h.read(h.own("pkg/numbers.go.patch"))
	index := indexLine.FindStringSubmatch(numbers)
	head := h.git("rev-parse", "HEAD")
	other, err := gitAt(h.tree("")).run("rev-parse", "upstream:pkg/other.go")
	if err != nil {
		t.Fatal(err)
	}
	otherBlob := strings.TrimSpace(other)

	// The upstream file is not the one that the patch was made for.
	h.write("pkg/numbers.go.patch", strings.Replace(numbers, index[1], zeros, 1))
	// The result is not the one that the patch promises.
	generated := h.read(h.own("pkg/zz_generated.deepcopy.go.patch"))
	wrong := strings.Replace(generated, "generated = 1", "generated = 2", 1)
	h.write("pkg/zz_generated.deepcopy.go.patch", wrong)
	hash, err := gitAt(h.tree("")).pipe(strings.NewReader(strings.Replace(h.read(h.tree("pkg/zz_generated.deepcopy.go")), "generated = 1", "generated = 2", 1)), "hash-object", "--stdin")
	if err != nil {
		t.Fatal(err)
	}
	// The context is not there.
	h.write("pkg/other.go.patch", fmt.Sprintf("diff --git a/pkg/other.go b/pkg/other.go\nindex %s..%s 100644\n--- a/pkg/other.go\n+++ b/pkg/other.go\n@@ -1 +1 @@\n-package nowhere\n+package somewhere\n", otherBlob, zeros))
	h.write("pkg/gone.go.patch", fmt.Sprintf("diff --git a/pkg/gone.go b/pkg/gone.go\nindex %s..%s 100644\n", zeros, zeros))
	h.write("pkg/dos.txt", "ours\n")
	h.write("pkg/text.txt.patch", "not a patch\n")

	got := h.fails(h.compose)
	slices.Sort(got)
	h.wantLines(got,
		"pkg/dos.txt: would overwrite an upstream file: change it with a patch (edit it in _output/tree, then 'make save')",
		"pkg/gone.go.patch: there is no upstream file pkg/gone.go",
		"pkg/numbers.go.patch: upstream file pkg/numbers.go changed: the patch expected "+zeros+", found "+index[1]+" (see docs/bump.md)",
		"pkg/other.go.patch: corrupt patch: git apply: error: patch failed: pkg/other.go:1; error: pkg/other.go: patch does not apply (edit the tree and 'make save' instead of editing patches)",
		"pkg/text.txt.patch: must hold the diff of one file, holds 0",
		"pkg/zz_generated.deepcopy.go.patch: corrupt patch: its index line promises "+indexLine.FindStringSubmatch(wrong)[2]+", it makes "+strings.TrimSpace(hash)+" (edit the tree and 'make save' instead of editing patches)",
	)
	if got := h.git("rev-parse", "HEAD"); got != head {
		t.Errorf("HEAD moved from %s to %s", head, got)
	}
	if got := h.git("status", "--porcelain"); got != "" {
		t.Errorf("the tree was changed:\n%s", got)
	}
}

func TestComposeRefusesMalformedPatches(t *testing.T) {
	h := withOverlay(t)
	good := h.read(h.own("pkg/numbers.go.patch"))
	hash := strings.Repeat("a", 40)
	for name, tc := range map[string]struct {
		text, want string
	}{
		"no diff":            {"Why: x.\n", "pkg/numbers.go.patch: must hold the diff of one file, holds 0"},
		"two files":          {good + good, "pkg/numbers.go.patch: must hold the diff of one file, holds 2"},
		"other file":         {strings.ReplaceAll(good, "numbers.go", "other.go"), `pkg/numbers.go.patch: must change pkg/numbers.go: expected the line "diff --git a/pkg/numbers.go b/pkg/numbers.go"`},
		"abbreviated hashes": {indexLine.ReplaceAllString(good, "index abcdef1..abcdef2 100644"), "pkg/numbers.go.patch: has no index line with full hashes: write it with 'make save'"},
		"new file":           {"diff --git a/pkg/numbers.go b/pkg/numbers.go\nnew file mode 100644\nindex " + hash + ".." + hash + "\n", "pkg/numbers.go.patch: adds a file: our own files are kept whole, without .patch"},
		"mode":               {"diff --git a/pkg/numbers.go b/pkg/numbers.go\nold mode 100644\nnew mode 100755\n", "pkg/numbers.go.patch: changes the mode of an upstream file: this is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			h.write("pkg/numbers.go.patch", tc.text)
			h.wantLines(h.fails(h.compose), tc.want)
		})
	}
}

func TestComposeChecksThePins(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*house)
		want  string
	}{
		"wrong checksum": {
			func(h *house) { h.write("go.sum", strings.Replace(h.read(h.own("go.sum")), "h1:", "h1:x", 1)) },
			"checksum mismatch: go.sum has h1:x",
		},
		"edited module": {
			func(h *house) {
				// Larger than any buffer, so that git has seen a part of it by the time that the checksum is known.
				writeFile(h.T, filepath.Join(h.modules, "k8s.io/api@v0.37.2/extra.go"), strings.Repeat("package api\n", 1<<19))
			},
			"k8s.io/api@v0.37.2: checksum mismatch: go.sum has",
		},
		"no checksum": {
			func(h *house) { h.write("go.sum", "") },
			"go.sum has no checksum of k8s.io/api@v0.37.2",
		},
		"module dropped by tidy": {
			func(h *house) {
				h.write("go.mod", strings.Replace(h.read(h.own("go.mod")), "require k8s.io/api v0.37.2\n", "", 1))
			},
			"go.mod must pin at v0.37.2, to go with k8s.io/kubernetes v1.37.2: k8s.io/api (see docs/bump.md)",
		},
		"kubernetes dropped by tidy": {
			func(h *house) { h.write("go.mod", "module dynamic-containers\n") },
			"go.mod does not pin k8s.io/kubernetes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, fakeModules())
			good := []string{h.read(h.own("go.mod")), h.read(h.own("go.sum"))}
			tc.spoil(h)
			if got := strings.Join(h.fails(h.compose), "\n"); !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if _, err := os.Stat(h.tree("")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a tree was made of modules that are not right: %v", err)
			}
			h.write("go.mod", good[0])
			h.write("go.sum", good[1])
			_ = os.Remove(filepath.Join(h.modules, "k8s.io/api@v0.37.2/extra.go"))
			h.must(h.compose)
			if _, err := os.Stat(h.tree("staging/src/k8s.io/api/extra.go")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something of the module that was not right is in the tree: %v", err)
			}
		})
	}
}

func TestComposeFollowsThePins(t *testing.T) {
	h := withOverlay(t)
	next := nextRelease()
	next["k8s.io/kubernetes@v1.37.3"]["pkg/other.go"] = numbers(21)
	h.pin(next)

	h.replace("pkg/other.go", "v01 = 1\n", "v01 = 11\n")
	if got := h.fails(h.compose); got[0] != "_output/tree has edits that are not saved:" {
		t.Errorf("unexpected lines: %q", got)
	}
	h.git("checkout", "--quiet", "pkg/other.go")

	before := modTimes(h)
	h.must(h.compose)
	if got := h.read(h.tree("pkg/other.go")); got != numbers(21) {
		t.Errorf("upstream's change did not arrive: %s", got)
	}
	if after := modTimes(h); !after["pkg/numbers.go"].Equal(before["pkg/numbers.go"]) {
		t.Error("a file that did not change was written")
	}
	if got, want := h.git("log", "--format=%s"), "dynamic containers\nupstream v1.37.3"; got != want {
		t.Errorf("unexpected commits: %s", got)
	}
}

// nextRelease is the fake upstream as v1.37.3, with nothing else changed.
func nextRelease() map[string]map[string]string {
	modules := fakeModules()
	return map[string]map[string]string{
		"k8s.io/kubernetes@v1.37.3": modules["k8s.io/kubernetes@v1.37.2"],
		"k8s.io/api@v0.37.3":        modules["k8s.io/api@v0.37.2"],
	}
}

func TestComposeRefusesAFolderThatIsNotATree(t *testing.T) {
	h := newHouse(t, fakeModules())
	h.edit("precious.txt", "mine\n")
	h.wantLines(h.fails(h.compose), "_output/tree is there but was not made by 'make tree': move it away")
	if got := h.read(h.tree("precious.txt")); got != "mine\n" {
		t.Errorf("got %q", got)
	}
}

func TestComposeIgnoresTheCallersGit(t *testing.T) {
	h := newHouse(t, fakeModules())
	// As in a git hook, and with a configuration that would change diffs and line ends.
	t.Setenv("GIT_DIR", filepath.Join(h.root, "nowhere"))
	t.Setenv("GIT_INDEX_FILE", filepath.Join(h.root, "nowhere"))
	config := filepath.Join(t.TempDir(), "config")
	writeFile(t, config, "[core]\n\tautocrlf = input\n[diff]\n\tnoprefix = true\n\tcontext = 7\n")
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	h.must(h.compose)
	h.replace("pkg/numbers.go", "v10 = 10", "v10 = 1000")
	h.replace("pkg/dos.txt", "stay", "not change")
	h.must(h.save)
	if got, want := h.read(h.own("pkg/numbers.go.patch")), "@@ -13,3 +13,3 @@ var (\n \tv09 = 9\n-\tv10 = 10\n+\tv10 = 1000\n \tv11 = 11\n"; !strings.HasSuffix(got, want) {
		t.Errorf("unexpected patch:\n%s", got)
	}
	h.must(h.compose)
}

// The overlay is moved between two states, and each move is killed at a random moment. Whatever the moment, the next
// compose must arrive at the right tree without help.
func TestComposeSurvivesKill(t *testing.T) {
	h := newHouse(t, fakeModules())
	// How long a compose takes here decides when it can be killed.
	start := time.Now()
	if err := h.composeProcess().Run(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	const rounds = 12
	killed := 0
	for round := range rounds {
		if round%5 == 0 { // now and then from nothing
			if err := os.RemoveAll(h.tree("")); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 30 {
			h.write(fmt.Sprintf("pkg/round%d/file%d.txt", i%3, i), strings.Repeat(fmt.Sprintf("round %d\n", round), 2000))
		}
		for i := range 10 {
			_ = os.Remove(h.own(fmt.Sprintf("pkg/round%d/file%d.txt", i%3, (i+round)%30)))
		}
		cmd := h.composeProcess()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(took))
		if cmd.Process.Kill() == nil && cmd.Wait() != nil {
			killed++
		}
		h.must(h.compose)
		tree := h.files(h.tree(""))
		for name, content := range h.overlayFiles() {
			if tree[name] != content {
				t.Fatalf("round %d: %s is not what the overlay says", round, name)
			}
		}
		if got := h.git("status", "--porcelain"); got != "" {
			t.Fatalf("round %d: git sees changes:\n%s", round, got)
		}
	}
	if killed == 0 {
		t.Error("every compose was done before it was killed: this test tested nothing")
	}
	t.Logf("killed %d of %d", killed, rounds)
}

func TestComposeKeepsEditsMadeAfterAnInterruption(t *testing.T) {
	h := withOverlay(t)
	composed := h.git("rev-parse", "HEAD")
	h.write("pkg/dynamic/dynamic.go", license+"package dynamic // new\n")
	h.must(h.compose)
	next := h.git("rev-parse", "HEAD")

	// As if compose had been killed on its way from one to the other, with a file half written.
	interrupt := func(content string) {
		t.Helper()
		h.git("reset", "--quiet", "--hard", composed)
		h.git("update-ref", composedTag, composed)
		h.git("update-ref", movingRef, next)
		h.edit("pkg/dynamic/dynamic.go", content)
		writeFile(t, h.tree(".git/index.lock"), "")
	}

	interrupt(license + "package dyn")
	h.edit("pkg/mine.go", "package numbers\n")
	if got := h.fails(h.compose); len(got) != 3 || got[1] != "  added     pkg/mine.go" {
		t.Errorf("unexpected lines: %q", got)
	}
	if got := h.read(h.tree("pkg/dynamic/dynamic.go")); got != license+"package dynamic // new\n" {
		t.Errorf("the interrupted move was not completed: %q", got)
	}
	h.remove(h.tree("pkg/mine.go"))

	interrupt(license + "package dynamic // edited by hand\n")
	h.wantLines(h.fails(h.compose),
		"an earlier 'make tree' was interrupted, and these files were edited since then:",
		"  pkg/dynamic/dynamic.go",
		"Nothing was changed. Move them away, run 'make tree', and put your edits back.")
	if got := h.read(h.tree("pkg/dynamic/dynamic.go")); !strings.Contains(got, "edited by hand") {
		t.Errorf("an edit was lost: %q", got)
	}
}

func TestComposeRunsOneAtATime(t *testing.T) {
	h := newHouse(t, fakeModules())
	h.write("pkg/new.go", license+"package numbers\n")
	first, second := h.composeProcess(), h.composeProcess()
	for _, cmd := range []interface{ Start() error }{first, second} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(first.Wait(), second.Wait()); err != nil {
		t.Errorf("two composes at once: %v", err)
	}
	if out := h.must(h.compose); !strings.Contains(out, "up to date") {
		t.Errorf("got: %s", out)
	}
}
