// SPDX-License-Identifier: MIT

package guest

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/must"
	"isolio/internal/plan"
	"isolio/internal/testtree"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The whole plan of each contender, as --dry-run prints it.
func TestDecide(t *testing.T) {
	for _, scheduler := range experiment.Known() {
		m, e := newMachine(t, honest)
		p, err := decide(t, e, parse(t, ""), scheduler)
		must.OK(t, err)
		if len(m.log) != 0 {
			t.Errorf("%s: Decide changed the machine: %q", scheduler, m.log)
		}
		var b strings.Builder
		must.OK(t, p.Print(&b))
		got := strings.ReplaceAll(b.String(), m.root, "")
		file := filepath.Join("testdata", scheduler+".plan")
		if *update {
			testtree.File(t, file, got)
		}
		want, err := os.ReadFile(file)
		must.OK(t, err)
		if got != string(want) {
			t.Errorf("%s:\n%s\nwant %s:\n%s", scheduler, got, file, want)
		}
	}
}

func TestDecideRefuses(t *testing.T) {
	tests := []struct {
		name      string
		files     map[string]string
		scheduler string
		change    func(*Env, *experiment.Experiment)
		want      string
		code      int
	}{
		{"no disk", nil, "bfq", func(e *Env, _ *experiment.Experiment) {
			e.Find = func() (*Disk, error) { return nil, failure.Usagef("device nullb0: in use") }
		}, "device nullb0: in use", failure.Usage},
		{"another scheduler", nil, "cfq", nil, `scheduler "cfq" is not among the experiment's`, failure.Usage},
		{"job outside its part", nil, "bfq", func(_ *Env, x *experiment.Experiment) { x.Cases[0].Containers[0].Job["size"] = "3g" },
			"container a: job.size 3221225472 is more than its part of nullb0", failure.Usage},
		{"job outside the disk", nil, "bfq", func(_ *Env, x *experiment.Experiment) {
			x.Cases[0].Containers[0].Job["size"], x.Cases[0].Containers[0].Job["offset"] = "3g", "2g"
		}, "do not fit on nullb0", failure.Usage},
		{"offset outside the disk", nil, "bfq", func(_ *Env, x *experiment.Experiment) { x.Cases[0].Containers[0].Job["offset"] = "1t" },
			"do not fit on nullb0", failure.Usage},
		{"an engine that is nowhere", nil, "bfq", func(_ *Env, x *experiment.Experiment) { x.Cases[0].Containers[0].Job["ioengine"] = "aps" },
			"container a: fio's engine aps is libaps' own, and nothing says where it is", failure.Unsupported},
	}
	for _, tt := range tests {
		m, e := newMachine(t, honest)
		for file, text := range tt.files {
			m.file(filepath.Join(m.root, file), text)
		}
		x := parse(t, "")
		if tt.change != nil {
			tt.change(&e, x)
		}
		_, err := decide(t, e, x, tt.scheduler)
		if err == nil || !strings.Contains(err.Error(), tt.want) || failure.Code(err) != tt.code {
			t.Errorf("%s: %v (code %d), want %q", tt.name, err, failure.Code(err), tt.want)
		}
	}
}

func TestWeightsKeepTheirProportion(t *testing.T) {
	containers := func(weights ...int) (cs []experiment.Container) {
		for _, w := range weights {
			cs = append(cs, experiment.Container{Weight: w})
		}
		return cs
	}
	tests := []struct {
		scheduler  string
		have, want []int
	}{
		{"bfq", []int{1000, 500, 1}, []int{1000, 500, 1}},
		{"bfq", []int{10000, 5000, 14, 1}, []int{1000, 500, 1, 1}},
		{"bfq", []int{2000, 3000}, []int{667, 1000}},
		{"kyber-fairness", []int{10000, 1}, []int{10000, 1}},
		{"kyber-report", []int{10000, 1}, []int{10000, 1}},
		{"iocost", []int{10000, 1}, []int{10000, 1}},
	}
	for _, tt := range tests {
		if got := contenderFor(tt.scheduler).weights(containers(tt.have...)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: weights(%v) = %v, want %v", tt.scheduler, tt.have, got, tt.want)
		}
	}
}

