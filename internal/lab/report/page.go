// SPDX-License-Identifier: MIT

package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// page is what page.html prints: text that is ready to read, and drawings.
type page struct {
	CSS        template.CSS
	Experiment string
	Question   string
	Answer     []string // sentences
	Answers    string
	Kernel     string
	Fio        string
	Device     string // of all runs; "" where they differ
	Unmet      []string
	Verdicts   []verdictRow
	ShareOf    string // what shares are of: bytes, requests, disk time
	ByTime     bool   // shares are of the disk's time
	BytesUnit  string
	LatUnit    string
	HasIocost  bool
	HasOwnDisk bool                 // in any case
	Across     *acrossSection       // nil for a document of one case
	Spread     *distributionSection // nil unless a disk has delay counts
	Cases      []casePage
	Command    string
	JSON       string
}

// casePage is what the page says of one case.
type casePage struct {
	Name       string // "" for a document without cases
	Prefix     string // of the identifiers of its sections
	Device     string // of its runs; "" where they differ, or are all of the page
	HasNone    bool
	HasOwnDisk bool          // its containers are compared with disks of their own
	Picture    template.HTML // rates over own disks, or totals and shares; "" where there is neither
	OwnPicture bool          // it is the first
	Pictured   int           // its number
	Runs       []runRow
	Share      figure        // without panels: the case has one container
	Total      figure        // without panels: it has one contender
	Trade      *tradeSection // nil: nothing to compare
	Sweeps     []sweepSection
	Legend     []legendEntry // of the curves; none where rows are named
	LatCaption string
	Latencies  []latencySection
	Series     *seriesSection // rates over time; nil where none were sampled
}

// figure is a numbered row of panels.
type figure struct {
	Number int
	Panels []panel
}

// verdictRow is one expectation and what came.
type verdictRow struct {
	Of, Wanted, Got string
	Met             bool
}

// runRow is one contender in the tables.
type runRow struct {
	Case       string
	Scheduler  string
	Device     string
	Settings   []string
	Bytes      string
	IOPS       string
	VsNone     string
	Jain       string
	CPUUser    string
	CPUSystem  string
	Stat       string    // what the disk counted
	OwnDisk    [2]string // the least rate and the highest p99 over those on disks of their own
	Unmet      bool      // an expectation of this contender was not met
	Containers []containerRow
}

type containerRow struct {
	Name      string
	Weight    string
	Entitled  string
	Share     string
	OfShare   string // share over entitled share
	Bytes     string
	IOPS      string
	CPUUser   string
	CPUSystem string
	OwnDisk   [2]string // rate and p99 over those on a disk of its own
}

// legendEntry names a container beside a sample of its line.
type legendEntry struct {
	Name   string
	Weight string
	SVG    template.HTML
}

// latencySection is the figure and the table of reads or of writes.
type latencySection struct {
	Number int // of the figure
	Name   string
	Panels []panel
	Heads  []string // of the latency columns
	Groups []latencyGroup
}

type latencyGroup struct {
	Scheduler string
	Rows      []latencyRow
}

type latencyRow struct {
	Name  string
	Bytes string
	IOPS  string
	Lat   []string
}

// missing stands in tables where there is no figure.
const missing = "–"

// What the latency figures' captions say about their drawing.
const (
	curvesCaption = "Lower is faster. Lines are set slightly apart sideways."
	spreadCaption = "Further left is faster. The line of a container starts at its median (p50) and gets " +
		"thinner at p90, p99 and p99.9; it ends at p99.99, and the dot is the maximum."
)

// builder turns a document into a page. Its scales are chosen once, so that
// one quantity has one unit all over the page.
type builder struct {
	doc    *result.Document
	runs   []result.Run   // of the case that is built
	index  map[string]int // container name -> colour, by first appearance
	names  []result.Container
	bytes  scale
	iops   scale
	lat    scale
	number int // of the last figure
}

