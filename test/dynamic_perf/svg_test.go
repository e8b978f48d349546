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
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// svgElements returns the attributes and the text of all elements of a name.
func svgElements(t *testing.T, svg, name string) (attributes []map[string]string, texts []string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return attributes, texts
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, svg)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == name {
			values := map[string]string{}
			for _, a := range start.Attr {
				values[a.Name.Local] = a.Value
			}
			attributes = append(attributes, values)
			if next, _ := decoder.Token(); next != nil {
				if text, ok := next.(xml.CharData); ok {
					texts = append(texts, string(text))
				}
			}
		}
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDrawSVG(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string][]bar{
		"an addition and the floor": {
			newBar("added", sample{stageAccepted: 11 * ms, stageCreated: 51 * ms, stageStarted: 71 * ms, stageFirst: 82 * ms, stageRunning: 101 * ms}),
			newBar("floor", sample{stageCreated: 20 * ms, stageStarted: 45 * ms, stageFirst: 40 * ms}),
		},
		"stages that are close together": {
			newBar("added", sample{stageAccepted: ms, stageCreated: ms + 1, stageStarted: ms + 2, stageFirst: ms + 3, stageRunning: 5000 * ms}),
		},
		"names with special characters": {
			{title: `a <b> & "c"`, segments: []segment{{label: "x < y & z", to: 3 * ms}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			svg, err := drawSVG(tc)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(svg, "href") || strings.Contains(svg, "<script") {
				t.Error("the picture must not refer to anything outside of it")
			}
			root, _ := svgElements(t, svg, "svg")
			width, height := number(t, root[0]["width"]), number(t, root[0]["height"])

			_, texts := svgElements(t, svg, "text")
			rects, _ := svgElements(t, svg, "rect")
			rects = rects[1:] // The first is the background.
			var longest time.Duration
			for _, b := range tc {
				longest = max(longest, b.segments[len(b.segments)-1].to)
			}
			scale := (width - 2*svgMargin) / float64(longest)
			for _, b := range tc {
				if !strings.Contains(strings.Join(texts, "\n"), b.title) {
					t.Errorf("the title %q is not in %q", b.title, texts)
				}
				end := float64(svgMargin)
				for _, s := range b.segments {
					label := s.label + " at " + strconv.FormatFloat(milliseconds(s.to), 'f', 1, 64) + " ms"
					if !strings.Contains(strings.Join(texts, "\n"), label) {
						t.Errorf("the label %q is not in %q", label, texts)
					}
					x, w := number(t, rects[0]["x"]), number(t, rects[0]["width"])
					if math.Abs(x-end) > 0.2 {
						t.Errorf("stage %q begins at %v, but the one before ends at %v", s.label, x, end)
					}
					if want := float64(s.to-s.from) * scale; math.Abs(w-want) > 0.1 {
						t.Errorf("stage %q is %v wide, want %v", s.label, w, want)
					}
					end = x + w
					rects = rects[1:]
				}
			}
			if len(rects) > 0 {
				t.Errorf("%d more segments than stages", len(rects))
			}

			labels, _ := svgElements(t, svg, "text")
			for i, a := range labels {
				for j, b := range labels[:i] {
					if a["y"] == b["y"] && a["text-anchor"] != "middle" && b["text-anchor"] != "middle" {
						t.Errorf("labels %q and %q are on the same line", texts[i], texts[j])
					}
				}
				if x, y := number(t, a["x"]), number(t, a["y"]); x < 0 || x > width || y < 0 || y > height {
					t.Errorf("label %q is outside of the picture", texts[i])
				}
			}
		})
	}
}

func TestTickStep(t *testing.T) {
	for _, longest := range []time.Duration{time.Microsecond, 7 * time.Millisecond, 50 * time.Millisecond, 99 * time.Millisecond, 674 * time.Millisecond, 9 * time.Second} {
		if ticks := longest / tickStep(longest); ticks < 5 || ticks > 12 {
			t.Errorf("%v would have %d ticks, want 5 to 12", longest, ticks)
		}
	}
}
