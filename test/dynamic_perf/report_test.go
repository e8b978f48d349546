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
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testReport() *report {
	const ms = time.Millisecond
	r := &report{}
	for i := range time.Duration(3) {
		r.add("plain", opFloor, sample{stageCreated: (20 + i) * ms, stageStarted: (45 + i) * ms, stageFirst: (40 + i) * ms})
		r.add("plain", opAdd, sample{
			stageAccepted: (10 + i) * ms, stageCreated: (50 + i) * ms, stageStarted: (70 + i) * ms,
			stageFirst: (81 + i) * ms, stageRunning: (100 + i) * ms,
		})
		r.add("plain", opRemove, sample{stageAccepted: (8 + i) * ms, stageStopped: (30 + i) * ms, stageTerminated: (60 + i) * ms})
	}
	r.measure("churn of 2/s in 1 pods", "PATCH pods/status", 4.2512, "per cycle")
	r.note("the metrics of the kubelet are out of reach: forbidden")
	r.note("the metrics of the kubelet are out of reach: forbidden")
	return r
}

func TestWriteText(t *testing.T) {
	const want = `
Milliseconds from the request to each stage. The floor is the median time to its first instruction.

SCENARIO  OPERATION  STAGE              SAMPLES  MEDIAN  P95    P99    ABOVE FLOOR  RATIO TO FLOOR
plain     floor      created            3        21.0    22.0   22.0   -20.0        0.51
plain     floor      started            3        46.0    47.0   47.0   +5.0         1.12
plain     floor      first instruction  3        41.0    42.0   42.0   +0.0         1.00
plain     add        accepted           3        11.0    12.0   12.0   -30.0        0.27
plain     add        created            3        51.0    52.0   52.0   +10.0        1.24
plain     add        started            3        71.0    72.0   72.0   +30.0        1.73
plain     add        first instruction  3        82.0    83.0   83.0   +41.0        2.00
plain     add        running in API     3        101.0   102.0  102.0  +60.0        2.46
plain     remove     accepted           3        9.0     10.0   10.0   -            -
plain     remove     gone in runtime    3        31.0    32.0   32.0   -            -
plain     remove     terminated in API  3        61.0    62.0   62.0   -            -

SCENARIO                MEASURE            VALUE  UNIT
churn of 2/s in 1 pods  PATCH pods/status  4.25   per cycle

Note: the metrics of the kubelet are out of reach: forbidden
`
	var got strings.Builder
	if err := testReport().writeText(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestWriteTextWithoutFloor(t *testing.T) {
	r := &report{}
	r.add("burst", opAdd, sample{stageFirst: time.Second})
	var got strings.Builder
	if err := r.writeText(&got); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(got.String()) {
		if strings.Contains(line, "first instruction  1") && strings.Join(strings.Fields(line)[5:], " ") != "1000.0 1000.0 1000.0 - -" {
			t.Errorf("without a floor nothing must be compared with it, got %q", line)
		}
	}
}

func TestPerfData(t *testing.T) {
	data, err := json.Marshal(testReport().perfData())
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version   string
		DataItems []struct {
			Data   map[string]float64
			Unit   string
			Labels map[string]string
		}
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != "v1" {
		t.Errorf("version is %q", got.Version)
	}
	// 8 stages have a time and a ratio to the floor, 3 of the removal a time only, and there is one measure.
	if len(got.DataItems) != 8*2+3+1 {
		t.Errorf("got %d data items", len(got.DataItems))
	}
	found := map[string]map[string]float64{}
	for _, item := range got.DataItems {
		if item.Labels["stage"] == string(stageFirst) && item.Labels["operation"] == string(opAdd) {
			found[item.Unit] = item.Data
		}
		if item.Labels["measure"] != "" {
			found[item.Labels["measure"]] = item.Data
		}
	}
	want := map[string]map[string]float64{
		"ms":                {"Perc50": 82, "Perc95": 83, "Perc99": 83},
		"ratio to floor":    {"Perc50": 2},
		"PATCH pods/status": {"Value": 4.2512},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

func TestPictureShowsTheMedianAdditionAndTheFloor(t *testing.T) {
	bars := testReport().picture()
	if len(bars) != 2 {
		t.Fatalf("got %d bars", len(bars))
	}
	var got []string
	for _, s := range bars[0].segments {
		got = append(got, s.label+" "+s.to.String())
	}
	want := []string{"accepted 11ms", "created 51ms", "started 71ms", "first instruction 82ms", "running in API 101ms"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages of the addition (-want +got):\n%s", diff)
	}
	if !strings.Contains(bars[1].title, "floor") {
		t.Errorf("the second bar is %q", bars[1].title)
	}
}
