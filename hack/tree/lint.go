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
	"bytes"
	"fmt"
	"go/format"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// hunk is one place that a patch changes.
type hunk struct {
	// where is the line that starts the hunk.
	where string
	// removed and added are the lines on either side, without the mark.
	removed, added []string
	// before and after count the lines of context at the ends.
	before, after int
}

// hunks splits the diff of a text file.
func (p *patch) hunks() []hunk {
	var (
		all  []hunk
		body bool
	)
	for line := range strings.Lines(p.diff) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "@@ ") {
			all, body = append(all, hunk{where: line}), true
			continue
		}
		if !body {
			continue
		}
		h := &all[len(all)-1]
		switch mark, text := line[:min(1, len(line))], line[min(1, len(line)):]; mark {
		case "-":
			h.removed, h.after = append(h.removed, text), 0
		case "+":
			h.added, h.after = append(h.added, text), 0
		case " ":
			if len(h.removed)+len(h.added) == 0 {
				h.before++
			}
			h.after++
		}
	}
	return all
}

var (
	moreThanOneSentence = regexp.MustCompile(`[.!?] +[A-Z]`)
	headerLine          = regexp.MustCompile(`^(Why|KEP|Generated-by):`)
	conflictMarker      = regexp.MustCompile(`(?m)^\+?(<<<<<<<|>>>>>>>) `)
	importSpec          = regexp.MustCompile(`^\s*([\w.]+\s+)?"[^"]+"$`)
	licenseHeader       = regexp.MustCompile(`^(//go:build [^\n]+\n\n)?/\*\nCopyright (20\d\d )?The Kubernetes Authors\.\n\nLicensed under the Apache License, Version 2\.0 `)
)

// lintPatch lists what a reviewer would object to before reading what the patch does. The content is that of the
// upstream file.
func lintPatch(p *patch, upstream []byte) []string {
	problems := lintHeader(p)
	_, generated := p.field("Generated-by")
	if !generated && isGenerated(p.path, upstream) {
		problems = append(problems, "changes a generated file: the header must say 'Generated-by: <command>'")
		generated = true
	}
	if conflictMarker.MatchString(p.diff) {
		problems = append(problems, "has conflict markers: resolve them in the tree, then 'make save'")
	}
	for _, h := range p.hunks() {
		if h.before > 1 || h.after > 1 {
			problems = append(problems, h.where+" has more than one line of context")
		}
		if generated || p.deletes {
			continue
		}
		if what := idle(p.path, h); what != "" {
			problems = append(problems, fmt.Sprintf("%s changes only %s", h.where, what))
		}
	}
	return problems
}

// lintHeader checks the lines that tell people about the patch.
func lintHeader(p *patch) []string {
	var problems []string
	switch why, _ := p.field("Why"); {
	case why == "":
		problems = append(problems, "the header must say 'Why: <one sentence>'")
	case !strings.HasSuffix(why, "."):
		problems = append(problems, "'Why:' must be a sentence that ends with a full stop")
	case moreThanOneSentence.MatchString(why):
		problems = append(problems, "'Why:' must be one sentence")
	}
	if kep, _ := p.field("KEP"); kep == "" {
		problems = append(problems, "the header must say 'KEP: <section>', or 'KEP: correctness'")
	}
	if by, ok := p.field("Generated-by"); ok && by == "" {
		problems = append(problems, "'Generated-by:' must name the command")
	}
	text, ended := strings.CutSuffix(p.header, "\n\n")
	if !ended {
		problems = append(problems, "an empty line must follow the header")
	}
	seen := map[string]bool{}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		key := headerLine.FindString(line)
		if key == "" || seen[key] {
			problems = append(problems, fmt.Sprintf("the header has one line each of Why, KEP and perhaps Generated-by, not %q", line))
		}
		seen[key] = true
	}
	return problems
}

// idle tells what a hunk changes if it does not change what the file means: whitespace, comments, or the order of
// imports. It returns "" for a hunk that has a reason to be there.
func idle(name string, h hunk) string {
	removed, added := strings.Join(h.removed, "\n"), strings.Join(h.added, "\n")
	if slices.Equal(strings.Fields(removed), strings.Fields(added)) {
		return "whitespace"
	}
	if path.Ext(name) != ".go" {
		return ""
	}
	// The comments of API types are the published documentation of the API, from which other files are generated.
	if path.Base(name) != "types.go" && slices.Equal(tokens(removed), tokens(added)) {
		return "comments or whitespace"
	}
	isImport := func(line string) bool { return strings.TrimSpace(line) == "" || importSpec.MatchString(line) }
	if all(h.removed, isImport) && all(h.added, isImport) && slices.Equal(sortedFields(removed), sortedFields(added)) {
		return "the order of imports"
	}
	return ""
}

// tokens are the words of a piece of Go, without comments and the line ends that stand for semicolons. Comments that
// tell tools what to do are kept. The piece need not be complete.
func tokens(src string) []string {
	var (
		list []string
		s    scanner.Scanner
	)
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, []byte(src), func(token.Position, string) {}, scanner.ScanComments)
	for {
		switch _, tok, lit := s.Scan(); {
		case tok == token.EOF:
			return list
		case tok == token.SEMICOLON && lit == "\n":
		case tok == token.COMMENT && !directive.MatchString(lit):
		default:
			list = append(list, tok.String()+" "+lit)
		}
	}
}

var directive = regexp.MustCompile(`^//(go:|nolint| ?\+)`)

func all(lines []string, ok func(string) bool) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return !ok(line) })
}

func sortedFields(s string) []string {
	return slices.Sorted(slices.Values(strings.Fields(s)))
}

// lintFile checks one of our own files.
func lintFile(name string, content []byte) []string {
	var problems []string
	if conflictMarker.Match(content) {
		problems = append(problems, "has conflict markers")
	}
	if path.Ext(name) != ".go" || strings.Contains(name, "/testdata/") {
		return problems
	}
	if !licenseHeader.Match(content) {
		problems = append(problems, "must start with the license header of The Kubernetes Authors, as in hack/boilerplate/boilerplate.go.txt of the tree")
	}
	formatted, err := format.Source(content)
	if err != nil {
		problems = append(problems, err.Error())
	} else if !bytes.Equal(formatted, content) {
		problems = append(problems, "is not formatted: run gofmt")
	}
	return problems
}
