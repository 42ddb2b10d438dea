// SPDX-License-Identifier: MIT

package slo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"isolio/internal/page"
)

// bar is an hour: how much of it was kept, and missed by each cause.
type bar struct {
	title string
	parts []g.Node
}

// Sizes of the bars, in pixels of CSS.
const (
	barsWidth  = 1120
	barsHeight = 120
	daysHeight = 20
	mostBar    = 16
	dayWidth   = 110 // that a date needs on a narrow screen
)

// class is the colour of a cause. The tenant's own is far from those of the host.
func class(cause Cause) string {
	return [NrCauses]string{NoScheduler: "f7", SlowDisk: "f4", Oversold: "f3", TooFewRequests: "f5", UnknownCause: "f6"}[cause]
}

// WriteHTML prints one page that needs no other file.
func (r Report) WriteHTML(w io.Writer) error {
	body := []g.Node{
		html.H1(g.Text("Promises, kept and missed")),
		html.P(html.Class("muted"), g.Text(r.Since.Format("2006-01-02 15:04")+" to "+r.Until.Format("2006-01-02 15:04 MST"))),
	}
	if len(r.Promises) == 0 {
		body = append(body, html.P(g.Text("No account was kept of any promise in this time.")))
		return page.Write(w, "Promises", body...)
	}
	body = append(body, r.summary(), html.P(html.Class("muted"), g.Text("Availability is the part of the demanded intervals of a second in which the promise was kept. "+
		"Those in which the tenant kept too few requests outstanding are not part of it: it had no claim then. "+
		"The budget is what the objective allows to be missed in this time. Hours are in UTC.")))
	for i := range r.Promises {
		body = append(body, r.Promises[i].details(r.Since, r.Until)...)
	}
	return page.Write(w, "Promises", body...)
}

// summary is a table with a row for each promise. On a narrow screen a row is a card, whose
// cells have their heads beside them.
func (r Report) summary() g.Node {
	columns := []struct{ head, class string }{
		{"promise to", "name"}, {"disk", ""}, {"promised", "name"}, {"demanded", "n"}, {"missed", "n"},
		{"availability", "n"}, {"objective", "n"}, {"budget left", "n"}, {"worst hour", ""},
	}
	var top, rows []g.Node
	for _, c := range columns {
		top = append(top, html.Th(g.If(c.class == "n", html.Class("n")), g.Text(c.head)))
	}
	for i := range r.Promises {
		p := &r.Promises[i]
		overspent := p.BudgetLeftPct != nil && *p.BudgetLeftPct < 0
		var cells []g.Node
		for j, text := range []string{
			p.Promise, p.Disk, p.Terms, Duration(p.Demanded), Duration(p.byHost()),
			percent(p.AvailabilityPct), number(&p.ObjectivePct) + " %", p.budget(), p.worst(),
		} {
			c := columns[j]
			class := c.class
			if overspent && (c.head == "availability" || c.head == "budget left") {
				class += " bad"
			}
			cells = append(cells, html.Td(html.Data("label", c.head), g.If(class != "", html.Class(class)), page.Text(text)))
		}
		rows = append(rows, html.Tr(cells...))
	}
	return html.Div(html.Class("wide"), html.Table(html.Class("cards"), html.THead(html.Tr(top...)), html.TBody(rows...)))
}

// details are a promise's hours and the causes of what was missed.
func (p *PromiseReport) details(since, until time.Time) []g.Node {
	all := []g.Node{
		html.H2(page.Text(p.Promise)),
		html.P(html.Class("muted"), page.Text(p.Terms+"; disk "+p.Disk+", "+p.Identity)),
	}
	if p.Demanded == 0 {
		return append(all, html.P(g.Text("It was not demanded in this time.")))
	}
	all = append(all, html.Figure(html.Class("bars"), p.bars(since, until)))
	legend := []g.Node{html.Li(page.Swatch("kept"), g.Text("kept"))}
	for cause := range NrCauses {
		if n := p.Missed[cause.String()]; n > 0 {
			legend = append(legend, html.Li(page.Swatch(class(cause)), g.Textf("%s: %s (%s)", Duration(n), cause.Meaning(), cause)))
		}
	}
	return append(all, html.Ul(html.Class("legend"), g.Group(legend)))
}

// bars draws the hours.
func (p *PromiseReport) bars(since, until time.Time) g.Node {
	const high = barsHeight + daysHeight
	drawing := []g.Node{
		html.Role("img"), html.Aria("label", "Each hour: how long the promise was demanded, kept and missed"),
		g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", barsWidth, high)), html.Width(strconv.Itoa(barsWidth)), html.Height(strconv.Itoa(high)),
		g.El("line", html.Class("grid"), g.Attr("x1", "0"), g.Attr("x2", strconv.Itoa(barsWidth)), g.Attr("y1", strconv.Itoa(barsHeight)), g.Attr("y2", strconv.Itoa(barsHeight))),
	}
	first := since.Truncate(time.Hour)
	hours := max(1, until.Sub(first).Hours())
	perHour := min(mostBar, barsWidth/hours)
	at := func(t time.Time) float64 { return t.Sub(first).Hours() * perHour }
	most := 1
	for i := range p.Hours {
		most = max(most, p.Hours[i].Demanded)
	}
	for i := range p.Hours {
		one := p.Hours[i].bar(at(p.Hours[i].From), max(0.5, perHour*0.85), barsHeight/float64(most))
		drawing = append(drawing, g.El("g", g.El("title", g.Text(one.title)), g.Group(one.parts)))
	}
	last := -dayWidth
	for day := first.Truncate(24 * time.Hour); day.Before(until); day = day.Add(24 * time.Hour) {
		if x := int(at(day)); x >= 0 && x >= last+dayWidth && x+dayWidth <= barsWidth {
			drawing = append(drawing, g.El("text", g.Attr("x", strconv.Itoa(x)), g.Attr("y", strconv.Itoa(barsHeight+15)), g.Text(day.Format("2006-01-02"))))
			last = x
		}
	}
	return html.SVG(drawing...)
}

// bar draws an hour: kept at the bottom, misses on top.
func (h *Hour) bar(x, width, scale float64) bar {
	one := bar{title: h.From.Format("2006-01-02 15:04") + ": demanded " + Duration(h.Demanded)}
	if h.AvailabilityPct != nil {
		one.title += ", availability " + percent(h.AvailabilityPct)
	}
	y := float64(barsHeight)
	pixels := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	add := func(class string, n int) {
		if n == 0 {
			return
		}
		high := float64(n) * scale
		if class != "kept" {
			high = max(1, high) // one miss in an hour is seen
		}
		y -= high
		one.parts = append(one.parts, g.El("rect", html.Class(class), g.Attr("x", pixels(x)), g.Attr("y", pixels(max(0, y))), html.Width(pixels(width)), html.Height(pixels(high))))
	}
	add("kept", h.Kept)
	var missed []string
	for cause := range NrCauses {
		n := h.Missed[cause.String()]
		add(class(cause), n)
		if n > 0 {
			missed = append(missed, cause.String()+" "+Duration(n))
		}
	}
	if len(missed) > 0 {
		one.title += ", missed: " + strings.Join(missed, ", ")
	}
	return one
}
