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
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
)

// A fetcher makes modules available and returns the folder of each. Tests use folders of their own.
type fetcher func([]module.Version) (map[module.Version]string, error)

// downloadModules fetches modules into the module cache with the go command.
func downloadModules(modules []module.Version) (map[module.Version]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.String())
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("go", args...)
	// Outside of any module the go command only downloads what it is told to; in the root it would load the whole
	// module graph first. The checksums in go.sum are checked by verifyModule.
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GO111MODULE=on")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()

	dirs := map[module.Version]string{}
	var failed []error
	for dec := json.NewDecoder(&stdout); ; {
		var got struct{ Path, Version, Dir, Error string }
		if err := dec.Decode(&got); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go mod download: %w", err)
		}
		if got.Error != "" {
			failed = append(failed, fmt.Errorf("go mod download %s@%s: %s", got.Path, got.Version, got.Error))
			continue
		}
		dirs[module.Version{Path: got.Path, Version: got.Version}] = got.Dir
	}
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	if runErr != nil {
		return nil, fmt.Errorf("go mod download: %w: %s", runErr, strings.TrimSpace(stderr.String()))
	}
	return dirs, nil
}

// verifyModules compares the content of the folders with the checksums in go.sum. The go command checks what it
// downloads; this also finds a module cache that was edited, and works for a fetcher that is not the go command.
func verifyModules(p *pins, dirs map[module.Version]string) error {
	var (
		wait sync.WaitGroup
		errs = make([]error, len(p.modules()))
	)
	for i, m := range p.modules() {
		wait.Go(func() {
			sum, err := dirhash.HashDir(dirs[m], m.String(), dirhash.Hash1)
			if err == nil && sum != p.sums[m] {
				err = fmt.Errorf("checksum mismatch: go.sum has %s, %s has %s", p.sums[m], dirs[m], sum)
			}
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w", m, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// upstreamRef is where the import of the pinned upstream is kept. It exists only if the import is whole.
func upstreamRef(p *pins) string {
	return "refs/upstream/" + p.key()
}

// importUpstream makes sure that the repository holds the pinned upstream as a commit, and returns it.
//
// The files go from the module cache into one pack through git fast-import, which is several times as fast as copying
// and adding 22,000 files, and leaves nothing behind when it is interrupted: without the closing 'done' git drops all.
func importUpstream(g git, p *pins, fetch fetcher, say func(string, ...any)) (string, error) {
	ref := upstreamRef(p)
	if commit := g.revision(ref); commit != "" {
		return commit, nil
	}
	say("importing upstream %s and its staging modules\n", p.release())
	dirs, err := fetch(p.modules())
	if err != nil {
		return "", err
	}
	kubernetes := dirs[module.Version{Path: kubernetesModule, Version: p.release()}]
	data, err := os.ReadFile(filepath.Join(kubernetes, "go.mod"))
	if err != nil {
		return "", err
	}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		return "", fmt.Errorf("%s: %w", kubernetesModule, err)
	}
	folders, err := p.staging(mod)
	if err != nil {
		return "", err
	}

	verified := make(chan error, 1)
	go func() { verified <- verifyModules(p, dirs) }()

	cmd := g.command("fast-import", "--quiet", "--done", "--depth=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	err = func() error {
		defer stdin.Close()
		w := bufio.NewWriterSize(stdin, 1<<20)
		message := fmt.Sprintf("upstream %s\n\nPins: %s\n", p.release(), p.key())
		fmt.Fprintf(w, "commit %s\ncommitter hack/tree <tree@dynamic-containers> 1700000000 +0000\ndata %d\n%s\n", ref, len(message), message)
		if err := writeModule(w, kubernetes, ""); err != nil {
			return err
		}
		for m, folder := range folders {
			if err := writeModule(w, dirs[m], folder); err != nil {
				return err
			}
		}
		if err := <-verified; err != nil {
			return err
		}
		fmt.Fprint(w, "done\n")
		return w.Flush()
	}()
	if waitErr := cmd.Wait(); err == nil && waitErr != nil {
		err = waitErr
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("importing upstream %s: %w", p.release(), err), saidBy(&stderr, err))
	}
	return g.revision(ref), nil
}

// saidBy is what a command printed, if the command itself was what failed.
func saidBy(stderr *bytes.Buffer, err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errors.New(strings.TrimSpace(stderr.String()))
	}
	return nil
}

// writeModule writes the files of a module to git fast-import.
func writeModule(w *bufio.Writer, dir, folder string) error {
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			// What is left of vendor/ in the module is an OWNERS file, but go would believe that all is vendored.
			if folder == "" && rel == "vendor" {
				return filepath.SkipDir
			}
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		dest := path.Join(folder, filepath.ToSlash(rel))
		if data, err = withoutUnserved(dest, data); err != nil {
			return err
		}
		mode := "100644"
		if bytes.HasPrefix(data, []byte("#!")) { // module zips carry no modes
			mode = "100755"
		}
		fmt.Fprintf(w, "M %s inline %s\ndata %d\n", mode, dest, len(data))
		if _, err := w.Write(data); err != nil {
			return err
		}
		return w.WriteByte('\n')
	})
}

// withoutUnserved takes the modules that cannot be had out of the root's go.mod and go.work.
func withoutUnserved(dest string, data []byte) ([]byte, error) {
	switch dest {
	case "go.mod":
		mod, err := modfile.Parse(dest, data, nil)
		if err != nil {
			return nil, err
		}
		for _, name := range unserved {
			if err := mod.DropReplace(name, ""); err != nil {
				return nil, err
			}
			if err := mod.DropRequire(name); err != nil {
				return nil, err
			}
		}
		mod.Cleanup()
		return mod.Format()
	case "go.work":
		work, err := modfile.ParseWork(dest, data, nil)
		if err != nil {
			return nil, err
		}
		for _, name := range unserved {
			if err := work.DropUse("./staging/src/" + name); err != nil {
				return nil, err
			}
		}
		work.Cleanup()
		return modfile.Format(work.Syntax), nil
	}
	return data, nil
}
