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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVerifyAcceptsAGoodOverlay(t *testing.T) {
	h := withOverlay(t)
	h.replace("pkg/numbers_test.go", "package numbers\n", "package numbers\n\nvar test = 1\n")
	h.must(h.save)
	h.fillHeaders()
	want := `  line budget             files  added  removed
  patches                     1      1        1
  patches of tests            1      2        0
  patches, generated          1      2        0
  new files                   2     14        0
  new tests                   1      7        0
  new files, generated        0      0        0
  total                       6     26        1

longest patches
   +1    -1  pkg/numbers.go.patch
   +2    -0  pkg/numbers_test.go.patch
`
	if diff := cmp.Diff(want, h.must(h.verify)); diff != "" {
		t.Errorf("unexpected output (-want +got):\n%s", diff)
	}
}

func TestVerifyWorksWithoutATree(t *testing.T) {
	h := newHouse(t, fakeModules())
	h.must(h.verify)
	h.must(h.compose)
}

func TestVerifyListsEverything(t *testing.T) {
	h := withOverlay(t)
	h.replace("pkg/other.go", "v05 = 5", "v05 = 50")
	h.must(h.save) // the header stays empty
	h.write("pkg/dynamic/dynamic.go", "package   dynamic\n")
	h.write("hack/tool/main.go", "package main\n")
	numbers := h.read(h.own("pkg/numbers.go.patch"))
	h.write("pkg/numbers.go.patch", strings.Replace(numbers, "@@ var (", "@@ var(", 1))

	got := h.fails(h.verify)
	h.wantLines(got,
		"pkg/numbers.go.patch: is not what 'make save' would write (edit the tree and save it instead of editing patches)",
		"pkg/other.go.patch: the header must say 'Why: <one sentence>'",
		"pkg/other.go.patch: the header must say 'KEP: <section>', or 'KEP: correctness'",
		"pkg/dynamic/dynamic.go: must start with the license header of The Kubernetes Authors, as in hack/boilerplate/boilerplate.go.txt of the tree",
		"pkg/dynamic/dynamic.go: is not formatted: run gofmt",
		"hack/tool/main.go: must start with the license header of The Kubernetes Authors, as in hack/boilerplate/boilerplate.go.txt of the tree",
		"problems found: 6")
}

func TestVerifyReportsWhatComposeWould(t *testing.T) {
	h := withOverlay(t)
	h.write("pkg/dos.txt", "ours\n")
	h.write("pkg/gone.go.patch", "diff --git a/pkg/gone.go b/pkg/gone.go\nindex "+strings.Repeat("a", 40)+".."+strings.Repeat("b", 40)+" 100644\n")
	got := h.fails(h.verify)
	for _, want := range []string{
		"pkg/dos.txt: would overwrite an upstream file: change it with a patch (edit it in _output/tree, then 'make save')",
		"pkg/gone.go.patch: there is no upstream file pkg/gone.go",
	} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("not reported: %s\ngot: %q", want, got)
		}
	}
}

