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
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"time"
)

// rootfs is the content of a layer, keyed by path without a leading slash.
type rootfs struct {
	entries map[string]entry
}

type entry struct {
	header tar.Header
	data   []byte
}

func newRootfs() *rootfs {
	return &rootfs{entries: map[string]entry{}}
}

func (r *rootfs) add(name string, h tar.Header, data []byte) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := r.entries[dir]; !ok {
			r.entries[dir] = entry{header: tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}}
		}
	}
	r.entries[name] = entry{header: h, data: data}
}

func (r *rootfs) dir(name string, mode int64) {
	r.dirOwned(name, mode, 0, 0)
}

func (r *rootfs) dirOwned(name string, mode int64, uid, gid int) {
	r.add(name, tar.Header{Typeflag: tar.TypeDir, Mode: mode, Uid: uid, Gid: gid}, nil)
}

func (r *rootfs) symlink(name, target string) {
	r.add(name, tar.Header{Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, nil)
}

func (r *rootfs) file(name string, mode int64, data []byte) {
	r.add(name, tar.Header{Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(data))}, data)
}

func (r *rootfs) append(name, text string) {
	e := r.entries[name]
	r.file(name, e.header.Mode, append(bytes.Clone(e.data), text...))
}

// copyIn adds the file at source on this machine.
func (r *rootfs) copyIn(name, source string, mode int64) error {
	data, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	r.file(name, mode, data)
	return nil
}

// tar returns the layer: sorted by path, all times at the epoch.
func (r *rootfs) tar() ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(r.entries)) {
		e := r.entries[name]
		h := e.header
		h.Name = name
		if h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		h.ModTime = time.Unix(0, 0)
		h.Format = tar.FormatUSTAR
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// sameContent reports whether both files exist and are equal byte by byte.
func sameContent(a, b string) (bool, error) {
	x, err := os.ReadFile(a)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	y, err := os.ReadFile(b)
	if err != nil {
		return false, err
	}
	return bytes.Equal(x, y), nil
}
