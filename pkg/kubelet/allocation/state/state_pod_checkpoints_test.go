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

package state

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/test/utils/ktesting"
	"k8s.io/utils/ptr"
)

const sharedName = "allocated_pods_state"

func quantities(cpu string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}
}

// podInfo is what is allocated to a pod whose main container has the given image and request.
func podInfo(image, cpu string) PodResourceInfo {
	return PodResourceInfo{
		ContainerResources: map[string]v1.ResourceRequirements{"main": quantities(cpu)},
		AllocatedSpec: &v1.PodSpec{
			Volumes: []v1.Volume{{Name: "<&>\u2028"}},
			Containers: []v1.Container{{
				Name: "main", Image: image, Resources: quantities(cpu),
				Env: []v1.EnvVar{{Name: "A", Value: "<a href=\"x\">&\u2028\x00"}},
			}},
		},
	}
}

// resourcesOnly is what the shared checkpoint knows of info.
func resourcesOnly(info PodResourceInfo) PodResourceInfo {
	info.AllocatedSpec = nil
	return info
}

// quiet is for tests in which failures are expected: logs at the level of errors fail them.
func quiet() klog.Logger { return klog.New(nil) }

func openPods(t testing.TB, dir string) *PodCheckpointState {
	t.Helper()
	return NewPodCheckpointState(quiet(), dir, sharedName)
}

func podFile(dir string, uid types.UID) string {
	return filepath.Join(dir, sharedName+podCheckpointsDirSuffix, string(uid))
}

func requirePods(t *testing.T, s State, want PodResourceInfoMap) {
	t.Helper()
	if diff := cmp.Diff(want, s.GetPodResourceInfoMap()); diff != "" {
		t.Fatalf("state (-want +got):\n%s", diff)
	}
}

// withoutFeature restores the state as a kubelet does that knows only the shared checkpoint.
func withoutFeature(t *testing.T, dir string) State {
	t.Helper()
	s, err := NewStateCheckpoint(quiet(), dir, sharedName)
	require.NoError(t, err)
	return s
}

func TestPodCheckpointsSurviveRestart(t *testing.T) {
	for name, info := range map[string]PodResourceInfo{
		"whole spec":        podInfo("main:1", "0.1"),
		"resources only":    resourcesOnly(podInfo("", "100m")),
		"pod-level":         {ContainerResources: map[string]v1.ResourceRequirements{}, PodLevelResources: ptr.To(quantities("2"))},
		"volumes":           {ContainerResources: map[string]v1.ResourceRequirements{}, EmptyDirVolumeLimits: map[string]*resource.Quantity{"v": ptr.To(resource.MustParse("1Gi"))}},
		"quantity as a sum": {ContainerResources: map[string]v1.ResourceRequirements{"main": quantities("1024m")}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openPods(t, dir)
			require.NoError(t, s.SetPodResourceInfo(quiet(), "uid", info))
			requirePods(t, openPods(t, dir), PodResourceInfoMap{"uid": PodResourceInfoMap{"uid": info}.Clone()["uid"]})
		})
	}
}

func TestPodCheckpointIsWrittenOnlyWhenItChanges(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, openPods(t, dir).SetPodResourceInfo(quiet(), "uid", podInfo("main:1", "0.1")))
	before, err := os.Stat(podFile(dir, "uid"))
	require.NoError(t, err)

	s := openPods(t, dir)
	require.NoError(t, s.SetPodResourceInfo(quiet(), "uid", podInfo("main:1", "100m")))
	after, err := os.Stat(podFile(dir, "uid"))
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "the same allocation is not written again")
	assert.Equal(t, os.FileMode(0o600), after.Mode(), "the spec is nobody else's business")

	require.NoError(t, s.SetPodResourceInfo(quiet(), "uid", podInfo("main:2", "100m")))
	after, err = os.Stat(podFile(dir, "uid"))
	require.NoError(t, err)
	assert.False(t, os.SameFile(before, after), "another one replaces the file")
}

