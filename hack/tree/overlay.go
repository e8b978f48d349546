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
	"slices"
	"strings"
)

// overlayFolders are the folders of this repository that are laid over the tree, at the same paths.
var overlayFolders = []string{"api", "cmd", "pkg", "plugin", "staging", "test"}

// patchSuffix marks a change to an upstream file. In the overlay '<path>.patch' always means a change to '<path>', so a
// file of ours cannot have a name that ends like this.
const patchSuffix = ".patch"

// inOverlay tells whether a path of the tree is in one of the overlay's folders.
func inOverlay(path string) bool {
	first, _, nested := strings.Cut(path, "/")
	return nested && slices.Contains(overlayFolders, first)
}

// overlay is what this repository changes in the upstream tree.
type overlay struct {
	// files are our own files, by their path in the tree. The hash names the content in the tree's repository.
	files map[string]blob
	// patches are changes to upstream files, by the path of the upstream file.
	patches map[string]*patch
}

// readOverlay reads the overlay in root: all that git tracks there or would track, since a forgotten 'git add' should
// not make the tree differ from what is in the folder. The content of files goes into the repository g. The error lists
// every file that cannot be read; the overlay then lacks those.
func readOverlay(root string, g git) (*overlay, error) {
	listing, err := gitAt(root).run(append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, overlayFolders...)...)
	if err != nil {
		return nil, err
	}
	o := &overlay{files: map[string]blob{}, patches: map[string]*patch{}}
	names := splitNUL(listing)
	slices.Sort(names)
	var (
		errs         []error
		paths, files []string
	)
	for _, name := range slices.Compact(names) {
		file := filepath.Join(root, filepath.FromSlash(name))
		info, err := os.Lstat(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, but git was not told yet
		}
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s: only regular files can be laid over the tree", name)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if path, ok := strings.CutSuffix(name, patchSuffix); ok {
			data, err := os.ReadFile(file)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			p, err := parsePatch(path, string(data))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
				continue
			}
			o.patches[path] = p
			continue
		}
		mode := "100644"
		if info.Mode()&0o111 != 0 {
			mode = "100755"
		}
		o.files[name] = blob{mode: mode}
		paths, files = append(paths, name), append(files, file)
	}
	hashes, err := g.hashFiles(files)
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	for i, hash := range hashes {
		o.files[paths[i]] = blob{mode: o.files[paths[i]].mode, hash: hash}
	}
	return o, errors.Join(errs...)
}

// result is the file that the overlay makes of an upstream file (the zero blob if there is none) at path.
func (o *overlay) result(path string, upstream blob) blob {
	if file, ok := o.files[path]; ok {
		return file
	}
	if p := o.patches[path]; p != nil {
		if p.deletes {
			return blob{}
		}
		return blob{mode: upstream.mode, hash: p.post}
	}
	return upstream
}