func newBuilder(doc *result.Document) *builder {
	b := &builder{doc: doc}
	var bytesPS, iops extent
	for _, run := range doc.Runs {
		bytesPS.add(run.TotalBytesPS)
		iops.add(run.TotalIOPS)
		for i := range run.Containers {
			c := &run.Containers[i]
			bytesPS.add(c.BytesPS)
			iops.add(c.IOPS)
			for _, dir := range directions {
				if d := dir.of(c); d != nil {
					bytesPS.add(d.BytesPS)
					iops.add(d.IOPS)
				}
			}
		}
	}
	b.bytes = bytesScale(bytesPS)
	b.iops = iopsScale(iops)
	b.lat = latencyScale(latencyExtent(doc.Runs, directions...))
	return b
}

// newPage says everything that the page says; the template only places it.
func newPage(doc *result.Document, o options) (*page, error) {
	if len(doc.Runs) == 0 {
		return nil, errors.New("the document has no runs: nothing to show")
	}
	// Encoding also refuses what no plot can show: NaN and infinity.
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("document: %w", err)
	}
	b := newBuilder(doc)
	p := &page{
		CSS:        template.CSS(pageCSS), //nolint:gosec // our own file
		Experiment: doc.Experiment,
		Question:   doc.Question,
		Answers:    doc.Answers,
		Kernel:     doc.Kernel,
		Fio:        doc.Fio,
		Device:     device(doc.Runs),
		Answer:     doc.Answer(),
		Unmet:      doc.Unmet,
		Verdicts:   verdicts(doc),
		ShareOf:    shareOf(doc.ShareUnit),
		ByTime:     doc.ShareUnit == experiment.UnitDeviceTime,
		BytesUnit:  b.bytes.unit,
		LatUnit:    b.lat.unit,
		Command:    o.command,
		JSON:       string(text),
	}
	if p.Command == "" {
		p.Command = b.command()
	}
	for _, run := range doc.Runs {
		p.HasIocost = p.HasIocost || family(&run) == "iocost"
	}
	for i, name := range doc.Cases() {
		k, err := b.casePage(i, name)
		if err != nil {
			return nil, err
		}
		if p.Device != "" {
			k.Device = ""
		}
		p.HasOwnDisk = p.HasOwnDisk || k.HasOwnDisk
		p.Cases = append(p.Cases, *k)
	}
	if len(doc.Cases()) > 1 {
		if p.Across, err = b.across(); err != nil {
			return nil, err
		}
	}
	if asksForDelays(doc) {
		if p.Spread, err = b.distributions(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// asksForDelays reports whether the experiment is about delay counts: it expects
// something of them, or of the starvation guard.
func asksForDelays(doc *result.Document) bool {
	return slices.ContainsFunc(doc.Verdicts, func(v result.Verdict) bool {
		return strings.HasPrefix(v.Metric, experiment.DelayCount) || strings.HasPrefix(v.Metric, experiment.GuardStat)
	})
}

// casePage turns to a case, and says what the page says of it.
func (b *builder) casePage(i int, name string) (*casePage, error) {
	b.turn(b.doc.In(name))
	k := &casePage{Name: name, Device: device(b.runs), HasNone: b.none() != nil, Runs: b.runRows()}
	k.HasOwnDisk = slices.ContainsFunc(b.runs, func(r result.Run) bool {
		return slices.ContainsFunc(r.Containers, func(c result.Container) bool { return c.OwnDisk != nil })
	})
	if name != "" {
		k.Prefix = fmt.Sprintf("case-%d-", i+1)
	}
	var err error
	// What the experiment asks for comes first.
	if own, lacks := ownDisk(b.runs, Picture{Alt: "Rate of each container over that on a disk of its own"}); lacks == nil && b.doc.AsksForOwnDisks() {
		k.Picture, k.Pictured, k.OwnPicture = own, b.next(), true
	} else if sp := newSharePicture(b.runs); sp != nil {
		if k.Picture, err = sp.draw("Total of each scheduler against none, and each container's part of it"); err != nil {
			return nil, err
		}
		k.Pictured = b.next()
	}
	// A container alone has all, and a contender alone costs nothing.
	if slices.ContainsFunc(b.runs, func(r result.Run) bool { return len(r.Containers) > 1 }) {
		if k.Share.Panels, err = b.sharePanels(); err != nil {
			return nil, err
		}
		k.Share.Number = b.next()
	}
	if len(b.runs) > 1 {
		if k.Total.Panels, err = b.totalPanels(); err != nil {
			return nil, err
		}
		k.Total.Number = b.next()
	}
	if k.Trade, err = b.trade(); err != nil {
		return nil, err
	}
	if k.Sweeps, err = b.sweeps(); err != nil {
		return nil, err
	}
	k.LatCaption = curvesCaption
	if b.crowded() {
		k.LatCaption = spreadCaption
	} else if k.Legend, err = b.legend(); err != nil {
		return nil, err
	}
	if k.Latencies, err = b.latencySections(); err == nil && b.hasSeries() {
		k.Series, err = b.seriesSection()
	}
	return k, err
}

// turn makes runs those that are built.
func (b *builder) turn(runs []result.Run) {
	b.runs, b.index, b.names = runs, map[string]int{}, nil
	for _, run := range runs {
		for _, c := range run.Containers {
			if _, seen := b.index[c.Name]; !seen {
				b.index[c.Name] = len(b.names)
				b.names = append(b.names, c)
			}
		}
	}
}

// next is the next figure's number.
func (b *builder) next() int {
	b.number++
	return b.number
}

func verdicts(doc *result.Document) []verdictRow {
	rows := make([]verdictRow, len(doc.Verdicts))
	for i, v := range doc.Verdicts {
		rows[i] = verdictRow{Of: result.Label(v.Case, v.Scheduler) + ": " + v.Metric, Wanted: v.Wanted, Got: missing, Met: v.Met}
		if v.Got != nil {
			rows[i].Got = experiment.Figure(*v.Got)
		}
	}
	return rows
}

// none returns the run without a scheduler, nil if there was none.
func (b *builder) none() *result.Run {
	for i := range b.runs {
		if b.runs[i].Scheduler == "none" {
			return &b.runs[i]
		}
	}
	return nil
}

// device returns the device that all runs used, "" where they differ.
func device(runs []result.Run) string {
	for _, run := range runs {
		if run.Device != runs[0].Device {
			return ""
		}
	}
	return runs[0].Device
}

func (b *builder) runRows() []runRow {
	rows := make([]runRow, len(b.runs))
	for i, run := range b.runs {
		row := runRow{
			Case:      run.Case,
			Scheduler: run.Scheduler,
			Device:    run.Device,
			Settings:  run.Settings,
			Bytes:     b.bytes.format(run.TotalBytesPS),
			IOPS:      b.iops.format(run.TotalIOPS),
			VsNone:    missing,
			Jain:      fixed(run.JainWeighted, 4),
			CPUUser:   fixed(run.CPUUserPct, 1),
			CPUSystem: fixed(run.CPUSystemPct, 1),
			OwnDisk:   [2]string{quotient(run.OwnDiskLeast), quotient(run.OwnDiskP99Most)},
			Unmet:     b.unmet(&run),
			Stat:      stat(run.DeviceStat),
		}
		if run.TotalVsNone != nil {
			row.VsNone = ratio(*run.TotalVsNone)
		}
		for _, c := range run.Containers {
			cr := containerRow{
				Name:      c.Name,
				Weight:    strconv.Itoa(c.Weight),
				Entitled:  percent(c.EntitledShare),
				Share:     percent(c.Share),
				OfShare:   missing,
				Bytes:     b.bytes.format(c.BytesPS),
				IOPS:      b.iops.format(c.IOPS),
				CPUUser:   fixed(c.CPUUserPct, 1),
				CPUSystem: fixed(c.CPUSystemPct, 1),
				OwnDisk:   [2]string{quotient(c.OwnDisk), quotient(c.OwnDiskP99)},
			}
			if c.EntitledShare > 0 {
				cr.OfShare = fixed(c.Share/c.EntitledShare, 2)
			}
			row.Containers = append(row.Containers, cr)
		}
		rows[i] = row
	}
	return rows
}

// quotient is one that may not be known.
func quotient(v *float64) string {
	if v == nil {
		return missing
	}
	return fixed(*v, 2)
}

// stat lists what a disk counted, as far as there was anything of it.
func stat(of map[string]float64) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if of[name] != 0 {
			words = append(words, name+" "+fixed(of[name], decimals(of[name])))
		}
	}
	return strings.Join(words, ", ")
}

