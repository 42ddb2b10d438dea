// SPDX-License-Identifier: MIT

package report

import (
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"isolio/internal/lab/result"
)

// leastSweep is from how many variants on there is something to see along them.
const leastSweep = 3

// sweepSection is what variants of one scheduler that set the same tunables get in
// total, and how long the critical container's reads take under each.
type sweepSection struct {
	figure
	Of    string // the scheduler and its tunables
	Lines []schedulerEntry
}

// sweep has a place for each variant, in the experiment's order, and lines over
// them.
type sweep struct {
	names []string
	lines [][]float64
}

// curveOf names what a variant is one of: a scheduler and the tunables it sets. One
// that sets none is another program, and of nothing.
func curveOf(v *result.Variant) string {
	if len(v.Changes) == 0 {
		return ""
	}
	return v.Of + " " + strings.Join(slices.Sorted(maps.Keys(v.Changes)), " ")
}

// sweeps draws the case's, one for each scheduler and tunables with variants
// enough.
func (b *builder) sweeps() ([]sweepSection, error) {
	runs, names := map[string][]*result.Run{}, []string(nil)
	for i := range b.runs {
		run := &b.runs[i]
		if run.Variant == nil || b.criticalReads(run) == nil {
			continue
		}
		name := curveOf(run.Variant)
		if name == "" {
			continue
		}
		if runs[name] == nil {
			names = append(names, name)
		}
		runs[name] = append(runs[name], run)
	}
	var sections []sweepSection
	for _, name := range names {
		if len(runs[name]) < leastSweep {
			continue
		}
		s, err := b.sweep(name, runs[name])
		if err != nil {
			return nil, err
		}
		sections = append(sections, *s)
	}
	return sections, nil
}

// criticalReads are those of the critical container; nil if it read nothing.
func (b *builder) criticalReads(run *result.Run) *result.Direction {
	for i := range run.Containers {
		if c := &run.Containers[i]; c.Name == b.doc.Critical && measured(c.Read) {
			return c.Read
		}
	}
	return nil
}

func (b *builder) sweep(of string, runs []*result.Run) (*sweepSection, error) {
	s := &sweepSection{Of: of}
	totals := &sweep{lines: make([][]float64, 1)}
	reads := &sweep{lines: make([][]float64, len(percentiles))}
	for _, run := range runs {
		label := run.Scheduler
		if run.Variant.Label != "" {
			label = run.Variant.Label
		}
		totals.names, reads.names = append(totals.names, label), append(reads.names, label)
		totals.lines[0] = append(totals.lines[0], run.TotalIOPS/b.iops.div)
		for k, pct := range percentiles {
			reads.lines[k] = append(reads.lines[k], pct.of(b.criticalReads(run).Lat)/b.lat.div)
		}
	}
	for k, pct := range percentiles {
		svg, err := sample(k, pct.name)
		if err != nil {
			return nil, err
		}
		s.Lines = append(s.Lines, schedulerEntry{pct.name, svg})
	}
	lo, hi, step := linearRange(slices.Min(totals.lines[0]), slices.Max(totals.lines[0]))
	total := totals.plot(of, "total requests per second ("+b.iops.unit+")", rangeTicks(lo, hi, step))
	most := 0.0
	for _, line := range reads.lines {
		most = max(most, slices.Max(line))
	}
	top, step := linearTop(most)
	late := reads.plot(of, "latency of reads ("+b.lat.unit+")", evenTicks(top, step))
	for _, one := range []struct {
		name string
		p    *plot.Plot
	}{{"Total", total}, {"Reads of " + b.doc.Critical, late}} {
		svg, err := drawSVG(scatterWidth, scatterHeight, one.name+" along the variants of "+of, one.p.Draw)
		if err != nil {
			return nil, err
		}
		s.Panels = append(s.Panels, panel{Name: one.name, SVG: svg})
	}
	s.Number = b.next()
	return s, nil
}

// plot lays the sweep out; the vertical axis goes from its first tick to its last.
func (sw *sweep) plot(xLabel, yLabel string, ticks []plot.Tick) *plot.Plot {
	p := newPlot(xLabel, yLabel)
	p.X.Min, p.X.Max = -0.3, float64(len(sw.names))-0.7
	places := make([]plot.Tick, len(sw.names))
	for i, name := range sw.names {
		places[i] = plot.Tick{Value: float64(i), Label: clip(name, scatterWidth*0.8/vg.Length(len(sw.names)))}
	}
	p.X.Tick.Marker = plot.ConstantTicks(places)
	p.Y.Min, p.Y.Max = ticks[0].Value, ticks[len(ticks)-1].Value
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Tick.Label.Color = muted
	p.Y.Padding = 4
	p.Add(sw)
	return p
}

// Plot draws the grid and the lines.
func (sw *sweep) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.8}, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
	for k, line := range sw.lines {
		points := make([]vg.Point, len(line))
		for i, v := range line {
			points[i] = vg.Point{X: x(float64(i)), Y: y(v)}
		}
		c.StrokeLines(containerLine(k), points)
		for _, at := range points {
			c.DrawGlyphNoClip(containerGlyph(k), at)
		}
	}
}
