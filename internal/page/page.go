// SPDX-License-Identifier: MIT

// Package page makes pages of HTML that need no other file: they have no script, load
// nothing, and show names that tenants chose as text.
package page

import (
	_ "embed"
	"fmt"
	stdhtml "html"
	"io"
	"math"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"isolio/internal/printable"
)

//go:embed page.css
var css string

// policy has a browser load nothing and run nothing, whatever is in the page.
const policy = "default-src 'none'; style-src 'unsafe-inline'"

// Write prints a page. What title and body show of names goes through Text.
func Write(w io.Writer, title string, body ...g.Node) error {
	return html.Doctype(html.HTML(html.Lang("en"),
		html.Head(
			html.Meta(html.Charset("utf-8")),
			html.Meta(g.Attr("http-equiv", "Content-Security-Policy"), html.Content(policy)),
			html.Meta(html.Name("viewport"), html.Content("width=device-width, initial-scale=1")),
			html.TitleEl(Text(title)),
			html.StyleEl(g.Raw(css)),
		),
		html.Body(html.Main(body...)),
	)).Render(w)
}

// Text is a name that a tenant may have chosen, made printable and safe.
func Text(name string) g.Node { return g.Text(printable.Text(name)) }

// Texts are lines of a list, as Text has them.
func Texts(lines []string) []g.Node {
	return g.Map(lines, func(line string) g.Node { return html.Li(Text(line)) })
}

// Swatch is a square of the colour that a class of page.css has, for a legend.
func Swatch(class string) g.Node {
	return html.SVG(html.Width("12"), html.Height("12"), g.El("rect", html.Class(class), html.Width("12"), html.Height("12")))
}

// Curve is points of a chart, by growing x.
type Curve struct {
	Name   string
	Points []Point
}

// Point is one of a curve; Mark draws a ring around it.
type Point struct {
	X, Y float64
	Mark bool
}

// Chart is curves over logarithmic axes: depths and latencies are orders of magnitude
// apart.
type Chart struct {
	Label  string // for readers who cannot see it
	X, Y   string // names of the axes, with units
	Curves []Curve
	// FromZero has a linear y axis that begins at 0.
	FromZero bool
}

// Colours is how many curves have one of their own.
const Colours = 8

// Sizes of a chart, in pixels of CSS.
const (
	width, height            = 560, 320
	left, right, top, bottom = 84, 24, 12, 44
	plotWidth, plotHeight    = width - left - right, height - top - bottom
	radius, markRadius       = 3, 7
)

// SVG draws the chart; it is nil where there is nothing to draw. A point that has no place on
// the axes, such as a latency of 0, is left out.
func (c Chart) SVG() g.Node {
	if svg := c.svg(); svg != "" {
		return g.Raw(svg)
	}
	return nil
}

