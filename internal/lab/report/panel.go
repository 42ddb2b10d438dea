// SPDX-License-Identifier: MIT

package report

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// panelWidth is in viewBox units. The page shows a panel at about one CSS
// pixel a unit, three side by side on a desk and one on a phone, so that
// text has the same size on both.
const panelWidth = 360

// textSize is the size of all text in panels, in viewBox units.
const textSize = 11.5

// panel is one small plot of a figure.
type panel struct {
	Name string
	Note string
	SVG  template.HTML
}

// newPlot returns an empty plot in the page's style, whose axes are named
// with their units.
func newPlot(xLabel, yLabel string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Width = 0
		axis.Padding = 0
		axis.Label.TextStyle.Font = plotFont()
		axis.Label.TextStyle.Color = muted
		axis.Tick.Label.Font = plotFont()
		axis.Tick.Label.Color = ink
		axis.Tick.Width = 0
		axis.Tick.Length = 0
	}
	p.X.Label.Text = xLabel
	p.X.Label.Padding = 4
	p.X.Padding = 5
	p.Y.Label.Text = yLabel
	p.Y.Label.Padding = 5
	p.Y.Padding = 2
	return p
}

// plotFont is the font that text is measured in. The stylesheet asks the
// browser for it or for one with the same widths.
func plotFont() font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: textSize}
}

func textStyle(x text.XAlignment) text.Style {
	return text.Style{
		Color:   ink,
		Font:    plotFont(),
		XAlign:  x,
		YAlign:  text.YCenter,
		Handler: plot.DefaultTextHandler,
	}
}

// drawPanel renders p as inline SVG. The label names it for readers who
// cannot see it; the tables carry its figures.
func drawPanel(p *plot.Plot, height vg.Length, label string) (template.HTML, error) {
	return drawSVG(panelWidth, height, label, p.Draw)
}

// drawSVG runs paint on a canvas of w by h units and returns inline SVG.
func drawSVG(w, h vg.Length, label string, paint func(draw.Canvas)) (template.HTML, error) {
	canvas := vgsvg.New(w, h)
	paint(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("plot %q: %w", label, err)
	}
	// The XML prologue and the root's size in points belong to a file, not
	// to a page: a root of our own takes their place.
	_, body, found := strings.Cut(out.String(), `xmlns:xlink="http://www.w3.org/1999/xlink">`)
	if !found {
		return "", fmt.Errorf("plot %q: the drawing has no SVG root", label)
	}
	root := fmt.Sprintf(`<svg class="plot" role="img" aria-label="%s" viewBox="0 0 %g %g" width="%g" height="%g">`,
		html.EscapeString(label), w.Points(), h.Points(), w.Points(), h.Points())
	return template.HTML(root + recolour(body)), nil //nolint:gosec // every text in it was escaped
}

// clip shortens name to at most width, with an ellipsis, and makes it one
// line.
func clip(name string, width vg.Length) string {
	sty := textStyle(text.XLeft)
	name = strings.Join(strings.Fields(name), " ")
	if sty.Width(name) <= width {
		return name
	}
	runes := []rune(name)
	for len(runes) > 1 && sty.Width(string(runes)+"…") > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
