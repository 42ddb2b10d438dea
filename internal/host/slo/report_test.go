// SPDX-License-Identifier: MIT

package slo

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"isolio/internal/must"
)

var begin = time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)

// reportCounts are of one step.
func reportCounts(minutes int, kept, disk, depth uint32) Bucket {
	c := Counts{Judged: 300, Demanded: kept + disk + depth, Kept: kept}
	c.Missed[SlowDisk], c.Missed[TooFewRequests] = disk, depth
	return Bucket{From: begin.Add(time.Duration(minutes) * time.Minute), Counts: c}
}

func sample() []Past {
	return []Past{
		{
			Meta: Meta{Promise: "unit shop.service", Disk: "nvme0n1", Identity: "wwid-1", Terms: "3000 IOPS of reads", ObjectivePct: 99},
			Buckets: []Bucket{
				reportCounts(0, 300, 0, 0), reportCounts(5, 290, 2, 8), reportCounts(65, 290, 10, 0), reportCounts(70, 0, 0, 0), reportCounts(120, 110, 0, 100),
			},
		},
		{Meta: Meta{Promise: "name idle", Disk: "sda", Identity: "wwid-2", Terms: "5 IOPS of writes", ObjectivePct: 99.9}, Buckets: []Bucket{reportCounts(0, 0, 0, 0)}},
		{Meta: Meta{Promise: "name few", Disk: "sda", Identity: "wwid-2", Terms: "5 IOPS of writes", ObjectivePct: 99.9}, Buckets: []Bucket{reportCounts(0, 0, 0, 7)}},
	}
}

