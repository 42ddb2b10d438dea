// SPDX-License-Identifier: MIT

package rule

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"isolio/internal/must"
)

func TestParsePromises(t *testing.T) {
	config, err := Parse("r.toml", []byte(`
[sla]
reserve_pct = 15
best_effort = 4
share_by = "iops"
objective_pct = 99

[[promise]]
name = "db"
device = "nvme0n1"
read = "20000 IOPS"
write = "2.5MiB/s"
block = "16 KiB"
p99 = "2.5 ms"

[[promise]]
class = "gold"
count = 3
device = "/dev/disk/by-id/x"
order = "sequential"
read = "1 GiB/s"
`))
	must.OK(t, err)
	want := []Promise{
		{
			File: "r.toml", For: Rule{Name: "db"}, Line: 8, Lines: map[string]int{"read": 11, "write": 12, "p99": 14, "device": 10, "block": 13},
			Device: "nvme0n1", Read: Amount{IOPS: 20000}, Write: Amount{BytesPS: 2.5 * (1 << 20)}, BlockBytes: 16 << 10, P99: 2500 * time.Microsecond, Count: 1,
		},
		{
			File: "r.toml", For: Rule{Class: "gold"}, Line: 16, Lines: map[string]int{"read": 21, "write": 16, "p99": 16, "device": 19, "block": 16},
			Device: "/dev/disk/by-id/x", Read: Amount{BytesPS: 1 << 30}, BlockBytes: 128 << 10, Sequential: true, Count: 3,
		},
	}
	if !reflect.DeepEqual(config.Promises, want) {
		t.Errorf("%+v\nwant %+v", config.Promises, want)
	}
	if config.SLA != (SLA{ReservePct: 15, BestEffort: 4, ShareBy: "iops", ObjectivePct: 99}) {
		t.Errorf("%+v", config.SLA)
	}
	if got := want[0].Write.RequestsPS(16 << 10); got != 160 {
		t.Errorf("2.5 MiB/s are %g requests of 16 KiB a second", got)
	}
	if a, b := want[0].Read.String(), want[0].Write.String(); a != "20000 IOPS" || b != "2.5 MiB/s" {
		t.Errorf("%q, %q", a, b)
	}
}