func decimals(v float64) int {
	if v == math.Trunc(v) {
		return 0
	}
	return 3
}

// unmet says whether an expectation of the run was not met.
func (b *builder) unmet(run *result.Run) bool {
	return slices.ContainsFunc(b.doc.Verdicts, func(v result.Verdict) bool {
		return !v.Met && v.Case == run.Case && v.Scheduler == run.Scheduler
	})
}

func (b *builder) legend() ([]legendEntry, error) {
	entries := make([]legendEntry, len(b.names))
	for i, c := range b.names {
		svg, err := sample(i, c.Name)
		if err != nil {
			return nil, err
		}
		entries[i] = legendEntry{Name: c.Name, Weight: strconv.Itoa(c.Weight), SVG: svg}
	}
	return entries, nil
}

// latencySections leaves out a direction that no container used.
func (b *builder) latencySections() ([]latencySection, error) {
	var sections []latencySection
	for _, dir := range directions {
		if latencyExtent(b.runs, dir).empty() {
			continue
		}
		s := latencySection{Number: b.next(), Name: dir.name, Heads: []string{"mean"}}
		for _, pct := range percentiles {
			s.Heads = append(s.Heads, pct.name)
		}
		var err error
		if s.Panels, err = b.latencyPanels(dir); err != nil {
			return nil, err
		}
		for r := range b.runs {
			s.Groups = append(s.Groups, b.latencyGroup(&b.runs[r], dir))
		}
		sections = append(sections, s)
	}
	return sections, nil
}