func TestMigrationRollbackAndUpgradeAgain(t *testing.T) {
	dir := t.TempDir()
	old := withoutFeature(t, dir)
	require.NoError(t, old.SetPodResourceInfo(quiet(), "a", resourcesOnly(podInfo("", "1"))))
	require.NoError(t, old.SetPodResourceInfo(quiet(), "b", resourcesOnly(podInfo("", "2"))))

	// Upgrade: the resources are known, the specs are not.
	s := openPods(t, dir)
	requirePods(t, s, PodResourceInfoMap{"a": resourcesOnly(podInfo("", "1")), "b": resourcesOnly(podInfo("", "2"))})
	require.NoError(t, s.SetPodResourceInfo(quiet(), "a", podInfo("main:1", "3")))
	require.NoError(t, s.RemovePod(quiet(), "b"))
	require.NoError(t, s.SetPodResourceInfo(quiet(), "c", podInfo("main:1", "4")))
	requirePods(t, openPods(t, dir), PodResourceInfoMap{
		"a": podInfo("main:1", "3"), "c": podInfo("main:1", "4"),
		"b": resourcesOnly(podInfo("", "2")), // until the shared checkpoint is written, or the orphans are removed
	})
	require.NoError(t, s.Flush())
	requirePods(t, openPods(t, dir), PodResourceInfoMap{"a": podInfo("main:1", "3"), "c": podInfo("main:1", "4")})

	// Rollback: the resources are known.
	old = withoutFeature(t, dir)
	requirePods(t, old, PodResourceInfoMap{"a": resourcesOnly(podInfo("", "3")), "c": resourcesOnly(podInfo("", "4"))})

	// Upgrade again before anything was written: nothing is lost.
	requirePods(t, openPods(t, dir), PodResourceInfoMap{"a": podInfo("main:1", "3"), "c": podInfo("main:1", "4")})

	// Rollback, and upgrade after something was: that kubelet has actuated what is in the API, and
	// its resources, whatever was allocated before.
	require.NoError(t, withoutFeature(t, dir).SetPodResourceInfo(quiet(), "a", resourcesOnly(podInfo("", "5"))))
	want := PodResourceInfoMap{"a": resourcesOnly(podInfo("", "5")), "c": resourcesOnly(podInfo("", "4"))}
	requirePods(t, openPods(t, dir), want)
	requirePods(t, openPods(t, dir), want)
}

func TestObsoletePodCheckpointsAreRemovedBeforeAnyIsWritten(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, openPods(t, dir).SetPodResourceInfo(quiet(), "a", podInfo("main:1", "1")))
	require.NoError(t, os.Remove(filepath.Join(dir, sharedName)))
	old := withoutFeature(t, dir)
	require.NoError(t, old.SetPodResourceInfo(quiet(), "a", resourcesOnly(podInfo("", "2"))))

	// The upgraded kubelet is killed before it writes anything for the pod.
	openPods(t, dir)
	requirePods(t, openPods(t, dir), PodResourceInfoMap{"a": resourcesOnly(podInfo("", "2"))})
}

