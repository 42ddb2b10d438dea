// SPDX-License-Identifier: MIT

package experiment

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
)

const variants = `name = "variants"
question = "What does each setting cost?"
schedulers = ["none", "kf-30", "iocost"]
duration_s = 2
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
[[container]]
name = "a"
weight = 100
[[contender]]
name = "kf-100"
scheduler = "kyber-fairness"
label = "min_total_pct = 100"
tunables = { min_total_pct = 100, max_wait_ms = 100_000 }
[[contender]]
name = "kf-30"
scheduler = "kyber-fairness"
[contender.tunables]
min_total_pct = 30
[[contender]]
name = "iocost-170"
scheduler = "iocost"
iocost = { rlat_us = 170, wlat_us = 0 }
[[expect]]
scheduler = "kf-100"
metric = "total_vs:kf-30"
min = 0.5
`

func TestContenders(t *testing.T) {
	e, err := Parse("x", []byte(variants))
	must.OK(t, err)
	// Those that `schedulers` does not list come after it.
	if want := []string{"none", "kf-30", "iocost", "kf-100", "iocost-170"}; !slices.Equal(e.Schedulers, want) {
		t.Errorf("schedulers %q, want %q", e.Schedulers, want)
	}
	for _, tt := range []struct {
		name, scheduler, label string
		tells                  bool
		changes                map[string]string
	}{
		{"none", "none", "", false, nil},
		{"iocost", "iocost", "", false, nil},
		{"kf-100", "kyber-fairness", "min_total_pct = 100", false, map[string]string{"min_total_pct": "100", "max_wait_ms": "100000"}},
		{"kf-30", "kyber-fairness", "", false, map[string]string{"min_total_pct": "30"}},
		{"iocost-170", "iocost", "", true, map[string]string{"iocost.rlat_us": "170", "iocost.wlat_us": "0"}},
	} {
		d := e.Contender(tt.name)
		if d.Name != tt.name || d.Scheduler != tt.scheduler || d.Label != tt.label || d.Tells() != tt.tells || !maps.Equal(d.Changes(), tt.changes) {
			t.Errorf("%s: %+v, tells %t, changes %v", tt.name, d, d.Tells(), d.Changes())
		}
	}
	told := Iocost{RBPS: 1, RSeqIOPS: 2, RRandIOPS: 3, WBPS: 4, WSeqIOPS: 5, WRandIOPS: 6, RLatUS: 7, WLatUS: 8}
	d := e.Contender("iocost-170")
	want := told
	want.RLatUS, want.WLatUS = 170, 0
	if got := d.Costs(told); got != want {
		t.Errorf("Costs = %+v, want %+v", got, want)
	}
	s, err := e.Select([]string{"kf-100", "none"}, nil)
	if err != nil || !slices.Equal(s.Schedulers, []string{"none", "kf-100"}) || len(s.Expect) != 0 {
		t.Errorf("Select: %v, %+v", err, s)
	}
	if s, err = e.Select([]string{"kf-100", "kf-30"}, nil); err != nil || len(s.Expect) != 1 {
		t.Errorf("Select: %v, expectations %v", err, s.Expect)
	}
}

func TestIsTime(t *testing.T) {
	for name, want := range map[string]bool{
		"max_wait_ms": true, "refill_ms": true, "read_lat_nsec": true, "write_expire": true, "timeout_sync": true, "slice_idle": true,
		"min_total_pct": false, "low_latency": false, "fifo_batch": false, "strict_guarantees": false, "max_budget": false,
	} {
		if got := IsTime(name); got != want {
			t.Errorf("IsTime(%s) = %t", name, got)
		}
	}
}