func (b *builder) latencyGroup(run *result.Run, dir direction) latencyGroup {
	g := latencyGroup{Scheduler: run.Scheduler}
	for i := range run.Containers {
		c := &run.Containers[i]
		row := latencyRow{Name: c.Name, Bytes: missing, IOPS: missing}
		d := dir.of(c)
		if d != nil {
			row.IOPS = b.iops.format(d.IOPS)
			if d.BytesPS > 0 || d.IOPS == 0 { // calls of fsync have none
				row.Bytes = b.bytes.format(d.BytesPS)
			}
		}
		if measured(d) {
			row.Lat = append(row.Lat, b.lat.format(d.Lat.Mean))
			for _, pct := range percentiles {
				row.Lat = append(row.Lat, b.lat.format(pct.of(d.Lat)))
			}
		} else {
			for range len(percentiles) + 1 {
				row.Lat = append(row.Lat, missing)
			}
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

var (
	kernelLine = regexp.MustCompile(`^[0-9]+\.[0-9]+`)
	bareWord   = regexp.MustCompile(`^[A-Za-z0-9_./,-]+$`)
)

// command is the line that runs the experiment again, as far as the document
// tells.
func (b *builder) command() string {
	var names []string
	for _, run := range b.doc.Runs {
		if !slices.Contains(names, run.Scheduler) {
			names = append(names, run.Scheduler)
		}
	}
	words := []string{"isolio", "lab", quote(b.doc.Experiment)}
	if line := kernelLine.FindString(b.doc.Kernel); line != "" {
		words = append(words, "--kernel", line)
	}
	words = append(words,
		"--schedulers", quote(strings.Join(names, ",")))
	if cases := b.doc.Cases(); cases[0] != "" {
		words = append(words, "--cases", quote(strings.Join(cases, ",")))
	}
	words = append(words, "--report", quote(b.doc.Experiment+".html"))
	return strings.Join(words, " ")
}

// quote makes word one word of a shell's command line.
func quote(word string) string {
	if bareWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
