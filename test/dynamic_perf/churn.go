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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
)

const (
	// churnGoal is what the 95th percentile of an addition, until it is reported as running, must stay
	// under for a rate to count as sustained.
	churnGoal = time.Second
	// churnInFlight is the number of cycles under way in each pod from which on a rate is too high: going
	// on would only make the queue longer.
	churnInFlight = keptStatuses
)

// churn adds and removes containers at given rates, in few and in many pods.
func (b *benchmark) churn(ctx context.Context) error {
	if b.options.kubeletDir != "" {
		var err error
		if b.checkpoints, err = startCheckpointCounter(ctx, b.options.kubeletDir); err != nil {
			return err
		}
	}
	for _, count := range b.options.churnPods {
		pods, err := b.createPods(ctx, count, 1)
		if err != nil {
			return err
		}
		highest := 0.0
		for _, rate := range b.options.churnRates {
			if err := b.pause(ctx); err != nil {
				return err
			}
			sustained, err := b.churnAt(ctx, fmt.Sprintf("churn of %g/s in %d pods", rate, count), pods, rate)
			if err != nil {
				return err
			}
			if sustained {
				highest = max(highest, rate)
			}
		}
		b.report.measure(fmt.Sprintf("churn in %d pods", count), fmt.Sprintf("highest rate with p95 under %v", churnGoal), highest, "cycles/s")
		if err := b.deletePods(ctx, pods...); err != nil {
			return err
		}
	}
	return nil
}

// churnAt starts cycles (a container added, waited for, removed, waited for) at a fixed rate for as long
// as the user asked for, whether or not the cycles before have ended.
func (b *benchmark) churnAt(ctx context.Context, name string, pods []string, rate float64) (sustained bool, err error) {
	klog.FromContext(ctx).Info("Measuring", "scenario", name, "duration", b.options.churnDuration)
	before, err := b.takeUsage(ctx)
	if err != nil {
		return false, err
	}
	var lock sync.Mutex
	var additions, removals []sample
	group, groupCtx := errgroup.WithContext(ctx)
	inFlight := churnInFlight * len(pods)
	group.SetLimit(inFlight)
	ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticker.Stop()
	start := time.Now()
	tooHigh := false
	for i := 0; time.Since(start) < b.options.churnDuration && groupCtx.Err() == nil; i++ {
		ok := group.TryGo(func() error {
			pod := pods[i%len(pods)]
			names, added, err := b.add(groupCtx, pod, 1)
			if err != nil {
				return err
			}
			removed, err := b.remove(groupCtx, pod, names...)
			if err != nil {
				return err
			}
			lock.Lock()
			defer lock.Unlock()
			additions, removals = append(additions, added...), append(removals, removed...)
			return nil
		})
		if !ok {
			tooHigh = true
			break
		}
		select {
		case <-ticker.C:
		case <-groupCtx.Done():
		}
	}
	if err := group.Wait(); err != nil {
		return false, fmt.Errorf("scenario %q: %w", name, err)
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	elapsed := time.Since(start)
	after, err := b.takeUsage(ctx)
	if err != nil {
		return false, err
	}

	b.report.add(name, opAdd, additions...)
	b.report.add(name, opRemove, removals...)
	cycles := len(additions)
	b.report.measure(name, "cycles", float64(cycles), "")
	b.report.measure(name, "rate reached", float64(cycles)/elapsed.Seconds(), "cycles/s")
	if tooHigh {
		b.report.note(fmt.Sprintf("%s: ended after %v with %d cycles under way", name, elapsed.Round(time.Millisecond), inFlight))
	}
	b.report.usage(name, before, after, cycles, elapsed)
	return !tooHigh && percentile(durations(additions, stageRunning), 95) < churnGoal, nil
}
