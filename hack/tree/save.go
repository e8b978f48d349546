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
	"path/filepath"
	"strings"
)

// save writes the edits made in the tree into the overlay, and makes them part of what was composed. It writes nothing
// if an edit cannot be kept in the overlay, or if the overlay's file was changed as well since the tree was composed.
func (w *workspace) save() error {
	t, unlock, err := openTree(w.root)
	if err != nil {
		return err
	}
	defer unlock()
	if t.fresh {
		return fmt.Errorf("there is no %s: make one with 'make tree'", t.name)
	}
	e, err := t.edits()
	if err != nil {
		return err
	}
	if e.none() {
		w.say("%s has no edits\n", t.name)
		return nil
	}
	writes, err := w.plan(t, e)
	if err != nil {
		return err
	}
	for _, step := range writes {
		if err := step.do(w.root); err != nil {
			return fmt.Errorf("%w (the edits are still in %s: 'make save' can be repeated)", err, t.name)
		}
	}
	// Only now are the edits part of the composed commit: if this is interrupted, they are found and written again.
	commit, err := t.commitTree(e.snapshot, upstreamTag, "dynamic containers\n")
	if err != nil {
		return err
	}
	if _, err := t.run("reset", "--quiet", "--mixed", commit); err != nil {
		return err
	}
	if err := t.settle(commit); err != nil {
		return err
	}
	for _, step := range writes {
		w.say("%s\n", step)
	}
	for _, step := range writes {
		if step.note != "" {
			w.say("note: %s %s\n", step.name, step.note)
		}
	}
	return nil
}

// write is one file of the overlay to write, or to remove if it has no data.
type write struct {
	// name is the file's path in this repository.
	name string
	data []byte
	mode os.FileMode
	// note is what is left to do by hand.
	note string
}

func (s write) String() string {
	if s.data == nil {
		return "removed " + s.name
	}
	return "wrote   " + s.name
}

// do writes the file beside its place and renames it, so that it is never half written.
func (s write) do(root string) error {
	file := filepath.Join(root, filepath.FromSlash(s.name))
	if s.data == nil {
		err := os.Remove(file)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".saving")
	if err := os.WriteFile(temp, s.data, s.mode); err != nil {
		return err
	}
	return errors.Join(os.Chmod(temp, s.mode), os.Rename(temp, file))
}

// plan finds out how to keep the edits in the overlay. The error lists everything that is in the way.
func (w *workspace) plan(t *tree, e *edits) ([]write, error) {
	o, err := readOverlay(w.root, t.git)
	if err != nil {
		return nil, err
	}
	upstream, err := t.files(upstreamTag)
	if err != nil {
		return nil, err
	}
	diff, err := diffs(t.git, upstreamTag, e.snapshot)
	if err != nil {
		return nil, err
	}
	var (
		writes []write
		errs   []error
	)
	for _, c := range e.changes {
		old, isUpstream := upstream[c.path]
		now := o.result(c.path, old)
		switch {
		case !inOverlay(c.path):
			errs = append(errs, fmt.Errorf("%s: only changes in %s can be saved", c.path, strings.Join(overlayFolders, ", ")))
			continue
		case c.new != blob{} && !strings.HasPrefix(c.new.mode, "100"):
			errs = append(errs, fmt.Errorf("%s: only regular files can be saved", c.path))
			continue
		case isUpstream && c.new != blob{} && c.new.mode != old.mode:
			errs = append(errs, fmt.Errorf("%s: the mode of an upstream file cannot be changed (it is %s)", c.path, old.mode))
			continue
		case !isUpstream && strings.HasSuffix(c.path, patchSuffix):
			errs = append(errs, fmt.Errorf("%s: a file of ours cannot be called *%s: in the overlay that is a patch", c.path, patchSuffix))
			continue
		case now == c.new:
			continue // the overlay says the same already
		case now != c.old:
			errs = append(errs, fmt.Errorf("%s: conflict: changed in the overlay as well since the tree was composed", c.path))
			continue
		}
		step := write{name: c.path, mode: 0o644}
		if isUpstream {
			step.name += patchSuffix
		}
		switch {
		case c.new == old: // undone, or a file of ours that is gone
		case !isUpstream:
			if step.data, err = t.content(c.new.hash); err != nil {
				return nil, err
			}
			if step.data == nil {
				step.data = []byte{}
			}
			if c.new.mode == "100755" {
				step.mode = 0o755
			}
		default:
			header := ""
			if p := o.patches[c.path]; p != nil {
				header = p.header
			}
			if header == "" {
				content, err := t.content(old.hash)
				if err != nil {
					return nil, err
				}
				header = freshHeader(isGenerated(c.path, content))
				step.note = "needs its header filled in"
			}
			step.data = []byte(header + diff[c.path])
		}
		writes = append(writes, step)
	}
	if len(errs) == 0 {
		errs = w.refuseIgnored(writes)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("nothing was saved:\n%w", errors.Join(errs...))
	}
	return writes, nil
}

// refuseIgnored finds files that this repository ignores: they would be written, and then be left out of the overlay.
func (w *workspace) refuseIgnored(writes []write) []error {
	var errs []error
	for _, step := range writes {
		if step.data == nil {
			continue
		}
		if _, err := gitAt(w.root).run("check-ignore", "--quiet", "--", step.name); err == nil {
			errs = append(errs, fmt.Errorf("%s: ignored by this repository (.gitignore or your own excludes)", step.name))
		}
	}
	return errs
}
