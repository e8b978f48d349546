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
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// operation is what a sample measures.
type operation string

const (
	opFloor     operation = "floor"
	opNewPod    operation = "new pod"
	opEphemeral operation = "ephemeral"
	opAdd       operation = "add"
	opRemove    operation = "remove"
)

// stage is a moment in an operation that can be seen from outside.
type stage string

const (
	// stageAccepted: the API server answered the request.
	stageAccepted stage = "accepted"
	// stageCreated and stageStarted are the container runtime's own timestamps.
	stageCreated stage = "created"
	stageStarted stage = "started"
	// stageFirst: the program in the container read the clock, which is the first thing it does.
	stageFirst stage = "first instruction"
	// stageRunning: a watcher got the event that reports the container as running.
	stageRunning stage = "running in API"
	// stageStopped: the container has exited, by the container runtime's own timestamp.
	stageStopped stage = "gone in runtime"
	// stageTerminated: a watcher got the event that reports the container as terminated.
	stageTerminated stage = "terminated in API"
)

// stagesOf lists the stages that every sample of an operation must have, in the order of reports.
var stagesOf = map[operation][]stage{
	opFloor:     {stageCreated, stageStarted, stageFirst},
	opNewPod:    {stageAccepted, stageCreated, stageStarted, stageFirst, stageRunning},
	opEphemeral: {stageAccepted, stageCreated, stageStarted, stageFirst, stageRunning},
	opAdd:       {stageAccepted, stageCreated, stageStarted, stageFirst, stageRunning},
	opRemove:    {stageAccepted, stageStopped, stageTerminated},
}

// sample holds the time from the request to each stage of one operation.
type sample map[stage]time.Duration

// newSample returns the sample of an operation that was asked for at start. It fails if a stage is
// missing, or is said to be before the request was made: nothing is ever filled in.
func newSample(op operation, start time.Time, reached map[stage]time.Time) (sample, error) {
	s := sample{}
	for _, stage := range stagesOf[op] {
		at, ok := reached[stage]
		if !ok || at.IsZero() {
			return nil, fmt.Errorf("%s: the time of stage %q is missing", op, stage)
		}
		s[stage] = at.Sub(start)
		if s[stage] <= 0 {
			return nil, fmt.Errorf("%s: stage %q is %v before the request; this program must run on the node, under the same clock", op, stage, -s[stage])
		}
	}
	return s, nil
}

// slowest returns the time at which the last of the samples reached each stage.
func slowest(samples []sample) sample {
	all := sample{}
	for _, s := range samples {
		for stage, d := range s {
			all[stage] = max(all[stage], d)
		}
	}
	return all
}

// percentile returns the smallest of the values that at least percent of them do not exceed (nearest
// rank), so that it is always a value that was measured.
func percentile(values []time.Duration, percent float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(percent / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// durations returns the times to a stage.
func durations(samples []sample, stage stage) []time.Duration {
	var values []time.Duration
	for _, s := range samples {
		values = append(values, s[stage])
	}
	return values
}

// medianSample returns the sample that is the median by the time to a stage.
func medianSample(samples []sample, stage stage) sample {
	median := percentile(durations(samples, stage), 50)
	return samples[slices.IndexFunc(samples, func(s sample) bool { return s[stage] == median })]
}

// byTime returns the stages of a sample in the order in which they were reached. The program in a
// container may well run before the runtime says that the container was started.
func (s sample) byTime() []stage {
	return slices.SortedStableFunc(maps.Keys(s), func(a, b stage) int {
		if s[a] != s[b] {
			return int(s[a] - s[b])
		}
		return slices.Index(stagesOf[opAdd], a) - slices.Index(stagesOf[opAdd], b)
	})
}

func milliseconds(d time.Duration) float64 {
	return float64(d) / float64(time.Millisecond)
}
