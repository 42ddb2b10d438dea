// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"isolio/internal/must"
)

// sharing has a case that is not for all contenders, and is compared with.
const sharing = `name = "m"
question = "At what price?"
schedulers = ["none", "kyber", "bfq"]
duration_s = 2
reference_case = "reference"
[device]
kind = "modeldisk"
model = "nvme"
[job]
rw = "randread"
[[container]]
name = "a"
weight = 1
[[container]]
name = "b"
weight = 2
[[case]]
name = "shared"
[[case]]
name = "deep"
schedulers = ["bfq", "none"]
reference_case = "deep"
job.iodepth = 128
[[case]]
name = "reference"
schedulers = ["none"]
[[case.container]]
name = "all"
weight = 1
[[expect]]
scheduler = "bfq"
metric = "share_error_pct"
container = "a"
max = 2
[[expect]]
scheduler = "bfq"
metric = "total_vs:kyber"
min = 1
[[expect]]
scheduler = "none"
metric = "total_iops"
min = 1
[[expect]]
case = "shared"
scheduler = "kyber"
metric = "total_vs_case:reference"
min = 0.97
`

// subjects are what is expected of the experiment.
func subjects(e *Experiment) (all []string) {
	for _, x := range e.Expect {
		all = append(all, x.Subject())
	}
	return all
}

// runsOf are the runs that the experiment asks for.
func runsOf(e *Experiment) (all []string) {
	for i := range e.Cases {
		k := &e.Cases[i]
		all = append(all, fmt.Sprintf("%s/%s: %s", k.Name, k.ReferenceCase, strings.Join(e.SchedulersIn(k), " ")))
	}
	return all
}

func TestSchedulersOfCases(t *testing.T) {
	e, err := Parse("x", []byte(sharing))
	must.OK(t, err)
	all := []string{
		"shared: bfq: share_error_pct of a", "deep: bfq: share_error_pct of a", // the reference has no a: bfq is not there
		"shared: bfq: total_vs:kyber", // kyber is not in deep
		"shared: none: total_iops", "deep: none: total_iops", "reference: none: total_iops",
		"shared: kyber: total_vs_case:reference",
	}
	for _, tt := range []struct {
		name              string
		schedulers, cases []string
		runs, subjects    []string
		left              []string
	}{
		{
			"all", nil, nil,
			[]string{"shared/reference: none kyber bfq", "deep/deep: none bfq", "reference/reference: none"}, all,
			[]string{"none", "kyber", "bfq"},
		},
		{
			"one scheduler", []string{"kyber"}, nil, []string{"shared/: kyber"}, nil, []string{"kyber"},
		},
		{
			"two schedulers", []string{"kyber", "none"}, nil,
			[]string{"shared/reference: none kyber", "deep/deep: none", "reference/reference: none"}, all[3:], []string{"none", "kyber"},
		},
		{
			"one case", nil, []string{"deep"}, []string{"deep/deep: none bfq"}, []string{all[1], all[4]}, []string{"none", "bfq"},
		},
		{
			"the reference", nil, []string{"reference"}, []string{"reference/reference: none"}, []string{all[5]}, []string{"none"},
		},
	} {
		s, err := e.Select(tt.schedulers, tt.cases)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if !slices.Equal(runsOf(s), tt.runs) {
			t.Errorf("%s: runs %q, want %q", tt.name, runsOf(s), tt.runs)
		}
		if !slices.Equal(subjects(s), tt.subjects) {
			t.Errorf("%s: expected %q, want %q", tt.name, subjects(s), tt.subjects)
		}
		if !slices.Equal(s.Schedulers, tt.left) {
			t.Errorf("%s: schedulers %q, want %q", tt.name, s.Schedulers, tt.left)
		}
	}
	if !slices.Equal(subjects(e), all) {
		t.Errorf("a selection changed what it was taken from: %q", subjects(e))
	}
	_, err = e.Select([]string{"kyber"}, []string{"deep", "reference"})
	want := "x: schedulers: kyber: not in case deep, reference; allowed: a scheduler and a case that has it"
	if err == nil || err.Error() != want {
		t.Errorf("a scheduler that is not in the case: %v, want %s", err, want)
	}
}

func TestParseRefusesSchedulersOfCases(t *testing.T) {
	refuses(t, sharing, []struct{ name, old, new, want string }{
		{
			"unknown", `["bfq", "none"]`, `["bfq", "cfq"]`,
			`x:21: case.schedulers: "cfq" is not one of the experiment's schedulers; allowed: none, kyber, bfq`,
		},
		{"twice", `["bfq", "none"]`, `["bfq", "bfq"]`, `x:21: case.schedulers: "bfq" is listed twice; allowed: each scheduler once`},
		{"nobody", `["bfq", "none"]`, `[]`, `x:21: case.schedulers: is empty; allowed: none, kyber, bfq`},
		{"a string", `["bfq", "none"]`, `"bfq"`, `x:21: case.schedulers: has the wrong type; allowed: a list of strings`},
		{
			"in no case", `name = "shared"`, "name = \"shared\"\nschedulers = [\"none\", \"bfq\"]",
			`x:3: schedulers: "kyber" runs in no case; allowed: in one of them, or leave it out`,
		},
		{
			"expected where it is not", "case = \"shared\"\nscheduler = \"kyber\"", "case = \"deep\"\nscheduler = \"kyber\"",
			"x:45: expect.scheduler: kyber does not run in case deep; allowed: a case in which its scheduler runs, and what it is compared with",
		},
		{
			"compared where it is not", "case = \"shared\"\nscheduler = \"kyber\"\nmetric = \"total_vs_case:reference\"", "case = \"deep\"\nscheduler = \"bfq\"\nmetric = \"total_vs:kyber\"",
			"x:45: expect.scheduler: kyber does not run in case deep; allowed: a case in which its scheduler runs, and what it is compared with",
		},
		{
			"compared where none is", `total_vs_case:reference`, `total_vs_case:reference/bfq`,
			"x:46: expect.metric: bfq does not run in case reference; allowed: none",
		},
		{
			"a case's own reference is not there", `reference_case = "deep"`, `reference_case = "calm"`,
			`x:22: case.reference_case: "calm" is not one of the experiment's cases; allowed: shared, deep, reference`,
		},
		{
			"a reference without none", `["bfq", "none"]`, `["bfq"]`,
			`x:22: case.reference_case: none does not run in case deep; allowed: bfq`,
		},
		{
			"device time without none alone", "reference_case = \"reference\"", "share_unit = \"device_time\"",
			`x:5: share_unit: device_time needs a case solo-a; allowed: a case with that container alone, or another unit`,
		},
	})
	solos := strings.Replace(sharing, "[[expect]]", "[[case]]\nname = \"solo-a\"\nschedulers = [\"bfq\"]\n[[case.container]]\nname = \"a\"\nweight = 1\n[[expect]]", 1)
	refuses(t, solos, []struct{ name, old, new, want string }{
		{
			"a container alone without none", "reference_case = \"reference\"", "share_unit = \"device_time\"",
			`x:5: share_unit: device_time needs none in case solo-a; allowed: that scheduler there, or another unit`,
		},
	})
}
