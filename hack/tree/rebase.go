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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// rebase rewrites the patches whose upstream file is not the one they were made for, as it is after go.mod was moved to
// another release. Where upstream and we changed the same lines, the new patch holds both between conflict markers, to
// be resolved in the tree; verify refuses patches with markers. All other patches and files stay as they are.
func (w *workspace) rebase() error {
	pins, err := readPins(w.root)
	if err != nil {
		return err
	}
	t, unlock, err := openTree(w.root)
	if err != nil {
		return err
	}
	defer unlock()
	if !t.fresh {
		if err := t.refuseEdits(); err != nil {
			return err
		}
	}
	upstream, err := importUpstream(t.git, pins, w.fetch, w.say)
	if err != nil {
		return err
	}
	before, err := t.files(upstream)
	if err != nil {
		return err
	}
	o, err := readOverlay(w.root, t.git)
	if err != nil {
		return err
	}

	var (
		stale     []*patch
		hashes    []string
		errs      []error
		merged    strings.Builder
		conflicts = map[string]bool{}
	)
	for _, path := range sortedKeys(o.patches) {
		p := o.patches[path]
		switch now, ok := before[path]; {
		case !ok:
			errs = append(errs, fmt.Errorf("%s%s: upstream has no %s any more: see where it went, and move or remove the patch", path, patchSuffix, path))
		case p.deletes && p.pre != now.hash:
			errs = append(errs, fmt.Errorf("%s%s: upstream changed %s, which the patch deletes: delete it in the tree again", path, patchSuffix, path))
		case p.pre != now.hash:
			stale = append(stale, p)
			hashes = append(hashes, p.pre, p.post, now.hash)
		}
	}
	if len(stale) == 0 && len(errs) == 0 {
		w.say("no patch needs a rebase to upstream %s\n", pins.release())
		return nil
	}
	contents, err := t.contents(hashes)
	if err != nil {
		return err
	}
	for _, p := range stale {
		now := before[p.path]
		base, ours := contents[p.pre], contents[p.post]
		if base == nil || ours == nil {
			errs = append(errs, fmt.Errorf("%s%s: the upstream file that it was made for is not at hand: 'make tree' with the pins of that release first", p.path, patchSuffix))
			continue
		}
		content, conflict, err := t.merge(contents[now.hash], base, ours, pins.release())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s%s: %w", p.path, patchSuffix, err))
			continue
		}
		conflicts[p.path] = conflict
		hash, err := t.pipe(strings.NewReader(content), "hash-object", "-w", "--stdin")
		if err != nil {
			return err
		}
		fmt.Fprintf(&merged, "%s %s\t%s\x00", now.mode, strings.TrimSpace(hash), p.path)
	}
	if len(errs) > 0 {
		return fmt.Errorf("nothing was changed:\n%w", errors.Join(errs...))
	}

	index, remove, err := t.scratchIndex()
	if err != nil {
		return err
	}
	defer remove()
	g := t.withIndex(index)
	if _, err := g.run("read-tree", upstream); err != nil {
		return err
	}
	if _, err := g.pipe(strings.NewReader(merged.String()), "update-index", "-z", "--index-info"); err != nil {
		return err
	}
	result, err := g.writeTree()
	if err != nil {
		return err
	}
	diff, err := diffs(t.git, upstream, result)
	if err != nil {
		return err
	}
	for _, p := range stale {
		step := write{name: p.path + patchSuffix, mode: 0o644}
		what := "rebased "
		switch {
		case diff[p.path] == "":
			what = "removed, as upstream has the change now: "
		case conflicts[p.path]:
			what = "CONFLICT"
			fallthrough
		default:
			step.data = []byte(p.header + diff[p.path])
		}
		if err := step.do(w.root); err != nil {
			return err
		}
		w.say("%s %s\n", what, step.name)
	}
	for _, conflict := range conflicts {
		if conflict {
			w.say("Next: 'make tree', resolve the <<<<<<< marks in %s, 'make save'.\n", t.name)
			break
		}
	}
	return nil
}

// merge merges the change from base to ours into theirs, and tells whether both changed the same lines.
func (g git) merge(theirs, base, ours []byte, release string) (content string, conflict bool, err error) {
	dir, err := os.MkdirTemp("", "tree-merge-")
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(dir)
	for name, data := range map[string][]byte{"theirs": theirs, "base": base, "ours": ours} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return "", false, err
		}
	}
	cmd := g.command("merge-file", "--stdout", "--diff3", "-L", "upstream "+release, "-L", "before", "-L", "dynamic containers",
		filepath.Join(dir, "theirs"), filepath.Join(dir, "base"), filepath.Join(dir, "ours"))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() < 128 {
		return string(out), true, nil // the exit code counts the conflicts
	}
	return string(out), false, err
}
