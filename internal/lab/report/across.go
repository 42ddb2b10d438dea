// SPDX-License-Identifier: MIT

package report

import (
	"html/template"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"isolio/internal/lab/result"
)

// acrossSection compares the cases: a row for each, a line for each scheduler.
type acrossSection struct {
	figure
	Schedulers []schedulerEntry
}

// schedulerEntry names a scheduler beside a sample of its line.
type schedulerEntry struct {
	Name string
	SVG  template.HTML
}

// profile is a figure of every scheduler in every case.
type profile struct {
	cases int
	lines []profileLine
}

// profileLine is one scheduler's figures from the first case to the last; a
// case in which it has none is NaN.
type profileLine struct {
	scheduler int
	values    []float64
}

// acrossPanel is a figure that is drawn over the cases; NaN where a run has none.
type acrossPanel struct {
	name, label string
	of          func(*result.Run) float64
}

// ofCritical are the figures of the critical container, and of what it leaves to
// the others: none without one.
func (b *builder) ofCritical() []acrossPanel {
	name := b.doc.Critical
	if name == "" {
		return nil
	}
	critical := func(of func(*result.Container) float64) func(*result.Run) float64 {
		return func(r *result.Run) float64 {
			i := slices.IndexFunc(r.Containers, func(c result.Container) bool { return c.Name == name })
			if i < 0 {
				return math.NaN()
			}
			return of(&r.Containers[i])
		}
	}
	latency := func(statistic, text string, of func(*result.Latency) float64) acrossPanel {
		return acrossPanel{
			"Latency of " + name + ", " + statistic, text + " of " + name + "'s reads (" + b.lat.unit + ")",
			critical(func(c *result.Container) float64 {
				if !measured(c.Read) {
					return math.NaN()
				}
				return of(&c.Read.Lat) / b.lat.div
			}),
		}
	}
	return []acrossPanel{
		latency("mean", "mean latency", func(l *result.Latency) float64 { return l.Mean }),
		latency("p99.9", "99.9th percentile", func(l *result.Latency) float64 { return l.P999 }),
		latency("p99.99", "99.99th percentile", func(l *result.Latency) float64 { return l.P9999 }),
		{"CPU of " + name, "CPU time of " + name + " (% of one CPU)", critical(func(c *result.Container) float64 {
			return c.CPUUserPct + c.CPUSystemPct
		})},
		{"Others", "bytes per second of all but " + name + " (" + b.bytes.unit + ")", func(r *result.Run) float64 {
			return b.others(r) / b.bytes.div
		}},
		{"Others, of what they do alone", "throughput of all but " + name + " (% of that without it)", func(r *result.Run) float64 {
			return 100 * b.others(r) / b.othersAlone()
		}},
	}
}

// others is what all but the critical container get together; NaN if there are none.
func (b *builder) others(r *result.Run) float64 {
	sum, found := 0.0, false
	for i := range r.Containers {
		if c := &r.Containers[i]; c.Name != b.doc.Critical {
			sum, found = sum+c.BytesPS, true
		}
	}
	if !found {
		return math.NaN()
	}
	return sum
}

// othersAlone is what the others get in the one run that the critical container is
// not in; NaN if there is none, or more than one.
func (b *builder) othersAlone() float64 {
	alone, found := math.NaN(), 0
	for i := range b.doc.Runs {
		r := &b.doc.Runs[i]
		if !slices.ContainsFunc(r.Containers, func(c result.Container) bool { return c.Name == b.doc.Critical }) {
			alone, found = b.others(r), found+1
		}
	}
	if found != 1 {
		return math.NaN()
	}
	return alone
}

