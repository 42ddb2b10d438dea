// SPDX-License-Identifier: MIT

package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// Two scatters stand side by side on a desk; viewBox units.
const (
	scatterWidth  = 520
	scatterHeight = 340
)

// leastError is where a share error that is smaller still is drawn, in percent:
// a logarithmic axis has no zero.
const leastError = 0.01

// tradeSection is what each contender makes of a case: how far shares are off,
// and what a critical container waits, against the total.
type tradeSection struct {
	figure
	Schedulers []schedulerEntry
	Versus     string // what the total is compared with
	HasLines   bool   // variants are joined
	LeastError string
}

// scatter is a point for each contender.
type scatter struct{ points []scatterPoint }

// scatterPoint is one contender: x is its total, y the logarithm of its figure.
type scatterPoint struct {
	x, y   float64
	family int    // the scheduler, for the colour
	curve  string // of the variants that are joined; "" for a contender alone
	label  string
}

// trade draws the case's scatters; nil if there is nothing to compare.
func (b *builder) trade() (*tradeSection, error) {
	if len(b.runs) < 2 {
		return nil, nil
	}
	total, xLabel, versus := b.totalAxis()
	s := &tradeSection{Versus: versus, LeastError: fixed(leastError, 2)}
	for _, one := range b.tradePanels() {
		sc := &scatter{}
		var xs, ys extent
		for i := range b.runs {
			run := &b.runs[i]
			x, y := total(run), one.of(run)
			if math.IsNaN(x) || math.IsNaN(y) {
				continue
			}
			xs.add(x)
			ys.add(y)
			pt := scatterPoint{x: x, y: math.Log10(y), family: slices.Index(b.families(), family(run)), label: run.Scheduler}
			if v := run.Variant; v != nil {
				pt.curve = curveOf(v)
				if v.Label != "" {
					pt.label = v.Label
				}
			}
			sc.points = append(sc.points, pt)
		}
		if len(sc.points) < 2 {
			continue
		}
		s.HasLines = s.HasLines || len(sc.curves()) > 0
		svg, err := drawSVG(scatterWidth, scatterHeight, one.name+" against the total of each contender", sc.plot(xLabel, one.label, xs, ys).Draw)
		if err != nil {
			return nil, err
		}
		s.Panels = append(s.Panels, panel{Name: one.name, SVG: svg})
	}
	if len(s.Panels) == 0 {
		return nil, nil
	}
	for i, name := range b.families() {
		svg, err := sample(i, name)
		if err != nil {
			return nil, err
		}
		s.Schedulers = append(s.Schedulers, schedulerEntry{name, svg})
	}
	s.Number = b.next()
	return s, nil
}

// tradePanel is a figure to plot against the total; NaN for a run without it.
type tradePanel struct {
	name, label string
	of          func(*result.Run) float64
}

// tradePanels are those of the case: a container that is alone has no share error,
// and one that is not there no latency.
func (b *builder) tradePanels() []tradePanel {
	var panels []tradePanel
	if len(b.names) > 1 {
		panels = append(panels, tradePanel{
			"Share error", "largest share error (%, log scale)",
			func(r *result.Run) float64 {
				furthest, ok := r.ShareErrorPct("")
				if !ok {
					return math.NaN()
				}
				return max(furthest, leastError)
			},
		})
	}
	if critical := b.doc.Critical; slices.ContainsFunc(b.names, func(c result.Container) bool { return c.Name == critical }) {
		reads := func(statistic string, of func(result.Latency) float64) tradePanel {
			return tradePanel{
				"Reads of " + critical, fmt.Sprintf("%s latency of reads (%s, log scale)", statistic, b.lat.unit),
				func(r *result.Run) float64 {
					for i := range r.Containers {
						if c := &r.Containers[i]; c.Name == critical && measured(c.Read) && of(c.Read.Lat) > 0 {
							return of(c.Read.Lat) / b.lat.div
						}
					}
					return math.NaN()
				},
			}
		}
		panels = append(panels, reads("p99", func(l result.Latency) float64 { return l.P99 }))
		if b.reorders() {
			panels = append(panels, reads("p99.9", func(l result.Latency) float64 { return l.P999 }),
				reads("longest", func(l result.Latency) float64 { return l.Max }))
		}
	}
	return panels
}

