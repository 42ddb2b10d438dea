// SPDX-License-Identifier: MIT

package report

import (
	"encoding/xml"
	"regexp"
	"strings"
	"testing"

	"isolio/internal/lab/result"
)

// A picture has all its colours as attributes, for viewers without style sheets, and another
// for a dark page.
func TestPictureHasItsColours(t *testing.T) {
	got := string(standalone(`<svg class="plot" width="1"><path style="fill:var(--c0)"/><path style="fill:none;stroke:var(--grid);stroke-width:0.8"/><text style="font-family:Liberation Sans;fill:var(--ink)">&amp;</text></svg>`))
	if err := xml.Unmarshal([]byte(got), new(any)); err != nil && !strings.Contains(err.Error(), "unknown type") {
		t.Errorf("no XML: %v\n%s", err, got)
	}
	if !strings.HasPrefix(got, `<svg xmlns="http://www.w3.org/2000/svg" width="1">`) {
		t.Errorf("no SVG file: %.80s", got)
	}
	if strings.Contains(got, "var(") {
		t.Errorf("it has variables, which rsvg-convert draws black:\n%s", got)
	}
	classes := regexp.MustCompile(`(fill|stroke)="#[0-9a-f]{6}" class="([a-z0-9-]+)"`).FindAllStringSubmatch(got, -1)
	if len(classes) != 4 {
		t.Errorf("it has %q, want the paper and three more", classes)
	}
	for _, c := range classes {
		if !strings.Contains(got, "."+c[2]+" { "+c[1]+": #") {
			t.Errorf("%s has no colour on a dark page", c[2])
		}
	}
}

// A bar against a disk of its own is as long as the rate, up to the longest, and says it.
func TestOwnDisk(t *testing.T) {
	run := func(name string, web, bulk float64) result.Run {
		return result.Run{Scheduler: name, TotalVsNone: new(0.5), Containers: []result.Container{
			{Name: "web", Weight: 800, OwnDisk: new(web)}, {Name: "bulk", Weight: 200, OwnDisk: new(bulk)},
		}}
	}
	doc := &result.Document{Experiment: "x", Runs: []result.Run{run("none", 0.41, 4.83), run("kyber-fairness", 1, 1.5)}}
	svg, err := OwnDisk(doc, Picture{Contenders: []string{"kyber-fairness", "none"}, Title: "Beside reads", Alt: "web & bulk"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">Beside reads<", ">web (weight 800)<", ">isolio (kyber-fairness)<", ">0.41<", ">→ 4.83<", ">total 0.50<", "web &amp; bulk"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	// The page has it first where the experiment asks for disks of their own.
	for _, metric := range []string{"share_error_pct", "own_disk_least"} {
		doc.Verdicts = []result.Verdict{{Metric: metric, Met: true}}
		if got := strings.Contains(render(t, doc), "Rates against disks of their own"); got != (metric == "own_disk_least") {
			t.Errorf("%s: %v", metric, got)
		}
	}
	doc.Runs[1].Containers[0].OwnDisk = nil
	if _, err := OwnDisk(doc, Picture{}); err == nil || !strings.Contains(err.Error(), "kyber-fairness lacks the rate of web") {
		t.Errorf("error %v", err)
	}
}
