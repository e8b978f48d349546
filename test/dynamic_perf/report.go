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
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/kubernetes/test/e2e/perftype"
)

// report collects what was measured.
type report struct {
	results  []*result
	measures []measure
	notes    []string
	// floorRetries counts samples of the floor that had to be taken again.
	floorRetries int
}

// result holds all samples of an operation in a scenario.
type result struct {
	scenario  string
	operation operation
	samples   []sample
}

// measure is a single number about a scenario.
type measure struct {
	scenario, name string
	value          float64
	unit           string
}

func (r *report) find(scenario string, op operation) *result {
	i := slices.IndexFunc(r.results, func(res *result) bool { return res.scenario == scenario && res.operation == op })
	if i < 0 {
		return nil
	}
	return r.results[i]
}

func (r *report) add(scenario string, op operation, samples ...sample) {
	if len(samples) == 0 {
		return
	}
	found := r.find(scenario, op)
	if found == nil {
		found = &result{scenario: scenario, operation: op}
		r.results = append(r.results, found)
	}
	found.samples = append(found.samples, samples...)
}

func (r *report) measure(scenario, name string, value float64, unit string) {
	r.measures = append(r.measures, measure{scenario, name, value, unit})
}

func (r *report) note(note string) {
	if !slices.Contains(r.notes, note) {
		r.notes = append(r.notes, note)
	}
}

// floor returns the floor in milliseconds: the median time until the first instruction of one container.
func (r *report) floor() (float64, bool) {
	res := r.find("plain", opFloor)
	if res == nil {
		return 0, false
	}
	return milliseconds(percentile(durations(res.samples, stageFirst), 50)), true
}

// row is a line of the report: one stage of an operation in a scenario.
type row struct {
	scenario          string
	operation         operation
	stage             stage
	samples           int
	perc50, perc95    float64
	perc99            float64
	ratio, aboveFloor float64
	// compared tells whether there is a floor to compare with: removals have none.
	compared bool
}

func (r *report) rows() []row {
	floor, hasFloor := r.floor()
	var rows []row
	for _, res := range r.results {
		for _, stage := range stagesOf[res.operation] {
			values := durations(res.samples, stage)
			line := row{
				scenario:  res.scenario,
				operation: res.operation,
				stage:     stage,
				samples:   len(values),
				perc50:    milliseconds(percentile(values, 50)),
				perc95:    milliseconds(percentile(values, 95)),
				perc99:    milliseconds(percentile(values, 99)),
				compared:  hasFloor && res.operation != opRemove,
			}
			if line.compared {
				line.ratio = line.perc50 / floor
				line.aboveFloor = line.perc50 - floor
			}
			rows = append(rows, line)
		}
	}
	return rows
}

// writeText writes the report as tables.
func (r *report) writeText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "Milliseconds from the request to each stage. The floor is the median time to its first instruction.")
	fmt.Fprintln(w)
	fmt.Fprintln(w, "SCENARIO\tOPERATION\tSTAGE\tSAMPLES\tMEDIAN\tP95\tP99\tABOVE FLOOR\tRATIO TO FLOOR")
	for _, line := range r.rows() {
		above, ratio := "-", "-"
		if line.compared {
			above, ratio = fmt.Sprintf("%+.1f", line.aboveFloor), fmt.Sprintf("%.2f", line.ratio)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%s\t%s\n", line.scenario, line.operation, line.stage,
			line.samples, line.perc50, line.perc95, line.perc99, above, ratio)
	}
	if len(r.measures) > 0 {
		fmt.Fprintln(w)
		fmt.Fprintln(w, "SCENARIO\tMEASURE\tVALUE\tUNIT")
		for _, m := range r.measures {
			fmt.Fprintf(w, "%s\t%s\t%.2f\t%s\n", m.scenario, m.name, m.value, m.unit)
		}
	}
	if len(r.notes) > 0 {
		fmt.Fprintln(w)
		for _, note := range r.notes {
			fmt.Fprintln(w, "Note: "+note)
		}
	}
	return w.Flush()
}

// perfData returns the report in the format of upstream's performance tests.
func (r *report) perfData() *perftype.PerfData {
	data := &perftype.PerfData{Version: "v1", Labels: map[string]string{"test": "dynamic_perf"}}
	for _, line := range r.rows() {
		labels := map[string]string{"scenario": line.scenario, "operation": string(line.operation), "stage": string(line.stage)}
		data.DataItems = append(data.DataItems, perftype.DataItem{
			Data:   map[string]float64{"Perc50": line.perc50, "Perc95": line.perc95, "Perc99": line.perc99},
			Unit:   "ms",
			Labels: labels,
		})
		if line.compared {
			data.DataItems = append(data.DataItems, perftype.DataItem{
				Data:   map[string]float64{"Perc50": line.ratio},
				Unit:   "ratio to floor",
				Labels: labels,
			})
		}
	}
	for _, m := range r.measures {
		data.DataItems = append(data.DataItems, perftype.DataItem{
			Data:   map[string]float64{"Value": m.value},
			Unit:   m.unit,
			Labels: map[string]string{"scenario": m.scenario, "measure": m.name},
		})
	}
	return data
}

// picture returns the bars of the picture: the plain addition whose first instruction is the median
// one, and the same of the floor.
func (r *report) picture() []bar {
	var bars []bar
	for _, op := range []operation{opAdd, opFloor} {
		if res := r.find("plain", op); res != nil {
			title := "A container added to a running pod"
			if op == opFloor {
				title = "The floor: the container runtime alone"
			}
			bars = append(bars, newBar(fmt.Sprintf("%s (median of %d)", title, len(res.samples)), medianSample(res.samples, stageFirst)))
		}
	}
	return bars
}

// write writes the report to standard output and, if a directory is given, to files in it.
func (r *report) write(directory string) error {
	if r.floorRetries > 0 {
		r.note(fmt.Sprintf("the kubelet ended %d sandboxes of the floor during a sample; these samples were taken again", r.floorRetries))
	}
	if err := r.writeText(os.Stdout); err != nil {
		return err
	}
	if directory == "" {
		return nil
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	var text strings.Builder
	if err := r.writeText(&text); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r.perfData(), "", "  ")
	if err != nil {
		return err
	}
	files := map[string]string{"dynamic_perf.txt": text.String(), "dynamic_perf.json": string(data) + "\n"}
	if bars := r.picture(); len(bars) > 0 {
		if files["dynamic_perf.svg"], err = drawSVG(bars); err != nil {
			return err
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
