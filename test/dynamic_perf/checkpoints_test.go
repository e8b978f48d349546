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
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubernetes/pkg/kubelet/util/store"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"
)

func TestCheckpointCounter(t *testing.T) {
	directory := t.TempDir()
	// The store is the one that the kubelet's checkpoint manager writes with.
	podFiles, err := store.NewFileStore(filepath.Join(directory, podCheckpointDir), &utilfs.DefaultFs{})
	if err != nil {
		t.Fatal(err)
	}
	counter, err := startCheckpointCounter(t.Context(), directory)
	if err != nil {
		t.Fatal(err)
	}
	files, err := store.NewFileStore(directory, &utilfs.DefaultFs{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"allocated_pods_state", "actuated_pods_state", "allocated_pods_state", "cpu_manager_state"} {
		if err := files.Write(name, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"uid1", "uid2", "uid1"} {
		if err := podFiles.Write(name, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]float64{"writes of allocated_pods_state": 2, "writes of actuated_pods_state": 1, "writes of allocated_pods_state_by_pod": 3}
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return cmp.Equal(want, counter.snapshot()), nil
	})
	if err != nil {
		t.Errorf("counts (-want +got):\n%s", cmp.Diff(want, counter.snapshot()))
	}
}
