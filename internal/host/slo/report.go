// SPDX-License-Identifier: MIT

package slo

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"isolio/internal/table"
)

// A report is made of histories: in which part of the intervals that
// it was demanded in a promise was kept, what is left of the error budget, the worst hour,
// and why a promise was missed.
//
// An interval counts against the budget if the host missed it. Where the tenant kept too few
// requests outstanding it had no claim, so these intervals are shown, and are not part of
// what availability is about.

// Report is about all promises of a time.
type Report struct {
	Schema   int             `json:"schema"`
	Since    time.Time       `json:"since"`
	Until    time.Time       `json:"until"`
	Promises []PromiseReport `json:"promises"`
}

// PromiseReport is what became of one.
type PromiseReport struct {
	Promise      string  `json:"promise"`
	Disk         string  `json:"disk"`
	Identity     string  `json:"identity"`
	Terms        string  `json:"terms"`
	ObjectivePct float64 `json:"objective_pct"`
	Intervals
	// AvailabilityPct is kept of kept and missed, without those that were the tenant's own. It is
	// absent where there is none.
	AvailabilityPct *float64 `json:"availability_pct,omitempty"`
	// BudgetLeftPct is the part that is left of the misses that the objective allows. It is below 0 where
	// there were more.
	BudgetLeftPct *float64 `json:"budget_left_pct,omitempty"`
	// BudgetIntervals is how many those are in all.
	BudgetIntervals float64 `json:"budget_intervals"`
	// WorstHour has the most misses; absent where there was none.
	WorstHour *Hour `json:"worst_hour,omitempty"`
	// Hours are those in which it was judged.
	Hours []Hour `json:"hours"`
}

// Intervals are numbers of intervals, of a second each.
type Intervals struct {
	Judged   int `json:"judged"`
	Demanded int `json:"demanded"`
	Kept     int `json:"kept"`
	// Missed are by cause; those of no interval are left out.
	Missed map[string]int `json:"missed"`
}

// Hour is one hour by the clock.
type Hour struct {
	From time.Time `json:"from"`
	Intervals
	AvailabilityPct *float64 `json:"availability_pct,omitempty"`
}

func (i *Intervals) add(c Counts) {
	i.Judged += int(c.Judged)
	i.Demanded += int(c.Demanded)
	i.Kept += int(c.Kept)
	if i.Missed == nil {
		i.Missed = map[string]int{}
	}
	for cause, n := range c.Missed {
		if n > 0 {
			i.Missed[Cause(cause).String()] += int(n)
		}
	}
}

// byHost is how many the host missed.
func (i *Intervals) byHost() (n int) {
	for cause, k := range i.Missed {
		if cause != TooFewRequests.String() {
			n += k
		}
	}
	return n
}

// availability is nil where there was no claim.
func (i *Intervals) availability() *float64 {
	claims := i.Kept + i.byHost()
	if claims == 0 {
		return nil
	}
	pct := 100 * float64(i.Kept) / float64(claims)
	return &pct
}

// NewReport is the report of histories.
func NewReport(past []Past, since, until time.Time) Report {
	r := Report{Schema: 1, Since: since.UTC(), Until: until.UTC(), Promises: []PromiseReport{}}
	for _, h := range past {
		r.Promises = append(r.Promises, newPromise(h))
	}
	slices.SortFunc(r.Promises, func(a, b PromiseReport) int {
		if c := strings.Compare(a.Promise, b.Promise); c != 0 {
			return c
		}
		return strings.Compare(a.Disk+a.Identity, b.Disk+b.Identity)
	})
	return r
}

func newPromise(h Past) PromiseReport {
	p := PromiseReport{Promise: h.Promise, Disk: h.Disk, Identity: h.Identity, Terms: h.Terms, ObjectivePct: h.ObjectivePct, Hours: []Hour{}}
	p.add(Counts{})
	for _, b := range h.Buckets {
		p.add(b.Counts)
		from := b.From.Truncate(time.Hour)
		if n := len(p.Hours); n == 0 || !p.Hours[n-1].From.Equal(from) {
			p.Hours = append(p.Hours, Hour{From: from})
		}
		p.Hours[len(p.Hours)-1].add(b.Counts)
	}
	for i := range p.Hours {
		hour := &p.Hours[i]
		hour.AvailabilityPct = hour.availability()
		if n := hour.byHost(); n > 0 && (p.WorstHour == nil || n > p.WorstHour.byHost()) {
			p.WorstHour = hour
		}
	}
	if p.WorstHour != nil {
		worst := *p.WorstHour
		p.WorstHour = &worst
	}
	p.AvailabilityPct = p.availability()
	p.BudgetIntervals = (1 - p.ObjectivePct/100) * float64(p.Kept+p.byHost())
	if p.BudgetIntervals > 0 {
		left := 100 * (1 - float64(p.byHost())/p.BudgetIntervals)
		p.BudgetLeftPct = &left
	}
	return p
}

