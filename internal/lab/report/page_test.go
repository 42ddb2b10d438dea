// SPDX-License-Identifier: MIT

package report

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"isolio/internal/lab/result"
	"isolio/internal/must"
)

func render(t *testing.T, doc *result.Document, opts ...Option) string {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, Render(&b, doc, opts...))
	return b.String()
}

func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	must.OK(t, err)
	return root
}

// all returns the elements called tag below n, in document order.
func all(n *html.Node, tag string) []*html.Node {
	var found []*html.Node
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == tag {
			found = append(found, d)
		}
	}
	return found
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

// section returns the section with the id, nil if there is none.
func section(root *html.Node, id string) *html.Node {
	for _, s := range all(root, "section") {
		if attr(s, "id") == id {
			return s
		}
	}
	return nil
}

// rows returns the body of a table as text, rows that head a group included.
func rows(table *html.Node) [][]string {
	var out [][]string
	for _, tr := range all(table, "tr") {
		if tr.Parent.Data != "tbody" {
			continue
		}
		var cells []string
		for c := range tr.ChildNodes() {
			if c.Type == html.ElementNode {
				cells = append(cells, textOf(c))
			}
		}
		out = append(out, cells)
	}
	return out
}

func TestTablesHoldTheFigures(t *testing.T) {
	root := parse(t, render(t, document()))

	summary := rows(all(section(root, "summary"), "table")[0])
	want := [][]string{
		{"none", "124.74", "1.000", "0.5971", "31,934", "6.0", "17.0"},
		{"mq-deadline", "124.50", "0.998", "0.5969", "31,872", "6.0", "17.0"},
		{"kyber", "124.62", "0.999", "0.5971", "31,902", "6.0", "17.0"},
		{"bfq not met", "84.72", "0.679", "0.9746", "21,688", "6.0", "17.0"},
		{"iocost", "106.69", "0.855", "0.9980", "27,313", "6.0", "17.0"},
		{"kyber-fairness", "123.49", "0.990", "1.0000", "31,613", "6.0", "17.0"},
	}
	for i := range want {
		if !slices.Equal(summary[i], want[i]) {
			t.Errorf("summary row %d = %q, want %q", i, summary[i], want[i])
		}
	}

	tables := all(section(root, "figures"), "table")
	if len(tables) != 2 {
		t.Fatalf("%d tables of figures, want throughput and reads", len(tables))
	}
	throughput := rows(tables[0])
	if got, want := throughput[len(throughput)-5], []string{"kyber-fairness"}; !slices.Equal(got, want) {
		t.Errorf("last group %q, want %q", got, want)
	}
	if got, want := throughput[len(throughput)-1], []string{
		"w100", "100", "5.41", "5.42", "1.00", "6.69", "1,713", "1.5", "4.2",
	}; !slices.Equal(got, want) {
		t.Errorf("throughput %q, want %q", got, want)
	}
	latency := rows(tables[1])
	if got, want := latency[len(latency)-1], []string{
		"w100", "6.69", "1,713", "18.68", "18.12", "21.66", "26.15", "30.07", "36.61", "49.68",
	}; !slices.Equal(got, want) {
		t.Errorf("latency %q, want %q", got, want)
	}
}

// Where containers are compared with disks of their own there are two columns more.
func TestOwnDiskColumns(t *testing.T) {
	doc := document()
	r := &doc.Runs[len(doc.Runs)-1]
	r.OwnDiskLeast = new(0.456)
	r.Containers[len(r.Containers)-1].OwnDisk, r.Containers[len(r.Containers)-1].OwnDiskP99 = new(4.83), new(0.149)
	root := parse(t, render(t, doc))
	summary := rows(all(section(root, "summary"), "table")[0])
	if got := summary[len(summary)-1]; len(got) != 9 || got[4] != "0.46" || got[5] != missing {
		t.Errorf("summary %q", got)
	}
	throughput := rows(all(section(root, "figures"), "table")[0])
	if got := throughput[len(throughput)-1]; len(got) != 11 || got[5] != "4.83" || got[6] != "0.15" {
		t.Errorf("throughput %q", got)
	}
}