// On a disk that is slowed down, the scheduler's times are multiplied by the same
// factor, and its other tunables stay.
func TestTunablesOfASlowDisk(t *testing.T) {
	for _, tt := range []struct {
		scheduler string
		scale     int
		want      []tunable
	}{
		{"none", 16, nil},
		{"iocost", 16, nil},
		{"bfq", 1, []tunable{{"low_latency", "0"}}},
		{"kyber", 1, nil},
		{"kyber", 16, []tunable{{"read_lat_nsec", "32000000"}, {"write_lat_nsec", "160000000"}}},
		{"mq-deadline", 2, []tunable{{"read_expire", "1000"}, {"write_expire", "10000"}}},
		{"bfq", 4, []tunable{{"low_latency", "0"}, {"slice_idle_us", "32000"}}},
		{"kyber-fairness", 8, []tunable{
			{"read_lat_nsec", "16000000"}, {"write_lat_nsec", "80000000"},
		}},
		{"kyber-report", 1, nil},
		{"kyber-report", 8, []tunable{
			{"read_lat_nsec", "16000000"}, {"write_lat_nsec", "80000000"}, {"refill_ms", "800"},
		}},
	} {
		if got := contenderFor(tt.scheduler).tunables(tt.scale); !slices.Equal(got, tt.want) {
			t.Errorf("%s, scale %d: %v, want %v", tt.scheduler, tt.scale, got, tt.want)
		}
	}
}

const ownContenders = `[[contender]]
name = "kf"
scheduler = "kyber-fairness"
tunables = { min_total_pct = 100, max_wait_ms = 1000 }
[[contender]]
name = "fast-bfq"
scheduler = "bfq"
tunables = { low_latency = 1, timeout_sync = 125 }
[[contender]]
name = "strict-iocost"
scheduler = "iocost"
iocost = { rlat_us = 500, wlat_us = 0, rrandiops = 16 }
`

// An experiment's tunables come after the engine's own or in place of them, and
// its times are scaled as those are.
func TestTunablesOfTheExperiment(t *testing.T) {
	x := parse(t, ownContenders)
	for _, tt := range []struct {
		name  string
		scale int
		want  []tunable
	}{
		{"kf", 1, []tunable{{"max_wait_ms", "1000"}, {"min_total_pct", "100"}}},
		{"kf", 8, []tunable{
			{"read_lat_nsec", "16000000"}, {"write_lat_nsec", "80000000"}, {"max_wait_ms", "8000"}, {"min_total_pct", "100"},
		}},
		{"fast-bfq", 4, []tunable{{"slice_idle_us", "32000"}, {"low_latency", "1"}, {"timeout_sync", "500"}}},
		{"kyber-fairness", 1, nil},
	} {
		if got := contenderOf(x, tt.name).tunables(tt.scale); !slices.Equal(got, tt.want) {
			t.Errorf("%s, scale %d: %v, want %v", tt.name, tt.scale, got, tt.want)
		}
	}
}

// What a contender tells io.cost is scaled as [device.iocost] is, and not said
// of a disk of the machine.
func TestIocostOfTheExperiment(t *testing.T) {
	_, e := newMachine(t, honest)
	x := parse(t, ownContenders)
	x.Cases[0].Device.Model.Scale = 2
	if _, err := decide(t, e, x, "strict-iocost"); failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), "not of nullb0") {
		t.Errorf("on a disk of the machine: %v", err)
	}
	d, err := e.found()
	must.OK(t, err)
	e.Find = nil
	p, err := e.decide(x, &x.Cases[0], "strict-iocost", d)
	must.OK(t, err)
	lines := strings.Join(settings(p.Setup), "\n")
	for _, want := range []string{" rseqiops=16000 rrandiops=8 ", " rpct=95.00 rlat=1000 wpct=0.00 wlat=0 ", "a/io.weight = default 300"} {
		if !strings.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, lines)
		}
	}
}

// The scale is that of the disk that is made, not of one that was given.
func TestOnlyOwnDisksAreSlow(t *testing.T) {
	for device, want := range map[string]bool{"nullb0": false, "": true} {
		_, e := newMachine(t, honest)
		x := parse(t, "")
		x.Cases[0].Device.Model.Scale = 16
		d, err := e.found()
		must.OK(t, err)
		if device == "" {
			e.Find = nil
		}
		p, err := e.decide(x, &x.Cases[0], "kyber", d)
		must.OK(t, err)
		if got := slices.ContainsFunc(p.Setup, func(s plan.Step) bool { return s.Name == "queue/iosched/read_lat_nsec" }); got != want {
			t.Errorf("device %q: kyber's target is set: %t, want %t", device, got, want)
		}
	}
}

func TestNullBlkCost(t *testing.T) {
	d := experiment.Device{CompletionUS: 1000, Tags: 32, Queues: 2}
	// 2 x 32 requests each millisecond; 64 MiB a request.
	want := "ctrl=user model=linear rbps=4294967296000 rseqiops=64000 rrandiops=64000 wbps=4294967296000 wseqiops=64000 wrandiops=64000"
	if got := linearModel(nullBlkCost(d)); got != want {
		t.Errorf("model %q, want %q", got, want)
	}
	if got := costLimits(nullBlkCost(d)); !strings.Contains(got, " rlat=2000 ") || !strings.Contains(got, " wlat=2000 ") {
		t.Errorf("qos %q: latencies are not twice the device's", got)
	}
}

