// SPDX-License-Identifier: MIT

package experiment

import (
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
)

// bounded has a case that asks for its reference, one with a reference of the file's own,
// and one without.
const bounded = `name = "bounded"
question = "How near to what exact shares allow?"
schedulers = ["none", "bfq"]
ramp_s = 1
duration_s = 2
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
ioengine = "libaio"
iodepth = 8
[[container]]
name = "large"
weight = 1000
[[container]]
name = "small"
weight = 500
[[case]]
name = "asks"
sharing_reference = true
[[case]]
name = "own"
reference_case = "alone"
[[case]]
name = "alone"
schedulers = ["none"]
[[case]]
name = "plain"
[[expect]]
scheduler = "bfq"
metric = "total_vs_reference"
min = 0.95
[[expect]]
scheduler = "bfq"
metric = "p99_vs_fair"
direction = "both"
max = 2
or_times_reference = 1.1
`

func TestSharingReference(t *testing.T) {
	e, err := Parse("b.toml", []byte(bounded))
	must.OK(t, err)
	if got := strings.Join(e.caseNames(), " "); got != "asks asks-reference own alone plain" {
		t.Errorf("cases %s", got)
	}
	asks, ref := e.CaseNamed("asks"), e.CaseNamed("asks-reference")
	if asks.ReferenceCase != ref.Name || !slices.Equal(e.SchedulersIn(ref), []string{"none"}) || len(ref.Containers) != 1 {
		t.Errorf("reference %q: %+v", asks.ReferenceCase, ref)
	}
	if got := ref.Containers[0].Job; got["iodepth"] != "12" || got["rw"] != "randread" || got["ioengine"] != "libaio" {
		t.Errorf("job %v, want 8 / (2/3) = 12 outstanding", got)
	}
	if asks.Containers[0].Job["iodepth"] != "8" {
		t.Error("the case's own job changed")
	}
	// Only where there is a reference, and only of what runs there.
	var about []string
	for _, x := range e.Expect {
		about = append(about, x.Case+" "+x.Metric.Kind)
	}
	if got := strings.Join(about, ", "); got != "asks total_vs_reference, own total_vs_reference, asks p99_vs_fair, own p99_vs_fair" {
		t.Errorf("expectations of %s", got)
	}
	if got := e.Expect[2].Wanted(); got != "<= 2 or <= 1.1 times the reference's" {
		t.Errorf("wanted %q", got)
	}
	for _, tt := range []struct {
		cases []string
		want  int
	}{{[]string{"asks"}, 0}, {[]string{"asks", "asks-reference"}, 2}, {[]string{"own", "alone", "asks-reference"}, 2}} {
		if s, err := e.Select(nil, tt.cases); err != nil || len(s.Expect) != tt.want {
			t.Errorf("%q: %d expectations, want %d; %v", tt.cases, len(s.Expect), tt.want, err)
		}
	}
}

// The file says it for all cases, or for all but some.
func TestSharingReferenceOfAllCases(t *testing.T) {
	text := strings.Replace(bounded, "sharing_reference = true\n", "", 1)
	text = strings.Replace(text, "ramp_s = 1\n", "ramp_s = 1\nsharing_reference = true\n", 1)
	text = strings.Replace(text, "reference_case = \"alone\"\n", "sharing_reference = false\n", 1)
	e, err := Parse("b.toml", []byte(text))
	must.OK(t, err)
	if got := strings.Join(e.caseNames(), " "); got != "asks asks-reference own alone plain plain-reference" {
		t.Errorf("cases %s", got)
	}
}

func TestSharingDepth(t *testing.T) {
	container := func(weight, count int, job Job) Container {
		return Container{Name: "c", Cgroup: string(rune('a' + weight%20)), Weight: weight, Count: count, Job: job}
	}
	aio := func(depth string) Job { return Job{"ioengine": "libaio", "iodepth": depth} }
	four := func(depth string) []Container {
		return []Container{container(1000, 0, aio(depth)), container(501, 0, aio(depth)), container(252, 0, aio(depth)), container(103, 0, aio(depth))}
	}
	for _, tt := range []struct {
		name string
		of   []Container
		want float64
	}{
		{"the heaviest limits", four("8"), 8 / (1000.0 / 1856)},
		{"one alone", []Container{container(7, 0, aio("5"))}, 5},
		{"the shallow one limits", []Container{container(100, 0, aio("64")), container(103, 0, aio("2"))}, 2 / (103.0 / 203)},
		{"equal ones have all in", []Container{container(100, 4, aio("3"))}, 12},
		{"processes count", []Container{container(100, 0, Job{"ioengine": "psync", "numjobs": "4"})}, 4},
	} {
		k := Case{Containers: tt.of}
		if got := k.SharingDepth(); got < tt.want-1e-9 || got > tt.want+1e-9 {
			t.Errorf("%s: %g, want %g", tt.name, got, tt.want)
		}
	}
	// An engine that waits for each request has processes in place of a depth.
	k := Case{Containers: []Container{container(100, 0, Job{"ioengine": "psync", "numjobs": "4"})}}
	if job := k.reference("r").Containers[0].Job; job["numjobs"] != "4" || job.Depth() != 4 {
		t.Errorf("job %v", job)
	}
}

func TestSharingReferenceRefuses(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"without none", `schedulers = ["none", "bfq"]`, `schedulers = ["bfq"]`, "sharing_reference: needs none among the schedulers; allowed: add none"},
		{"beside another", "sharing_reference = true", "sharing_reference = true\nreference_case = \"alone\"", "does not go with reference_case"},
		{"a name that is taken", `name = "plain"`, `name = "asks-reference"`, `case.sharing_reference: "asks-reference" is the name of another case`},
		{"other jobs", "weight = 500\n", "weight = 500\njob.bs = \"128k\"\n", "containers large and small have other jobs; allowed: containers with the same job but for iodepth and numjobs"},
		{"a rate", "iodepth = 8\n", "iodepth = 8\nrate_iops = 5\n", "container large has rate_iops"},
		{"one that leaves", "weight = 500\n", "weight = 500\nend_s = 2.5\n", "container small is not there all the time"},
		{"a bound without max", "max = 2\nor", "min = 2\nor", "expect.or_times_reference: goes with max alone"},
		{"a bound of nothing", "or_times_reference = 1.1", "or_times_reference = 0", "0 is out of range; allowed: above 0"},
		{"a bound of a comparison", "metric = \"p99_vs_fair\"\ndirection = \"both\"", "metric = \"total_vs_none\"", "means nothing for total_vs_none"},
		{"a bound where there is none", "or_times_reference = 1.1", "or_times_reference = 1.1\ncase = \"plain\"", "case plain has no reference case"},
		{"a total where there is none", "min = 0.95", "min = 0.95\ncase = \"plain\"", "case plain has no reference case"},
	} {
		text := strings.Replace(bounded, tt.old, tt.new, 1)
		if text == bounded {
			t.Fatalf("%s: nothing replaced", tt.name)
		}
		if _, err := Parse("b.toml", []byte(text)); err == nil || failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	one := strings.Replace(valid, "duration_s = 2\n", "duration_s = 2\nsharing_reference = true\n", 1)
	if _, err := Parse("b.toml", []byte(one)); err == nil || !strings.Contains(err.Error(), "sharing_reference: needs cases") {
		t.Error(err)
	}
}
