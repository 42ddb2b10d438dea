// SPDX-License-Identifier: MIT

package report

import (
	"fmt"
	"html/template"
	"math"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"isolio/internal/lab/result"
)

const (
	ownBar  = 12  // of a container's bar
	ownMost = 2.0 // where longer bars are cut; their text has the figure
	ownLeft = 152 // where bars begin
	// ownRight is kept for the texts.
	ownRight = 52
)

// OwnDisk draws a case as a file of its own: for each contender a bar for each container,
// its rate over that on a disk of its own. 1 is what the share promises.
func OwnDisk(doc *result.Document, pic Picture) ([]byte, error) {
	runs, err := pic.runs(doc)
	if err != nil {
		return nil, err
	}
	svg, err := ownDisk(runs, pic)
	if err != nil {
		return nil, fmt.Errorf("picture: %s, case %q: %w", doc.Experiment, pic.Case, err)
	}
	return standalone(string(svg)), nil
}

// ownDisk draws runs of a case. It refuses those that lack what it draws.
func ownDisk(runs []result.Run, pic Picture) (template.HTML, error) {
	var names []string
	for _, c := range runs[0].Containers {
		names = append(names, weighted(c))
	}
	for _, run := range runs {
		if len(run.Containers) != max(len(names), 1) || run.TotalVsNone == nil {
			return "", fmt.Errorf("%s has other containers, or lacks the total of none", run.Scheduler)
		}
		for _, c := range run.Containers {
			if c.OwnDisk == nil {
				return "", fmt.Errorf("%s lacks the rate of %s on a disk of its own", run.Scheduler, c.Name)
			}
		}
	}
	rows := newLegend(pic.Title, names)
	group := vg.Length(len(names)*ownBar + 16)
	height := rows.height() + vg.Length(len(runs))*group + 40
	return drawSVG(pictureWidth, height, pic.Alt, func(c draw.Canvas) {
		rows.draw(c)
		drawOwnDisk(c, runs, c.Max.Y-rows.height(), group)
	})
}

// drawOwnDisk draws groups of bars from top downwards, and their axis.
func drawOwnDisk(c draw.Canvas, runs []result.Run, top, group vg.Length) {
	x := func(v float64) vg.Length {
		return ownLeft + vg.Length(math.Min(v, ownMost)/ownMost)*(pictureWidth-ownLeft-ownRight)
	}
	bottom := top - vg.Length(len(runs))*group
	left, middle := textStyle(text.XLeft), textStyle(text.XCenter)
	middle.Color = muted
	for _, v := range []float64{0, 1, 2} {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.8}, x(v), bottom, x(v), top)
		c.FillText(middle, vg.Point{X: x(v), Y: bottom - 8}, fixed(v, 0))
	}
	c.FillText(middle, vg.Point{X: x(1), Y: bottom - 25}, "rate over that on a disk of its own")
	small := left
	small.Color = muted
	for i, run := range runs {
		y := top - vg.Length(i)*group - 8
		mid := y - vg.Length(len(run.Containers)*ownBar)/2
		c.FillText(left, vg.Point{X: 8, Y: mid + 8}, shown(run.Scheduler))
		c.FillText(small, vg.Point{X: 8, Y: mid - 6}, "total "+fixed(*run.TotalVsNone, 2))
		for j, container := range run.Containers {
			v := *container.OwnDisk
			top, bottom := y-vg.Length(j)*ownBar, y-vg.Length(j+1)*ownBar+1
			c.FillPolygon(containerColour(j), []vg.Point{{X: x(0), Y: top}, {X: x(v), Y: top}, {X: x(v), Y: bottom}, {X: x(0), Y: bottom}})
			words := fixed(v, 2)
			if v > ownMost {
				words = "→ " + words
			}
			at := x(v) + textGap
			if at <= x(1) && at+left.Width(words)*fontSlack+textGap > x(1) {
				at = x(1) + textGap // not on the dashes
			}
			c.FillText(left, vg.Point{X: at, Y: (top+bottom)/2 + textRaise}, words)
		}
	}
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: 1, Dashes: []vg.Length{3, 2}}, x(1), bottom, x(1), top)
}