func TestLintHeader(t *testing.T) {
	for name, tc := range map[string]struct {
		header string
		want   []string
	}{
		"good":                {"Why: It must.\nKEP: Kubelet\n\n", nil},
		"good, generated":     {"Why: It must.\nKEP: correctness\nGenerated-by: hack/update-codegen.sh\n\n", nil},
		"abbreviation":        {"Why: The pod, e.g. a static one, must go.\nKEP: Kubelet\n\n", nil},
		"no full stop":        {"Why: It must\nKEP: Kubelet\n\n", []string{"'Why:' must be a sentence that ends with a full stop"}},
		"two sentences":       {"Why: It must. It does.\nKEP: Kubelet\n\n", []string{"'Why:' must be one sentence"}},
		"no KEP":              {"Why: It must.\n\n", []string{"the header must say 'KEP: <section>', or 'KEP: correctness'"}},
		"empty generated":     {"Why: It must.\nKEP: Kubelet\nGenerated-by:\n\n", []string{"'Generated-by:' must name the command"}},
		"no empty line":       {"Why: It must.\nKEP: Kubelet\n", []string{"an empty line must follow the header"}},
		"unknown line":        {"Why: It must.\nKEP: Kubelet\nBy: me\n\n", []string{`the header has one line each of Why, KEP and perhaps Generated-by, not "By: me"`}},
		"the same line twice": {"Why: It must.\nWhy: It does.\nKEP: Kubelet\n\n", []string{`the header has one line each of Why, KEP and perhaps Generated-by, not "Why: It does."`}},
		"empty": {"", []string{"the header must say 'Why: <one sentence>'", "the header must say 'KEP: <section>', or 'KEP: correctness'",
			"an empty line must follow the header", `the header has one line each of Why, KEP and perhaps Generated-by, not ""`}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lintHeader(&patch{header: tc.header})); diff != "" {
				t.Errorf("unexpected problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLintPatch(t *testing.T) {
	const good = "Why: It must.\nKEP: Kubelet\n\n"
	const generated = "Why: It must.\nKEP: Kubelet\nGenerated-by: make\n\n"
	for name, tc := range map[string]struct {
		path, header, upstream, hunk string
		want                         []string
	}{
		"a call":                        {path: "pkg/a.go", hunk: "@@ -1,2 +1,3 @@\n \tf()\n+\tg()\n \th()\n"},
		"a call with its comment":       {path: "pkg/a.go", hunk: "@@ -1,2 +1,4 @@\n \tf()\n+\t// Why.\n+\tg()\n \th()\n"},
		"a condition":                   {path: "pkg/a.go", hunk: "@@ -1,1 +1,1 @@\n-\tif a {\n+\tif a && b {\n"},
		"a comment":                     {path: "pkg/a.go", hunk: "@@ -1 +1 @@\n-\tf() // one\n+\tf() // two\n", want: []string{"@@ -1 +1 @@ changes only comments or whitespace"}},
		"a new comment":                 {path: "pkg/a.go", hunk: "@@ -1,0 +1 @@\n+\t// Why.\n", want: []string{"@@ -1,0 +1 @@ changes only comments or whitespace"}},
		"a directive":                   {path: "pkg/a.go", hunk: "@@ -1,0 +1 @@\n+// +k8s:optional\n"},
		"a word in a string":            {path: "pkg/a.go", hunk: "@@ -1 +1 @@\n-\tf(\"// one\")\n+\tf(\"// two\")\n"},
		"documentation of the API":      {path: "staging/src/k8s.io/api/core/v1/types.go", hunk: "@@ -1 +1 @@\n-// Cannot be changed.\n+// Can be changed.\n"},
		"indentation":                   {path: "pkg/a.go", hunk: "@@ -1 +1 @@\n-\tf()\n+\t\tf()\n", want: []string{"@@ -1 +1 @@ changes only whitespace"}},
		"an empty line":                 {path: "pkg/a.yaml", hunk: "@@ -1,0 +1 @@\n+\n", want: []string{"@@ -1,0 +1 @@ changes only whitespace"}},
		"lines joined":                  {path: "pkg/a.go", hunk: "@@ -1,2 +1 @@\n-\tf(a,\n-\t\tb)\n+\tf(a, b)\n", want: []string{"@@ -1,2 +1 @@ changes only whitespace"}},
		"imports in another order":      {path: "pkg/a.go", hunk: "@@ -1,2 +1,2 @@\n-\t\"b\"\n-\tc \"a\"\n+\tc \"a\"\n+\t\"b\"\n", want: []string{"@@ -1,2 +1,2 @@ changes only the order of imports"}},
		"an import":                     {path: "pkg/a.go", hunk: "@@ -1,0 +1 @@\n+\t\"b\"\n"},
		"the second hunk":               {path: "pkg/a.go", hunk: "@@ -1,0 +1 @@\n+\tf()\n@@ -9,0 +9 @@\n+\t// Why.\n", want: []string{"@@ -9,0 +9 @@ changes only comments or whitespace"}},
		"much context":                  {path: "pkg/a.go", hunk: "@@ -1,3 +1,4 @@\n a\n b\n+c\n d\n", want: []string{"@@ -1,3 +1,4 @@ has more than one line of context"}},
		"two changes in one hunk":       {path: "pkg/a.go", hunk: "@@ -1,3 +1,4 @@\n a\n+c\n d\n e\n+f\n g\n"},
		"conflict markers":              {path: "pkg/a.go", hunk: "@@ -1,0 +1 @@\n+<<<<<<< upstream\n", want: []string{"has conflict markers: resolve them in the tree, then 'make save'"}},
		"generated, by its name":        {path: "pkg/generated.pb.go", hunk: "@@ -1,0 +1 @@\n+x\n", want: []string{"changes a generated file: the header must say 'Generated-by: <command>'"}},
		"generated, by what it says":    {path: "pkg/a.go", upstream: "/*\nLicense.\n*/\n\n// Code generated by mockery. DO NOT EDIT.\n", hunk: "@@ -1,0 +1 @@\n+x\n", want: []string{"changes a generated file: the header must say 'Generated-by: <command>'"}},
		"generated, and the hunk idle":  {path: "pkg/generated.pb.go", header: generated, hunk: "@@ -1,0 +1 @@\n+\t// Why.\n"},
		"speaks of generated code only": {path: "pkg/a.go", upstream: "package a\n\n// f reads code generated elsewhere.\n", hunk: "@@ -1,0 +1 @@\n+x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			header := tc.header
			if header == "" {
				header = good
			}
			p := &patch{path: tc.path, header: header, diff: "diff --git a/x b/x\n--- a/x\n+++ b/x\n" + tc.hunk}
			if diff := cmp.Diff(tc.want, lintPatch(p, []byte(tc.upstream))); diff != "" {
				t.Errorf("unexpected problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLintFile(t *testing.T) {
	full := "/*\nCopyright The Kubernetes Authors.\n\nLicensed under the Apache License, Version 2.0 (the \"License\");\n*/\n\n"
	const noHeader = "must start with the license header of The Kubernetes Authors, as in hack/boilerplate/boilerplate.go.txt of the tree"
	for name, tc := range map[string]struct {
		path, content string
		want          []string
	}{
		"good":                 {path: "pkg/a.go", content: full + "package a\n"},
		"good, with a year":    {path: "pkg/a.go", content: strings.Replace(full, "The", "2026 The", 1) + "package a\n"},
		"good, constrained":    {path: "pkg/a.go", content: "//go:build linux\n\n" + full + "package a\n"},
		"no header":            {path: "pkg/a.go", content: "package a\n", want: []string{noHeader}},
		"another holder":       {path: "pkg/a.go", content: strings.Replace(full, "The Kubernetes Authors", "Me", 1) + "package a\n", want: []string{noHeader}},
		"not formatted":        {path: "pkg/a.go", content: full + "package   a\n", want: []string{"is not formatted: run gofmt"}},
		"not Go":               {path: "pkg/a.go", content: full + "package a\n\nfunc f() {\n", want: []string{"9:12: expected '}', found 'EOF'"}},
		"conflict markers":     {path: "pkg/a.yaml", content: "<<<<<<< upstream\n", want: []string{"has conflict markers"}},
		"anything in testdata": {path: "pkg/testdata/a.go", content: "anything"},
		"another language":     {path: "pkg/a.yaml", content: "a:   b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lintFile(tc.path, []byte(tc.content))); diff != "" {
				t.Errorf("unexpected problems (-want +got):\n%s", diff)
			}
		})
	}
}
