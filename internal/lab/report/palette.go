// SPDX-License-Identifier: MIT

package report

import (
	"fmt"
	"image/color"
	"math"
	"regexp"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The drawings use these colours as placeholders. recolour turns each into
// the CSS variable of the same role, so that the stylesheet alone decides
// the shades: one set on white (screen and paper), one on a dark screen.
var (
	ink   = color.RGBA{R: 0x01, A: 0xff} // text and marks
	muted = color.RGBA{R: 0x02, A: 0xff} // axis text
	grid  = color.RGBA{R: 0x03, A: 0xff} // lines behind the data
	plain = color.RGBA{R: 0x04, A: 0xff} // bars that belong to no container
)

// nColours is the number of container colours in the stylesheet, chosen so
// that they differ also for colour-blind readers. A container beyond them
// takes an earlier one's colour with another line.
const nColours = 8

// containerColour returns the placeholder for the i-th container.
func containerColour(i int) color.Color {
	return color.RGBA{R: 0x10, G: uint8(i % nColours), A: 0xff}
}

// textColour returns the placeholder for text on the i-th container's colour.
func textColour(i int) color.Color {
	return color.RGBA{R: 0x11, G: uint8(i % nColours), A: 0xff}
}

var placeholders = newPlaceholders()

func newPlaceholders() *strings.Replacer {
	var pairs []string
	role := func(c color.Color, name string) {
		r, g, b, _ := c.RGBA()
		pairs = append(pairs, fmt.Sprintf("#%02X%02X%02X", r>>8, g>>8, b>>8), "var(--"+name+")")
	}
	role(ink, "ink")
	role(muted, "muted")
	role(grid, "grid")
	role(plain, "plain")
	for i := range nColours {
		role(containerColour(i), fmt.Sprintf("c%d", i))
		role(textColour(i), fmt.Sprintf("t%d", i))
	}
	return strings.NewReplacer(pairs...)
}

// styleAttribute matches only what the drawing wrote: a quote inside text is
// escaped there.
var styleAttribute = regexp.MustCompile(`style="[^"]*"`)

func recolour(svg string) string {
	return styleAttribute.ReplaceAllStringFunc(svg, placeholders.Replace)
}

// glyphs tell containers apart where colours do not, as on grey paper.
var glyphs = [nColours]draw.GlyphDrawer{
	draw.CircleGlyph{},
	polygon{corners: 4, turn: math.Pi / 4}, // square
	polygon{corners: 3, turn: math.Pi / 2}, // triangle, point up
	polygon{corners: 4},                    // diamond
	polygon{corners: 3, turn: -math.Pi / 2},
	polygon{corners: 2, turn: math.Pi / 2}, // upright stroke
	star{arms: 4, turn: math.Pi / 4},       // cross
	star{arms: 4},                          // plus
}

// polygon is a filled regular polygon. Its first corner is turn radians from
// the right; two corners make a stroke.
type polygon struct {
	corners int
	turn    float64
}

// DrawGlyph draws the polygon somewhat larger than a circle of the same
// radius, so that both look equally heavy.
func (g polygon) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	points := around(pt, sty.Radius*1.25, g.corners, g.turn)
	if g.corners == 2 {
		c.StrokeLines(draw.LineStyle{Color: sty.Color, Width: 2.4}, points)
		return
	}
	c.FillPolygon(sty.Color, points)
}

// star is strokes from the middle outwards.
type star struct {
	arms int
	turn float64
}

// DrawGlyph draws the star.
func (g star) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	for _, end := range around(pt, sty.Radius*1.2, g.arms, g.turn) {
		c.StrokeLines(draw.LineStyle{Color: sty.Color, Width: 1.6}, []vg.Point{pt, end})
	}
}

// around returns n points at distance r from pt.
func around(pt vg.Point, r vg.Length, n int, turn float64) []vg.Point {
	points := make([]vg.Point, n)
	for i := range points {
		sin, cos := math.Sincos(turn + 2*math.Pi*float64(i)/float64(n))
		points[i] = vg.Point{X: pt.X + r*vg.Length(cos), Y: pt.Y + r*vg.Length(sin)}
	}
	return points
}

func containerGlyph(i int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: containerColour(i), Radius: 3, Shape: glyphs[i%nColours]}
}

// containerLine is solid for the first nColours containers, then dashed,
// then dotted, and so on in turn.
func containerLine(i int) draw.LineStyle {
	dashes := [][]vg.Length{nil, {5, 2}, {1.5, 2}}
	return draw.LineStyle{
		Color:  containerColour(i),
		Width:  1.4,
		Dashes: dashes[i/nColours%len(dashes)],
	}
}
