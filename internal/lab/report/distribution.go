// SPDX-License-Identifier: MIT

package report

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"isolio/internal/lab/result"
)

// distributionLines is the most runs whose distributions one plot can tell
// apart, by colour and by dashes.
const distributionLines = 3 * nColours

// distributionSection has the cumulative distributions of delay counts, and of the
// latency of the critical container's reads, on a disk that reorders.
type distributionSection struct {
	figure
	Lines []schedulerEntry
}

// distribution is cumulative: a line for each run.
type distribution struct{ lines []distributionLine }

// distributionLine is one run's: a fraction of the requests is at x or below.
type distributionLine struct {
	run          int
	xs, fraction []float64
}

// distributions draws those of all runs on a disk that tells; nil if there is
// none, or if there are too many to be told apart.
func (b *builder) distributions() (*distributionSection, error) {
	runs := slices.DeleteFunc(slices.Clone(b.doc.Runs), func(r result.Run) bool { return r.Delays == nil })
	worst := 0.0
	for _, run := range runs {
		worst = max(worst, run.Delays.Max)
	}
	if worst == 0 || len(runs) > distributionLines {
		return nil, nil
	}
	s := &distributionSection{}
	delays, latencies := &distribution{}, &distribution{}
	for i := range runs {
		svg, err := sample(i, runs[i].Scheduler)
		if err != nil {
			return nil, err
		}
		s.Lines = append(s.Lines, schedulerEntry{b.runName(&runs[i]), svg})
		delays.lines = append(delays.lines, delayLine(i, runs[i].Delays))
		if line, ok := b.latencyDistribution(i, &runs[i]); ok {
			latencies.lines = append(latencies.lines, line)
		}
	}
	for _, one := range []struct {
		name, label string
		of          *distribution
	}{
		{"Delay count", "delay count, at most", delays},
		{"Reads of " + b.doc.Critical, "latency, at most (" + b.lat.unit + ")", latencies},
	} {
		if len(one.of.lines) == 0 {
			continue
		}
		svg, err := drawSVG(scatterWidth, scatterHeight, one.name+": cumulative distribution of each contender", one.of.plot(one.label).Draw)
		if err != nil {
			return nil, err
		}
		s.Panels = append(s.Panels, panel{Name: one.name, SVG: svg})
	}
	s.Number = b.next()
	return s, nil
}

// runName tells a run from the document's others.
func (b *builder) runName(run *result.Run) string {
	name := run.Scheduler
	if run.Variant != nil && run.Variant.Label != "" {
		name = run.Variant.Label
	}
	if len(b.doc.Cases()) < 2 {
		return name
	}
	if !slices.ContainsFunc(b.doc.Runs, func(r result.Run) bool { return r.Scheduler != run.Scheduler }) {
		return run.Case
	}
	return run.Case + ", " + name
}

// delayLine has a point for each bucket: the part of requests with at most its delay
// count.
func delayLine(run int, d *result.Delays) distributionLine {
	line := distributionLine{run: run}
	all, sum := float64(d.Requests()), 0.0
	for _, bucket := range d.Buckets {
		sum += float64(bucket.Requests)
		line.xs = append(line.xs, float64(bucket.Least))
		line.fraction = append(line.fraction, sum/all)
	}
	return line
}

// latencyDistribution is that of the critical container's reads, as far as the
// document has percentiles of it.
func (b *builder) latencyDistribution(run int, r *result.Run) (distributionLine, bool) {
	line := distributionLine{run: run}
	at := slices.IndexFunc(r.Containers, func(c result.Container) bool { return c.Name == b.doc.Critical })
	if at < 0 || !measured(r.Containers[at].Read) {
		return line, false
	}
	for _, q := range r.Containers[at].Read.Lat.Quantiles() {
		line.xs = append(line.xs, q.US/b.lat.div)
		line.fraction = append(line.fraction, q.Part)
	}
	return line, true
}

// plot lays the distribution out.
func (d *distribution) plot(xLabel string) *plot.Plot {
	p := newPlot(xLabel, "part of the requests")
	most := 0.0
	for _, line := range d.lines {
		most = max(most, slices.Max(line.xs))
	}
	top, step := linearTop(most)
	p.X.Min, p.X.Max = 0, top
	p.X.Tick.Marker = plot.ConstantTicks(evenTicks(top, step))
	p.Y.Min, p.Y.Max = 0, 1
	p.Y.Tick.Marker = plot.ConstantTicks(evenTicks(1, 0.2))
	p.X.Tick.Label.Color, p.Y.Tick.Label.Color = muted, muted
	p.Y.Padding = 4
	p.Add(d)
	return p
}

// Plot draws the grid and the lines.
func (d *distribution) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range p.Y.Tick.Marker.Ticks(0, 1) {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.8}, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
	for _, line := range d.lines {
		points := make([]vg.Point, len(line.xs))
		for i := range line.xs {
			points[i] = vg.Point{X: x(line.xs[i]), Y: y(line.fraction[i])}
		}
		c.StrokeLines(containerLine(line.run), points)
		// The end is what the plot is about.
		c.DrawGlyphNoClip(containerGlyph(line.run), points[len(points)-1])
	}
}