// svg is the chart's text, in which every name was escaped.
func (c Chart) svg() string {
	xs, ys := newAxis(plotWidth, true), newAxis(plotHeight, !c.FromZero)
	for _, curve := range c.Curves {
		for _, p := range curve.Points {
			if xs.has(p.X) && ys.has(p.Y) {
				xs.add(p.X)
				ys.add(p.Y)
			}
		}
	}
	if xs.least > xs.most || ys.least > ys.most {
		return ""
	}
	if c.FromZero {
		ys.least = 0
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg role="img" aria-label="%s" viewBox="0 0 %d %d" width="%d" height="%d">`, text(c.Label), width, height, width, height)
	for _, tick := range ys.ticks() {
		y := top + plotHeight - ys.at(tick)
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="tick" text-anchor="end" x="%d" y="%.1f">%s</text>`,
			left, width-right, y, y, left-6, y+4, short(tick))
	}
	for _, tick := range xs.ticks() {
		x := left + xs.at(tick)
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="tick" text-anchor="middle" x="%.1f" y="%d">%s</text>`,
			x, x, top, top+plotHeight, x, top+plotHeight+16, short(tick))
	}
	fmt.Fprintf(&b, `<text class="axis" text-anchor="middle" x="%d" y="%d">%s</text>`, left+plotWidth/2, height-6, text(c.X))
	fmt.Fprintf(&b, `<text class="axis" text-anchor="middle" transform="translate(14 %d) rotate(-90)">%s</text>`, top+plotHeight/2, text(c.Y))
	for i, curve := range c.Curves {
		b.WriteString(curveSVG(curve, i%Colours, xs, ys))
	}
	b.WriteString("</svg>")
	return b.String()
}

func curveSVG(curve Curve, colour int, xs, ys axis) string {
	var line, dots strings.Builder
	for _, p := range curve.Points {
		if !xs.has(p.X) || !ys.has(p.Y) {
			continue
		}
		x, y := left+xs.at(p.X), top+plotHeight-ys.at(p.Y)
		fmt.Fprintf(&line, "%.1f,%.1f ", x, y)
		fmt.Fprintf(&dots, `<circle class="f%d" cx="%.1f" cy="%.1f" r="%d"><title>%s: %s, %s</title></circle>`, colour, x, y, radius, text(curve.Name), short(p.X), short(p.Y))
		if p.Mark {
			fmt.Fprintf(&dots, `<circle class="s%d" cx="%.1f" cy="%.1f" r="%d"/>`, colour, x, y, markRadius)
		}
	}
	return fmt.Sprintf(`<polyline class="s%d" points="%s"/>`, colour, strings.TrimSpace(line.String())) + dots.String()
}

// text is safe in an element and in an attribute.
func text(name string) string { return stdhtml.EscapeString(printable.Text(name)) }

// axis maps values to pixels.
type axis struct {
	least, most, length float64
	log                 bool
	// others is true if a value is no power of two.
	others bool
}

func newAxis(length float64, log bool) axis {
	return axis{least: math.Inf(1), most: math.Inf(-1), length: length, log: log}
}

// has reports whether a value can be shown.
func (a axis) has(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (v > 0 || !a.log && v == 0)
}

func (a *axis) add(v float64) {
	a.least, a.most = min(a.least, v), max(a.most, v)
	if part, _ := math.Frexp(v); part != 0.5 {
		a.others = true
	}
}

func (a axis) at(v float64) float64 {
	if a.least == a.most {
		return a.length / 2
	}
	if a.log {
		return a.length * math.Log(v/a.least) / math.Log(a.most/a.least)
	}
	return a.length * (v - a.least) / (a.most - a.least)
}

// mostTicks is how many there are about.
const mostTicks = 8

// ticks are values to name, as round as the axis allows: powers of two where all values are such, else 1, 2 and 5
// times powers of ten.
func (a axis) ticks() (all []float64) {
	if !a.log {
		return a.steps(0, max(a.most, math.SmallestNonzeroFloat32))
	}
	base, times := 10.0, []float64{1, 2, 5}
	if !a.others {
		base, times = 2, times[:1]
	}
	for unit := math.Pow(base, math.Floor(math.Log(a.least)/math.Log(base)+1e-9)); unit <= a.most; unit *= base {
		for _, n := range times {
			if v := n * unit; v >= a.least*0.9999 && v <= a.most*1.0001 {
				all = append(all, v)
			}
		}
	}
	if len(all) < 2 && a.least < a.most {
		return a.steps(a.least, a.most-a.least)
	}
	if len(all) > mostTicks+4 && a.others { // powers of ten alone
		tens := all[:0]
		for _, v := range all {
			if digits := math.Log10(v); math.Abs(digits-math.Round(digits)) < 1e-6 {
				tens = append(tens, v)
			}
		}
		all = tens
	}
	for len(all) > mostTicks+4 { // every other one
		half := all[:0]
		for i := 0; i < len(all); i += 2 {
			half = append(half, all[i])
		}
		all = half
	}
	return all
}

// steps are round numbers at equal distances, from one on.
func (a axis) steps(from, long float64) (all []float64) {
	step := math.Pow(10, math.Floor(math.Log10(long)))
	for _, parts := range []float64{1, 2, 5, 10} {
		if long*parts/step >= 4 {
			step /= parts
			break
		}
	}
	for n := math.Ceil(from/step - 1e-9); n*step <= a.most*1.0001; n++ {
		all = append(all, n*step)
	}
	return all
}

// short is a number with three digits, and k or M.
func short(v float64) string {
	unit := ""
	switch {
	case v >= 1e6:
		v, unit = v/1e6, "M"
	case v >= 1e4:
		v, unit = v/1e3, "k"
	}
	if v == 0 {
		return "0"
	}
	text := strconv.FormatFloat(v, 'f', max(0, 2-int(math.Floor(math.Log10(v)))), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + unit
}
