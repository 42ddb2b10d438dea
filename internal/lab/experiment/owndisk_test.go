// SPDX-License-Identifier: MIT

package experiment

import (
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
)

// unlike has nested cgroups, containers that stand for several, one that comes and goes, and
// a case with one container.
const unlike = `name = "unlike"
question = "What would each have alone?"
schedulers = ["bfq", "iocost"]
own_disk = true
sample_ms = 10
ramp_s = 1
duration_s = 2
[device]
disk = "p4500-2tb"
[job]
rw = "randread"
ioengine = "libaio"
[[container]]
name = "api"
weight = 300
cgroup = "tenant/api"
job.iodepth = 4
start_s = 0.5
pauses = [[1.5, 2.0]]
[[container]]
name = "bulk"
weight = 100
cgroup = "tenant/bulk"
job = { iodepth = 128, bs = "64k" }
[[container]]
name = "many"
weight = 25
count = 4
job.size = "64m"
[[parent]]
cgroup = "tenant"
weight = 300
[[case]]
name = "one"
[[case]]
name = "again"
[[case]]
name = "alone"
container = [{ name = "api" }]
[[case]]
name = "null"
device = { kind = "null_blk", completion_us = 100, tags = 8 }
schedulers = ["bfq"]
[[case]]
name = "without"
own_disk = false
[[expect]]
scheduler = "bfq"
metric = "own_disk_least"
min = 0.95
[[expect]]
case = "one"
scheduler = "bfq"
metric = "own_disk_p99:api"
max = 1.5
`

func TestOwnDisks(t *testing.T) {
	e, err := Parse("u.toml", []byte(unlike))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		share       float64
		slowdown    int64
		part, parts int
		size        string
	}{
		{0.75 * 0.75, 28444, 0, 3, ""}, // 16 / 0.5625
		{0.75 * 0.25, 85333, 1, 3, ""},
		{0.25 / 4, 256000, 8, 12, "16777216"}, // one of the four
	} {
		k := e.Cases[0].OwnDisks()[i]
		from, t0 := e.Cases[0].Containers[i], k.Containers[0]
		if d := k.Device; d.Share != want.share || d.Slowdown() != want.slowdown || d.Model.Iocost != nil || k.Part != want.part || k.Parts != want.parts {
			t.Errorf("%s: share %g, slowed down by %d, part %d of %d; want %+v", from.Name, d.Share, d.Slowdown(), k.Part, k.Parts, want)
		}
		if len(k.Containers) != 1 || t0.Name != from.Name || t0.Count != 0 || t0.Job["size"] != want.size || t0.Job["iodepth"] != from.Job["iodepth"] ||
			t0.StartS != from.StartS || !slices.Equal(t0.Pauses, from.Pauses) {
			t.Errorf("%s alone is %+v", from.Name, t0)
		}
		if k.SampleMS != 0 || k.Parents != nil || k.OwnDisk || k.RampS != 1 || k.DurationS != 2 || !strings.HasPrefix(k.Name, "own-disk-"+from.Name+"-") {
			t.Errorf("%s: reference %+v", from.Name, k)
		}
	}
	if e.Cases[0].Containers[2].Job["size"] != "64m" || e.Cases[0].Containers[2].Count != 4 {
		t.Error("the case's own container changed")
	}
	if got := e.CaseNamed("null").OwnDisks()[1].Device; got.CompletionNS() != 533333 || !strings.HasPrefix(got.String(), "null_blk, completion 533.333 us") {
		t.Errorf("null_blk: %s", got)
	}
	if got := e.Cases[0].OwnDisks()[0].Device.String(); !strings.Contains(got, "scale 28.444,") {
		t.Errorf("device %s", got)
	}
	if e.CaseNamed("alone").OwnDisks() != nil || e.CaseNamed("without").OwnDisks() != nil {
		t.Error("a container alone, or a case that says false, has references")
	}
	// One and again have the same three.
	if got := len(e.OwnDisks()); got != 6 || e.Runs() != 9+6 || e.VirtualS() != 3*15 {
		t.Errorf("%d references, %d runs of %g s", got, e.Runs(), e.VirtualS())
	}
	var about []string
	for _, x := range e.Expect {
		about = append(about, x.Case+" "+x.Metric.String())
	}
	if got := strings.Join(about, ", "); got != "one own_disk_least, again own_disk_least, null own_disk_least, one own_disk_p99:api" {
		t.Errorf("expectations of %s", got)
	}
	// It does not matter which contenders are picked.
	if s, err := e.Select([]string{"bfq"}, []string{"one"}); err != nil || len(s.OwnDisks()) != 3 || len(s.Expect) != 2 {
		t.Errorf("of one case: %+v, %v", s, err)
	}
}

