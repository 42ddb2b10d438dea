// SPDX-License-Identifier: MIT

package report

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// spreadRow is the height of one container's row, viewBox units.
const spreadRow = 17

// spreadWidths are the line widths from each percentile to the next: the
// rarer the requests, the thinner the line. No line leads to the maximum,
// which is one request.
var spreadWidths = []vg.Length{9, 5, 2, 1}

// spread is a row per container, from its median to its slowest request.
type spread struct {
	rows  int // containers in all, the first on top
	lines []latencyLine
}

// spreadPlot has latency from left to right and a named row per container.
func (b *builder) spreadPlot(dir direction, lines []latencyLine, lo, hi float64) (p *plot.Plot, height vg.Length) {
	s := &spread{rows: len(b.names), lines: lines}
	names := make([]plot.Tick, s.rows)
	for i, c := range b.names {
		names[i] = plot.Tick{Value: s.y(i), Label: clip(c.Name, nameWidth)}
	}
	p = newPlot("latency of "+dir.name+" ("+b.lat.unit+", log scale)", "container")
	p.X.Min, p.X.Max = math.Log10(lo), math.Log10(hi)
	p.X.Tick.Marker = plot.ConstantTicks(logTicks(lo, hi))
	p.X.Tick.Label.Color = muted
	p.Y.Min, p.Y.Max = -0.5, float64(len(names))-0.5
	p.Y.Tick.Marker = plot.ConstantTicks(names)
	p.Y.Padding = 4
	p.Add(s)
	return p, vg.Length(len(names))*spreadRow + 44
}

// y is the place of a container's row on the vertical axis.
func (s *spread) y(container int) float64 { return float64(s.rows - 1 - container) }

// Plot draws the grid and the rows.
func (s *spread) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.8}, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
	for _, line := range s.lines {
		mid := y(s.y(line.container))
		for k, width := range spreadWidths {
			from, to := line.values[k], line.values[k+1]
			if from > 0 && to > from {
				c.StrokeLine2(draw.LineStyle{Color: containerColour(line.container), Width: width},
					x(math.Log10(from)), mid, x(math.Log10(to)), mid)
			}
		}
		if median := line.values[0]; median > 0 {
			c.StrokeLine2(draw.LineStyle{Color: containerColour(line.container), Width: 2},
				x(math.Log10(median)), mid-spreadWidths[0]/2, x(math.Log10(median)), mid+spreadWidths[0]/2)
		}
		if most := line.values[len(line.values)-1]; most > 0 {
			c.DrawGlyphNoClip(draw.GlyphStyle{
				Color: containerColour(line.container), Radius: 2.2, Shape: draw.CircleGlyph{},
			}, vg.Point{X: x(math.Log10(most)), Y: mid})
		}
	}
}
