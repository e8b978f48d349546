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
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// kubernetesModule is the module that becomes the root of the tree. Its go.mod says which others belong in staging/.
const kubernetesModule = "k8s.io/kubernetes"

// unserved are the staging modules that the module proxy does not serve for every release. Both are examples that
// nothing in Kubernetes imports, so the tree is composed without them.
var unserved = []string{
	"k8s.io/sample-cli-plugin",
	"k8s.io/sample-controller",
}

// composeFormat goes into the name of an upstream import. Raise it when the import itself changes, so that trees made
// by an older tool are imported again.
const composeFormat = "1"

// pins are the upstream modules named by go.mod and their checksums from go.sum.
type pins struct {
	// versions maps a module path to its version, for every k8s.io module of go.mod.
	versions map[string]string
	// sums maps a module to the h1: checksum of its content.
	sums map[module.Version]string
}

// readPins reads the pins from go.mod and go.sum in root.
func readPins(root string) (*pins, error) {
	name := filepath.Join(root, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	mod, err := modfile.Parse(name, data, nil)
	if err != nil {
		return nil, err
	}
	p := &pins{versions: map[string]string{}, sums: map[module.Version]string{}}
	for _, r := range mod.Require {
		if strings.HasPrefix(r.Mod.Path, "k8s.io/") {
			p.versions[r.Mod.Path] = r.Mod.Version
		}
	}
	if p.versions[kubernetesModule] == "" {
		return nil, fmt.Errorf("go.mod does not pin %s (did 'go mod tidy' drop it? see docs/bump.md)", kubernetesModule)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(sums)) {
		if f := strings.Fields(line); len(f) == 3 && !strings.HasSuffix(f[1], "/go.mod") {
			p.sums[module.Version{Path: f[0], Version: f[1]}] = f[2]
		}
	}
	for _, m := range p.modules() {
		if p.sums[m] == "" {
			return nil, fmt.Errorf("go.sum has no checksum of %s: get it with 'go mod download %s' (see docs/bump.md)", m, m)
		}
	}
	return p, nil
}

// modules lists the pinned modules, sorted by path.
func (p *pins) modules() []module.Version {
	var list []module.Version
	for path, version := range p.versions {
		list = append(list, module.Version{Path: path, Version: version})
	}
	module.Sort(list)
	return list
}

// release is the version of Kubernetes, such as v1.37.2.
func (p *pins) release() string {
	return p.versions[kubernetesModule]
}

// key names the content that the pins stand for.
func (p *pins) key() string {
	h := sha256.New()
	fmt.Fprintln(h, composeFormat)
	for _, m := range p.modules() {
		fmt.Fprintln(h, m.Path, m.Version, p.sums[m])
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// staging maps the modules that belong in staging/ to their folders in the tree, as told by the replace directives of
// Kubernetes' own go.mod. It fails if go.mod does not pin each of them at the release's version.
func (p *pins) staging(kubernetes *modfile.File) (map[module.Version]string, error) {
	// Staging modules of Kubernetes v1.x.y are published as v0.x.y.
	want := "v0" + strings.TrimPrefix(p.release(), "v1")
	folders := map[module.Version]string{}
	var wrong []string
	for _, r := range kubernetes.Replace {
		folder, local := strings.CutPrefix(r.New.Path, "./")
		if !local || slices.Contains(unserved, r.Old.Path) {
			continue
		}
		m := module.Version{Path: r.Old.Path, Version: p.versions[r.Old.Path]}
		if m.Version != want {
			wrong = append(wrong, m.Path)
		}
		folders[m] = folder
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("go.mod must pin at %s, to go with %s %s: %s (see docs/bump.md)",
			want, kubernetesModule, p.release(), strings.Join(wrong, ", "))
	}
	return folders, nil
}
