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
	"math"
	"strings"
	"text/template"
	"time"
)

// bar shows one operation: the time between each stage and the one before it.
type bar struct {
	title    string
	segments []segment
}

// segment is the way from one stage to the next.
type segment struct {
	label    string
	from, to time.Duration
}

// newBar returns the bar of a sample, its stages in the order in which they were reached.
func newBar(title string, s sample) bar {
	b := bar{title: title}
	var from time.Duration
	for _, stage := range s.byTime() {
		b.segments = append(b.segments, segment{label: string(stage), from: from, to: s[stage]})
		from = s[stage]
	}
	return b
}

// What the picture looks like, in pixels.
const (
	svgWidth    = 960
	svgMargin   = 30
	svgBar      = 34
	svgLine     = 20
	svgTitle    = 30
	svgAxis     = 40
	svgAxisTick = 10
)

var svgColors = []string{"#4e79a7", "#f28e2b", "#76b7b2", "#59a14f", "#b07aa1"}

// svgPicture is what the template needs, in pixels.
type svgPicture struct {
	Width, Height int
	Bars          []svgBars
	// AxisY is where the axis is, Ticks are on it.
	AxisY int
	Left  int
	Right int
	Ticks []svgMark
}

type svgBars struct {
	Title  string
	TitleY int
	Rects  []svgRect
	Marks  []svgMark
}

type svgRect struct {
	X, Width  float64
	Y, Height int
	Color     string
	Tooltip   string
}

// svgMark is a labelled line from Y1 down to Y2.
type svgMark struct {
	X      float64
	Y1, Y2 int
	Label  string
	TextX  float64
	Anchor string
	Color  string
}

var svgTemplate = template.Must(template.New("svg").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="{{.Height}}" viewBox="0 0 {{.Width}} {{.Height}}" font-family="sans-serif" font-size="13">
<rect width="{{.Width}}" height="{{.Height}}" fill="#ffffff"/>
{{- range .Ticks}}
<line x1="{{printf "%.1f" .X}}" y1="{{.Y1}}" x2="{{printf "%.1f" .X}}" y2="{{.Y2}}" stroke="#dddddd"/>
<text x="{{printf "%.1f" .X}}" y="{{.Y2}}" dy="14" text-anchor="middle" fill="#555555">{{html .Label}}</text>
{{- end}}
<line x1="{{.Left}}" y1="{{.AxisY}}" x2="{{.Right}}" y2="{{.AxisY}}" stroke="#555555"/>
{{- range .Bars}}
<text x="{{$.Left}}" y="{{.TitleY}}" font-size="15" font-weight="bold" fill="#222222">{{html .Title}}</text>
{{- range .Rects}}
<rect x="{{printf "%.1f" .X}}" y="{{.Y}}" width="{{printf "%.1f" .Width}}" height="{{.Height}}" fill="{{.Color}}"><title>{{html .Tooltip}}</title></rect>
{{- end}}
{{- range .Marks}}
<line x1="{{printf "%.1f" .X}}" y1="{{.Y1}}" x2="{{printf "%.1f" .X}}" y2="{{.Y2}}" stroke="{{.Color}}" stroke-width="2"/>
{{- end}}
{{- range .Marks}}
<text x="{{printf "%.1f" .TextX}}" y="{{.Y2}}" text-anchor="{{.Anchor}}" fill="#222222" stroke="#ffffff" stroke-width="4" paint-order="stroke">{{html .Label}}</text>
{{- end}}
{{- end}}
</svg>
`))

// drawSVG draws bars under each other on one scale. Each stage has a line from where the bar reaches
// it to its label, and each label a row of its own, so that short stages can be read as well. A white
// edge keeps the labels readable where the lines of later stages pass behind them.
func drawSVG(bars []bar) (string, error) {
	var longest time.Duration
	for _, b := range bars {
		longest = max(longest, b.segments[len(b.segments)-1].to)
	}
	left, right := float64(svgMargin), float64(svgWidth-svgMargin)
	x := func(d time.Duration) float64 { return left + (right-left)*float64(d)/float64(longest) }

	picture := svgPicture{Width: svgWidth, Left: svgMargin, Right: svgWidth - svgMargin}
	y := svgMargin / 2
	for _, b := range bars {
		drawn := svgBars{Title: b.title, TitleY: y + svgTitle - 10}
		top := y + svgTitle
		y = top + svgBar
		for i, s := range b.segments {
			y += svgLine
			color := svgColors[i%len(svgColors)]
			drawn.Rects = append(drawn.Rects, svgRect{
				X: x(s.from), Width: x(s.to) - x(s.from), Y: top, Height: svgBar, Color: color,
				Tooltip: fmt.Sprintf("until %s: %.1f ms", s.label, milliseconds(s.to-s.from)),
			})
			mark := svgMark{
				X: x(s.to), Y1: top, Y2: y, Color: color, TextX: x(s.to) + 6, Anchor: "start",
				Label: fmt.Sprintf("%s at %.1f ms (+%.1f ms)", s.label, milliseconds(s.to), milliseconds(s.to-s.from)),
			}
			if mark.X > (left+right)/2 {
				mark.TextX, mark.Anchor = mark.X-6, "end"
			}
			drawn.Marks = append(drawn.Marks, mark)
		}
		y += svgMargin / 2
		picture.Bars = append(picture.Bars, drawn)
	}
	picture.AxisY = y
	picture.Height = y + svgAxis
	step := tickStep(longest)
	for at := time.Duration(0); at <= longest; at += step {
		picture.Ticks = append(picture.Ticks, svgMark{X: x(at), Y1: svgMargin / 2, Y2: y + svgAxisTick, Label: fmt.Sprintf("%g ms", milliseconds(at))})
	}

	var out strings.Builder
	if err := svgTemplate.Execute(&out, picture); err != nil {
		return "", fmt.Errorf("draw the picture: %w", err)
	}
	return out.String(), nil
}

// tickStep returns the distance of ticks, 1, 2 or 5 times a power of ten, for 5 to 12 of them.
func tickStep(longest time.Duration) time.Duration {
	step := math.Pow(10, math.Floor(math.Log10(float64(longest)/5)))
	for _, factor := range []float64{5, 2, 1} {
		if float64(longest)/(step*factor) >= 5 {
			return time.Duration(step * factor)
		}
	}
	return time.Duration(step)
}
