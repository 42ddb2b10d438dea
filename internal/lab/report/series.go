// SPDX-License-Identifier: MIT

package report

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"isolio/internal/lab/result"
)

// seriesHeight is that of a panel of rates over time, in viewBox units.
const seriesHeight = 190

// seriesPoints is the most points of a line that a panel can show: of more
// steps, several together are one point.
const seriesPoints = 300

// timeline is the rates of a run's containers over the counted time.
type timeline struct {
	lines []timelineLine
}

// timelineLine is one container's rates, and when each of them begins.
type timelineLine struct {
	container int
	atS, rate []float64
}

// hasSeries reports whether the case was sampled.
func (b *builder) hasSeries() bool {
	return slices.ContainsFunc(b.runs, func(r result.Run) bool {
		return slices.ContainsFunc(r.Containers, func(c result.Container) bool { return c.Series != nil && len(c.Series.Bytes) > 0 })
	})
}

// seriesSection is the figure of rates over time.
type seriesSection struct {
	figure
	Legend []legendEntry
}

func (b *builder) seriesSection() (s *seriesSection, err error) {
	s = &seriesSection{figure: figure{Number: b.next()}}
	if s.Legend, err = b.legend(); err == nil {
		s.Panels, err = b.seriesPanels()
	}
	return s, err
}

// seriesPanels draws each run's rates over time, all on one scale.
func (b *builder) seriesPanels() ([]panel, error) {
	lines := make([]*timeline, len(b.runs))
	most, from, to := 0.0, math.Inf(1), 0.0
	for i := range b.runs {
		lines[i] = b.timeline(&b.runs[i])
		for _, line := range lines[i].lines {
			most = max(most, slices.Max(line.rate))
			from, to = min(from, line.atS[0]), max(to, line.atS[len(line.atS)-1])
		}
	}
	top, step := linearTop(most)
	panels := make([]panel, len(b.runs))
	for i, run := range b.runs {
		p := newPlot("seconds after the load's start", "bytes per second ("+b.bytes.unit+")")
		p.X.Min, p.X.Max = from, to
		p.X.Tick.Marker = plot.ConstantTicks(timeTicks(from, to))
		p.Y.Min, p.Y.Max = 0, top
		p.Y.Tick.Marker = plot.ConstantTicks(evenTicks(top, step))
		p.X.Tick.Label.Color, p.Y.Tick.Label.Color = muted, muted
		p.Add(lines[i])
		svg, err := drawPanel(p, seriesHeight, "Rate of each container over time under "+run.Scheduler)
		if err != nil {
			return nil, err
		}
		panels[i] = panel{Name: run.Scheduler, SVG: svg}
	}
	return panels, nil
}

// timeline is what a panel shows of a run.
func (b *builder) timeline(run *result.Run) *timeline {
	t := &timeline{}
	for i := range run.Containers {
		c := &run.Containers[i]
		if c.Series == nil || len(c.Series.Bytes) == 0 {
			continue
		}
		line := timelineLine{container: b.index[c.Name]}
		stepS := float64(c.Series.StepMS) / 1000
		together := (len(c.Series.Bytes) + seriesPoints - 1) / seriesPoints
		first := 0
		for steps := range slices.Chunk(c.Series.Bytes, together) {
			var sum float64
			for _, n := range steps {
				sum += float64(n)
			}
			line.atS = append(line.atS, c.Series.StartS+float64(first)*stepS)
			line.rate = append(line.rate, sum/(float64(len(steps))*stepS)/b.bytes.div)
			first += len(steps)
		}
		t.lines = append(t.lines, line)
	}
	return t
}

// evenTicks are the multiples of step from 0 to top.
func evenTicks(top, step float64) (ticks []plot.Tick) {
	for i := 0; float64(i)*step <= top*1.000001; i++ {
		at := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: at, Label: fixed(at, stepDecimals(step))})
	}
	return ticks
}

// timeTicks are those of evenTicks that lie between from and to.
func timeTicks(from, to float64) []plot.Tick {
	_, step := linearTop(to - from)
	return slices.DeleteFunc(evenTicks(to, step), func(t plot.Tick) bool { return t.Value < from })
}

// Plot draws the grid and the lines.
func (t *timeline) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.8}, c.Min.X, y(tick.Value), c.Max.X, y(tick.Value))
	}
	for _, line := range t.lines {
		points := make([]vg.Point, len(line.rate))
		for i := range line.rate {
			points[i] = vg.Point{X: x(line.atS[i]), Y: y(line.rate[i])}
		}
		style := containerLine(line.container)
		style.Width = 1.2
		c.StrokeLines(style, points)
	}
}