func TestCostLimits(t *testing.T) {
	for _, tt := range []struct {
		m    experiment.Iocost
		want string
	}{
		{experiment.Iocost{}, "enable=1 ctrl=user rpct=0.00 rlat=0 wpct=0.00 wlat=0 min=100.00 max=100.00"},
		{experiment.Iocost{RLatUS: 2720}, "enable=1 ctrl=user rpct=95.00 rlat=2720 wpct=0.00 wlat=0 min=50.00 max=100.00"},
		{experiment.Iocost{WLatUS: 5}, "enable=1 ctrl=user rpct=0.00 rlat=0 wpct=95.00 wlat=5 min=50.00 max=100.00"},
	} {
		if got := costLimits(tt.m); got != tt.want {
			t.Errorf("qos %q, want %q", got, tt.want)
		}
	}
}

// Without a scheduler the kernel refuses more requests than tags.
func TestNrRequestsIsForSchedulers(t *testing.T) {
	for scheduler, want := range map[string]bool{"none": false, "iocost": false, "mq-deadline": true, "kyber-fairness": true} {
		_, e := newMachine(t, honest)
		x := parse(t, "")
		x.NrRequests = 256
		p, err := decide(t, e, x, scheduler)
		must.OK(t, err)
		at := slices.IndexFunc(p.Setup, func(s plan.Step) bool { return s.Name == "queue/nr_requests" && s.Value == "256" })
		if (at >= 0) != want {
			t.Errorf("%s: nr_requests at step %d", scheduler, at)
		}
		if at >= 0 && slices.ContainsFunc(p.Setup[at:], func(s plan.Step) bool { return s.Name == "queue/scheduler" }) {
			t.Errorf("%s: the scheduler is set after nr_requests, and resets it", scheduler)
		}
	}
}

// io.cost that is on already is off for the others and comes back after
// them; its own contender leaves it as it is.
func TestIocostThatIsOnAlready(t *testing.T) {
	for _, tt := range []struct{ scheduler, want string }{
		{"iocost", ""},
		{"kyber", "252:0 enable=0 | undo 252:0 enable=1"},
	} {
		m, e := newMachine(t, honest)
		m.file(e.Cgroups.Path("io.cost.qos"), "8:0 enable=0\n252:0 enable=1 ctrl=user rpct=95.00\n")
		p, err := decide(t, e, parse(t, ""), tt.scheduler)
		must.OK(t, err)
		got := ""
		if i := slices.IndexFunc(p.Setup, func(s plan.Step) bool { return s.Name == costQoS }); i >= 0 {
			got = p.Setup[i].Value + " | undo " + p.Setup[i].Undo
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.scheduler, got, tt.want)
		}
	}
}

func TestIocostNeedsTheKernel(t *testing.T) {
	_, e := newMachine(t, honest)
	for _, file := range []string{"io.cost.qos", "io.cost.model"} {
		must.OK(t, os.Remove(e.Cgroups.Path(file)))
	}
	if _, err := decide(t, e, parse(t, ""), "iocost"); failure.Code(err) != failure.Unsupported {
		t.Errorf("iocost without io.cost: %v", err)
	}
	if _, err := decide(t, e, parse(t, ""), "bfq"); err != nil {
		t.Errorf("bfq does not need io.cost: %v", err)
	}
}

func TestRunNeeds(t *testing.T) {
	_, e := newMachine(t, honest)
	e.Fio = filepath.Join(t.TempDir(), "fio")
	if _, err := runOn(t.Context(), e, parse(t, ""), "none", nil); failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "install fio") {
		t.Errorf("without fio: %v", err)
	}
	m, e := newMachine(t, honest)
	e.Find = func() (*Disk, error) {
		d, err := System{Root: m.root}.disk("nullb0")
		d.Check = func() error { return errors.New("its node is another disk") }
		return d, err
	}
	if _, err := runOn(t.Context(), e, parse(t, ""), "none", nil); err == nil || err.Error() != "its node is another disk" {
		t.Errorf("with a node of another disk: %v", err)
	}
	if len(m.log) != 0 {
		t.Errorf("the machine was changed: %q", m.log)
	}
}

// A container that is alone on a disk of its own sends what it sends beside others: the same
// part of the disk, from the same seed.
func TestOwnDiskSendsTheSame(t *testing.T) {
	_, e := newMachine(t, honest)
	x := parse(t, "")
	together, err := decide(t, e, x, "none")
	if err != nil {
		t.Fatal(err)
	}
	x.Cases[0].OwnDisk = true
	for i, ref := range x.Cases[0].OwnDisks() {
		alone, err := Decide(e, x, &ref, "none")
		if err != nil {
			t.Fatal(err)
		}
		if len(alone.Jobs) != 1 || !slices.Equal(alone.Jobs[0].Args("out"), together.Jobs[i].Args("out")) {
			t.Errorf("alone it is\n%+v\nbeside others\n%+v", alone.Jobs, together.Jobs[i])
		}
	}
}