func TestFactsAreOnThePage(t *testing.T) {
	doc := document()
	page := textOf(parse(t, render(t, doc)))
	for _, want := range []string{
		doc.Question, doc.Answers, doc.Kernel, doc.Fio, doc.Unmet[0], doc.Runs[0].Device,
		doc.Runs[4].Settings[0], doc.Runs[4].Settings[1], doc.Runs[5].Settings[0],
		"isolio lab report-rand-read --kernel 6.1 " +
			"--schedulers none,mq-deadline,kyber,bfq,iocost,kyber-fairness --report report-rand-read.html",
		`"total_bytes_per_s": 130802483.2`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	doc.Runs[2].Device = "another disk"
	for _, device := range []string{doc.Runs[0].Device, "another disk"} {
		if !strings.Contains(textOf(section(parse(t, render(t, doc)), "settings")), device) {
			t.Errorf("devices differ, and the settings do not name %q", device)
		}
	}
}

func TestEveryPlotNamesItsAxes(t *testing.T) {
	// Quantities carry their unit in parentheses; the other axis is names.
	quantity := regexp.MustCompile(
		`^(share of all bytes|total (bytes|requests) per second|weighted Jain index|(p99 )?latency( of (reads|writes))?|largest share error) \(.+\)$`)
	names := regexp.MustCompile(`^(case|container|scheduler|percentile of (reads|writes))$`)
	for _, tt := range []struct {
		name  string
		doc   *result.Document
		plots int
	}{
		{"four containers", document(), 6 + 3 + 1 + 6},
		{"twenty containers, eight schedulers", crowd(20, 8), 8 + 3 + 1 + 8 + 8},
		{"two cases", cases(2, 3, "one", "two"), 3 + 2*(3+3+1+3+3)},
		{"a curve and a critical container", curve(), 8 + 3 + 2 + 8},
	} {
		var plots int
		for _, figure := range all(parse(t, render(t, tt.doc)), "figure") {
			plots++
			var quantities, categories int
			for _, words := range all(figure, "text") {
				if quantity.MatchString(textOf(words)) {
					quantities++
				}
				if names.MatchString(textOf(words)) {
					categories++
				}
			}
			wanted := 1
			if strings.Contains(attr(figure.Parent, "class"), "wide") { // a scatter
				wanted = 2
			}
			if quantities != wanted || quantities+categories != 2 {
				t.Errorf("%s: plot %q: %d axes with a unit and %d with names, want %d and %d",
					tt.name, textOf(all(figure, "figcaption")[0]), quantities, categories, wanted, 2-wanted)
			}
		}
		if plots != tt.plots {
			t.Errorf("%s: %d plots, want %d", tt.name, plots, tt.plots)
		}
	}
}

func TestPageLoadsNothing(t *testing.T) {
	page := render(t, crowd(3, 2))
	for _, n := range slices.Collect(parse(t, page).Descendants()) {
		if slices.Contains([]string{"script", "link", "img", "iframe", "image", "use", "object"}, n.Data) {
			t.Errorf("element <%s>", n.Data)
		}
		for _, a := range n.Attr {
			if a.Key == "src" || a.Key == "href" || a.Key == "xlink:href" {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
	}
	for _, no := range []string{"://", "url(", "@import", "@font-face"} {
		if strings.Contains(page, no) {
			t.Errorf("the page has %q", no)
		}
	}
}

func TestColoursComeFromTheStylesheet(t *testing.T) {
	page := render(t, crowd(20, 2))
	_, drawings, _ := strings.Cut(page, "</style>")
	if raw := regexp.MustCompile(`(fill|stroke):#[0-9A-Fa-f]+`).FindString(drawings); raw != "" {
		t.Errorf("a drawing has a colour of its own: %s", raw)
	}
	light, dark, _ := strings.Cut(pageCSS, "prefers-color-scheme: dark")
	for _, use := range regexp.MustCompile(`var\((--[a-z0-9]+)\)`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(light, use[1]+": #") || !strings.Contains(dark, use[1]+": #") {
			t.Errorf("%s is not defined for light and dark", use[1])
		}
	}
}

func TestHostileNames(t *testing.T) {
	const evil = `</text></svg><script>alert("x")</script><img src=x onerror='y'>{{.}} & "q"`
	doc := document()
	doc.Experiment, doc.Question, doc.Answers, doc.Kernel, doc.Fio = evil, evil, evil, evil, evil
	doc.Unmet = []string{evil}
	for i := range doc.Runs {
		doc.Runs[i].Scheduler += evil
		doc.Runs[i].Device = evil + doc.Runs[i].Scheduler
		doc.Runs[i].Settings = []string{evil}
		doc.Runs[i].Containers[0].Name = evil
	}
	root := parse(t, render(t, doc))
	if n := len(all(root, "script")) + len(all(root, "img")); n > 0 {
		t.Errorf("%d elements came out of names", n)
	}
	if got := textOf(all(root, "h1")[0]); got != evil {
		t.Errorf("question = %q", got)
	}
	if got, want := len(all(root, "figure")), 6+3+1+6; got != want {
		t.Errorf("%d plots, want %d", got, want)
	}
	var named bool
	for _, svg := range all(root, "svg") {
		named = named || attr(svg, "aria-label") == "Share of all bytes of each container under none"+evil
	}
	if !named {
		t.Error("no plot is labelled with the scheduler's name, letter by letter")
	}
}

func TestSameDocumentSameBytes(t *testing.T) {
	first := render(t, crowd(20, 8))
	for range 3 {
		if render(t, crowd(20, 8)) != first {
			t.Fatal("two pages of one document differ")
		}
	}
	if render(t, crowd(20, 7)) == first {
		t.Fatal("pages of two documents do not differ")
	}
}

func TestUnusualDocuments(t *testing.T) {
	one := func(reads, writes float64) *result.Document {
		doc := document()
		doc.Unmet = nil
		doc.Runs = []result.Run{run("kyber", 0, tenant{name: "only", weight: 100, reads: reads, writes: writes, depth: 4})}
		return doc
	}
	half := document() // iocost completed nothing
	half.Runs[4] = run("iocost", 0, tenant{name: "w1000", weight: 1000}, tenant{name: "w500", weight: 500})
	bare := &result.Document{Runs: []result.Run{{Scheduler: "none"}}}
	for _, tt := range []struct {
		name     string
		doc      *result.Document
		sections []string // of latency
		says     string
	}{
		{"reads only", one(900, 0), []string{"reads"}, "did not run, so there is no total to compare with"},
		{"writes only", one(0, 900), []string{"writes"}, "percentile of writes"},
		{"reads and writes", one(500, 400), []string{"reads", "writes"}, "Figure 2 Latency of writes"},
		{"no throughput", one(0, 0), nil, "0.0000"},
		{"one run of many without throughput", half, []string{"reads"}, "no reads completed"},
		{"no containers", bare, nil, "Weighted Jain index"},
		{"nine containers", crowd(9, 1), []string{"reads", "writes"}, "the dot is the maximum"},
		{"eight containers", crowd(8, 1), []string{"reads", "writes"}, "slightly apart sideways"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page := render(t, tt.doc)
			root := parse(t, page)
			for _, dir := range []string{"reads", "writes"} {
				if got, want := section(root, "latency-"+dir) != nil, slices.Contains(tt.sections, dir); got != want {
					t.Errorf("latency of %s shown: %v, want %v", dir, got, want)
				}
			}
			if words := strings.Join(strings.Fields(textOf(root)), " "); !strings.Contains(words, tt.says) {
				t.Errorf("the page does not say %q", tt.says)
			}
			if bad := regexp.MustCompile(`NaN|[-+]Inf|%!`).FindString(page); bad != "" {
				t.Errorf("the page has %q", bad)
			}
		})
	}
}

// One contender has nothing to be compared with, and one container has all: no figure shows that.
func TestFiguresThatSayNothing(t *testing.T) {
	for _, tt := range []struct {
		name         string
		doc          *result.Document
		share, total bool
	}{
		{"several of both", document(), true, true},
		{"one contender", crowd(3, 1), true, false},
		{"one container", crowd(1, 3), false, true},
		{"one of each", crowd(1, 1), false, false},
	} {
		root := parse(t, render(t, tt.doc))
		if got := section(root, "total") != nil; got != tt.total {
			t.Errorf("%s: totals shown: %t", tt.name, got)
		}
		if got := section(root, "share") != nil; got != tt.share {
			t.Errorf("%s: shares shown: %t", tt.name, got)
		}
	}
}

// TestNoLatencyWithoutRequests: a direction that completed nothing has zeros
// for latencies in the document, which are not latencies.
func TestNoLatencyWithoutRequests(t *testing.T) {
	doc := document()
	doc.Runs[3].Containers[3].Read = &result.Direction{}
	table := all(section(parse(t, render(t, doc)), "figures"), "table")[1]
	got := rows(table)[3*5+4]
	if want := []string{"w100", "0.00", "0", "–", "–", "–", "–", "–", "–", "–"}; !slices.Equal(got, want) {
		t.Errorf("row %q, want %q", got, want)
	}
}

// Calls of fsync have a figure of their own, and no bytes.
func TestLatencyOfFsyncs(t *testing.T) {
	doc := document()
	if section(parse(t, render(t, doc)), "latency-fsyncs") != nil {
		t.Error("the page has latencies of fsyncs, and there were none")
	}
	doc.Runs[3].Containers[3].Sync = &result.Direction{IOPS: 40, Lat: result.Latency{Mean: 25e3, P50: 20e3, P99: 90e3, Max: 91e3}}
	root := parse(t, render(t, doc))
	if section(root, "latency-fsyncs") == nil {
		t.Fatal("the page has no latencies of fsyncs")
	}
	words := strings.Join(strings.Fields(textOf(section(root, "figures"))), " ")
	if want := "w100–4025.0020.00"; !strings.Contains(words, want) {
		t.Errorf("no %q in %q", want, words)
	}
}

func TestRefusedDocuments(t *testing.T) {
	nan := document()
	nan.Runs[1].Containers[0].Share = math.NaN()
	for name, doc := range map[string]*result.Document{"no runs": {}, "NaN": nan} {
		var b bytes.Buffer
		if err := Render(&b, doc); err == nil || b.Len() > 0 {
			t.Errorf("%s: error %v after %d bytes, want an error and nothing written", name, err, b.Len())
		}
	}
}

func TestUnmetMarksItsSchedulerOnly(t *testing.T) {
	doc := document()
	doc.Unmet, doc.Verdicts = nil, nil
	expect(doc, "kyber-fairness", 0.85, false)
	expect(doc, "kyber", 0.95, true)
	for _, row := range rows(all(section(parse(t, render(t, doc)), "summary"), "table")[0]) {
		if got, want := strings.Contains(row[0], "not met"), strings.HasPrefix(row[0], "kyber-fairness"); got != want {
			t.Errorf("%s: marked %v, want %v", row[0], got, want)
		}
	}
	table := rows(all(section(parse(t, render(t, doc)), "expectations"), "table")[0])
	if want := [][]string{
		{"kyber-fairness: total_vs_none", ">= 0.9", "0.85", "no"}, {"kyber: total_vs_none", ">= 0.9", "0.95", "yes"},
	}; !reflect.DeepEqual(table, want) {
		t.Errorf("expectations %q, want %q", table, want)
	}
	doc.Unmet, doc.Verdicts = nil, nil
	root := parse(t, render(t, doc))
	if section(root, "unmet") != nil || section(root, "expectations") != nil {
		t.Error("a box for expectations without any")
	}
}

// Each case has sections, figures and containers of its own.
func TestCases(t *testing.T) {
	doc := cases(2, 3, "shallow", "deep")
	doc.Verdicts = []result.Verdict{{Case: "deep", Scheduler: "scheduler-2", Metric: "total_iops", Wanted: ">= 1"}}
	root := parse(t, render(t, doc))
	seen := map[string]bool{}
	for n := range root.Descendants() {
		if id := attr(n, "id"); id != "" && seen[id] {
			t.Errorf("two elements have the id %s", id)
		} else if id != "" {
			seen[id] = true
		}
	}
	for i, containers := range []int{2, 3} {
		prefix := fmt.Sprintf("case-%d-", i+1)
		summary := rows(all(section(root, prefix+"summary"), "table")[0])
		if len(summary) != 3 {
			t.Errorf("%s: %d runs, want 3", prefix, len(summary))
		}
		if got, want := strings.Contains(summary[1][0], "not met"), i == 1; got != want {
			t.Errorf("%s: marked %t, want %t", prefix, got, want)
		}
		if throughput := rows(all(section(root, prefix+"figures"), "table")[0]); len(throughput) != 3*(1+containers) {
			t.Errorf("%s: %d rows of throughput, want %d", prefix, len(throughput), 3*(1+containers))
		}
	}
	words := strings.Join(strings.Fields(textOf(root)), " ")
	for _, want := range []string{
		"Case shallow modeldisk shallow", "Case deep modeldisk deep", "Figure 10 Latency of writes", "Figure 11 From case to case", "--cases shallow,deep",
		"deep: scheduler-3", "the disk: reads 12,345, write_amplification 1.250",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if section(parse(t, render(t, document())), "across") != nil {
		t.Error("a figure from case to case without cases")
	}
}

// From case to case, a line has a corner for each case, in proportion.
func TestAcrossCases(t *testing.T) {
	doc := cases(2, 3, "one", "two", "three")
	figures := all(section(parse(t, render(t, doc)), "across"), "figure")
	if len(figures) != 3 { // nothing to divide by none
		t.Fatalf("%d panels, want bytes, requests and fairness", len(figures))
	}
	var lines []shape
	for _, s := range shapes(t, figures[0], stroked) {
		if len(s.xs) == 3 {
			lines = append(lines, s)
		}
	}
	if len(lines) != 3 {
		t.Fatalf("%d lines with a corner for each case, want one for each scheduler", len(lines))
	}
	of := func(i, j int) float64 { return doc.Runs[3*j+i].TotalBytesPS }
	perByte := (lines[2].xs[2] - lines[0].xs[0]) / (of(2, 2) - of(0, 0))
	for i, line := range lines {
		for j := range line.xs {
			if want := lines[0].xs[0] + (of(i, j)-of(0, 0))*perByte; math.Abs(line.xs[j]-want) > 0.1 {
				t.Errorf("scheduler %d, case %d: at %.2f, want %.2f", i, j, line.xs[j], want)
			}
			if j > 0 && line.ys[j] >= line.ys[j-1] {
				t.Errorf("scheduler %d: case %d is not below the one before: %v", i, j, line.ys)
			}
		}
	}
}

// A critical container adds its latencies, its CPU and what the others get.
func TestAcrossCasesOfACriticalContainer(t *testing.T) {
	doc := cases(2, 3, "one", "two")
	doc.Critical = doc.Runs[0].Containers[0].Name
	var names []string
	for _, f := range all(section(parse(t, render(t, doc)), "across"), "figure") {
		names = append(names, strings.TrimSpace(textOf(all(f, "figcaption")[0])))
	}
	of := doc.Critical
	want := []string{
		"Bytes", "Requests", "Fairness",
		"Latency of " + of + ", mean", "Latency of " + of + ", p99.9", "Latency of " + of + ", p99.99", "CPU of " + of, "Others",
	}
	if !slices.Equal(names, want) {
		t.Errorf("panels %q, want %q", names, want)
	}
}

// Where the others once ran without it, the page says what they lose to it.
func TestWhatOthersLose(t *testing.T) {
	doc := cases(2, 3, "alone", "together")
	doc.Critical = doc.Runs[0].Containers[0].Name
	doc.Runs = doc.Runs[2:] // one without it is enough
	alone := &doc.Runs[0]
	alone.Containers = alone.Containers[1:]
	var lost *html.Node
	for _, f := range all(section(parse(t, render(t, doc)), "across"), "figure") {
		if strings.Contains(textOf(all(f, "figcaption")[0]), "of what they do alone") {
			lost = f
		}
	}
	if lost == nil {
		t.Fatal("no panel of what others lose")
	}
	b := newBuilder(doc)
	if got, want := b.othersAlone(), b.others(alone); got != want || want <= 0 {
		t.Errorf("alone they get %v, want %v", got, want)
	}
	doc.Runs = append(doc.Runs, *alone)
	if got := newBuilder(doc).othersAlone(); !math.IsNaN(got) {
		t.Errorf("with two runs without the critical container: %v, want none", got)
	}
}

func TestCommand(t *testing.T) {
	doc := document()
	doc.Runs = doc.Runs[:1]
	doc.Experiment = "it's mine"
	doc.Kernel = "unknown"
	line := func(opts ...Option) string {
		return textOf(all(section(parse(t, render(t, doc, opts...)), "reproduce"), "pre")[0])
	}
	if got, want := line(), `isolio lab 'it'\''s mine' --schedulers none --report 'it'\''s mine.html'`; got != want {
		t.Errorf("command %q, want %q", got, want)
	}
	if got, want := line(Command("isolio bench x.toml")), "isolio bench x.toml"; got != want {
		t.Errorf("command %q, want %q", got, want)
	}
}