// across draws, over the cases, the totals, their quotient by that of none in
// the same case, the fairness, and the critical container's figures.
func (b *builder) across() (*acrossSection, error) {
	s := &acrossSection{}
	var schedulers []string
	for _, run := range b.doc.Runs {
		if slices.Contains(schedulers, run.Scheduler) {
			continue
		}
		svg, err := sample(len(schedulers), run.Scheduler)
		if err != nil {
			return nil, err
		}
		schedulers = append(schedulers, run.Scheduler)
		s.Schedulers = append(s.Schedulers, schedulerEntry{run.Scheduler, svg})
	}
	iops, unit := 1.0, "IOPS"
	if slices.ContainsFunc(b.doc.Runs, func(r result.Run) bool { return r.TotalIOPS >= 10_000 }) {
		iops, unit = 1000, "thousand IOPS"
	}
	for _, panelOf := range append([]acrossPanel{
		{"Bytes", "total bytes per second (" + b.bytes.unit + ")", func(r *result.Run) float64 { return r.TotalBytesPS / b.bytes.div }},
		{"Requests", "total requests per second (" + unit + ")", func(r *result.Run) float64 { return r.TotalIOPS / iops }},
		{"Total vs none", "total bytes per second (quotient by none)", func(r *result.Run) float64 {
			if r.TotalVsNone == nil {
				return math.NaN()
			}
			return *r.TotalVsNone
		}},
		{"Fairness", "weighted Jain index (1 = exactly by weight)", func(r *result.Run) float64 { return r.JainWeighted }},
	}, b.ofCritical()...) {
		p, height := b.profile(schedulers, panelOf.label, panelOf.of)
		if p == nil {
			continue
		}
		svg, err := drawPanel(p, height, panelOf.name+" of each scheduler in each case")
		if err != nil {
			return nil, err
		}
		s.Panels = append(s.Panels, panel{Name: panelOf.name, SVG: svg})
	}
	s.Number = b.next()
	return s, nil
}

// profile lays out a panel; nil if no run has the figure.
func (b *builder) profile(schedulers []string, label string, of func(*result.Run) float64) (p *plot.Plot, height vg.Length) {
	cases := b.doc.Cases()
	pr := &profile{cases: len(cases)}
	most, found := 0.0, false
	for i, scheduler := range schedulers {
		line := profileLine{scheduler: i}
		for _, name := range cases {
			value := math.NaN()
			for r := range b.doc.Runs {
				if run := &b.doc.Runs[r]; run.Case == name && run.Scheduler == scheduler {
					value = of(run)
				}
			}
			if !math.IsNaN(value) {
				most, found = max(most, value), true
			}
			line.values = append(line.values, value)
		}
		pr.lines = append(pr.lines, line)
	}
	if !found {
		return nil, 0
	}
	top, step := linearTop(most)
	p = newPlot(label, "case")
	p.X.Min, p.X.Max = 0, top
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= top*1.000001; i++ {
		ticks = append(ticks, plot.Tick{Value: float64(i) * step, Label: fixed(float64(i)*step, stepDecimals(step))})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Tick.Label.Color = muted
	p.Y.Min, p.Y.Max = -0.5, float64(len(cases))-0.5
	names := make([]plot.Tick, len(cases))
	for i, name := range cases {
		names[i] = plot.Tick{Value: pr.y(i), Label: clip(name, nameWidth)}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(names)
	p.Y.Padding = 4
	p.Add(pr)
	return p, vg.Length(max(len(cases), 3))*rowHeight + 44
}

// y is the place of a case's row on the vertical axis, the first on top.
func (pr *profile) y(i int) float64 { return float64(pr.cases - 1 - i) }

// Plot draws the grid and the lines.
func (pr *profile) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.8}, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
	for _, line := range pr.lines {
		var points []vg.Point
		for i, v := range line.values {
			if !math.IsNaN(v) {
				points = append(points, vg.Point{X: x(v), Y: y(pr.y(i))})
			}
		}
		c.StrokeLines(containerLine(line.scheduler), points)
		for _, pt := range points {
			c.DrawGlyphNoClip(containerGlyph(line.scheduler), pt)
		}
	}
}
