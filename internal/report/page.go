// SPDX-License-Identifier: MIT

package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"

	"isolio/internal/result"
)

// page is what page.html prints: text that is ready to read, and drawings.
type page struct {
	CSS        template.CSS
	Experiment string
	Question   string
	Answers    string
	Kernel     string
	Fio        string
	Device     string // of all runs; "" where they differ
	Unmet      []string
	BytesUnit  string
	LatUnit    string
	HasNone    bool
	HasIocost  bool
	Runs       []runRow
	Share      []panel
	Total      []panel
	Legend     []legendEntry // of the curves; none where rows are named
	LatCaption string
	Latencies  []latencySection
	Command    string
	JSON       string
}

// runRow is one contender in the tables.
type runRow struct {
	Scheduler  string
	Device     string
	Settings   []string
	Bytes      string
	IOPS       string
	VsNone     string
	Jain       string
	CPUUser    string
	CPUSystem  string
	Unmet      bool // an expectation of this contender was not met
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
	doc   *result.Document
	index map[string]int // container name -> colour, by first appearance
	names []result.Container
	bytes scale
	iops  scale
	lat   scale
}

func newBuilder(doc *result.Document) *builder {
	b := &builder{doc: doc, index: map[string]int{}}
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
			if _, seen := b.index[c.Name]; !seen {
				b.index[c.Name] = len(b.names)
				b.names = append(b.names, *c)
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
		Device:     b.device(),
		Unmet:      doc.Unmet,
		BytesUnit:  b.bytes.unit,
		LatUnit:    b.lat.unit,
		HasNone:    b.none() != nil,
		Runs:       b.runRows(),
		Command:    o.command,
		JSON:       string(text),
	}
	if p.Command == "" {
		p.Command = b.command()
	}
	for _, run := range doc.Runs {
		p.HasIocost = p.HasIocost || run.Scheduler == "iocost"
	}
	if p.Share, err = b.sharePanels(); err != nil {
		return nil, err
	}
	if p.Total, err = b.totalPanels(); err != nil {
		return nil, err
	}
	p.LatCaption = curvesCaption
	if b.crowded() {
		p.LatCaption = spreadCaption
	} else if p.Legend, err = b.legend(); err != nil {
		return nil, err
	}
	if p.Latencies, err = b.latencySections(); err != nil {
		return nil, err
	}
	return p, nil
}

// none returns the run without a scheduler, nil if there was none.
func (b *builder) none() *result.Run {
	for i := range b.doc.Runs {
		if b.doc.Runs[i].Scheduler == "none" {
			return &b.doc.Runs[i]
		}
	}
	return nil
}

// device returns the device that all runs used, "" where they differ.
func (b *builder) device() string {
	device := b.doc.Runs[0].Device
	for _, run := range b.doc.Runs {
		if run.Device != device {
			return ""
		}
	}
	return device
}

func (b *builder) runRows() []runRow {
	rows := make([]runRow, len(b.doc.Runs))
	for i, run := range b.doc.Runs {
		row := runRow{
			Scheduler: run.Scheduler,
			Device:    run.Device,
			Settings:  run.Settings,
			Bytes:     b.bytes.format(run.TotalBytesPS),
			IOPS:      b.iops.format(run.TotalIOPS),
			VsNone:    missing,
			Jain:      fixed(run.JainWeighted, 4),
			CPUUser:   fixed(run.CPUUserPct, 1),
			CPUSystem: fixed(run.CPUSystemPct, 1),
			Unmet:     b.unmet(run.Scheduler),
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

// unmet says whether a line about an unmet expectation begins with the
// contender's name.
func (b *builder) unmet(scheduler string) bool {
	for _, line := range b.doc.Unmet {
		if strings.HasPrefix(line, scheduler+":") {
			return true
		}
	}
	return false
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
		if latencyExtent(b.doc.Runs, dir).empty() {
			continue
		}
		s := latencySection{Number: 3 + len(sections), Name: dir.name, Heads: []string{"mean"}}
		for _, pct := range percentiles {
			s.Heads = append(s.Heads, pct.name)
		}
		var err error
		if s.Panels, err = b.latencyPanels(dir); err != nil {
			return nil, err
		}
		for r := range b.doc.Runs {
			s.Groups = append(s.Groups, b.latencyGroup(&b.doc.Runs[r], dir))
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
			row.Bytes, row.IOPS = b.bytes.format(d.BytesPS), b.iops.format(d.IOPS)
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
// tells: an experiment's file has the experiment's name.
func (b *builder) command() string {
	var names []string
	for _, run := range b.doc.Runs {
		names = append(names, run.Scheduler)
	}
	words := []string{"isolio", "lab", quote("experiments/" + b.doc.Experiment + ".toml")}
	if line := kernelLine.FindString(b.doc.Kernel); line != "" {
		words = append(words, "--kernel", line)
	}
	words = append(words,
		"--schedulers", quote(strings.Join(names, ",")),
		"--report", quote(b.doc.Experiment+".html"))
	return strings.Join(words, " ")
}

// quote makes word one word of a shell's command line.
func quote(word string) string {
	if bareWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
