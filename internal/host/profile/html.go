// SPDX-License-Identifier: MIT

package profile

import (
	"fmt"
	"io"
	"strings"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"isolio/internal/page"
)

// manyBytes is from which size on a load's rate is told in bytes.
const manyBytes = 64 << 10

// heads are the columns of the table of all points; those from the second on are numbers, but
// for the last.
var heads = []string{"load", "depth", "IOPS", "MiB/s", "mean, us", "p99, us", "p99.9, us", "runs apart", ""}

// WriteHTML prints the profile as one page with its curves, that needs no other file.
func (p *Profile) WriteHTML(w io.Writer) error {
	title := p.title() + ": sustained rates"
	body := []g.Node{
		html.H1(page.Text(title)),
		html.P(html.Class("muted"), page.Text(fmt.Sprintf("%s; measured %s under %s, kernel %s, in %.0f s",
			p.Disk.Identity, p.MeasuredAt.Format("2006-01-02 15:04 MST"), p.Scheduler, p.Kernel, p.TookS))),
	}
	for _, s := range []struct {
		head, unit string
		large      bool
		scale      float64
	}{{"Small requests", "requests a second", false, 1}, {"Large requests", "MiB a second", true, 1 << 20}} {
		body = append(body, p.section(s.head, s.unit, s.large, s.scale)...)
	}
	body = append(body, html.H2(g.Text("All points")), p.table())
	if notes := p.notes(); len(notes) > 0 {
		body = append(body, html.H2(g.Text("Notes")), html.Ul(page.Texts(notes)...))
	}
	return page.Write(w, title, body...)
}

// table has a row for each point.
func (p *Profile) table() g.Node {
	number := func(column int) g.Node { return g.If(column > 0 && column < len(heads)-1, html.Class("n")) }
	var top, rows []g.Node
	for i, head := range heads {
		top = append(top, html.Th(number(i), g.Text(head)))
	}
	for _, row := range p.rows() {
		var cells []g.Node
		for i, cell := range row {
			cells = append(cells, html.Td(number(i), page.Text(cell)))
		}
		rows = append(rows, html.Tr(cells...))
	}
	return html.Div(html.Class("wide"), html.Table(html.THead(html.Tr(top...)), html.TBody(rows...)))
}

// section draws the loads of one unit: rate by depth, and p99 by rate, in which the knee shows as
// a corner. It is nothing where the profile has no such load.
func (p *Profile) section(head, unit string, large bool, scale float64) []g.Node {
	var legend, charts []g.Node
	rate := page.Chart{Label: head + ": rate by requests outstanding", X: "requests outstanding", Y: unit, FromZero: true}
	wait := page.Chart{Label: head + ": p99 by rate", X: unit, Y: "p99, us"}
	for i := range p.Loads {
		l := &p.Loads[i]
		if (l.BlockBytes >= manyBytes) != large {
			continue
		}
		byDepth, byRate := page.Curve{Name: l.Name}, page.Curve{Name: l.Name}
		for _, at := range l.Points {
			v := at.IOPS
			if large {
				v = at.BytesPS / scale
			}
			knee := at.Depth == l.KneeDepth
			byDepth.Points = append(byDepth.Points, page.Point{X: float64(at.Depth), Y: v, Mark: knee})
			byRate.Points = append(byRate.Points, page.Point{X: v, Y: at.slower().P99, Mark: knee})
		}
		full := l.Full()
		says := fmt.Sprintf("%.0f IOPS, %.1f MiB/s at depth %d", full.IOPS, full.BytesPS/(1<<20), full.Depth)
		if l.KneeDepth == 0 {
			says += ", and still growing"
		}
		colour := fmt.Sprint("f", len(rate.Curves)%page.Colours)
		legend = append(legend, html.Li(page.Swatch(colour), page.Text(l.Name+": "+says)))
		rate.Curves, wait.Curves = append(rate.Curves, byDepth), append(wait.Curves, byRate)
	}
	for _, c := range []page.Chart{rate, wait} {
		if svg := c.SVG(); svg != nil {
			charts = append(charts, html.Figure(svg))
		}
	}
	if len(legend) == 0 {
		return nil
	}
	return []g.Node{
		html.H2(g.Text(head)),
		html.P(g.Text("A ring is the knee of a load: with more requests outstanding the rate is hardly higher, and each takes longer.")),
		html.Ul(html.Class("legend"), g.Group(legend)),
		html.Div(html.Class("charts"), g.Group(charts)),
	}
}

// title is the disk's name and model.
func (p *Profile) title() string {
	if p.Disk.Model == "" {
		return p.Disk.Name
	}
	return fmt.Sprintf("%s (%s)", p.Disk.Name, strings.TrimSpace(p.Disk.Model))
}