// TestParseRefusesContenders changes one part of the valid file at a time.
func TestParseRefusesContenders(t *testing.T) {
	const known = "none, mq-deadline, kyber, bfq, iocost, kyber-fairness, kyber-report, rsd, sfq"
	for _, tt := range []struct{ name, old, new, want string }{
		{"not declared", `"kf-30", "io`, `"kf-40", "io`,
			`x:3: schedulers: unknown scheduler "kf-40"; allowed: ` + known + ", kf-100, kf-30, iocost-170"},
		{"no schedulers at all", variants[strings.Index(variants, "[[contender]]"):], "",
			`x:3: schedulers: unknown scheduler "kf-30"; allowed: ` + known},
		{"unknown key", "label =", "lable =", "x:17: contender.lable: unknown key; allowed: name, scheduler, label, tunables, iocost, job"},
		{"no name", "name = \"kf-100\"\n", "", "x:14: contender.name: is missing; allowed: " + nameRule},
		{"a scheduler's name", `name = "kf-100"`, `name = "bfq"`,
			`x:15: contender.name: "bfq" is a scheduler's own name; allowed: a name of its own`},
		{"name twice", `name = "kf-30"`, `name = "kf-100"`,
			`x:3: schedulers: unknown scheduler "kf-30"; allowed: ` + known + ", kf-100, kf-100, iocost-170"},
		{"no scheduler", "scheduler = \"kyber-fairness\"\nlabel", "label",
			"x:14: contender.scheduler: is missing; allowed: " + known},
		{"unknown scheduler", `scheduler = "kyber-fairness"`, `scheduler = "kf-30"`,
			`x:16: contender.scheduler: unknown scheduler "kf-30"; allowed: ` + known},
		{"empty label", `label = "min_total_pct = 100"`, `label = " "`,
			"x:17: contender.label: must be one line of text; allowed: a few words, or leave it out for the name"},
		{"tunables of none", `scheduler = "kyber-fairness"`, `scheduler = "none"`,
			"x:18: contender.tunables: none has no scheduler with tunables; allowed: leave it out"},
		{"tunables of iocost", "iocost = { rlat_us", "tunables = { rlat_us",
			"x:27: contender.tunables: iocost has no scheduler with tunables; allowed: a table iocost, such as { rlat_us = 170 }"},
		{"a path", "min_total_pct = 100,", `"../nr_requests" = 100,`,
			"x:18: contender.tunables.../nr_requests: is not a tunable's name; allowed: a file in the disk's queue/iosched, with that scheduler"},
		{"a list", "min_total_pct = 100,", "min_total_pct = [1],",
			"x:18: contender.tunables.min_total_pct: [1] is neither an integer nor a string; allowed: what to write to the file"},
		{"two lines", "min_total_pct = 100,", `min_total_pct = "1\n2",`,
			"x:18: contender.tunables.min_total_pct: must be one line of text; allowed: what to write to the file"},
		{"a time as text", "max_wait_ms = 100_000", `max_wait_ms = "1 ms"`,
			`x:18: contender.tunables.max_wait_ms: "1 ms" is not a number; allowed: a length of time in the tunable's own unit, an integer`},
		{"a time below 0", "max_wait_ms = 100_000", "max_wait_ms = -1",
			"x:18: contender.tunables.max_wait_ms: -1 is out of range; allowed: a length of time, 0..1000000000000"},
		{"iocost of another", "[contender.tunables]\nmin_total_pct = 30", "[contender.iocost]\nrlat_us = 1",
			`x:22: contender.iocost: means nothing for kyber-fairness; allowed: only with scheduler = "iocost"`},
		{"empty iocost", "{ rlat_us = 170, wlat_us = 0 }", "{}",
			"x:27: contender.iocost: says nothing; allowed: rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops, rlat_us, wlat_us"},
		{"latency out of range", "rlat_us = 170", "rlat_us = -1",
			"x:27: contender.iocost.rlat_us: -1 is out of range; allowed: an integer 0..10000000"},
		{"rate out of range", "rlat_us = 170", "rbps = 0",
			"x:27: contender.iocost.rbps: 0 is out of range; allowed: an integer 1 and up"},
	} {
		text := strings.Replace(variants, tt.old, tt.new, 1)
		if text == variants {
			t.Fatalf("%s: %q is not in the valid file", tt.name, tt.old)
		}
		_, err := Parse("x", []byte(text))
		if err == nil || err.Error() != tt.want || failure.Code(err) != failure.Usage {
			t.Errorf("%s:\n got %v\nwant %s", tt.name, err, tt.want)
		}
	}
}

func TestContenderNameTwice(t *testing.T) {
	text := strings.Replace(strings.Replace(variants, `"kf-30", `, "", 1), `name = "kf-30"`, `name = "kf-100"`, 1)
	_, err := Parse("x", []byte(text))
	if want := `x:20: contender.name: "kf-100" is the name of an earlier contender; allowed: a name of its own`; err == nil || err.Error() != want {
		t.Errorf("Parse: %v", err)
	}
}

// A variant of iocost needs to be told what a modeldisk can do, as iocost does.
func TestVariantOfIocostNeedsModel(t *testing.T) {
	text := strings.NewReplacer("\"null_blk\"\ncompletion_us = 1000", "\"modeldisk\"\nmodel = \"nvme\"", `, "iocost"]`, "]").Replace(variants)
	_, err := Parse("x", []byte(text))
	if err == nil || !strings.HasPrefix(err.Error(), "x:3: schedulers: iocost needs to be told") {
		t.Errorf("Parse: %v", err)
	}
}
