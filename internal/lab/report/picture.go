// SPDX-License-Identifier: MIT

package report

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"isolio/internal/lab/result"
)

// pictureWidth is that of a picture in a document, in CSS pixels: two stand side by side
// on a desk, and one is legible on a phone.
const pictureWidth = 400

// Picture is what a picture of one case of a document shows.
type Picture struct {
	Case string
	// Contenders are the bars, from the top; all of the case if there are none.
	Contenders []string
	// Title stands on top. Alt describes the picture.
	Title, Alt string
}

// runs are the contenders' results.
func (pic Picture) runs(doc *result.Document) ([]result.Run, error) {
	all := doc.In(pic.Case)
	if len(all) == 0 {
		return nil, fmt.Errorf("picture: %s has no case %q", doc.Experiment, pic.Case)
	}
	if pic.Contenders == nil {
		return all, nil
	}
	var runs []result.Run
	for _, name := range pic.Contenders {
		i := slices.IndexFunc(all, func(r result.Run) bool { return r.Scheduler == name })
		if i < 0 {
			return nil, fmt.Errorf("picture: %s has no contender %q in case %q", doc.Experiment, name, pic.Case)
		}
		runs = append(runs, all[i])
	}
	return runs, nil
}

// Shares draws a case as a file of its own: for each contender a bar as long as its total
// against none's, of as many pieces as there are containers, each as long as what it got.
// The bar on top is what they are entitled to.
func Shares(doc *result.Document, pic Picture) ([]byte, error) {
	runs, err := pic.runs(doc)
	if err != nil {
		return nil, err
	}
	sp := newSharePicture(runs)
	if sp == nil {
		return nil, errors.New("picture: the case lacks none, or its containers differ")
	}
	sp.title = pic.Title
	svg, err := sp.draw(pic.Alt)
	if err != nil {
		return nil, err
	}
	return standalone(string(svg)), nil
}

// known are the names of schedulers that readers know them by.
var known = map[string]string{"kyber-fairness": "isolio (kyber-fairness)", "iocost": "io.cost"}

// shown is a scheduler's name in a picture.
func shown(scheduler string) string { return cmp.Or(known[scheduler], scheduler) }

// weighted is a container's name with its weight, which some names have already.
func weighted(c result.Container) string {
	if c.Name == fmt.Sprintf("w%d", c.Weight) {
		return fmt.Sprintf("weight %d", c.Weight)
	}
	return fmt.Sprintf("%s (weight %d)", c.Name, c.Weight)
}

// newSharePicture is nil where there is no such picture: without none, with one container,
// or where the runs have different ones.
func newSharePicture(runs []result.Run) *sharePicture {
	sp := &sharePicture{}
	entitled := stack{name: "by weight", total: 1}
	for _, c := range runs[0].Containers {
		entitled.parts = append(entitled.parts, c.EntitledShare)
		sp.legend = append(sp.legend, weighted(c))
	}
	sp.stacks = append(sp.stacks, entitled)
	for _, run := range runs {
		if run.TotalVsNone == nil || len(run.Containers) != len(entitled.parts) || len(run.Containers) < 2 {
			return nil
		}
		s := stack{name: shown(run.Scheduler), total: *run.TotalVsNone, text: fixed(*run.TotalVsNone, 2)}
		for _, c := range run.Containers {
			s.parts = append(s.parts, c.Share)
		}
		sp.stacks = append(sp.stacks, s)
		sp.most = math.Max(sp.most, s.total)
	}
	return sp
}

// stack is one bar: what there is in total, and how it is shared.
type stack struct {
	name, text string
	total      float64 // against none's
	parts      []float64
}

type sharePicture struct {
	title  string
	stacks []stack
	legend []string
	most   float64 // total
}

const (
	stackHeight = 26 // of a bar with the space around it
	legendRow   = 20
	labelWidth  = 128 // at most, of the names beside the bars
	// A viewer without the font that text is measured in has a wider one.
	fontSlack  = 1.2
	pictureGap = 22 // on the left, for the names
)