// Worked: 990 kept, 12 missed by the host, 108 by the tenant itself: 990 of 1002. One percent of
// 1002 may be missed, 10.02, so the budget is overspent by a fifth.
func TestNew(t *testing.T) {
	r := NewReport(sample(), begin, begin.Add(3*time.Hour))
	if len(r.Promises) != 3 || r.Promises[0].Promise != "name few" || r.Promises[1].Promise != "name idle" {
		t.Fatalf("%+v", r.Promises)
	}
	p := r.Promises[2]
	if p.Demanded != 1110 || p.Kept != 990 || p.Missed["disk"] != 12 || p.Missed["depth"] != 108 || len(p.Missed) != 2 || p.Judged != 1500 {
		t.Errorf("%+v", p.Intervals)
	}
	if math.Abs(*p.AvailabilityPct-100*990/1002.0) > 1e-9 || math.Abs(p.BudgetIntervals-10.02) > 1e-9 || math.Abs(*p.BudgetLeftPct-100*(1-12/10.02)) > 1e-9 {
		t.Errorf("availability %v, budget %v, left %v", *p.AvailabilityPct, p.BudgetIntervals, *p.BudgetLeftPct)
	}
	if len(p.Hours) != 3 || !p.WorstHour.From.Equal(begin.Add(time.Hour)) || math.Abs(*p.WorstHour.AvailabilityPct-100*290/300.0) > 1e-9 {
		t.Errorf("hours %+v, worst %+v", p.Hours, p.WorstHour)
	}
	for _, p := range r.Promises[:2] { // no claim, so no figure
		if p.AvailabilityPct != nil || p.BudgetLeftPct != nil || p.WorstHour != nil {
			t.Errorf("%+v", p)
		}
	}
	if c := r.Promises[2].Causes(); len(c) != 2 || c[0].Code != "depth" || c[1].Intervals != 12 {
		t.Errorf("%+v", c)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	must.OK(t, NewReport(sample(), begin, begin.Add(3*time.Hour)).WriteTable(&b))
	const want = `2026-11-02 10:00 to 2026-11-02 13:00 UTC

promise to         disk     promised             demanded  missed  availability  objective  budget left  worst hour                  why missed
name few           sda      5 IOPS of writes          7 s       0                   99.9 %                                           depth 7 s
name idle          sda      5 IOPS of writes            0       0                   99.9 %
unit shop.service  nvme0n1  3000 IOPS of reads  18 min 30 s    12 s      98.802 %       99 %      -19.8 %  2026-11-02 11:00, 96.667 %  depth 1 min 48 s, disk 12 s
`
	if got := b.String(); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// All rows end their right-aligned columns in the same place.
	lines := strings.Split(b.String(), "\n")
	if strings.Index(lines[2], "availability")+len("availability") != strings.Index(lines[5], "98.802 %")+len("98.802 %") {
		t.Errorf("columns do not line up:\n%s", b.String())
	}
}

func TestPercent(t *testing.T) {
	for v, want := range map[float64]string{100: "100.000 %", 99.9996: "99.999 %", 99.95: "99.950 %", 0: "0.000 %"} {
		if got := percent(&v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for n, want := range map[int]string{0: "0", 59: "59 s", 60: "1 min", 61: "1 min 1 s", 3600: "1 h", 3661: "1 h 1 min", 86400*5 + 7200: "5 d 2 h", 86400 + 59: "1 d"} {
		if got := Duration(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// hostile are histories whose names act on a page, a terminal or a spreadsheet, if they may.
func hostile() []Past {
	all := sample()
	all[0].Promise = `name </title></svg><script>alert(1)</script><img src=x onerror=alert(2)>"'` + "\x1b[2J\u202e"
	all[0].Terms = `<style>*{background:url(//x)}</style>`
	all[1].Promise = "=HYPERLINK(1)"
	all[0].Disk = `"><b>`
	return all
}

func TestCSV(t *testing.T) {
	var b strings.Builder
	must.OK(t, NewReport(hostile(), begin, begin.Add(3*time.Hour)).WriteCSV(&b))
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%v, %v", rows, err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	if got := rows[1][column["promise"]]; got != "'=HYPERLINK(1)" {
		t.Errorf("a formula: %q", got)
	}
	p := rows[2] // "name <" is before "name f"
	if p[column["kept"]] != "990" || p[column["missed_depth"]] != "108" || p[column["missed_disk"]] != "12" || p[column["worst_hour"]] != "2026-11-02T11:00:00Z" || !strings.HasPrefix(p[column["availability_pct"]], "98.80") {
		t.Errorf("%v", p)
	}
}

func TestJSON(t *testing.T) {
	var b strings.Builder
	must.OK(t, NewReport(sample(), begin, begin.Add(3*time.Hour)).WriteJSON(&b))
	var r Report
	dec := json.NewDecoder(strings.NewReader(b.String()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil || r.Schema != 1 || len(r.Promises) != 3 || r.Promises[2].Missed["depth"] != 108 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Whatever was counted: hours add up to the whole, the parts to what was demanded, and the budget is
// overspent if and only if the objective is missed.
func TestSums(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for range 300 {
		past := Past{Meta: Meta{Promise: "name a", ObjectivePct: 50 + 49.9*r.Float64()}}
		for minute := range 100 {
			var c Counts
			for range r.IntN(30) {
				c.Count(Verdict{Demanded: r.IntN(4) > 0, Kept: r.IntN(4) > 0, Cause: Cause(r.IntN(int(NrCauses)))})
			}
			past.Buckets = append(past.Buckets, Bucket{From: begin.Add(time.Duration(minute*5) * time.Minute), Counts: c})
		}
		p := NewReport([]Past{past}, begin, begin.Add(10*time.Hour)).Promises[0]
		missed := 0
		for _, n := range p.Missed {
			missed += n
		}
		demanded := 0
		for _, h := range p.Hours {
			demanded += h.Demanded
			if p.WorstHour == nil || h.byHost() > p.WorstHour.byHost() {
				t.Fatalf("%+v is worse than %+v", h, p.WorstHour)
			}
		}
		if p.Kept+missed != p.Demanded || demanded != p.Demanded || (*p.BudgetLeftPct < 0) != (*p.AvailabilityPct < p.ObjectivePct) {
			t.Fatalf("%+v", p)
		}
	}
}
