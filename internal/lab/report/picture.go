// SPDX-License-Identifier: MIT

package report

import (
	"errors"
	"fmt"
	"html/template"
	"math"
	"regexp"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"isolio/internal/lab/result"
)

// pictureWidth is that of a picture in a document, where it has the whole column.
const pictureWidth = 720

// Shares draws one case of a document as a file of its own: for each contender a bar as
// long as its total against none's, of as many pieces as there are containers, each as
// long as what it got. The bar on top is what they are entitled to. Alt describes it.
func Shares(doc *result.Document, name, alt string) ([]byte, error) {
	runs := doc.In(name)
	if len(runs) == 0 {
		return nil, fmt.Errorf("picture: %s has no case %q", doc.Experiment, name)
	}
	sp := newSharePicture(runs)
	if sp == nil {
		return nil, errors.New("picture: the case lacks none, or its containers differ")
	}
	svg, err := sp.draw(alt)
	if err != nil {
		return nil, err
	}
	return standalone(string(svg)), nil
}

// newSharePicture is nil where there is no such picture: without none, with one container,
// or where the runs have different ones.
func newSharePicture(runs []result.Run) *sharePicture {
	sp := &sharePicture{}
	entitled := stack{name: "by weight", total: 1}
	for _, c := range runs[0].Containers {
		entitled.parts = append(entitled.parts, c.EntitledShare)
		sp.legend = append(sp.legend, fmt.Sprintf("%s (weight %d)", c.Name, c.Weight))
	}
	sp.stacks = append(sp.stacks, entitled)
	for _, run := range runs {
		if run.TotalVsNone == nil || len(run.Containers) != len(entitled.parts) || len(run.Containers) < 2 {
			return nil
		}
		s := stack{name: run.Scheduler, total: *run.TotalVsNone, text: fixed(*run.TotalVsNone, 2)}
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
	stacks []stack
	legend []string
	most   float64 // total
}

const (
	stackHeight = 26 // of a bar with the space around it
	legendRow   = 30
	// A viewer without the font that text is measured in has a wider one.
	fontSlack  = 1.2
	pictureGap = 22 // on the left, for the names
)

// draw lays the picture out.
func (sp *sharePicture) draw(alt string) (template.HTML, error) {
	p := newPlot("total against none (1 = all that the disk gives without a scheduler)", "")
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
		names[i] = plot.Tick{Value: float64(n - 1 - i), Label: clip(s.name, nameWidth)}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(names)
	p.Y.Padding = 14
	p.Add(sp)
	height := vg.Length(n)*stackHeight + 44 + legendRow
	return drawSVG(pictureWidth, height, alt, func(c draw.Canvas) {
		sp.drawLegend(c)
		p.Draw(draw.Crop(c, pictureGap, 0, 0, -legendRow))
	})
}

// drawLegend names the containers beside their colours.
func (sp *sharePicture) drawLegend(c draw.Canvas) {
	const size = 11
	sty := textStyle(text.XLeft)
	x, y := c.Min.X+8, c.Max.Y-legendRow/2
	for i, name := range sp.legend {
		c.FillPolygon(containerColour(i), square(x, y, size))
		x += size + textGap
		c.FillText(sty, vg.Point{X: x, Y: y + textRaise}, name)
		x += sty.Width(name)*fontSlack + 14
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

// colours are the stylesheet's rules for :root, on paper and in the dark.
var colours = regexp.MustCompile(`(?s)^.*?\n(:root \{.*?\n\}\n@media .*?\n\}\n)`)

// standalone makes a file of a drawing for the page: with colours of its own, light or dark
// as its reader's page is.
func standalone(svg string) []byte {
	css := colours.FindStringSubmatch(pageCSS)[1]
	svg = strings.Replace(svg, `<svg class="plot"`, `<svg xmlns="http://www.w3.org/2000/svg"`, 1)
	root, rest, _ := strings.Cut(svg, ">")
	return []byte(root + ">\n<style>\n" + css + "</style>\n" +
		`<rect width="100%" height="100%" style="fill:var(--paper)"/>` + "\n" + rest + "\n")
}
