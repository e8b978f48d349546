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
	"path"
	"regexp"
	"strings"
)

// generatedLine is how generators mark what they write. See https://go.dev/s/generatedcode; protobuf's and the
// validation tests' comments differ a little, so only the words are asked for.
var generatedLine = regexp.MustCompile(`(?m)^\W*(Code|This file was) (auto)?generated\b`)

// isGenerated tells whether a file is the output of a generator, by its name or by what it says at the top.
func isGenerated(name string, content []byte) bool {
	base := path.Base(name)
	switch {
	case strings.HasPrefix(base, "zz_generated"), strings.HasSuffix(base, ".pb.go"), base == "generated.proto",
		base == "types_swagger_doc_generated.go", strings.HasPrefix(name, "api/openapi-spec/"), strings.HasPrefix(name, "api/discovery/"):
		return true
	}
	return generatedLine.Match(content[:min(len(content), 2000)])
}
