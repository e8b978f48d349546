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
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// git runs git commands. Diffs, hashes and merges are git's business: what this tool writes must be what any git would
// write, and what it reads must be what any git can apply.
type git struct {
	// args come before the command, for example to choose the repository.
	args []string
	// dir is the directory that git runs in.
	dir string
	// env is the whole environment.
	env []string
	// lock is inherited by every git that runs. A git that outlives this tool (kill -9 ends only the tool) then keeps
	// the next run out until it is done.
	lock *os.File
}

// environment is the caller's without the variables that would point git at another repository, as they do in hooks.
func environment(extra ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "GIT_") {
			env = append(env, kv)
		}
	}
	return append(append(env, "LC_ALL=C"), extra...)
}

// gitAt runs git in dir as the user would, with the user's own configuration.
func gitAt(dir string) git {
	return git{dir: dir, env: environment()}
}

// gitFor runs git on the repository whose work tree is dir, whatever repositories are around it, and independent of
// the user's configuration: a patch must come out the same on every machine. The fixed date makes a commit's name
// depend on its content only, which is how a second compose knows that there is nothing to do.
func gitFor(dir string, lock *os.File) git {
	const who, mail, when = "hack/tree", "tree@dynamic-containers", "1700000000 +0000"
	return git{
		args: []string{"--git-dir=" + filepath.Join(dir, ".git"), "--work-tree=" + dir},
		dir:  dir,
		env: environment("GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
			"GIT_AUTHOR_NAME="+who, "GIT_AUTHOR_EMAIL="+mail, "GIT_AUTHOR_DATE="+when,
			"GIT_COMMITTER_NAME="+who, "GIT_COMMITTER_EMAIL="+mail, "GIT_COMMITTER_DATE="+when),
		lock: lock,
	}
}

// withIndex is g with another index file, so that trees can be built without touching the user's.
func (g git) withIndex(file string) git {
	g.env = append(g.env[:len(g.env):len(g.env)], "GIT_INDEX_FILE="+file)
	return g
}

func (g git) command(args ...string) *exec.Cmd {
	cmd := exec.Command("git", append(g.args[:len(g.args):len(g.args)], args...)...)
	cmd.Dir, cmd.Env = g.dir, g.env
	if g.lock != nil {
		cmd.ExtraFiles = []*os.File{g.lock}
	}
	return cmd
}

// pipe runs git with the given standard input and returns its standard output. The error holds what git said.
func (g git) pipe(stdin io.Reader, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := g.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if said := strings.TrimSpace(stderr.String()); said != "" {
			return "", fmt.Errorf("git %s: %s", args[0], said)
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return stdout.String(), nil
}

func (g git) run(args ...string) (string, error) {
	return g.pipe(nil, args...)
}

// revision resolves a name to a commit, or to "" if there is no such name.
func (g git) revision(name string) string {
	out, err := g.run("rev-parse", "--quiet", "--verify", name+"^{commit}")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// writeTree stores the index as a tree object.
func (g git) writeTree() (string, error) {
	out, err := g.run("write-tree")
	return strings.TrimSpace(out), err
}

// commitTree makes a commit of a tree without moving any branch.
func (g git) commitTree(tree, parent, message string) (string, error) {
	out, err := g.pipe(strings.NewReader(message), "commit-tree", "-p", parent, tree)
	return strings.TrimSpace(out), err
}

// blob is a file as git knows it.
type blob struct {
	mode, hash string
}

// files lists every file of a commit or tree.
func (g git) files(treeish string) (map[string]blob, error) {
	out, err := g.run("ls-tree", "-r", "-z", treeish)
	if err != nil {
		return nil, err
	}
	files := map[string]blob{}
	for _, line := range splitNUL(out) {
		meta, path, _ := strings.Cut(line, "\t")
		fields := strings.Fields(meta)
		if len(fields) != 3 {
			return nil, fmt.Errorf("git ls-tree: unexpected line %q", line)
		}
		files[path] = blob{mode: fields[0], hash: fields[2]}
	}
	return files, nil
}

// change is one file that differs between two trees. The zero blob stands for 'no such file'.
type change struct {
	path     string
	old, new blob
}

// String is the change as the user sees it in a list.
func (c change) String() string {
	switch {
	case c.old == blob{}:
		return "added     " + c.path
	case c.new == blob{}:
		return "deleted   " + c.path
	default:
		return "modified  " + c.path
	}
}

// changes lists the files that differ between two commits or trees, in the order of their paths.
func (g git) changes(from, to string) ([]change, error) {
	out, err := g.run("diff-tree", "-r", "-z", "--no-renames", "--raw", "--full-index", from, to)
	if err != nil {
		return nil, err
	}
	var changes []change
	fields := splitNUL(out)
	for i := 0; i+1 < len(fields); i += 2 {
		meta := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(meta) != 5 {
			return nil, fmt.Errorf("git diff-tree: unexpected line %q", fields[i])
		}
		c := change{path: fields[i+1]}
		if meta[4] != "A" {
			c.old = blob{mode: meta[0], hash: meta[2]}
		}
		if meta[4] != "D" {
			c.new = blob{mode: meta[1], hash: meta[3]}
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// content reads a blob.
func (g git) content(hash string) ([]byte, error) {
	out, err := g.run("cat-file", "blob", hash)
	return []byte(out), err
}

// contents reads many blobs at once. Those that the repository does not have are left out.
func (g git) contents(hashes []string) (map[string][]byte, error) {
	out, err := g.pipe(strings.NewReader(strings.Join(hashes, "\n")+"\n"), "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	contents := map[string][]byte{}
	for out != "" {
		head, rest, _ := strings.Cut(out, "\n")
		out = rest
		fields := strings.Fields(head)
		if len(fields) != 3 {
			continue // '<hash> missing', or the empty line that ends the input
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size >= len(rest) {
			return nil, fmt.Errorf("git cat-file: unexpected line %q", head)
		}
		contents[fields[0]], out = []byte(rest[:size]), rest[size+1:]
	}
	return contents, nil
}

// hashFiles stores files, named by absolute paths, as blobs, byte for byte.
func (g git) hashFiles(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	out, err := g.pipe(strings.NewReader(strings.Join(paths, "\n")+"\n"), "hash-object", "-w", "--no-filters", "--stdin-paths")
	if err != nil {
		return nil, err
	}
	hashes := strings.Fields(out)
	if len(hashes) != len(paths) {
		return nil, fmt.Errorf("git hash-object: %d names for %d files", len(hashes), len(paths))
	}
	return hashes, nil
}

func splitNUL(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\x00"), "\x00")
}