// draw lays the picture out.
func (sp *sharePicture) draw(alt string) (template.HTML, error) {
	p := newPlot("total against none", "")
	p.X.Min, p.X.Max = 0, math.Max(1, sp.most)
	var ticks []plot.Tick
	for v := 0.0; v <= p.X.Max+1e-9; v += 0.25 {
		ticks = append(ticks, plot.Tick{Value: v, Label: fixed(v, 2)})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Tick.Label.Color = muted
	n := len(sp.stacks)
	p.Y.Min, p.Y.Max = -0.5, float64(n)-0.5
	names := make([]plot.Tick, n)
	for i, s := range sp.stacks {
		names[i] = plot.Tick{Value: float64(n - 1 - i), Label: clip(s.name, labelWidth)}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(names)
	p.Y.Padding = 14
	p.Add(sp)
	rows := newLegend(sp.title, sp.legend)
	height := vg.Length(n)*stackHeight + 44 + rows.height()
	return drawSVG(pictureWidth, height, alt, func(c draw.Canvas) {
		rows.draw(c)
		p.Draw(draw.Crop(c, pictureGap, 0, 0, -rows.height()))
	})
}

// legend is a title and the names of containers beside their colours, in rows.
type legend struct {
	title string
	names []string
	rows  [][]int // of names
}

func newLegend(title string, names []string) *legend {
	l := &legend{title: title, names: names}
	x := vg.Length(0)
	for i, name := range names {
		width := legendWidth(name)
		if i == 0 || x+width > pictureWidth-8 {
			l.rows, x = append(l.rows, nil), 0
		}
		last := len(l.rows) - 1
		l.rows[last] = append(l.rows[last], i)
		x += width
	}
	return l
}

// legendSquare is the side of a colour.
const legendSquare = 11

func legendWidth(name string) vg.Length {
	return legendSquare + textGap + textStyle(text.XLeft).Width(name)*fontSlack + 10
}

func (l *legend) height() vg.Length {
	n := len(l.rows)
	if l.title != "" {
		n++
	}
	return vg.Length(n)*legendRow + 6
}

func (l *legend) draw(c draw.Canvas) {
	sty := textStyle(text.XLeft)
	y := c.Max.Y - legendRow/2 - 3
	if l.title != "" {
		c.FillText(sty, vg.Point{X: c.Min.X + 8, Y: y + textRaise}, l.title)
		y -= legendRow
	}
	for _, row := range l.rows {
		x := c.Min.X + 8
		for _, i := range row {
			c.FillPolygon(containerColour(i), square(x, y, legendSquare))
			c.FillText(sty, vg.Point{X: x + legendSquare + textGap, Y: y + textRaise}, l.names[i])
			x += legendWidth(l.names[i])
		}
		y -= legendRow
	}
}

func square(x, y, size vg.Length) []vg.Point {
	return []vg.Point{{X: x, Y: y - size/2}, {X: x + size, Y: y - size/2}, {X: x + size, Y: y + size/2}, {X: x, Y: y + size/2}}
}

// GlyphBoxes keeps room on the right for the totals.
func (sp *sharePicture) GlyphBoxes(p *plot.Plot) []plot.GlyphBox {
	width := textStyle(text.XLeft).Width("0.00") * fontSlack
	return []plot.GlyphBox{{
		X: p.X.Norm(p.X.Max), Y: 0.5,
		Rectangle: vg.Rectangle{Max: vg.Point{X: textGap + width + 1}},
	}}
}

// Plot draws the grid and the bars with their pieces, in each what it is in percent of
// its bar, where there is room.
func (sp *sharePicture) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.8}, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
	inside := textStyle(text.XCenter)
	beside := textStyle(text.XLeft)
	const half = (stackHeight - 7) / 2.0
	for i, s := range sp.stacks {
		mid := y(float64(len(sp.stacks) - 1 - i))
		from := 0.0
		for j, part := range s.parts {
			to := from + s.total*part
			c.FillPolygon(containerColour(j), []vg.Point{
				{X: x(from), Y: mid - half}, {X: x(to), Y: mid - half}, {X: x(to), Y: mid + half}, {X: x(from), Y: mid + half},
			})
			words := fixed(100*part, 1) + " %"
			inside.Color = textColour(j)
			if inside.Width(words)*fontSlack+4 < x(to)-x(from) {
				c.FillText(inside, vg.Point{X: (x(from) + x(to)) / 2, Y: mid + textRaise}, words)
			}
			from = to
		}
		c.FillText(beside, vg.Point{X: x(s.total) + textGap, Y: mid + textRaise}, s.text)
	}
}

// Colours of the stylesheet: its rules for :root, on paper and in the dark.
var (
	rules   = regexp.MustCompile(`(?s)\n:root \{(.*?)\n\}\n@media [^{]*\{\n  :root \{(.*?)\n  \}`)
	colours = regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6});`)
	roled   = regexp.MustCompile(`(fill|stroke):var\(--([a-z0-9]+)\);?`)
)

// standalone makes a file of a drawing for the page. Its colours are attributes, which any
// viewer knows, and a style for viewers that know of a dark page.
func standalone(svg string) []byte {
	css := rules.FindStringSubmatch(pageCSS)
	light, dark := map[string]string{}, map[string]string{}
	for i, theme := range []map[string]string{light, dark} {
		for _, c := range colours.FindAllStringSubmatch(css[i+1], -1) {
			theme[c[1]] = c[2]
		}
	}
	used := map[string]string{}
	svg = strings.Replace(svg, `<svg class="plot"`, `<svg xmlns="http://www.w3.org/2000/svg"`, 1)
	root, rest, _ := strings.Cut(svg, ">")
	rest = `<rect width="100%" height="100%" style="fill:var(--paper)"/>` + "\n" + rest
	rest = styleAttribute.ReplaceAllStringFunc(rest, func(style string) string {
		attributes := ""
		for _, role := range roled.FindAllStringSubmatch(style, -1) {
			class := role[1][:1] + "-" + role[2]
			used[class] = fmt.Sprintf(".%s { %s: %s }", class, role[1], dark[role[2]])
			attributes += fmt.Sprintf(` %s="%s" class="%s"`, role[1], light[role[2]], class)
		}
		style = strings.Replace(roled.ReplaceAllString(style, ""), "Liberation Sans", "Liberation Sans,Arimo,Arial,Helvetica,sans-serif", 1)
		return strings.TrimSpace(strings.Replace(style, `style=""`, "", 1) + attributes)
	})
	var inTheDark strings.Builder
	for _, class := range slices.Sorted(maps.Keys(used)) {
		inTheDark.WriteString("  " + used[class] + "\n")
	}
	return []byte(root + ">\n<style>\n@media (prefers-color-scheme: dark) {\n" + inTheDark.String() + "}\n</style>\n" + rest + "\n")
}
