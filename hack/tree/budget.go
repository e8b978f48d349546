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
	"slices"
	"strings"
	"text/tabwriter"
)

// The kinds of lines that the budget tells apart, in the order of the table. What has to be carried from release to
// release is the first row.
var budgetRows = []string{
	"patches",
	"patches of tests",
	"patches, generated",
	"new files",
	"new tests",
	"new files, generated",
}

// count is how much of a kind there is.
type count struct {
	files, added, removed int
}

func (c count) plus(d count) count {
	return count{files: c.files + d.files, added: c.added + d.added, removed: c.removed + d.removed}
}

// longestPatches is how many patches the budget names.
const longestPatches = 5

// measure counts the lines of the overlay by kind, and names the longest patches that people wrote.
func measure(o *overlay, contents map[string][]byte) string {
	type patchSize struct {
		path string
		count
	}
	var (
		rows  = map[string]count{}
		sizes []patchSize
		total count
	)
	for _, path := range sortedKeys(o.patches) {
		p, c := o.patches[path], count{files: 1}
		for _, h := range p.hunks() {
			c.added += len(h.added)
			c.removed += len(h.removed)
		}
		row := "patches"
		switch _, generated := p.field("Generated-by"); {
		case generated || isGenerated(path, contents[p.pre]):
			row = "patches, generated"
		case isTest(path):
			row = "patches of tests"
		}
		if row != "patches, generated" {
			sizes = append(sizes, patchSize{path, c})
		}
		rows[row] = rows[row].plus(c)
		total = total.plus(c)
	}
	for path, file := range o.files {
		content := contents[file.hash]
		c := count{files: 1, added: bytes.Count(content, []byte("\n"))}
		row := "new files"
		switch {
		case isGenerated(path, content):
			row = "new files, generated"
		case isTest(path):
			row = "new tests"
		}
		rows[row] = rows[row].plus(c)
		total = total.plus(c)
	}

	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%-22s\tfiles\tadded\tremoved\t\n", "line budget")
	for _, row := range budgetRows {
		fmt.Fprintf(table, "%-22s\t%d\t%d\t%d\t\n", row, rows[row].files, rows[row].added, rows[row].removed)
	}
	fmt.Fprintf(table, "%-22s\t%d\t%d\t%d\t\n", "total", total.files, total.added, total.removed)
	table.Flush()

	slices.SortStableFunc(sizes, func(a, b patchSize) int { return b.added + b.removed - a.added - a.removed })
	if len(sizes) > 0 {
		b.WriteString("\nlongest patches\n")
	}
	for _, size := range sizes[:min(len(sizes), longestPatches)] {
		fmt.Fprintf(&b, "%+5d %5s  %s%s\n", size.added, fmt.Sprintf("-%d", size.removed), size.path, patchSuffix)
	}
	return b.String()
}

// isTest tells whether a file of the tree is there to test.
func isTest(path string) bool {
	return strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/") || strings.Contains(path, "/testdata/")
}