// reorders reports whether later requests bypass others on the case's disk, so that
// the slowest ones are of interest.
func (b *builder) reorders() bool {
	return slices.ContainsFunc(b.runs, func(r result.Run) bool { return r.Delays != nil && r.Delays.Max > 0 })
}

// totalAxis is what the totals are drawn as: quotients, if all runs have one.
func (b *builder) totalAxis() (of func(*result.Run) float64, label, versus string) {
	all := func(of func(*result.Run) *float64) bool {
		return !slices.ContainsFunc(b.runs, func(r result.Run) bool { return of(&r) == nil })
	}
	reference := func(r *result.Run) *float64 { return r.TotalVsReference }
	none := func(r *result.Run) *float64 { return r.TotalVsNone }
	switch {
	case all(reference):
		return func(r *result.Run) float64 { return *reference(r) }, "total bytes per second (quotient by the reference)", "none in case " + b.runs[0].ReferenceCase
	case all(none):
		return func(r *result.Run) float64 { return *none(r) }, "total bytes per second (quotient by none)", "none"
	}
	return func(r *result.Run) float64 { return r.TotalBytesPS / b.bytes.div }, "total bytes per second (" + b.bytes.unit + ")", ""
}

// family is the scheduler that a run's contender is, or is a variant of.
func family(r *result.Run) string {
	if r.Variant != nil {
		return r.Variant.Of
	}
	return r.Scheduler
}

