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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentile(t *testing.T) {
	for name, tc := range map[string]struct {
		values  []time.Duration
		percent float64
		want    time.Duration
	}{
		"a single value is every percentile":           {values: []time.Duration{7}, percent: 99, want: 7},
		"the median of an odd number is the middle":    {values: []time.Duration{5, 1, 9}, percent: 50, want: 5},
		"the median of an even number was measured":    {values: []time.Duration{4, 1, 2, 3}, percent: 50, want: 2},
		"p95 of 20 leaves out the largest":             {values: upTo(20), percent: 95, want: 19},
		"p99 of 20 is the largest":                     {values: upTo(20), percent: 99, want: 20},
		"p99 of 200 leaves out the two largest":        {values: upTo(200), percent: 99, want: 198},
		"the lowest percentile is the smallest value":  {values: upTo(20), percent: 0, want: 1},
		"the highest percentile is the largest value":  {values: upTo(20), percent: 100, want: 20},
		"values that are equal count as often as seen": {values: []time.Duration{1, 1, 1, 8}, percent: 75, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			before := append([]time.Duration(nil), tc.values...)
			if got := percentile(tc.values, tc.percent); got != tc.want {
				t.Errorf("percentile(%v, %v) = %d, want %d", tc.values, tc.percent, got, tc.want)
			}
			if diff := cmp.Diff(before, tc.values); diff != "" {
				t.Errorf("percentile changed its argument (-want +got):\n%s", diff)
			}
		})
	}
}

// upTo returns the values from 1 to n, the largest first.
func upTo(n int) []time.Duration {
	var values []time.Duration
	for i := n; i > 0; i-- {
		values = append(values, time.Duration(i))
	}
	return values
}

func TestNewSample(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for name, tc := range map[string]struct {
		reached map[stage]time.Time
		want    sample
		wantErr string
	}{
		"all stages are there": {
			reached: map[stage]time.Time{stageAccepted: at(5), stageStopped: at(20), stageTerminated: at(30)},
			want:    sample{stageAccepted: 5 * time.Millisecond, stageStopped: 20 * time.Millisecond, stageTerminated: 30 * time.Millisecond},
		},
		"a stage is missing": {
			reached: map[stage]time.Time{stageAccepted: at(5), stageTerminated: at(30)},
			wantErr: `the time of stage "gone in runtime" is missing`,
		},
		"the runtime does not know a time": {
			reached: map[stage]time.Time{stageAccepted: at(5), stageStopped: fromNanoseconds(0), stageTerminated: at(30)},
			wantErr: `the time of stage "gone in runtime" is missing`,
		},
		"a stage is before the request": {
			reached: map[stage]time.Time{stageAccepted: at(5), stageStopped: at(-2), stageTerminated: at(30)},
			wantErr: `stage "gone in runtime" is 2ms before the request`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newSample(opRemove, start, tc.reached)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got sample %v and error %v, want an error with %q", got, err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("sample (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlowest(t *testing.T) {
	got := slowest([]sample{
		{stageAccepted: 5, stageFirst: 90, stageRunning: 100},
		{stageAccepted: 5, stageFirst: 70, stageRunning: 120},
	})
	if diff := cmp.Diff(sample{stageAccepted: 5, stageFirst: 90, stageRunning: 120}, got); diff != "" {
		t.Errorf("slowest (-want +got):\n%s", diff)
	}
}

func TestMedianSampleIsOneThatWasMeasured(t *testing.T) {
	got := medianSample([]sample{
		{stageFirst: 30, stageRunning: 31},
		{stageFirst: 10, stageRunning: 99},
		{stageFirst: 20, stageRunning: 77},
	}, stageFirst)
	if diff := cmp.Diff(sample{stageFirst: 20, stageRunning: 77}, got); diff != "" {
		t.Errorf("medianSample (-want +got):\n%s", diff)
	}
}

func TestByTime(t *testing.T) {
	got := sample{stageRunning: 90, stageStarted: 60, stageFirst: 50, stageAccepted: 10, stageCreated: 10}.byTime()
	want := []stage{stageAccepted, stageCreated, stageFirst, stageStarted, stageRunning}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}