// A contender's VM is the same with references and without; a reference's is the same
// whatever the experiment, and its other containers, are.
func TestPlanOfOwnDisks(t *testing.T) {
	plans := func(text string) (contender, reference string) {
		t.Helper()
		e, err := Parse("u.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		vm, err := e.ForVM(&e.Cases[0], "bfq")
		if err != nil {
			t.Fatal(err)
		}
		if refs := e.OwnDisks(); len(refs) > 0 {
			ref, err := e.ForVM(&refs[0], "none")
			if err != nil {
				t.Fatal(err)
			}
			reference = string(ref)
			if back, err := FromPlan("p", ref); err != nil || back.Cases[0].Device.Share != refs[0].Device.Share || back.Cases[0].Parts != 3 {
				t.Errorf("read back: %+v, %v", back, err)
			}
		}
		return string(vm), reference
	}
	vm, ref := plans(unlike)
	without := strings.Replace(unlike, "own_disk = true", "own_disk = false", 1)
	without = without[:strings.Index(without, "[[expect]]")]
	if got, none := plans(without); got != vm || none != "" {
		t.Errorf("without references the VM's plan is\n%s\nwant\n%s", got, vm)
	}
	for _, c := range []struct{ old, new string }{
		{`"unlike"`, `"other"`}, {`"one"`, `"first"`}, {"iodepth = 128", "iodepth = 64"}, {"weight = 25\ncount = 4", "weight = 50\ncount = 2"},
	} {
		if _, got := plans(strings.ReplaceAll(unlike, c.old, c.new)); got != ref {
			t.Errorf("%q in place of %q gives another reference:\n%s\nwant\n%s", c.new, c.old, got, ref)
		}
	}
	for _, c := range []struct{ old, new string }{{"weight = 300\ncgroup", "weight = 301\ncgroup"}, {"iodepth = 4", "iodepth = 5"}, {"p4500-2tb", "z-ssd"}} {
		if _, got := plans(strings.Replace(unlike, c.old, c.new, 1)); got == ref {
			t.Errorf("%q in place of %q gives the same reference", c.new, c.old)
		}
	}
}

func TestOwnDiskRefuses(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want, also, thus string }{
		{"a number", "own_disk = true", "own_disk = 1", "u.toml:4: own_disk: ", "\x00", ""},
		{"a disk that takes no time", "completion_us = 100", "completion_us = 0", "u.toml:4: own_disk: needs a disk that takes time: null_blk with completion_us 0 takes none; allowed: ", "\x00", ""},
		{"a share that is too small", "weight = 25\n", "weight = 1\n",
			"u.toml:4: own_disk: container many has too small a share: its disk would be slowed down by 160064; allowed: scale / share up to 100000",
			`cgroup = "tenant"` + "\nweight = 300", `cgroup = "tenant"` + "\nweight = 10000"},
		{"a metric without", `case = "one"`, `case = "without"`, "expect.scheduler: case without does not compare containers with disks of their own; allowed: ", "\x00", ""},
		{"an unknown container", "own_disk_p99:api", "own_disk_p99:db", `"db" is not one of the experiment's containers; allowed: api, bulk, many`, "\x00", ""},
		{"a metric of none", "own_disk_p99:api", "own_disk", `expect.metric: "" is not one of the experiment's containers`, "\x00", ""},
		{"a direction", "max = 1.5", "max = 1.5\ndirection = \"read\"", "direction: means nothing for own_disk_p99", "\x00", ""},
		{"a bound of the reference", "max = 1.5", "max = 1.5\nor_times_reference = 2", "means nothing for own_disk_p99", "\x00", ""},
	} {
		text := strings.NewReplacer(tt.old, tt.new, tt.also, tt.thus).Replace(unlike)
		if text == unlike {
			t.Fatalf("%s: nothing replaced", tt.name)
		}
		_, err := Parse("u.toml", []byte(text))
		if err == nil || failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestThousandths(t *testing.T) {
	for n, want := range map[int64]string{1000: "1", 28444: "28.444", 10_000_000_000: "10000000", 500: "0.5"} {
		if got := thousandths(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
