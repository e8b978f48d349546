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
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
)

const (
	// checkpointSuffix ends the names of the files in which the kubelet keeps what pods were allocated
	// and what of it was actuated.
	checkpointSuffix = "_pods_state"
	// podCheckpointDir is the directory in which a kubelet with dynamic containers keeps a file for each
	// pod.
	podCheckpointDir = "allocated_pods_state_by_pod"
)

// checkpointCounter counts how often the kubelet writes its checkpoints of pods. Each write is a
// temporary file that is renamed to the checkpoint.
type checkpointCounter struct {
	lock   sync.Mutex
	counts map[string]float64
}

// startCheckpointCounter starts to count in the root directory of a kubelet.
func startCheckpointCounter(ctx context.Context, kubeletDir string) (*checkpointCounter, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch the checkpoints of the kubelet: %w", err)
	}
	if err := watcher.Add(kubeletDir); err != nil {
		return nil, fmt.Errorf("watch the checkpoints of the kubelet in %s (see --kubelet-dir): %w", kubeletDir, err)
	}
	podDir := filepath.Join(kubeletDir, podCheckpointDir)
	if err := watcher.Add(podDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("watch the checkpoints of the kubelet in %s: %w", podDir, err)
	}
	context.AfterFunc(ctx, func() {
		if err := watcher.Close(); err != nil {
			klog.FromContext(ctx).Error(err, "Could not end the watch of the checkpoints", "directory", kubeletDir)
		}
	})
	c := &checkpointCounter{counts: map[string]float64{}}
	go func() {
		for event := range watcher.Events {
			name := filepath.Base(event.Name)
			if strings.HasPrefix(name, ".") {
				continue // a temporary file
			}
			if filepath.Dir(event.Name) == podDir {
				name = podCheckpointDir
			}
			if event.Has(fsnotify.Create) && (name == podCheckpointDir || strings.HasSuffix(name, checkpointSuffix)) {
				c.lock.Lock()
				c.counts["writes of "+name]++
				c.lock.Unlock()
			}
		}
	}()
	return c, nil
}

// snapshot returns the number of writes so far, by checkpoint.
func (c *checkpointCounter) snapshot() map[string]float64 {
	c.lock.Lock()
	defer c.lock.Unlock()
	return maps.Clone(c.counts)
}
