// SPDX-License-Identifier: MIT

package report

import (
	"html/template"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"isolio/internal/lab/result"
)

// Line is one line of a picture.
type Line struct {
	Name string
	X, Y []float64
	// Level, if there is one, is a dashed line in the same colour across the picture.
	Level *float64
}

// Axes are those of a picture of lines.
type Axes struct {
	X, Y string
	// FromZero begins the vertical axis at 0, and not a little below the least.
	FromZero bool
}

// DelayDistribution is the part of a run's requests with at most each delay count; false if it has none.
func DelayDistribution(name string, run *result.Run) (Line, bool) {
	if run.Delays == nil {
		return Line{}, false
	}
	l := delayLine(0, run.Delays)
	return Line{Name: name, X: l.xs, Y: l.fraction}, true
}

// ReadDistribution is the part of a container's reads that take at most each time, in ms; false if it has none.
func ReadDistribution(name string, run *result.Run, container string) (Line, bool) {
	at := slices.IndexFunc(run.Containers, func(c result.Container) bool { return c.Name == container })
	if at < 0 || !measured(run.Containers[at].Read) {
		return Line{}, false
	}
	l := Line{Name: name}
	for _, q := range run.Containers[at].Read.Lat.Quantiles() {
		l.X, l.Y = append(l.X, q.US/1000), append(l.Y, q.Part)
	}
	return l, true
}

const linesHeight = 300

// Lines draws lines as a file of its own. Alt describes the picture.
func Lines(lines []Line, axes Axes, alt string) ([]byte, error) {
	pic := &linesPicture{lines: lines, axes: axes}
	svg, err := pic.draw(alt)
	if err != nil {
		return nil, err
	}
	return standalone(string(svg)), nil
}

type linesPicture struct {
	lines []Line
	axes  Axes
}

// draw lays the picture out, with the legend above.
func (pic *linesPicture) draw(alt string) (template.HTML, error) {
	p := newPlot(pic.axes.X, pic.axes.Y)
	var xs, ys []float64
	for _, l := range pic.lines {
		xs, ys = append(xs, l.X...), append(ys, l.Y...)
		if l.Level != nil {
			ys = append(ys, *l.Level)
		}
	}
	top, step := linearTop(slices.Max(xs))
	p.X.Min, p.X.Max = 0, top
	p.X.Tick.Marker = plot.ConstantTicks(evenTicks(top, step))
	lo, hi, step := linearRange(slices.Min(ys), slices.Max(ys))
	if pic.axes.FromZero {
		lo = 0
		hi, step = linearTop(slices.Max(ys))
	}
	p.Y.Min, p.Y.Max = lo, hi
	p.Y.Tick.Marker = plot.ConstantTicks(rangeTicks(lo, hi, step))
	p.X.Tick.Label.Color, p.Y.Tick.Label.Color = muted, muted
	p.Y.Padding = 4
	p.Add(pic)
	rows := pic.legend(nil)
	height := linesHeight + vg.Length(rows)*legendRow
	return drawSVG(pictureWidth, height, alt, func(c draw.Canvas) {
		pic.legend(&c)
		p.Draw(draw.Crop(c, 8, -12, 0, -vg.Length(rows)*legendRow))
	})
}

// legend names the lines, in as many rows as it returns; without a canvas it only counts these.
func (pic *linesPicture) legend(c *draw.Canvas) (rows int) {
	const sampleWidth = 30
	sty := textStyle(text.XLeft)
	x, rows := vg.Length(8), 1
	for i, l := range pic.lines {
		width := sampleWidth + textGap + sty.Width(l.Name)*fontSlack + 14
		if x+width > pictureWidth {
			x, rows = 8, rows+1
		}
		if c != nil {
			y := c.Max.Y - legendRow*(vg.Length(rows)-0.5)
			c.StrokeLine2(containerLine(i), x, y, x+sampleWidth, y)
			c.DrawGlyphNoClip(containerGlyph(i), vg.Point{X: x + sampleWidth/2, Y: y})
			c.FillText(sty, vg.Point{X: x + sampleWidth + textGap, Y: y + textRaise}, l.Name)
		}
		x += width
	}
	return rows
}

// Plot draws the grid, the lines and the levels.
func (pic *linesPicture) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.8}, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
	for i, l := range pic.lines {
		points := make([]vg.Point, len(l.X))
		for k := range l.X {
			points[k] = vg.Point{X: x(l.X[k]), Y: y(l.Y[k])}
		}
		c.StrokeLines(containerLine(i), points)
		// Of many points the end alone has a mark.
		marks := points
		if len(points) > 20 {
			marks = points[len(points)-1:]
		}
		for _, at := range marks {
			c.DrawGlyphNoClip(containerGlyph(i), at)
		}
		if l.Level != nil {
			style := containerLine(i)
			style.Dashes = []vg.Length{4, 3}
			c.StrokeLine2(style, c.Min.X, y(*l.Level), c.Max.X, y(*l.Level))
		}
	}
}