func TestDamagedPodCheckpoint(t *testing.T) {
	fallback := resourcesOnly(podInfo("", "1"))
	other := podInfo("other:1", "2")

	for name, damage := range map[string]func(t *testing.T, file string){
		"empty":         func(t *testing.T, file string) { require.NoError(t, os.WriteFile(file, nil, 0o600)) },
		"no JSON":       func(t *testing.T, file string) { require.NoError(t, os.WriteFile(file, []byte("\x00\xff"), 0o600)) },
		"null":          func(t *testing.T, file string) { require.NoError(t, os.WriteFile(file, []byte("null"), 0o600)) },
		"empty object":  func(t *testing.T, file string) { require.NoError(t, os.WriteFile(file, []byte("{}"), 0o600)) },
		"newer version": replaceInFile(`"podAllocationVersion":2`, `"podAllocationVersion":3`),
		"flipped":       replaceInFile(`"image":"main:`, `"image":"mbin:`),
		"file of old": func(t *testing.T, file string) {
			copyFile(t, filepath.Join(filepath.Dir(file), "..", sharedName), file)
		},
		"another pod's": func(t *testing.T, file string) { copyFile(t, filepath.Join(filepath.Dir(file), "other"), file) },
		"directory": func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Mkdir(file, 0o700))
		},
		"full directory": func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.MkdirAll(filepath.Join(file, "x"), 0o700))
		},
		"broken link": func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Symlink("nowhere", file))
		},
		"gone": func(t *testing.T, file string) { require.NoError(t, os.Remove(file)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openPods(t, dir)
			require.NoError(t, s.SetPodResourceInfo(quiet(), "uid", podInfo("main:1", "1")))
			require.NoError(t, s.SetPodResourceInfo(quiet(), "other", other))
			require.NoError(t, s.Flush())
			damage(t, podFile(dir, "uid"))

			// What the shared checkpoint knows is left, and nothing else is touched.
			s = openPods(t, dir)
			requirePods(t, s, PodResourceInfoMap{"uid": fallback, "other": other})

			// The next allocation repairs it.
			require.NoError(t, s.SetPodResourceInfo(quiet(), "uid", podInfo("main:3", "1")))
			requirePods(t, openPods(t, dir), PodResourceInfoMap{"uid": podInfo("main:3", "1"), "other": other})

			// It is removed with the pod.
			damage(t, podFile(dir, "uid"))
			s = openPods(t, dir)
			s.RemoveOrphanedPods(sets.New[types.UID]("other"))
			_, err := os.Lstat(podFile(dir, "uid"))
			assert.True(t, os.IsNotExist(err), "checkpoint of a pod that is gone: %v", err)
			require.NoError(t, s.Flush())
			requirePods(t, openPods(t, dir), PodResourceInfoMap{"other": other})
		})
	}
}

func replaceInFile(before, after string) func(t *testing.T, file string) {
	return func(t *testing.T, file string) {
		t.Helper()
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(data), before)
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(data), before, after, 1)), 0o600))
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}

