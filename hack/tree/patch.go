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
	"regexp"
	"strings"
)

// patch is our change to one upstream file: a few header lines for people, an empty line, and what git diff printed.
type patch struct {
	// path is the upstream file that is changed.
	path string
	// header is the text before the diff, with the empty line that ends it.
	header string
	// diff is the output of git diff for this file.
	diff string
	// pre and post are the full hashes of the file before and after.
	pre, post string
	// deletes is set if the patch removes the file; post is all zeros then.
	deletes bool
}

// text is the patch as it is in the overlay.
func (p *patch) text() string {
	return p.header + p.diff
}

var (
	diffLine  = regexp.MustCompile(`(?m)^diff --git .*$`)
	indexLine = regexp.MustCompile(`(?m)^index ([0-9a-f]{40}|[0-9a-f]{64})\.\.([0-9a-f]{40}|[0-9a-f]{64})( \d+)?$`)
)

// parsePatch reads the change to path. It checks only what composing relies on; verify has opinions on the rest.
func parsePatch(path, text string) (*patch, error) {
	starts := diffLine.FindAllStringIndex(text, -1)
	if len(starts) != 1 {
		return nil, fmt.Errorf("must hold the diff of one file, holds %d", len(starts))
	}
	p := &patch{path: path, header: text[:starts[0][0]], diff: text[starts[0][0]:]}
	if want := fmt.Sprintf("diff --git a/%s b/%s", path, path); text[starts[0][0]:starts[0][1]] != want {
		return nil, fmt.Errorf("must change %s: expected the line %q", path, want)
	}
	head, _, _ := strings.Cut(p.diff, "\n@@ ")
	head, _, _ = strings.Cut(head, "\nGIT binary patch\n")
	for _, line := range strings.Split(head, "\n") {
		switch {
		case strings.HasPrefix(line, "new file mode "):
			return nil, errors.New("adds a file: our own files are kept whole, without .patch")
		case strings.HasPrefix(line, "new mode "):
			return nil, errors.New("changes the mode of an upstream file: this is not supported")
		case strings.HasPrefix(line, "deleted file mode "):
			p.deletes = true
		}
	}
	index := indexLine.FindStringSubmatch(head)
	if index == nil {
		return nil, errors.New("has no index line with full hashes: write it with 'make save'")
	}
	p.pre, p.post = index[1], index[2]
	return p, nil
}

// field returns the value of a header line such as 'Why: ...', and whether there is one.
func (p *patch) field(key string) (string, bool) {
	for line := range strings.Lines(p.header) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// freshHeader is the header of a patch that was just made. Verify insists that it is filled in.
func freshHeader(generated bool) string {
	if generated {
		return "Why:\nKEP:\nGenerated-by:\n\n"
	}
	return "Why:\nKEP:\n\n"
}

// diffs returns the differences between two commits or trees, by path, as they are written into patches. All options
// that change the output are given, so that it does not depend on git's defaults.
func diffs(g git, from, to string) (map[string]string, error) {
	out, err := g.run("diff-tree", "-r", "-p", "--unified=1", "--inter-hunk-context=0", "--full-index", "--binary",
		"--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--diff-algorithm=histogram", "--indent-heuristic",
		"--src-prefix=a/", "--dst-prefix=b/", from, to)
	if err != nil {
		return nil, err
	}
	byPath := map[string]string{}
	starts := diffLine.FindAllStringIndex(out, -1)
	for i, start := range starts {
		end := len(out)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		// 'diff --git a/<path> b/<path>', where both paths are the same
		paths := strings.TrimPrefix(out[start[0]:start[1]], "diff --git ")
		byPath[paths[len("a/"):len(paths)/2]] = out[start[0]:end]
	}
	return byPath, nil
}
