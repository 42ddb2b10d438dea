// SPDX-License-Identifier: MIT

package profile

import (
	"strings"
	"testing"
	"time"

	"isolio/internal/page/pagetest"
)

// The page is well-formed, whatever the disk calls itself, and has a curve of each load in two
// charts, with its knee.
func TestHTML(t *testing.T) {
	load := func(name string, block int, knee int) Load {
		l := Load{Name: name, Kind: Kind{Random: true, ReadPct: 100, BlockBytes: block}, KneeDepth: knee}
		for depth := 1; depth <= 8; depth *= 2 {
			l.Points = append(l.Points, Point{Depth: depth, IOPS: 100 * float64(depth), LowIOPS: 90, BytesPS: 1e6 * float64(depth), Read: &Latency{P99: 10 * float64(depth)}})
		}
		return l
	}
	p := &Profile{
		Disk: Disk{Name: "sda", Model: `</h1><script>alert(1)</script>` + "\x1b[2J", Identity: "wwid-1"}, Scheduler: "none", MeasuredAt: time.Unix(0, 0).UTC(),
		Loads: []Load{load("randread-4k", 4096, 4), load("randwrite-4k", 4096, 0), load("read-128k", 128<<10, 2)}, Notes: []string{"<b>"},
	}
	var b strings.Builder
	if err := p.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	elements := map[string]int{}
	for _, e := range pagetest.Elements(t, b.String()) {
		elements[e.Name.Local]++
	}
	// Each of 12 points in two charts, and two knees in both.
	if elements["polyline"] != 6 || elements["circle"] != 2*12+2*2 || elements["script"]+elements["b"] != 0 || strings.Contains(b.String(), "\x1b") {
		t.Errorf("%v in\n%s", elements, b.String())
	}
	for _, want := range []string{"randwrite-4k: 800 IOPS, 7.6 MiB/s at depth 8, and still growing", "read-128k: 200 IOPS, 1.9 MiB/s at depth 2<"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}