func TestTruncatedCheckpoints(t *testing.T) {
	dir := t.TempDir()
	s := openPods(t, dir)
	info := podInfo("main:1", "1")
	require.NoError(t, s.SetPodResourceInfo(quiet(), "uid", info))
	require.NoError(t, s.Flush())
	own, err := os.ReadFile(podFile(dir, "uid"))
	require.NoError(t, err)
	shared, err := os.ReadFile(filepath.Join(dir, sharedName))
	require.NoError(t, err)

	restore := func() PodResourceInfoMap {
		return (&PodCheckpointState{stateDir: dir, sharedCheckpoint: sharedName, written: map[types.UID]bool{}}).restore(quiet())
	}
	for i := range own {
		require.NoError(t, os.WriteFile(podFile(dir, "uid"), own[:i], 0o600))
		if diff := cmp.Diff(PodResourceInfoMap{"uid": resourcesOnly(info)}, restore()); diff != "" {
			t.Fatalf("own checkpoint cut off at byte %d (-want +got):\n%s", i, diff)
		}
	}
	require.NoError(t, os.WriteFile(podFile(dir, "uid"), own, 0o600))
	for i := range shared {
		require.NoError(t, os.WriteFile(filepath.Join(dir, sharedName), shared[:i], 0o600))
		if diff := cmp.Diff(PodResourceInfoMap{"uid": info}, restore()); diff != "" {
			t.Fatalf("shared checkpoint cut off at byte %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestUnusableDirectoryDoesNotStopTheKubelet(t *testing.T) {
	dir := t.TempDir()
	byPod := filepath.Dir(podFile(dir, "uid"))
	require.NoError(t, os.WriteFile(byPod, nil, 0o600))
	require.NoError(t, withoutFeature(t, dir).SetPodResourceInfo(quiet(), "old", resourcesOnly(podInfo("", "1"))))

	s := openPods(t, dir)
	assert.Error(t, s.SetPodResourceInfo(quiet(), "old", podInfo("main:1", "2")), "the pod cannot be changed")
	requirePods(t, s, PodResourceInfoMap{"old": resourcesOnly(podInfo("", "1"))})
	assert.Error(t, s.Flush())

	require.NoError(t, os.Remove(byPod))
	require.NoError(t, s.SetPodResourceInfo(quiet(), "old", podInfo("main:1", "1")))
	requirePods(t, openPods(t, dir), PodResourceInfoMap{"old": podInfo("main:1", "1")})
}

// fullDisk fails to write, as long as it is full.
type fullDisk struct {
	checkpointmanager.CheckpointManager
	full bool
}

func (d *fullDisk) CreateCheckpoint(key string, checkpoint checkpointmanager.Checkpoint) error {
	if d.full {
		return fmt.Errorf("write %s: %w", key, syscall.ENOSPC)
	}
	return d.CheckpointManager.CreateCheckpoint(key, checkpoint)
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	s := openPods(t, dir)
	own, shared := &fullDisk{CheckpointManager: s.podCheckpoints}, &fullDisk{CheckpointManager: s.shared}
	s.podCheckpoints, s.shared = own, shared
	require.NoError(t, s.SetPodResourceInfo(quiet(), "running", podInfo("main:1", "1")))
	require.NoError(t, s.Flush())
	before := PodResourceInfoMap{"running": podInfo("main:1", "1")}

	own.full, shared.full = true, true
	err := s.SetPodResourceInfo(quiet(), "running", podInfo("main:2", "2"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	requirePods(t, s, before)
	requirePods(t, openPods(t, dir), before)

	// A new pod is admitted and allocated. It is changed no more than any other one.
	require.ErrorIs(t, s.SetPodResourceInfo(quiet(), "new", podInfo("new:1", "1")), syscall.ENOSPC)
	requirePods(t, s, PodResourceInfoMap{"running": podInfo("main:1", "1"), "new": podInfo("new:1", "1")})
	require.ErrorIs(t, s.SetPodResourceInfo(quiet(), "new", podInfo("new:2", "1")), syscall.ENOSPC)
	requirePods(t, s, PodResourceInfoMap{"running": podInfo("main:1", "1"), "new": podInfo("new:1", "1")})
	require.ErrorIs(t, s.Flush(), syscall.ENOSPC)

	// Once there is space, the new pod is written without being asked for, and the change is as soon
	// as it is tried again.
	own.full, shared.full = false, false
	require.NoError(t, s.Flush())
	requirePods(t, openPods(t, dir), PodResourceInfoMap{"running": podInfo("main:1", "1"), "new": podInfo("new:1", "1")})
	require.NoError(t, s.SetPodResourceInfo(quiet(), "running", podInfo("main:2", "2")))
	requirePods(t, openPods(t, dir), PodResourceInfoMap{"running": podInfo("main:2", "2"), "new": podInfo("new:1", "1")})
	require.NoError(t, s.Flush())
	requirePods(t, withoutFeature(t, dir), PodResourceInfoMap{"running": resourcesOnly(podInfo("", "2")), "new": resourcesOnly(podInfo("", "1"))})
}

func TestMigrationWhileTheDiskIsFull(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, withoutFeature(t, dir).SetPodResourceInfo(quiet(), "uid", resourcesOnly(podInfo("", "1"))))
	s := openPods(t, dir)
	own := &fullDisk{CheckpointManager: s.podCheckpoints, full: true}
	s.podCheckpoints = own

	// The spec of the pod is known from now on, and is written as soon as it can be; a change is not.
	require.Error(t, s.SetPodResourceInfo(quiet(), "uid", podInfo("main:1", "1")))
	require.Error(t, s.SetPodResourceInfo(quiet(), "uid", podInfo("main:2", "2")))
	requirePods(t, s, PodResourceInfoMap{"uid": podInfo("main:1", "1")})
	own.full = false
	require.NoError(t, s.Flush())
	requirePods(t, openPods(t, dir), PodResourceInfoMap{"uid": podInfo("main:1", "1")})
}

// TestSharedCheckpointOfOtherKubelets has the file that an unpatched v1.37 kubelet writes.
func TestSharedCheckpointOfOtherKubelets(t *testing.T) {
	const want = `{"data":"{\"entries\":{\"uid\":{\"ContainerResources\":{\"main\":{\"requests\":{\"cpu\":\"100m\"}}},\"PodLevelResources\":null,\"EmptyDirVolumeLimits\":null}}}","checksum":%d}`
	dir := t.TempDir()
	require.NoError(t, withoutFeature(t, dir).SetPodResourceInfo(quiet(), "uid", podInfo("main:1", "100m")))
	got, err := os.ReadFile(filepath.Join(dir, sharedName))
	require.NoError(t, err)
	checkpoint := &Checkpoint{}
	require.NoError(t, checkpoint.UnmarshalCheckpoint(got))
	require.NoError(t, checkpoint.VerifyChecksum())
	assert.Equal(t, fmt.Sprintf(want, checkpoint.Checksum), string(got))
	requirePods(t, openPods(t, dir), PodResourceInfoMap{"uid": resourcesOnly(podInfo("", "100m"))})
}

func TestCheckpointsOfRemovedPodsAreRemoved(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	dir := t.TempDir()
	s := openPods(t, dir)
	for _, uid := range []types.UID{"a", "b", "c", "d"} {
		require.NoError(t, s.SetPodResourceInfo(logger, uid, podInfo("main:1", "1")))
	}
	require.NoError(t, s.RemovePod(logger, "a"))
	require.NoError(t, os.WriteFile(podFile(dir, ".123"), nil, 0o600)) // what a killed kubelet was writing
	s = openPods(t, dir)
	s.RemoveOrphanedPods(sets.New[types.UID]("c", "unknown"))

	entries, err := os.ReadDir(filepath.Dir(podFile(dir, "a")))
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	assert.Equal(t, []string{"c"}, names)
	requirePods(t, s, PodResourceInfoMap{"c": podInfo("main:1", "1")})
}

func TestPartialChanges(t *testing.T) {
	dir := t.TempDir()
	s := openPods(t, dir)
	require.NoError(t, s.SetContainerResources(quiet(), "uid", "main", quantities("1")))
	require.NoError(t, s.SetPodLevelResources(quiet(), "uid", ptr.To(quantities("2"))))
	require.NoError(t, s.SetEmptyDirVolumeLimit("uid", "v", ptr.To(resource.MustParse("1Gi"))))
	want := PodResourceInfoMap{"uid": {
		ContainerResources:   map[string]v1.ResourceRequirements{"main": quantities("1")},
		PodLevelResources:    ptr.To(quantities("2")),
		EmptyDirVolumeLimits: map[string]*resource.Quantity{"v": ptr.To(resource.MustParse("1Gi"))},
	}}
	requirePods(t, s, want)
	requirePods(t, openPods(t, dir), want)
}

// TestKilledWhileWriting kills a process that does nothing but write. What is on disk is then the
// last state that it saved, or the one that it was saving.
func TestKilledWhileWriting(t *testing.T) {
	const dirVariable = "POD_CHECKPOINTS_DIR"
	if dir := os.Getenv(dirVariable); dir != "" {
		s := openPods(t, dir)
		for i := 1; ; i++ {
			if err := s.SetPodResourceInfo(quiet(), "uid", podInfo("main:"+strconv.Itoa(i), "1")); err != nil {
				t.Fatal(err)
			}
			fmt.Printf("saved %d\n", i)
		}
	}

	for round := range 15 {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileWriting$", "-test.v=false")
		cmd.Env = append(os.Environ(), dirVariable+"="+dir)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		saved := 0
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if n, ok := strings.CutPrefix(lines.Text(), "saved "); ok {
				saved, err = strconv.Atoi(n)
				require.NoError(t, err)
			}
			if saved == 5+round {
				require.NoError(t, cmd.Process.Kill())
			}
		}
		timer.Stop()
		_ = cmd.Wait()
		require.GreaterOrEqual(t, saved, 5+round, "states saved before the process was killed")

		info, ok := openPods(t, dir).GetPodResourceInfo("uid")
		require.True(t, ok)
		require.NotNil(t, info.AllocatedSpec)
		assert.Contains(t, []string{"main:" + strconv.Itoa(saved), "main:" + strconv.Itoa(saved+1)}, info.AllocatedSpec.Containers[0].Image)
	}
}

func FuzzPodCheckpoint(f *testing.F) {
	for _, info := range []PodResourceInfo{podInfo("main:1", "0.1"), resourcesOnly(podInfo("", "1e3"))} {
		checkpoint, err := newPodCheckpoint("uid", info)
		require.NoError(f, err)
		blob, err := checkpoint.MarshalCheckpoint()
		require.NoError(f, err)
		f.Add(blob, true)
		f.Add([]byte(checkpoint.Allocation), false)
	}
	f.Add([]byte(`{"podAllocationVersion":2}`), true)
	f.Add([]byte(`{"podUID":"uid","spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"-1e-9"}}}]}}`), false)

	f.Fuzz(func(t *testing.T, blob []byte, whole bool) {
		checkpoint := &podCheckpoint{}
		if whole {
			if checkpoint.UnmarshalCheckpoint(blob) != nil || checkpoint.VerifyChecksum() != nil {
				return
			}
		} else {
			// Past the checksum, which the fuzzer does not guess.
			checkpoint.Version, checkpoint.Allocation = podCheckpointVersion, blob
		}
		info, err := checkpoint.info("uid")
		if err != nil {
			return
		}
		// What can be read can be written, and is then the same.
		again, err := newPodCheckpoint("uid", info)
		require.NoError(t, err)
		written, err := again.MarshalCheckpoint()
		require.NoError(t, err)
		reread := &podCheckpoint{}
		require.NoError(t, reread.UnmarshalCheckpoint(written))
		require.NoError(t, reread.VerifyChecksum())
		got, err := reread.info("uid")
		require.NoError(t, err)
		third, err := newPodCheckpoint("uid", got)
		require.NoError(t, err)
		require.Equal(t, string(again.Allocation), string(third.Allocation))
	})
}

func BenchmarkPodCheckpointWrite(b *testing.B) {
	spec := v1.PodSpec{}
	for i := range 10 {
		c := podInfo("registry.example.com/some/image:v1", "100m").AllocatedSpec.Containers[0]
		c.Name = fmt.Sprintf("container-%d", i)
		for j := range 20 {
			c.Env = append(c.Env, v1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: strings.Repeat("value", 10)})
		}
		spec.Containers = append(spec.Containers, c)
	}
	for _, pods := range []int{1, 100, 500} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			s := openPods(b, b.TempDir())
			for i := range pods {
				require.NoError(b, s.SetPodResourceInfo(quiet(), types.UID(fmt.Sprintf("pod-%d", i)), PodResourceInfo{AllocatedSpec: spec.DeepCopy()}))
			}
			for i := 0; b.Loop(); i++ {
				changed := spec.DeepCopy()
				changed.Containers[0].Image = fmt.Sprintf("registry.example.com/some/image:v%d", i+2)
				if err := s.SetPodResourceInfo(quiet(), "pod-0", PodResourceInfo{AllocatedSpec: changed}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
