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
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// verify checks the overlay and prints the line budget. It looks at the overlay only, not at what is in the tree, and
// lists everything that is wrong.
func (w *workspace) verify() error {
	pins, err := readPins(w.root)
	if err != nil {
		return err
	}
	t, unlock, err := openTree(w.root)
	if err != nil {
		return err
	}
	defer unlock()
	upstream, err := importUpstream(t.git, pins, w.fetch, w.say)
	if err != nil {
		return err
	}
	var problems []string
	note := func(err error) {
		if err != nil {
			problems = append(problems, strings.Split(err.Error(), "\n")...)
		}
	}
	o, err := readOverlay(w.root, t.git)
	note(err)
	if err == nil {
		// What cannot be read cannot be laid over either: one message is enough.
		commit, err := t.build(upstream, o)
		note(err)
		if err == nil {
			note(t.roundTrip(upstream, commit, o))
		}
	}
	contents, err := o.contents(t.git)
	if err != nil {
		return err
	}
	for _, path := range sortedKeys(o.patches) {
		p := o.patches[path]
		for _, problem := range lintPatch(p, contents[p.pre]) {
			problems = append(problems, path+patchSuffix+": "+problem)
		}
	}
	for _, path := range sortedKeys(o.files) {
		for _, problem := range lintFile(path, contents[o.files[path].hash]) {
			problems = append(problems, path+": "+problem)
		}
	}
	tools, err := w.lintTools()
	if err != nil {
		return err
	}
	problems = append(problems, tools...)

	w.say("%s", measure(o, contents))
	if len(problems) > 0 {
		return fmt.Errorf("\n%s\nproblems found: %d", strings.Join(problems, "\n"), len(problems))
	}
	return nil
}

// contents reads our files, and the upstream files that are patched, by hash.
func (o *overlay) contents(g git) (map[string][]byte, error) {
	var hashes []string
	for _, file := range o.files {
		hashes = append(hashes, file.hash)
	}
	for _, p := range o.patches {
		hashes = append(hashes, p.pre)
	}
	return g.contents(hashes)
}

// roundTrip checks that exporting what was composed gives the overlay again, byte for byte.
func (t *tree) roundTrip(upstream, commit string, o *overlay) error {
	changes, err := t.changes(upstream, commit)
	if err != nil {
		return err
	}
	diff, err := diffs(t.git, upstream, commit)
	if err != nil {
		return err
	}
	got, want := map[string]string{}, map[string]string{}
	for path, file := range o.files {
		want[path] = fmt.Sprint(file)
	}
	for path, p := range o.patches {
		want[path+patchSuffix] = p.text()
	}
	for _, c := range changes {
		if (c.old == blob{}) {
			got[c.path] = fmt.Sprint(c.new)
			continue
		}
		header := ""
		if p := o.patches[c.path]; p != nil {
			header = p.header
		}
		got[c.path+patchSuffix] = header + diff[c.path]
	}
	var problems []string
	for _, name := range sortedKeys(want) {
		if want[name] != got[name] {
			problems = append(problems, name+": is not what 'make save' would write (edit the tree and save it instead of editing patches)")
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s", strings.Join(problems, "\n"))
	}
	return nil
}

// lintTools checks the Go files of this repository that are not in the overlay.
func (w *workspace) lintTools() ([]string, error) {
	listing, err := gitAt(w.root).run("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.go")
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, name := range splitNUL(listing) {
		data, err := os.ReadFile(filepath.Join(w.root, name))
		if inOverlay(name) || os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, problem := range lintFile(name, data) {
			problems = append(problems, name+": "+problem)
		}
	}
	return problems, nil
}
