// SPDX-License-Identifier: MIT

package report

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	rowHeight = 24  // of one bar with the space around it, viewBox units
	barHeight = 13  // of the bar
	nameWidth = 108 // at most, of the names beside the bars
	textGap   = 5   // between a bar and the text after it
	textRaise = 1.5 // digits have no descender: their middle is above the text's
)

// bar is one row of a bar panel: a name, a value, the value in words.
type bar struct {
	name  string
	value float64
	text  string
	fill  color.Color
	// mark is where the value ought to be; negative means that there is none.
	mark float64
}

// barPanel describes a panel of horizontal bars, the first row on top.
type barPanel struct {
	xLabel, yLabel string
	top, step      float64 // end of the value axis and distance of its ticks
	decimals       int     // of the tick labels
	bars           []bar
	// reach and widest keep the scale equal in all panels of one figure:
	// the longest row's end and the widest text in any of them.
	reach  float64
	widest vg.Length
	// baseline is a value to compare all rows with; negative means none.
	baseline float64
}

// end is the value where nothing more is drawn in the row of b: its text may
// always stand to the right of it.
func (bp *barPanel) end(b bar) float64 {
	return math.Max(math.Max(b.value, b.mark), bp.baseline)
}

// textAt returns where the row's text starts: right after the bar if that is
// free, and else to the right of what stands there. The texts of a panel with
// a baseline all stand to the right of it, in one column where they can.
func (bp *barPanel) textAt(b bar, x func(float64) vg.Length) vg.Length {
	after := x(b.value) + textGap
	if bp.baseline < 0 && x(b.mark) > after+textStyle(text.XLeft).Width(b.text)+textGap {
		return after
	}
	return x(bp.end(b)) + textGap
}

// fit sets reach and widest to hold the rows of all panels.
func fit(panels []*barPanel) {
	sty := textStyle(text.XLeft)
	var reach float64
	var widest vg.Length
	for _, p := range panels {
		for _, b := range p.bars {
			reach = math.Max(reach, p.end(b))
			widest = max(widest, sty.Width(b.text))
		}
	}
	for _, p := range panels {
		p.reach, p.widest = reach, widest
	}
}

// plot lays the panel out and returns it with its height.
func (bp *barPanel) plot() (p *plot.Plot, height vg.Length) {
	p = newPlot(bp.xLabel, bp.yLabel)
	p.X.Min, p.X.Max = 0, bp.top
	var ticks []plot.Tick
	for i := 0; float64(i)*bp.step <= bp.top*1.000001; i++ {
		v := float64(i) * bp.step
		ticks = append(ticks, plot.Tick{Value: v, Label: fixed(v, bp.decimals)})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Tick.Label.Color = muted

	n := len(bp.bars)
	p.Y.Min, p.Y.Max = -0.5, float64(n)-0.5
	names := make([]plot.Tick, n)
	for i, b := range bp.bars {
		names[i] = plot.Tick{Value: float64(n - 1 - i), Label: clip(b.name, nameWidth)}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(names)
	p.Y.Padding = 4
	p.Add(bp)
	// Three rows at least, or the vertical axis's own name would not fit.
	return p, vg.Length(max(n, 3))*rowHeight + 44
}

// GlyphBoxes keeps room on the right for the text behind the longest bar.
func (bp *barPanel) GlyphBoxes(p *plot.Plot) []plot.GlyphBox {
	size := textStyle(text.XLeft).Rectangle("0").Size()
	return []plot.GlyphBox{{
		X: p.X.Norm(math.Min(bp.reach, bp.top)),
		Y: 0.5,
		Rectangle: vg.Rectangle{
			Min: vg.Point{X: textGap, Y: -size.Y / 2},
			Max: vg.Point{X: textGap + bp.widest + 1, Y: size.Y / 2},
		},
	}}
}

// Plot draws the grid, the bars, the marks and the text after each bar.
func (bp *barPanel) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.8}, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
	if bp.baseline >= 0 {
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: 1, Dashes: []vg.Length{3, 2}},
			x(bp.baseline), c.Min.Y, x(bp.baseline), c.Max.Y)
	}
	sty := textStyle(text.XLeft)
	for i, b := range bp.bars {
		mid := y(float64(len(bp.bars) - 1 - i))
		if b.value > 0 {
			c.FillPolygon(b.fill, []vg.Point{
				{X: x(0), Y: mid - barHeight/2.0}, {X: x(b.value), Y: mid - barHeight/2.0},
				{X: x(b.value), Y: mid + barHeight/2.0}, {X: x(0), Y: mid + barHeight/2.0},
			})
		}
		if b.mark >= 0 {
			c.StrokeLine2(draw.LineStyle{Color: ink, Width: 2},
				x(b.mark), mid-rowHeight/2.0+2, x(b.mark), mid+rowHeight/2.0-2)
		}
		c.FillText(sty, vg.Point{X: bp.textAt(b, x), Y: mid + textRaise}, b.text)
	}
}
