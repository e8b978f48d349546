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
	"io"
	"slices"
	"strings"
	"time"
)

// workspace is this repository: the pins, the overlay, and the tree made of them.
type workspace struct {
	// root is the top folder of the repository.
	root string
	// fetch gets upstream modules.
	fetch fetcher
	// out is where progress and results go.
	out io.Writer
}

func (w *workspace) say(format string, args ...any) {
	fmt.Fprintf(w.out, format, args...)
}

// compose makes the tree what the pins and the overlay say. It changes nothing if it fails, or if the tree has edits.
func (w *workspace) compose() error {
	start := time.Now()
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
	o, readErr := readOverlay(w.root, t.git)
	if o == nil {
		return readErr
	}
	// What could be read is tried even if not all could be, so that every file that does not fit is named.
	commit, err := t.build(upstream, o)
	if err := errors.Join(readErr, err); err != nil {
		return err
	}
	what := fmt.Sprintf("upstream %s, %d patches, %d files of ours", pins.release(), len(o.patches), len(o.files))
	switch {
	case t.fresh:
		if err := t.moveTo(commit); err != nil {
			return err
		}
		w.say("%s composed: %s (%.1f s)\n", t.name, what, time.Since(start).Seconds())
	case commit == t.revision(composedTag):
		w.say("%s is up to date: %s\n", t.name, what)
	default:
		changes, err := t.changes(composedTag, commit)
		if err != nil {
			return err
		}
		if err := t.moveTo(commit); err != nil {
			return err
		}
		w.say("%s updated: %s; %d files changed (%.1f s)\n", t.name, what, len(changes), time.Since(start).Seconds())
	}
	return nil
}

// build lays the overlay over the upstream commit and returns the resulting commit. The work tree is not touched. The
// error has a line for every file of the overlay that does not fit.
func (t *tree) build(upstream string, o *overlay) (string, error) {
	before, err := t.files(upstream)
	if err != nil {
		return "", err
	}
	var (
		errs    []error
		add     strings.Builder
		patches strings.Builder
		apply   []*patch
	)
	for _, path := range sortedKeys(o.files) {
		if _, ok := before[path]; ok {
			errs = append(errs, fmt.Errorf("%s: would overwrite an upstream file: change it with a patch (edit it in %s, then 'make save')", path, t.name))
			continue
		}
		fmt.Fprintf(&add, "%s %s\t%s\x00", o.files[path].mode, o.files[path].hash, path)
	}
	for _, path := range sortedKeys(o.patches) {
		p := o.patches[path]
		switch old, ok := before[path]; {
		case !ok:
			errs = append(errs, fmt.Errorf("%s%s: there is no upstream file %s", path, patchSuffix, path))
		case old.hash != p.pre:
			errs = append(errs, fmt.Errorf("%s%s: upstream file %s changed: the patch expected %s, found %s (see docs/bump.md)", path, patchSuffix, path, p.pre, old.hash))
		default:
			apply = append(apply, p)
			patches.WriteString(p.diff)
		}
	}

	index, remove, err := t.scratchIndex()
	if err != nil {
		return "", err
	}
	defer remove()
	g := t.withIndex(index)
	if _, err := g.run("read-tree", upstream); err != nil {
		return "", err
	}
	if len(apply) > 0 {
		if err := g.apply(patches.String()); err != nil {
			// Once more one by one, to name the file of each patch that fails. This is slow, but rare.
			apply = slices.DeleteFunc(apply, func(p *patch) bool {
				err := g.apply(p.diff)
				if err != nil {
					errs = append(errs, corrupt(p, err.Error()))
				}
				return err != nil
			})
		}
	}
	if _, err := g.pipe(strings.NewReader(add.String()), "update-index", "--add", "-z", "--index-info"); err != nil {
		return "", errors.Join(append(errs, err)...)
	}

	id, err := g.writeTree()
	if err != nil {
		return "", err
	}
	after, err := t.files(id)
	if err != nil {
		return "", err
	}
	for _, p := range apply {
		if want := o.result(p.path, before[p.path]); after[p.path] != want {
			errs = append(errs, corrupt(p, fmt.Sprintf("its index line promises %s, it makes %s", p.post, after[p.path].hash)))
		}
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	return t.commitTree(id, upstream, "dynamic containers\n")
}

// apply applies a patch to the index. The context must match to the letter; that it matches in the right place is seen
// by the hash of the result.
func (g git) apply(diff string) error {
	_, err := g.pipe(strings.NewReader(diff), "apply", "--cached", "--whitespace=nowarn", "-")
	return err
}

// corrupt is the error for a patch that does not do what it says, most often because it was edited by hand.
func corrupt(p *patch, how string) error {
	return fmt.Errorf("%s%s: corrupt patch: %s (edit the tree and 'make save' instead of editing patches)", p.path, patchSuffix, strings.ReplaceAll(how, "\n", "; "))
}

// sortedKeys returns the keys of a map in order, so that the output does not change from run to run.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