// families are the document's, each once: a scheduler has one colour in all cases.
func (b *builder) families() []string {
	var all []string
	for i := range b.doc.Runs {
		if name := family(&b.doc.Runs[i]); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// curves are the names of those with two points or more, in order.
func (s *scatter) curves() []string {
	var seen, names []string
	for _, pt := range s.points {
		if pt.curve != "" && slices.Contains(seen, pt.curve) && !slices.Contains(names, pt.curve) {
			names = append(names, pt.curve)
		}
		seen = append(seen, pt.curve)
	}
	return names
}

// plot lays the scatter out.
func (s *scatter) plot(xLabel, yLabel string, xs, ys extent) *plot.Plot {
	p := newPlot(xLabel, yLabel)
	lo, hi, step := linearRange(xs.min, xs.max)
	p.X.Min, p.X.Max = lo, hi
	p.X.Tick.Marker = plot.ConstantTicks(rangeTicks(lo, hi, step))
	bottom, top := logRange(ys)
	p.Y.Min, p.Y.Max = math.Log10(bottom), math.Log10(top)
	p.Y.Tick.Marker = plot.ConstantTicks(logTicks(bottom, top))
	p.Y.Tick.Label.Color, p.X.Tick.Label.Color = muted, muted
	p.Y.Padding = 4
	p.Add(s)
	return p
}

// rangeTicks are from lo to hi, each a step from the next.
func rangeTicks(lo, hi, step float64) (ticks []plot.Tick) {
	for i := 0; lo+float64(i)*step <= hi+step/1000; i++ {
		v := lo + float64(i)*step
		ticks = append(ticks, plot.Tick{Value: v, Label: fixed(v, stepDecimals(step))})
	}
	return ticks
}

// Plot draws the grid, the curves, the points and their labels.
func (s *scatter) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	line := draw.LineStyle{Color: grid, Width: 0.8}
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		c.StrokeLine2(line, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(line, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
	places := make([]vg.Point, len(s.points))
	for i, pt := range s.points {
		places[i] = vg.Point{X: x(pt.x), Y: y(pt.y)}
	}
	var taken []vg.Rectangle
	for _, at := range places {
		taken = append(taken, around4(at, glyphRoom, glyphRoom))
	}
	for _, name := range s.curves() {
		var points []vg.Point
		var of int
		for i, pt := range s.points {
			if pt.curve == name {
				points, of = append(points, places[i]), pt.family
			}
		}
		c.StrokeLines(containerLine(of), points)
		taken = append(taken, along(points)...)
	}
	s.labels(c, places, taken)
	for i, pt := range s.points {
		glyph := containerGlyph(pt.family)
		glyph.Radius = 4
		c.DrawGlyphNoClip(glyph, places[i])
	}
}

// along is what a line through the points takes.
func along(points []vg.Point) []vg.Rectangle {
	const width, step = 1.5, 4
	var taken []vg.Rectangle
	for i := 1; i < len(points); i++ {
		from, to := points[i-1], points[i]
		n := math.Ceil(math.Hypot(float64(to.X-from.X), float64(to.Y-from.Y)) / step)
		for k := 1.0; k < n; k++ {
			part := vg.Length(k / n)
			taken = append(taken, around4(vg.Point{X: from.X + part*(to.X-from.X), Y: from.Y + part*(to.Y-from.Y)}, width, width))
		}
	}
	return taken
}

// labels writes each point's label where it hides nothing that is taken, and no
// label before it: as near as there is room, with a line to the point if that
// is far.
func (s *scatter) labels(c draw.Canvas, places []vg.Point, taken []vg.Rectangle) {
	sty := textStyle(text.XLeft)
	for i, pt := range s.points {
		label := clip(pt.label, scatterWidth/3)
		size := vg.Point{X: sty.Width(label), Y: textSize}
		box, far := place(places[i], size, c.Rectangle, taken)
		taken = append(taken, box)
		if far {
			end := vg.Point{X: min(max(places[i].X, box.Min.X), box.Max.X), Y: min(max(places[i].Y, box.Min.Y), box.Max.Y)}
			c.StrokeLine2(draw.LineStyle{Color: muted, Width: 0.6}, places[i].X, places[i].Y, end.X, end.Y)
		}
		c.FillText(sty, vg.Point{X: box.Min.X, Y: (box.Min.Y+box.Max.Y)/2 + textRaise}, label)
	}
}

// glyphRoom is half of what a point takes, with air around it.
const glyphRoom = 5

// place finds room for a label of that size beside a point, within a frame and
// clear of what is taken. far is whether it stands apart from its point.
func place(at, size vg.Point, frame vg.Rectangle, taken []vg.Rectangle) (box vg.Rectangle, far bool) {
	const turns = 16
	for ring := vg.Length(0); ring < 16; ring++ {
		gap := glyphRoom + 2 + ring*9
		for turn := range turns {
			sin, cos := math.Sincos(2 * math.Pi * float64(turn) / turns)
			// The box's middle: so far out that its edge is gap away.
			middle := vg.Point{
				X: at.X + vg.Length(cos)*(gap+size.X/2),
				Y: at.Y + vg.Length(sin)*(gap+size.Y/2),
			}
			box = around4(middle, size.X/2, size.Y/2)
			if inside(box, frame) && !slices.ContainsFunc(taken, func(r vg.Rectangle) bool { return overlap(box, r) }) {
				return box, ring > 0
			}
		}
	}
	return box, true
}

// around4 is the rectangle around a middle.
func around4(middle vg.Point, halfWidth, halfHeight vg.Length) vg.Rectangle {
	return vg.Rectangle{
		Min: vg.Point{X: middle.X - halfWidth, Y: middle.Y - halfHeight},
		Max: vg.Point{X: middle.X + halfWidth, Y: middle.Y + halfHeight},
	}
}

func inside(r, frame vg.Rectangle) bool {
	return r.Min.X >= frame.Min.X && r.Max.X <= frame.Max.X && r.Min.Y >= frame.Min.Y && r.Max.Y <= frame.Max.Y
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}

// shareOf is what the document's shares are of, in words.
func shareOf(unit string) string {
	switch unit {
	case experiment.UnitIOPS:
		return "requests"
	case experiment.UnitDeviceTime:
		return "disk time"
	case experiment.UnitOperations:
		return "operations"
	}
	return "bytes"
}
