// SPDX-License-Identifier: MIT

package report

import (
	"html/template"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"isolio/internal/lab/result"
)

// percentiles are the steps of the latency plots' horizontal axis and the
// columns of the latency tables, in this order.
var percentiles = []struct {
	name string
	of   func(result.Latency) float64 // microseconds
}{
	{"p50", func(l result.Latency) float64 { return l.P50 }},
	{"p90", func(l result.Latency) float64 { return l.P90 }},
	{"p99", func(l result.Latency) float64 { return l.P99 }},
	{"p99.9", func(l result.Latency) float64 { return l.P999 }},
	{"p99.99", func(l result.Latency) float64 { return l.P9999 }},
	{"max", func(l result.Latency) float64 { return l.Max }},
}

// direction is reads, writes, calls of fsync or programs' operations: the page has a figure for each that ran.
type direction struct {
	name string // such as "reads"
	of   func(*result.Container) *result.Direction
}

var directions = []direction{
	{"reads", func(c *result.Container) *result.Direction { return c.Read }},
	{"writes", func(c *result.Container) *result.Direction { return c.Write }},
	{"fsyncs", func(c *result.Container) *result.Direction { return c.Sync }},
	{"operations", func(c *result.Container) *result.Direction { return c.Operations }},
}

// measured says whether the container completed any such request whose time is known:
// without one there is no latency to show.
func measured(d *result.Direction) bool {
	return d != nil && d.IOPS > 0 && d.Lat != (result.Latency{})
}

// latencyExtent is the range of all latencies of the runs, in microseconds.
func latencyExtent(runs []result.Run, dirs ...direction) extent {
	var e extent
	for _, run := range runs {
		for i := range run.Containers {
			for _, dir := range dirs {
				d := dir.of(&run.Containers[i])
				if !measured(d) {
					continue
				}
				for _, pct := range percentiles {
					e.add(pct.of(d.Lat))
				}
			}
		}
	}
	return e
}

// latencyPanels draws one panel per run. All share one logarithmic axis.
func (b *builder) latencyPanels(dir direction) ([]panel, error) {
	e := latencyExtent(b.runs, dir)
	lo, hi := logRange(extent{e.min / b.lat.div, e.max / b.lat.div})
	panels := make([]panel, 0, len(b.runs))
	for r := range b.runs {
		run := &b.runs[r]
		lines := b.latencyLines(run, dir)
		pn := panel{Name: run.Scheduler}
		if len(lines) == 0 {
			pn.Note = "no " + dir.name + " completed"
		}
		var p *plot.Plot
		var height vg.Length = 230
		if b.crowded() {
			p, height = b.spreadPlot(dir, lines, lo, hi)
		} else {
			p = b.curvePlot(dir, lines, lo, hi)
		}
		svg, err := drawPanel(p, height, "Latency percentiles of "+dir.name+" under "+run.Scheduler)
		if err != nil {
			return nil, err
		}
		pn.SVG = svg
		panels = append(panels, pn)
	}
	return panels, nil
}

// crowded says that there are too many containers for one curve each in one
// panel: they get a named row each instead.
func (b *builder) crowded() bool { return len(b.names) > nColours }

func (b *builder) latencyLines(run *result.Run, dir direction) []latencyLine {
	var lines []latencyLine
	for i := range run.Containers {
		c := &run.Containers[i]
		d := dir.of(c)
		if !measured(d) {
			continue
		}
		line := latencyLine{container: b.index[c.Name]}
		for k, pct := range percentiles {
			line.values[k] = pct.of(d.Lat) / b.lat.div
		}
		lines = append(lines, line)
	}
	return lines
}

// curvePlot has percentiles from left to right and a curve per container.
func (b *builder) curvePlot(dir direction, lines []latencyLine, lo, hi float64) *plot.Plot {
	p := newPlot("percentile of "+dir.name, "latency ("+b.lat.unit+", log scale)")
	p.X.Min, p.X.Max = -0.35, float64(len(percentiles))-0.65
	ticks := make([]plot.Tick, len(percentiles))
	for k, pct := range percentiles {
		ticks[k] = plot.Tick{Value: float64(k), Label: pct.name}
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	// The logarithms are plotted on a linear axis: plot.LogScale makes the
	// library keep room for the axis's name where it is not.
	p.Y.Min, p.Y.Max = math.Log10(lo), math.Log10(hi)
	p.Y.Tick.Marker = plot.ConstantTicks(logTicks(lo, hi))
	p.Y.Tick.Label.Color = muted
	p.Y.Padding = 4
	p.Add(&curves{lines})
	return p
}

// latencyLine is one container's latencies in the figure's unit, in the
// order of percentiles. A value that is not above zero is left out.
type latencyLine struct {
	container int
	values    [6]float64
}

// curves draws lines over the percentiles.
type curves struct{ lines []latencyLine }

// Plot draws the grid and the lines. Lines are set a little apart sideways:
// containers with equal latencies would otherwise hide one another.
func (cs *curves) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.8}, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
	n := len(cs.lines)
	apart := math.Min(0.11, 0.6/float64(max(n, 1)))
	for i, line := range cs.lines {
		shift := (float64(i) - float64(n-1)/2) * apart
		var points []vg.Point
		for k, v := range line.values {
			if v > 0 {
				points = append(points, vg.Point{X: x(float64(k) + shift), Y: y(math.Log10(v))})
			}
		}
		c.StrokeLines(containerLine(line.container), points)
		for _, pt := range points {
			c.DrawGlyphNoClip(containerGlyph(line.container), pt)
		}
	}
}

// logTicks names powers of ten, at their logarithms, and 2 and 5 times them
// on an axis of at most three decades.
func logTicks(lo, hi float64) []plot.Tick {
	steps := []float64{1, 2, 5}
	if hi/lo > 1000 {
		steps = steps[:1]
	}
	var ticks []plot.Tick
	for exp := int(math.Floor(math.Log10(lo))); logStep(1, exp) <= hi; exp++ {
		for _, m := range steps {
			v := logStep(m, exp)
			if v >= lo && v <= hi {
				ticks = append(ticks, plot.Tick{Value: math.Log10(v), Label: logLabel(v)})
			}
		}
	}
	return ticks
}

func logLabel(v float64) string {
	if v >= 1 {
		return fixed(v, 0)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// sample draws what the i-th container's line looks like, for the legend.
func sample(i int, name string) (template.HTML, error) {
	const w, h = 30, 12
	return drawSVG(w, h, "line of "+name, func(c draw.Canvas) {
		c.StrokeLine2(containerLine(i), 1, h/2, w-1, h/2)
		c.DrawGlyphNoClip(containerGlyph(i), vg.Point{X: w / 2, Y: h / 2})
	})
}
