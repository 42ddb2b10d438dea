// SPDX-License-Identifier: MIT

package availability

import (
	"fmt"
	"io"
	"strings"
	"time"

	"isolio/internal/host/account"
	"isolio/internal/host/page"
)

var htmlPage = page.New(`
{{- define "title"}}Promises{{end}}
{{- define "body"}}<h1>Promises, kept and missed</h1>
<p class="muted">{{.Since}} to {{.Until}}</p>
{{if not .Promises}}<p>No account was kept of any promise in this time.</p>
{{else}}<div class="wide"><table class="cards">
<thead><tr><th>promise to</th><th>disk</th><th>promised</th><th class="n">demanded</th><th class="n">missed</th><th class="n">availability</th><th class="n">objective</th><th class="n">budget left</th><th>worst hour</th></tr></thead>
<tbody>
{{range .Promises}}<tr><td data-label="promise to" class="name">{{show .Promise}}</td><td data-label="disk">{{show .Disk}}</td><td data-label="promised" class="name">{{show .Terms}}</td><td data-label="demanded" class="n">{{.Demanded}}</td><td data-label="missed" class="n">{{.Missed}}</td><td data-label="availability" class="n{{if .Bad}} bad{{end}}">{{.Availability}}</td><td data-label="objective" class="n">{{.Objective}}</td><td data-label="budget left" class="n{{if .Bad}} bad{{end}}">{{.Budget}}</td><td data-label="worst hour">{{.Worst}}</td></tr>
{{end}}</tbody></table></div>
<p class="muted">Availability is the part of the demanded intervals of a second in which the promise was kept. Those in which the tenant kept too few requests outstanding
are not part of it: it had no claim then. The budget is what the objective allows to be missed in this time. Hours are in UTC.</p>
{{range .Promises}}<h2>{{show .Promise}}</h2>
<p class="muted">{{show .Terms}}; disk {{show .Disk}}, {{show .Identity}}</p>
{{if .Bars}}<figure class="bars"><svg role="img" aria-label="Each hour: how long the promise was demanded, kept and missed" viewBox="0 0 {{.Width}} {{.Height}}" width="{{.Width}}" height="{{.Height}}">
<line class="grid" x1="0" x2="{{.Width}}" y1="{{.Base}}" y2="{{.Base}}"/>
{{range .Bars}}<g><title>{{.Title}}</title>{{range .Parts}}<rect class="{{.Class}}" x="{{.X}}" y="{{.Y}}" width="{{.W}}" height="{{.H}}"/>{{end}}</g>
{{end}}{{range .Days}}<text x="{{.X}}" y="{{.Y}}">{{.Text}}</text>{{end}}
</svg></figure>
{{end}}<ul class="legend">
<li><svg width="12" height="12"><rect class="kept" width="12" height="12"/></svg>kept</li>
{{range .Causes}}<li><svg width="12" height="12"><rect class="{{.Class}}" width="12" height="12"/></svg>{{.Duration}}: {{.Meaning}} ({{.Code}})</li>
{{end}}</ul>
{{end}}{{end}}{{end}}`)

// htmlReport is what the page says: text that is ready to read, and drawings.
type htmlReport struct {
	Since, Until string
	Promises     []htmlPromise
}

type htmlPromise struct {
	Promise, Disk, Identity, Terms                           string
	Demanded, Missed, Availability, Objective, Budget, Worst string
	Bad                                                      bool // the budget is overspent
	Width, Height, Base                                      int
	Bars                                                     []bar
	Days                                                     []label
	Causes                                                   []htmlCause
}

type htmlCause struct{ Class, Code, Meaning, Duration string }

// bar is an hour: how much of it was kept, and missed by each cause.
type bar struct {
	Title string
	Parts []rect
}

type rect struct{ Class, X, Y, W, H string }

type label struct {
	X, Y int
	Text string
}

// Sizes of the bars, in pixels of CSS.
const (
	barsWidth  = 1120
	barsHeight = 120
	daysHeight = 20
	mostBar    = 16
	dayWidth   = 110 // that a date needs on a narrow screen
)

// class is the colour of a cause.
func class(cause account.Cause) string {
	return [account.NrCauses]string{account.Scheduler: "f7", account.Disk: "f4", account.Oversold: "f3", account.Depth: "f1", account.Unknown: "f6"}[cause]
}

// WriteHTML prints one page that needs no other file.
func (r Report) WriteHTML(w io.Writer) error {
	doc := htmlReport{Since: r.Since.Format("2006-01-02 15:04"), Until: r.Until.Format("2006-01-02 15:04 MST")}
	for i := range r.Promises {
		doc.Promises = append(doc.Promises, r.Promises[i].html(r.Since, r.Until))
	}
	return page.Write(w, htmlPage, doc)
}

func (p *Promise) html(since, until time.Time) htmlPromise {
	h := htmlPromise{
		Promise: p.Promise, Disk: p.Disk, Identity: p.Identity, Terms: p.Terms, Demanded: Duration(p.Demanded), Missed: Duration(p.byHost()),
		Availability: percent(p.AvailabilityPct), Objective: number(&p.ObjectivePct) + " %", Budget: p.budget(), Worst: p.worst(),
		Bad:   p.BudgetLeftPct != nil && *p.BudgetLeftPct < 0,
		Width: barsWidth, Height: barsHeight + daysHeight, Base: barsHeight,
	}
	for cause := range account.NrCauses {
		if n := p.Missed[cause.String()]; n > 0 {
			h.Causes = append(h.Causes, htmlCause{class(cause), cause.String(), cause.Meaning(), Duration(n)})
		}
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
		h.Bars = append(h.Bars, p.Hours[i].bar(at(p.Hours[i].From), max(0.5, perHour*0.85), barsHeight/float64(most)))
	}
	last := -dayWidth
	for day := first.Truncate(24 * time.Hour); day.Before(until); day = day.Add(24 * time.Hour) {
		if x := int(at(day)); x >= 0 && x >= last+dayWidth && x+dayWidth <= barsWidth {
			h.Days = append(h.Days, label{x, barsHeight + 15, day.Format("2006-01-02")})
			last = x
		}
	}
	return h
}

// bar draws an hour: kept at the bottom, misses on top.
func (h *Hour) bar(x, width, scale float64) bar {
	one := bar{Title: h.From.Format("2006-01-02 15:04") + ": demanded " + Duration(h.Demanded)}
	if h.AvailabilityPct != nil {
		one.Title += ", availability " + percent(h.AvailabilityPct)
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
		one.Parts = append(one.Parts, rect{class, pixels(x), pixels(max(0, y)), pixels(width), pixels(high)})
	}
	add("kept", h.Kept)
	var missed []string
	for cause := range account.NrCauses {
		n := h.Missed[cause.String()]
		add(class(cause), n)
		if n > 0 {
			missed = append(missed, cause.String()+" "+Duration(n))
		}
	}
	if len(missed) > 0 {
		one.Title += ", missed: " + strings.Join(missed, ", ")
	}
	return one
}
