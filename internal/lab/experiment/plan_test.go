// SPDX-License-Identifier: MIT

package experiment

import (
	"reflect"
	"strings"
	"testing"

	"isolio/internal/must"
)

const planned = `# One question.
name = "t"
question = "Does it?"
schedulers = ["none", "fast"]
ramp_s = 1.0
duration_s = 2.0

[device]
kind = "null_blk"
completion_us = 1000
tags = 32

[[contender]]
name = "fast"
scheduler = "kyber"
tunables = { read_lat_nsec = 0 }

[job]
rw = "randread"
bs = "4k"

[[container]]
name = "a"
weight = 100
`

// Only what is measured is in a plan. A comment, the order of keys, space and the question are not.
func TestPlanIsCanonical(t *testing.T) {
	plans := func(text string) (string, string) {
		t.Helper()
		x, err := Parse("t.toml", []byte(text))
		must.OK(t, err)
		all, err := x.Plan()
		must.OK(t, err)
		vm, err := x.ForVM(&x.Cases[0], "fast")
		must.OK(t, err)
		return string(all), string(vm)
	}
	wantAll, wantVM := plans(planned)
	for _, c := range []struct{ old, new string }{
		{"# One question.", "# Another comment,\n# of two lines."},
		{"rw = \"randread\"\nbs = \"4k\"", "bs   =  '4k' # bytes\n\n\nrw = \"randread\""},
		{"completion_us = 1000\ntags = 32", "tags = 32\ncompletion_us = 1_000"},
		{"Does it?", "Does it do so?"},
		{"scheduler = \"kyber\"", "scheduler = \"kyber\"\nlabel = \"quick\""},
		{"tags = 32", "tags = 32\nqueues = 1"}, // the default
	} {
		text := strings.Replace(planned, c.old, c.new, 1)
		if text == planned {
			t.Fatalf("%q is not in the experiment", c.old)
		}
		if all, vm := plans(text); all != wantAll || vm != wantVM {
			t.Errorf("%q in place of %q gives another plan:\n%s\n%s", c.new, c.old, vm, wantVM)
		}
	}
	for _, c := range []struct{ old, new string }{
		{"weight = 100", "weight = 200"}, {"read_lat_nsec = 0", "read_lat_nsec = 1"}, {"tags = 32", "tags = 33"},
	} {
		if all, vm := plans(strings.Replace(planned, c.old, c.new, 1)); all == wantAll || vm == wantVM {
			t.Errorf("%q in place of %q gives the same plan", c.new, c.old)
		}
	}
	// What the host does with the measurement, and other contenders, are nothing to the VM.
	for _, c := range []struct{ old, new string }{
		{"name = \"t\"", "name = \"u\""}, {"\"none\"", "\"bfq\", \"none\""}, {"ramp_s", "share_unit = \"iops\"\nramp_s"},
		{"weight = 100\n", "weight = 100\n[[expect]]\nscheduler = \"fast\"\nmetric = \"iops\"\nmin = 0.0\n"},
	} {
		if all, vm := plans(strings.Replace(planned, c.old, c.new, 1)); all == wantAll || vm != wantVM {
			t.Errorf("%q in place of %q: the plan differs: %t, that of the VM: %t; want true, false", c.new, c.old, all != wantAll, vm != wantVM)
		}
	}
}

// Each field is in the plan, and not where it is zero, or is kept out on purpose.
func TestPlanHasEachField(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type)
	look = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			look(of.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if seen[of] {
			return
		}
		seen[of] = true
		for _, f := range reflect.VisibleFields(of) {
			if tag := f.Tag.Get("json"); !f.IsExported() || tag != "-" && !strings.HasSuffix(tag, ",omitzero") {
				t.Errorf("%s.%s has the tag json:%q, want one with omitzero, and an exported field", of, f.Name, tag)
			}
			look(f.Type)
		}
	}
	look(reflect.TypeFor[Experiment]())
	if len(seen) < 12 {
		t.Errorf("looked at %d types", len(seen))
	}
}

// A guest has of each experiment of this tree what the host has.
func TestFromPlan(t *testing.T) {
	all, err := All("../../../experiments")
	must.OK(t, err)
	for _, x := range all {
		text, err := x.Plan()
		must.OK(t, err)
		got, err := FromPlan(x.File, text)
		must.OK(t, err)
		got.Question, got.Answers, got.Critical = x.Question, x.Answers, x.Critical
		for i := range got.Contenders {
			got.Contenders[i].Label = x.Contenders[i].Label
		}
		for i := range got.Expect {
			got.Expect[i].Source = x.Expect[i].Source
		}
		if !reflect.DeepEqual(got, x) {
			t.Errorf("%s: read back it is\n%+v, was\n%+v", x.Name, got, x)
		}
	}
	if _, err := FromPlan("plan.json", []byte("{")); err == nil || !strings.HasPrefix(err.Error(), "plan.json: not a plan: ") {
		t.Errorf("half a plan: %v", err)
	}
}
