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
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scenario is one variant of the measurement.
type scenario struct {
	name string
	run  func(b *benchmark, ctx context.Context) error
}

// unpatched is plain without pods/dynamic, for binaries that do not serve it.
const unpatched = "unpatched"

// scenarios lists all variants in the order in which they run. The plain one gives the floor, which the
// others are compared with.
var scenarios = []scenario{
	{unpatched, (*benchmark).unpatched},
	{"plain", (*benchmark).plain},
	{"containers", (*benchmark).manyContainers},
	{"pods", (*benchmark).manyPods},
	{"batch", (*benchmark).batch},
	{"staggered", (*benchmark).staggered},
	{"burst", (*benchmark).burst},
	{"stopping", (*benchmark).stopping},
	{"churn", (*benchmark).churn},
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

// pause lets the node come to rest between two samples. It is not always of the same length, so that
// the samples do not keep step with anything periodic in the kubelet.
func (b *benchmark) pause(ctx context.Context) error {
	return sleep(ctx, b.options.pause/2+rand.N(b.options.pause+1))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// repeat calls run as often as --runs says, with a pause before each.
func (b *benchmark) repeat(ctx context.Context, scenario string, run func() error) error {
	for i := range b.options.runs {
		if err := b.pause(ctx); err != nil {
			return err
		}
		if err := run(); err != nil {
			return fmt.Errorf("scenario %q, run %d: %w", scenario, i+1, err)
		}
	}
	return nil
}

// plain measures everything once per run, in turn, so that a machine that becomes slower or faster
// does so for all of them.
func (b *benchmark) plain(ctx context.Context) error {
	target, err := b.createPods(ctx, 1, 1)
	if err != nil {
		return err
	}
	err = b.inTurn(ctx, func(name string) error {
		if err := b.addAndRemove(ctx, name, target[0]); err != nil {
			return err
		}
		return b.pause(ctx)
	})
	if err != nil {
		return err
	}
	return b.deletePods(ctx, target...)
}

func (b *benchmark) unpatched(ctx context.Context) error {
	if err := b.inTurn(ctx, func(string) error { return nil }); err != nil {
		return err
	}
	return b.staggeredEphemeral(ctx)
}

// inTurn measures a new pod, the floor, what dynamic does, and an ephemeral container in the new pod,
// once per run. The samples are those of scenario plain. Ephemeral containers cannot be removed, and
// must not become more with every run, so each run has a pod of its own for them: when the container
// is added, that pod is at rest, as the one of dynamic is.
func (b *benchmark) inTurn(ctx context.Context, dynamic func(scenario string) error) error {
	const name = "plain"
	return b.repeat(ctx, name, func() error {
		pod := b.newPod(1)
		s, err := b.create(ctx, pod)
		if err != nil {
			return err
		}
		b.report.add(name, opNewPod, s)
		if err := b.pause(ctx); err != nil {
			return err
		}
		if s, err = b.floor(ctx, 1); err != nil {
			return err
		}
		b.report.add(name, opFloor, s)
		if err := b.pause(ctx); err != nil {
			return err
		}
		if err := dynamic(name); err != nil {
			return err
		}
		if _, s, err = b.addEphemeral(ctx, pod.Name); err != nil {
			return err
		}
		b.report.add(name, opEphemeral, s)
		return b.deletePods(ctx, pod.Name)
	})
}

// addAndRemove measures the addition of a container and its removal.
func (b *benchmark) addAndRemove(ctx context.Context, scenario, pod string) error {
	names, added, err := b.add(ctx, pod, 1)
	if err != nil {
		return err
	}
	b.report.add(scenario, opAdd, added...)
	if err := b.pause(ctx); err != nil {
		return err
	}
	removed, err := b.remove(ctx, pod, names...)
	if err != nil {
		return err
	}
	b.report.add(scenario, opRemove, removed...)
	return nil
}

func (b *benchmark) manyContainers(ctx context.Context) error {
	name := fmt.Sprintf("%d containers in the pod", b.options.containers)
	target, err := b.createPods(ctx, 1, b.options.containers)
	if err != nil {
		return err
	}
	if err := b.repeat(ctx, name, func() error { return b.addAndRemove(ctx, name, target[0]) }); err != nil {
		return err
	}
	if err := b.shrink(ctx, target[0]); err != nil {
		return err
	}
	return b.deletePods(ctx, target...)
}

// shrink removes all containers of the pod but one, some at a time: the shim of containerd 2.4 needs minutes
// if many of one pod stop at once, as at the deletion of the pod.
func (b *benchmark) shrink(ctx context.Context, podName string) error {
	pod, err := b.client.CoreV1().Pods(b.namespace).Get(ctx, podName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get pod %s: %w", podName, err)
	}
	var names []string
	for _, c := range pod.Spec.Containers[1:] {
		names = append(names, c.Name)
	}
	for some := range slices.Chunk(names, b.options.batch) {
		if _, err := b.remove(ctx, podName, some...); err != nil {
			return err
		}
	}
	return nil
}

func (b *benchmark) manyPods(ctx context.Context) error {
	name := fmt.Sprintf("%d pods on the node", b.options.pods)
	if err := b.checkRoomForPods(ctx, b.options.pods); err != nil {
		return err
	}
	pods, err := b.createPods(ctx, b.options.pods, 1)
	if err != nil {
		return err
	}
	if err := b.repeat(ctx, name, func() error { return b.addAndRemove(ctx, name, pods[0]) }); err != nil {
		return err
	}
	return b.deletePods(ctx, pods...)
}

// batch measures several containers in one request, each stage until the last of them reached it.
func (b *benchmark) batch(ctx context.Context) error {
	name := fmt.Sprintf("%d in one request", b.options.batch)
	target, err := b.createPods(ctx, 1, 1)
	if err != nil {
		return err
	}
	err = b.repeat(ctx, name, func() error {
		s, err := b.floor(ctx, b.options.batch)
		if err != nil {
			return err
		}
		b.report.add(name, opFloor, s)
		if err := b.pause(ctx); err != nil {
			return err
		}
		names, added, err := b.add(ctx, target[0], b.options.batch)
		if err != nil {
			return err
		}
		b.report.add(name, opAdd, slowest(added))
		if err := b.pause(ctx); err != nil {
			return err
		}
		removed, err := b.remove(ctx, target[0], names...)
		if err != nil {
			return err
		}
		b.report.add(name, opRemove, slowest(removed))
		return nil
	})
	if err != nil {
		return err
	}
	return b.deletePods(ctx, target...)
}

func (b *benchmark) staggered(ctx context.Context) error {
	if err := b.separateRequests(ctx, b.staggeredName(), b.options.stagger); err != nil {
		return err
	}
	return b.staggeredEphemeral(ctx)
}

func (b *benchmark) staggeredName() string {
	return fmt.Sprintf("%d requests %v apart", b.options.batch, b.options.stagger)
}

// staggeredEphemeral measures what staggered does with ephemeral containers: in a pod that is not at rest.
func (b *benchmark) staggeredEphemeral(ctx context.Context) error {
	return b.repeat(ctx, b.staggeredName(), func() error {
		pods, err := b.createPods(ctx, 1, 1)
		if err != nil {
			return err
		}
		if err := b.pause(ctx); err != nil {
			return err
		}
		_, added, err := b.apart(ctx, b.options.batch, b.options.stagger, func(ctx context.Context) (string, sample, error) {
			return b.addEphemeral(ctx, pods[0])
		})
		if err != nil {
			return err
		}
		b.report.add(b.staggeredName(), opEphemeral, added...)
		return b.deletePods(ctx, pods...)
	})
}

func (b *benchmark) burst(ctx context.Context) error {
	return b.separateRequests(ctx, fmt.Sprintf("%d requests at once", b.options.batch), 0)
}

// separateRequests measures containers that are added to one pod while others are. Every container is
// a sample, so there are more of them than runs.
func (b *benchmark) separateRequests(ctx context.Context, name string, apart time.Duration) error {
	target, err := b.createPods(ctx, 1, 1)
	if err != nil {
		return err
	}
	err = b.repeat(ctx, name, func() error {
		names, added, err := b.apart(ctx, b.options.batch, apart, func(ctx context.Context) (string, sample, error) {
			return b.addOne(ctx, target[0])
		})
		if err != nil {
			return err
		}
		b.report.add(name, opAdd, added...)
		_, err = b.remove(ctx, target[0], names...)
		return err
	})
	if err != nil {
		return err
	}
	return b.deletePods(ctx, target...)
}

// stopping measures additions and removals while another removed container of the pod uses up its
// grace period.
func (b *benchmark) stopping(ctx context.Context) error {
	name := fmt.Sprintf("a sibling stops for %d s", stopSeconds)
	// A sample must have ended before the grace period does.
	const useful = stopSeconds / 2 * time.Second
	target, err := b.createPods(ctx, 1, 1)
	if err != nil {
		return err
	}
	pod := target[0]
	var sibling string
	var since time.Time
	err = b.repeat(ctx, name, func() error {
		if sibling == "" || time.Since(since) > useful {
			if sibling, err = b.newStoppingSibling(ctx, pod, sibling); err != nil {
				return err
			}
			since = time.Now()
		}
		if err := b.addAndRemove(ctx, name, pod); err != nil {
			return err
		}
		if b.watcher.hasTerminated(pod, sibling) {
			return fmt.Errorf("the sibling %s terminated during the sample, %v after its removal", sibling, time.Since(since))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.deletePods(ctx, pod)
}

// newStoppingSibling adds a container that ignores SIGTERM and removes it. The previous one, if any, is
// waited for, so that there is never more than one.
func (b *benchmark) newStoppingSibling(ctx context.Context, pod, previous string) (string, error) {
	if previous != "" {
		waitCtx, cancel := b.withTimeout(ctx)
		defer cancel()
		if _, err := b.watcher.waitTerminated(waitCtx, pod, previous); err != nil {
			return "", err
		}
	}
	names, _, err := b.addContainers(ctx, pod, []v1.Container{b.newContainer("stopping", printTimeAndIgnoreSIGTERM)})
	if err != nil {
		return "", err
	}
	if _, _, err := b.requestRemoval(ctx, pod, names...); err != nil {
		return "", err
	}
	return names[0], b.pause(ctx)
}
