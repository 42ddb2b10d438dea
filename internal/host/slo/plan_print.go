// SPDX-License-Identifier: MIT

package slo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"isolio/internal/host/rule"
	"isolio/internal/plan/shell"
	"isolio/internal/table"
)

// PlanDocument is all plans, as JSON has them.
type PlanDocument struct {
	Schema int     `json:"schema"`
	Fits   bool    `json:"fits"`
	Plans  []*Plan `json:"plans"`
}

// NewPlanDocument is the document of plans.
func NewPlanDocument(plans []*Plan) PlanDocument {
	d := PlanDocument{Schema: 1, Fits: true, Plans: plans}
	for _, p := range plans {
		d.Fits = d.Fits && p.Fits
	}
	return d
}

// WriteJSON prints the document.
func (d PlanDocument) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

// WriteTable prints each plan: what is promised and left, a line for each promise, and
// what the disk's scheduler and the rules must be told.
func (d PlanDocument) WriteTable(w io.Writer) error {
	for i, p := range d.Plans {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := p.writeTable(w); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%s (%s): %.1f %% of the disk is promised, %.1f %% in reserve, %.1f %% left\n\n", p.Disk, p.Identity, p.PromisedPct, p.ReservePct, max(0, p.LeftPct))
	columns := []table.Column{
		{Head: "promise to"}, {Head: "line", Right: true}, {Head: "count", Right: true}, {Head: "reads", Right: true}, {Head: "writes", Right: true}, {Head: "p99", Right: true},
		{Head: "of the disk, each", Right: true}, {Head: "weight", Right: true}, {Head: "share", Right: true}, {Head: "depth", Right: true},
	}
	var rows [][]string
	for _, t := range p.Tenants {
		row := []string{t.For, "what-if", "", t.Read, t.Write, "", fmt.Sprintf("%.2f %%", t.UsePct), "", "", strconv.Itoa(t.Depth)}
		if t.Line > 0 {
			row[1] = strconv.Itoa(t.Line)
		}
		if t.Count > 1 {
			row[2] = strconv.Itoa(t.Count)
		}
		if t.P99MS > 0 {
			row[5] = fmt.Sprintf("%.3g of %s ms", t.Bound, rule.Number(t.P99MS))
		}
		if t.Weight > 0 {
			row[7], row[8] = strconv.Itoa(t.Weight), fmt.Sprintf("%.2f %%", 100*t.Share)
		}
		rows = append(rows, row)
	}
	if p.Fits {
		rows = append(rows, []string{fmt.Sprintf("%d others", p.Others.BestEffort), "", "", "", "", "", "", strconv.Itoa(p.Others.Weight), fmt.Sprintf("%.2f %%", 100*p.Others.Share), ""})
	}
	if err := table.Write(w, columns, rows); err != nil {
		return err
	}
	if !p.Fits {
		_, err := fmt.Fprintf(w, "\ntoo much: %s\ndrop: %s\n", p.Problem, strings.Join(p.Drop, ", "))
		return err
	}
	fmt.Fprintln(w)
	for _, t := range p.Tenants {
		fmt.Fprintf(w, "%s: %s\n", t.For, t.Why)
	}
	fmt.Fprintf(w, "\nThe shares suffice on a disk that serves %.1f %% less than its profile.\n", p.MarginPct)
	var room []string
	for _, r := range p.Room {
		room = append(room, fmt.Sprintf("%s (%.0f IOPS, %.1f MiB/s)", r.Kind, r.IOPS, r.BytesPS/(1<<20)))
	}
	fmt.Fprintf(w, "left, one of: %s\n", strings.Join(room, "; "))
	for _, n := range p.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	return p.writeSettings(w)
}

// writeSettings prints what makes the plan so: the scheduler's settings and rules.
func (p *Plan) writeSettings(w io.Writer) error {
	_, err := fmt.Fprintf(w, "\n# for /etc/isolio.toml, and then: isolio enable %s\n%s\n%s", shell.Quote(p.Disk), p.Table(), p.Rules())
	return err
}

// Table is what the disk's scheduler must be told, as the disk's table.
func (p *Plan) Table() string {
	text := fmt.Sprintf("[[disk]]\ndevice = %s\nshare_by = %s\n", quoted(p.Disk), quoted(p.ShareBy))
	if p.CostModel != "" {
		text += fmt.Sprintf("cost_model = %s\n", quoted(p.CostModel))
	}
	return text + fmt.Sprintf("min_total_pct = %d\n", p.MinTotalPct)
}

// Rules are the plan's weights as rules. A device of a rule is a name as in /sys/block.
func (p *Plan) Rules() string {
	var b strings.Builder
	for _, t := range p.Tenants {
		b.WriteString("[[rule]]\n")
		for _, x := range []struct{ key, value string }{
			{"name", t.Rule.For.Name}, {"pod", t.Rule.For.Pod}, {"unit", t.Rule.For.Unit}, {"class", t.Rule.For.Class},
			{"label", t.Rule.For.Label}, {"annotation", t.Rule.For.Annotation}, {"device", p.Disk},
		} {
			if x.value != "" {
				fmt.Fprintf(&b, "%s = %s\n", x.key, quoted(x.value))
			}
		}
		fmt.Fprintf(&b, "weight = %d\n\n", cmp.Or(t.Weight, 1))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// quoted is a TOML string: JSON's escapes are TOML's as well.
func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil { // a string always has JSON
		return strconv.Quote(text)
	}
	return string(out)
}