// WriteJSON prints the report.
func (r Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteCSV prints a line for each promise, with numbers of intervals.
func (r Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"promise", "disk", "identity", "terms", "since", "until", "objective_pct", "judged", "demanded", "kept"}
	for cause := range NrCauses {
		head = append(head, "missed_"+cause.String())
	}
	rows := [][]string{append(head, "availability_pct", "budget_left_pct", "worst_hour", "worst_hour_availability_pct")}
	for i := range r.Promises {
		p := &r.Promises[i]
		row := []string{
			cell(p.Promise), cell(p.Disk), cell(p.Identity), cell(p.Terms), r.Since.Format(time.RFC3339), r.Until.Format(time.RFC3339), number(&p.ObjectivePct),
			strconv.Itoa(p.Judged), strconv.Itoa(p.Demanded), strconv.Itoa(p.Kept),
		}
		for cause := range NrCauses {
			row = append(row, strconv.Itoa(p.Missed[cause.String()]))
		}
		row = append(row, number(p.AvailabilityPct), number(p.BudgetLeftPct))
		if p.WorstHour == nil {
			row = append(row, "", "")
		} else {
			row = append(row, p.WorstHour.From.Format(time.RFC3339), number(p.WorstHour.AvailabilityPct))
		}
		rows = append(rows, row)
	}
	return out.WriteAll(rows)
}

// cell is a text that no spreadsheet takes for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// number is a figure, "" for none.
func number(pct *float64) string {
	if pct == nil {
		return ""
	}
	return strconv.FormatFloat(*pct, 'f', -1, 64)
}

// percent is a figure with three places, which tell 99.9 from 99.95 and 100 from a miss in
// a day.
func percent(pct *float64) string {
	if pct == nil {
		return ""
	}
	text := strconv.FormatFloat(*pct, 'f', 3, 64)
	if text == "100.000" && *pct < 100 {
		text = "99.999"
	}
	return text + " %"
}

// WriteTable prints a line for each promise.
func (r Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s to %s\n\n", r.Since.Format("2006-01-02 15:04"), r.Until.Format("2006-01-02 15:04 MST"))
	columns := []table.Column{
		{Head: "promise to"}, {Head: "disk"}, {Head: "promised"}, {Head: "demanded", Right: true}, {Head: "missed", Right: true}, {Head: "availability", Right: true},
		{Head: "objective", Right: true}, {Head: "budget left", Right: true}, {Head: "worst hour"}, {Head: "why missed"},
	}
	var rows [][]string
	for i := range r.Promises {
		p := &r.Promises[i]
		rows = append(rows, []string{
			p.Promise, p.Disk, p.Terms, Duration(p.Demanded), Duration(p.byHost()), percent(p.AvailabilityPct), strconv.FormatFloat(p.ObjectivePct, 'f', -1, 64) + " %",
			p.budget(), p.worst(), p.why(),
		})
	}
	return table.Write(w, columns, rows)
}

func (p *PromiseReport) budget() string {
	if p.BudgetLeftPct == nil {
		return ""
	}
	return fmt.Sprintf("%.1f %%", *p.BudgetLeftPct)
}

func (p *PromiseReport) worst() string {
	if p.WorstHour == nil {
		return ""
	}
	return p.WorstHour.From.Format("2006-01-02 15:04") + ", " + percent(p.WorstHour.AvailabilityPct)
}

// why are the causes, those of the most intervals first.
func (p *PromiseReport) why() string {
	var parts []string
	for _, c := range p.Causes() {
		parts = append(parts, c.Code+" "+Duration(c.Intervals))
	}
	return strings.Join(parts, ", ")
}

// CauseCount is how often a cause was one.
type CauseCount struct {
	Code, Meaning string
	Intervals     int
}

// Causes are those of misses, of the most intervals first. The tenant's own are among them.
func (p *PromiseReport) Causes() (all []CauseCount) {
	for cause := range NrCauses {
		if n := p.Missed[cause.String()]; n > 0 {
			all = append(all, CauseCount{cause.String(), cause.Meaning(), n})
		}
	}
	slices.SortStableFunc(all, func(a, b CauseCount) int { return b.Intervals - a.Intervals })
	return all
}

// Duration is so many intervals of a second in two units.
func Duration(intervals int) string {
	if intervals == 0 {
		return "0"
	}
	s := intervals
	units := []struct {
		name string
		long int
	}{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}}
	for i, u := range units {
		if s < u.long {
			continue
		}
		text := fmt.Sprintf("%d %s", s/u.long, u.name)
		if rest := s % u.long; i+1 < len(units) && rest/units[i+1].long > 0 {
			text += fmt.Sprintf(" %d %s", rest/units[i+1].long, units[i+1].name)
		}
		return text
	}
	return ""
}