func TestTerms(t *testing.T) {
	p := Promise{Read: Amount{IOPS: 20000}, Write: Amount{BytesPS: 2 << 20}, P99: 2500 * time.Microsecond, Count: 3}
	if got, want := p.Terms(), "20000 IOPS of reads, 2 MiB/s of writes, p99 2.5ms, to each of 3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A weight is raised only where the promise says so, by 4 at most where it does not say how far.
func TestParseHold(t *testing.T) {
	for text, want := range map[string]float64{
		"": 0, "mode = \"account\"": 0, "mode = \"hold\"": 4, "mode = \"hold\"\nhold_max_factor = 2": 2, "mode = \"hold\"\nhold_max_factor = 1.5": 1.5,
	} {
		config, err := Parse("r.toml", []byte("[[promise]]\nname = \"db\"\ndevice = \"sda\"\nread = \"1 IOPS\"\n"+text))
		if err != nil || config.Promises[0].Hold != want {
			t.Errorf("%s: %+v, %v, want %g", text, config.Promises, err, want)
		}
	}
}

// Labels and annotations are kept that promises ask for.
func TestKeepsForPromises(t *testing.T) {
	c := Config{Promises: []Promise{{For: Rule{Label: "tier=gold"}}, {For: Rule{Class: "gold"}}}}
	if !c.Keeps("tier") || !c.Keeps(criClass) || c.Keeps("other") || (Config{}).Keeps("tier") {
		t.Error("not what the promises ask for")
	}
}

// What is wrong with a promise is one line, with the place and what is allowed.
func TestParsePromisesRefuses(t *testing.T) {
	const begin = "[[promise]]\nname = \"db\"\ndevice = \"sda\"\n"
	for _, c := range []struct{ text, want string }{
		{begin + "read = 20000", `r.toml:4: promise.read: 20000 has no unit; allowed: such as "5000 IOPS" or "100 MiB/s"; units: IOPS, KiB/s, MiB/s, GiB/s; sda has 441 IOPS`},
		{begin + "read = \"20000\"", `r.toml:4: promise.read: "20000" has no unit; allowed: such as`},
		{begin + "write = \"20 MB\"", `r.toml:4: promise.write: "20 MB" is not a number with one of the units; allowed: such as`},
		{begin + "write = \"0 IOPS\"", `r.toml:4: promise.write: 0 IOPS is out of range; allowed: `},
		{begin + "read = true", `r.toml:4: promise.read: has the wrong type; allowed: `},
		{begin, `r.toml:1: promise: promises nothing; allowed: read or write, or both, such as read = "5000 IOPS"`},
		{begin + "read = \"1 IOPS\"\np99 = 5", `r.toml:5: promise.p99: 5 has no unit; allowed: "1 us" to "100 s", such as "5 ms"; units: us, ms, s`},
		{begin + "read = \"1 IOPS\"\np99 = \"1000 s\"", `r.toml:5: promise.p99: 1000 s is out of range; allowed: "1 us"`},
		{begin + "read = \"1 IOPS\"\nblock = 4096", `r.toml:5: promise.block: 4096 has no unit; allowed: "512 B" to "16 MiB"`},
		{begin + "read = \"1 IOPS\"\nblock = \"17 MiB\"", `r.toml:5: promise.block: 17 MiB is out of range; allowed: "512 B"`},
		{begin + "read = \"1 IOPS\"\norder = \"odd\"", `r.toml:5: promise.order: "odd" is not an order; allowed: random, sequential`},
		{begin + "read = \"1 IOPS\"\ncount = 0", `r.toml:5: promise.count: 0 is out of range; allowed: 1 to 10000`},
		{begin + "read = \"1 IOPS\"\niops = 5", `r.toml:5: promise.iops: unknown key; allowed: name, label, annotation, class, pod, unit, device, read, write, block, order, p99, count, mode, hold_max_factor`},
		{begin + "read = \"1 IOPS\"\nmode = \"on\"", `r.toml:5: promise.mode: "on" is none; allowed: account, hold`},
		{begin + "read = \"1 IOPS\"\nhold_max_factor = 3", `r.toml:5: promise.hold_max_factor: does nothing without a mode; allowed: mode = "hold" beside it`},
		{begin + "read = \"1 IOPS\"\nmode = \"hold\"\nhold_max_factor = 1", `r.toml:6: promise.hold_max_factor: 1 is out of range; allowed: 1.1 to 100`},
		{begin + "read = \"1 IOPS\"\nmode = \"hold\"\nhold_max_factor = \"2\"", `r.toml:6: promise.hold_max_factor: has the wrong type; allowed: a number, 1.1 to 100`},
		{"[[promise]]\nname = \"db-*\"\ndevice = \"sda\"\nread = \"1 IOPS\"", `r.toml:1: promise.count: is missing, and more than one may match; allowed: how many there are at most`},
		{"[[promise]]\nname = \"db\"\nread = \"1 IOPS\"", `r.toml:1: promise.device: is missing; allowed: the disk that the promise is about`},
		{"[[promise]]\ndevice = \"sda\"\nread = \"1 IOPS\"", `r.toml:1: promise: names no container, pod or unit; allowed: name, label, annotation, class, pod, unit`},
		{begin + "read = \"1 IOPS\"\n" + begin + "write = \"1 IOPS\"", `r.toml:5: promise: matches the same as that in line 1, on the same disk; allowed: one promise for each`},
		{"[promise]\nname = \"db\"", `r.toml:1: promise: is one table; allowed: [[promise]], of which there may be more`},
		{"[sla]\nreserve_pct = 95.0", `r.toml:2: sla.reserve_pct: 95 is out of range; allowed: 0 to 90`},
		{"[sla]\nbest_effort = -1", `r.toml:2: sla.best_effort: -1 is out of range; allowed: 0 to 10000`},
		{"[sla]\nobjective_pct = 100.0", `r.toml:2: sla.objective_pct: 100 is out of range; allowed: 50 to 99.999`},
		{"[sla]\nshare_by = \"x\"", `r.toml:2: sla.share_by: "x" is not a unit; allowed: bytes, iops, time`},
	} {
		room := func(sla SLA, device string, _, sequential bool, block int) string {
			if sla != DefaultSLA || device != "sda" || sequential || block != 4096 {
				t.Errorf("%s: asked for room on %s, %v, %d", c.text, device, sequential, block)
			}
			return device + " has 441 IOPS"
		}
		_, err := ParseWith("r.toml", []byte(c.text), room)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\n%v\nwant %s", c.text, err, c.want)
		}
	}
}
