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

// Command images assembles the container images that a local cluster and the
// e2e suite need, without a registry and without a container engine. Each
// image is written as a docker-archive under its real name and version, which
// are read from the composed tree. The same inputs give the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// image is one image to assemble.
type image struct {
	// ref is the full name, for example registry.k8s.io/pause:3.10.2.
	ref string
	// files is the content of the only layer.
	files *rootfs
	// config is what the upstream Dockerfile of the image sets.
	config v1.Config
}

// inputs are the things that images are made from.
type inputs struct {
	tree    string // composed Kubernetes tree
	agnhost string // agnhost binary, built from the tree
	busybox string // static busybox binary with all applets
	work    string // scratch directory
}

func main() {
	var in inputs
	var out string
	flag.StringVar(&in.tree, "tree", "_output/tree", "the composed Kubernetes tree")
	flag.StringVar(&in.agnhost, "agnhost", "_output/images/agnhost", "the agnhost binary")
	flag.StringVar(&in.busybox, "busybox", "/bin/busybox", "a statically linked busybox")
	flag.StringVar(&out, "out", "_output/images", "the directory that receives <image>.tar")
	flag.Parse()
	if err := run(in, out); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(in inputs, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "images-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	in.work = work

	refs, err := imageRefs(filepath.Join(in.tree, "test/utils/image/manifest.go"))
	if err != nil {
		return err
	}
	for _, spec := range []struct {
		name  string
		build func(inputs, string) (*image, error)
	}{
		{"pause", pause},
		{"busybox", busybox},
		{"agnhost", agnhost},
	} {
		img, err := spec.build(in, refs[spec.name])
		if err != nil {
			return fmt.Errorf("%s: %w", spec.name, err)
		}
		path := filepath.Join(out, spec.name+".tar")
		changed, err := write(img, path)
		if err != nil {
			return fmt.Errorf("%s: %w", spec.name, err)
		}
		state := "unchanged"
		if changed {
			state = "written"
		}
		fmt.Printf("%-45s %s (%s)\n", img.ref, path, state)
	}
	return nil
}

// imageRefs reads the names under which the e2e suite asks for images, so that
// they cannot drift from the tree that is tested.
func imageRefs(manifest string) (map[string]string, error) {
	src, err := os.ReadFile(manifest)
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for key, registry := range map[string]string{
		"Pause":   "registry.k8s.io",
		"Agnhost": "registry.k8s.io/e2e-test-images",
		"BusyBox": "registry.k8s.io/e2e-test-images",
	} {
		re := regexp.MustCompile(`configs\[` + key + `\]\s*=\s*Config\{[\w.]+, "([^"]+)", "([^"]+)"\}`)
		m := re.FindSubmatch(src)
		if m == nil {
			return nil, fmt.Errorf("%s: no version of image %s", manifest, key)
		}
		refs[string(m[1])] = fmt.Sprintf("%s/%s:%s", registry, m[1], m[2])
	}
	return refs, nil
}

// pause is build/pause/Dockerfile.
func pause(in inputs, ref string) (*image, error) {
	bin := filepath.Join(in.work, "pause")
	_, version, _ := strings.Cut(ref, ":")
	cc := exec.Command("gcc", "-Os", "-Wall", "-Werror", "-static", "-s",
		"-DVERSION=v"+version+"-dynamic", "-o", bin, filepath.Join(in.tree, "build/pause/linux/pause.c"))
	cc.Stdout, cc.Stderr = os.Stdout, os.Stderr
	if err := cc.Run(); err != nil {
		return nil, fmt.Errorf("compiling: %w", err)
	}
	fs := newRootfs()
	if err := fs.copyIn("pause", bin, 0o755); err != nil {
		return nil, err
	}
	return &image{ref: ref, files: fs, config: v1.Config{
		Env:        []string{defaultPath},
		User:       "65535:65535",
		WorkingDir: "/",
		Entrypoint: []string{"/pause"},
	}}, nil
}

// busybox has the layout of the busybox image on Docker Hub, which upstream's
// Dockerfile mirrors as it is.
func busybox(in inputs, ref string) (*image, error) {
	fs, err := busyboxRootfs(in.busybox)
	if err != nil {
		return nil, err
	}
	return &image{ref: ref, files: fs, config: v1.Config{
		Env: []string{defaultPath},
		Cmd: []string{"sh"},
	}}, nil
}

// agnhost is test/images/agnhost/Dockerfile on busybox instead of alpine. It
// has no curl, dig, iperf, bash and socat, no CoreDNS and no images for the
// fake registry; tests that need those need the published image.
func agnhost(in inputs, ref string) (*image, error) {
	fs, err := busyboxRootfs(in.busybox)
	if err != nil {
		return nil, err
	}
	if err := fs.copyIn("agnhost", in.agnhost, 0o755); err != nil {
		return nil, err
	}
	fs.symlink("agnhost-2", "agnhost")
	for _, f := range []string{"localhost.crt", "localhost.key"} {
		if err := fs.copyIn(f, filepath.Join(in.tree, "test/images/agnhost/porter", f), 0o644); err != nil {
			return nil, err
		}
	}
	fs.dir("uploads", 0o755)
	// Upstream's e2e for supplementary groups expects exactly this user and group.
	fs.append("etc/passwd", "user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n")
	fs.append("etc/group", "user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n")
	fs.dirOwned("home/user-defined-in-image", 0o755, 1000, 1000)

	ports := map[string]struct{}{}
	for _, p := range []string{"80", "8080", "8081", "9376", "5000"} {
		ports[p+"/tcp"] = struct{}{}
	}
	return &image{ref: ref, files: fs, config: v1.Config{
		Env:          []string{defaultPath},
		Entrypoint:   []string{"/agnhost"},
		Cmd:          []string{"pause"},
		ExposedPorts: ports,
	}}, nil
}

// busyboxRootfs is a root file system with all applets of the given busybox.
func busyboxRootfs(bin string) (*rootfs, error) {
	list, err := exec.Command(bin, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the applets of %s (Debian package busybox-static): %w", bin, err)
	}
	fs := newRootfs()
	if err := fs.copyIn("bin/busybox", bin, 0o755); err != nil {
		return nil, err
	}
	for _, applet := range strings.Fields(string(list)) {
		if applet != "busybox" {
			fs.symlink("bin/"+applet, "busybox")
		}
	}
	fs.symlink("usr/bin/env", "../../bin/busybox")
	for _, d := range []string{"dev", "proc", "sys", "home", "var/spool", "usr/sbin", "var/www"} {
		fs.dir(d, 0o755)
	}
	fs.dir("root", 0o700)
	fs.dir("tmp", 0o1777)
	fs.dir("var/tmp", 0o1777)
	fs.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"+
		"daemon:x:1:1:daemon:/usr/sbin:/bin/false\n"+
		"nobody:x:65534:65534:nobody:/home:/bin/false\n"))
	fs.file("etc/group", 0o644, []byte("root:x:0:\ndaemon:x:1:\nnobody:x:65534:\n"))
	return fs, nil
}

// write assembles img and stores it at path unless the same bytes are there
// already, so that the file's time tells whether an import is needed.
func write(img *image, path string) (changed bool, err error) {
	layer, err := img.files.tar()
	if err != nil {
		return false, err
	}
	base, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS:           "linux",
		Architecture: runtime.GOARCH,
		Created:      v1.Time{Time: time.Unix(0, 0).UTC()},
		RootFS:       v1.RootFS{Type: "layers"},
		Config:       img.config,
	})
	if err != nil {
		return false, err
	}
	// Not compressed: nothing is sent over a network, and an import is then
	// bound by the disk only.
	full, err := mutate.Append(base, mutate.Addendum{
		Layer:   static.NewLayer(layer, types.DockerUncompressedLayer),
		History: v1.History{CreatedBy: "build/images", Created: v1.Time{Time: time.Unix(0, 0).UTC()}},
	})
	if err != nil {
		return false, err
	}
	tag, err := name.NewTag(img.ref)
	if err != nil {
		return false, err
	}
	next := path + ".next"
	if err := tarball.WriteToFile(next, tag, full); err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(next) }()
	same, err := sameContent(path, next)
	if err != nil || same {
		return false, err
	}
	return true, os.Rename(next, path)
}
