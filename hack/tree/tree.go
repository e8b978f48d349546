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
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// The names of commits in the tree's repository, for people and for this tool.
const (
	// upstreamTag is commit 1, upstream as it was imported.
	upstreamTag = "refs/tags/upstream"
	// composedTag is commit 2, what the overlay makes of it. Whatever in the tree differs from it was edited.
	composedTag = "refs/tags/composed"
	// movingRef is the commit that the tree is being moved to. If it is there at the start, the move was interrupted.
	movingRef = "refs/tree/moving"
)

// tree is the composed work tree, _output/tree, and its repository.
type tree struct {
	git
	// path is where the tree is, and name how messages call it.
	path, name string
	// fresh is set as long as there is no tree yet; path is then where it is made.
	fresh bool
	final string
}

// openTree locks the tree of the repository in root, and brings it into one of two states: fresh, or at rest at the
// commit composedTag plus the user's edits. The returned function gives the lock back.
func openTree(root string) (*tree, func(), error) {
	output := filepath.Join(root, "_output")
	if err := os.MkdirAll(output, 0o755); err != nil {
		return nil, nil, err
	}
	lock, err := os.OpenFile(filepath.Join(output, "tree.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, nil, fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	close := func() { lock.Close() }
	t := &tree{path: filepath.Join(output, "tree"), name: "_output/tree"}
	if err := t.open(lock); err != nil {
		close()
		return nil, nil, err
	}
	return t, close, nil
}

func (t *tree) open(lock *os.File) error {
	_, err := os.Lstat(t.path)
	switch {
	case err == nil:
		t.git = gitFor(t.path, lock)
		if t.revision(composedTag) == "" {
			return fmt.Errorf("%s is there but was not made by 'make tree': move it away", t.name)
		}
		return t.finishMove()
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	// A new tree is made beside its place and renamed when it is complete. One that was left half-made is made use of
	// as far as it is good: the upstream import is the longest step.
	t.fresh, t.final = true, t.path
	t.path += ".new"
	t.git = gitFor(t.path, lock)
	if out, err := t.run("for-each-ref", "refs/upstream"); err == nil && out != "" {
		_ = os.Remove(filepath.Join(t.path, ".git", "index.lock"))
		return nil
	}
	if err := os.RemoveAll(t.path); err != nil {
		return err
	}
	return t.init()
}

// treeConfig is what the tree's repository has in its .git/config beside git's own settings.
const treeConfig = `[core]
	autocrlf = false
	# Fast to write, and still a quarter of the size of the files.
	compression = 1
[gc]
	# Old objects are what a rebase merges from.
	auto = 0
[user]
	name = dynamic containers
	email = tree@dynamic-containers
`

// init makes an empty repository that keeps every file byte for byte: upstream's .gitattributes would change the line
// ends of some of its own test data.
func (t *tree) init() error {
	if err := os.MkdirAll(t.path, 0o755); err != nil {
		return err
	}
	// --template= leaves out sample hooks and, more to the point, hooks of the user's.
	if _, err := t.run("init", "--quiet", "--template=", "--initial-branch=dynamic-containers"); err != nil {
		return err
	}
	config, err := os.OpenFile(filepath.Join(t.path, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = config.WriteString(treeConfig)
	if err := errors.Join(err, config.Close()); err != nil {
		return err
	}
	info := filepath.Join(t.path, ".git", "info")
	if err := os.MkdirAll(info, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(info, "attributes"), []byte("* -text !eol\n"), 0o644)
}

// snapshot stores the work tree, with all that is not ignored, as a tree object. The user's index is not touched.
func (t *tree) snapshot() (string, error) {
	index, remove, err := t.scratchIndex()
	if err != nil {
		return "", err
	}
	defer remove()
	// The copy brings what git knows about unchanged files, so that only changed ones are read.
	if err := copyFile(filepath.Join(t.path, ".git", "index"), index); err != nil {
		return "", err
	}
	g := t.withIndex(index)
	if _, err := g.run("add", "--all", "--", t.path); err != nil {
		return "", err
	}
	return g.writeTree()
}

// scratchIndex returns the name for an index of our own, and a function that removes it.
func (t *tree) scratchIndex() (string, func(), error) {
	dir, err := os.MkdirTemp("", "tree-index-")
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(dir, "index"), func() { _ = os.RemoveAll(dir) }, nil
}

// edits are what the user did in the tree since it was composed.
type edits struct {
	// snapshot is the tree object of the work tree.
	snapshot string
	// changes are the files that differ from what was composed, committed or not.
	changes []change
	// commits are those that are not part of what was composed, one line each.
	commits []string
}

func (e *edits) none() bool {
	return len(e.changes)+len(e.commits) == 0
}

// edits finds all edits that were not saved.
func (t *tree) edits() (*edits, error) {
	snapshot, err := t.snapshot()
	if err != nil {
		return nil, err
	}
	changes, err := t.changes(composedTag, snapshot)
	if err != nil {
		return nil, err
	}
	e := &edits{snapshot: snapshot, changes: changes}
	log, err := t.run("log", "--format=%h %s", composedTag+"..HEAD")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(log) {
		e.commits = append(e.commits, strings.TrimSpace(line))
	}
	return e, nil
}

// refuseEdits is an error that lists the edits, if there are any.
func (t *tree) refuseEdits() error {
	e, err := t.edits()
	if err != nil || e.none() {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s has edits that are not saved:\n", t.name)
	for _, c := range e.changes {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	for _, c := range e.commits {
		fmt.Fprintf(&b, "  commit    %s\n", c)
	}
	fmt.Fprintf(&b, "Nothing was changed. 'make save' writes them into the overlay.")
	return errors.New(b.String())
}

// moveTo makes the tree one of the given commit, touching only the files that differ, so that builds stay warm. The
// caller has made sure that there are no edits. If this is interrupted, finishMove picks it up.
func (t *tree) moveTo(commit string) error {
	if t.fresh {
		// --hard writes what is missing or different, so a checkout that was interrupted is completed.
		if _, err := t.run("reset", "--quiet", "--hard", commit); err != nil {
			return err
		}
		if err := t.settle(commit); err != nil {
			return err
		}
		return os.Rename(t.path, t.final)
	}
	if _, err := t.run("update-ref", movingRef, commit); err != nil {
		return err
	}
	return t.move()
}

// move does the steps after movingRef was set. Each can be done again.
func (t *tree) move() error {
	changes, err := t.changes(composedTag, movingRef)
	if err != nil {
		return err
	}
	if _, err := t.run("reset", "--quiet", "--mixed", movingRef); err != nil {
		return err
	}
	// Deletions first, as a folder may make way for a file.
	var write strings.Builder
	for _, c := range changes {
		if (c.new != blob{}) {
			write.WriteString(c.path + "\x00")
			continue
		}
		if err := os.Remove(t.file(c.path)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for dir := path.Dir(c.path); dir != "."; dir = path.Dir(dir) {
			if os.Remove(t.file(dir)) != nil {
				break // not empty
			}
		}
	}
	if _, err := t.pipe(strings.NewReader(write.String()), "checkout-index", "--quiet", "--force", "--index", "-z", "--stdin"); err != nil {
		return err
	}
	return t.settle(t.revision(movingRef))
}

// settle records that the tree is at a commit, all names at once.
func (t *tree) settle(commit string) error {
	_, err := t.pipe(strings.NewReader(fmt.Sprintf("start\nupdate %s %s\nupdate %s %s^\ndelete %s\ncommit\n",
		composedTag, commit, upstreamTag, commit, movingRef)), "update-ref", "--stdin")
	return err
}

// finishMove completes a move that was interrupted. The files on its way hold the old content, the new content, part of
// the new content, or nothing; anything else was edited since then and is not overwritten.
func (t *tree) finishMove() error {
	if t.revision(movingRef) == "" {
		return nil
	}
	// The lock is ours, so no git of ours is running.
	_ = os.Remove(filepath.Join(t.path, ".git", "index.lock"))
	changes, err := t.changes(composedTag, movingRef)
	if err != nil {
		return err
	}
	var edited []string
	for _, c := range changes {
		data, err := os.ReadFile(t.file(c.path))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		} else if err != nil {
			return err
		}
		ours := false
		for _, version := range []blob{c.old, c.new} {
			if (version == blob{}) {
				continue
			}
			content, err := t.content(version.hash)
			if err != nil {
				return err
			}
			ours = ours || bytes.Equal(data, content) || version == c.new && bytes.HasPrefix(content, data)
		}
		if !ours {
			edited = append(edited, "  "+c.path)
		}
	}
	if len(edited) > 0 {
		return fmt.Errorf("an earlier 'make tree' was interrupted, and these files were edited since then:\n%s\n"+
			"Nothing was changed. Move them away, run 'make tree', and put your edits back.", strings.Join(edited, "\n"))
	}
	return t.move()
}

// file is where a file of the tree is on disk.
func (t *tree) file(name string) string {
	return filepath.Join(t.path, filepath.FromSlash(name))
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
