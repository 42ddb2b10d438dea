// SPDX-License-Identifier: MIT

package archive

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// twoCases has three contenders on a null_blk, and a case on a model disk with two of them.
var twoCases = strings.Replace(testExperiment, `["none", "rsd"]`, `["none", "sfq", "rsd"]`, 1) + `[[container]]
name = "b"
weight = 200
[[case]]
name = "null"
[[case]]
name = "model"
schedulers = ["none", "rsd"]
device = { kind = "modeldisk", model = "ull", preset = "optane-p4800x" }
[[expect]]
case = "null"
scheduler = "sfq"
metric = "total_vs_none"
min = 0.5
`

// contendersOf are what is measured: CASE.SCHEDULER, in order.
func contendersOf(x *experiment.Experiment) (all []string) {
	for i := range x.Cases {
		for _, name := range x.SchedulersIn(&x.Cases[i]) {
			all = append(all, x.Cases[i].Name+"."+name)
		}
	}
	return all
}

// newTwoCases is a tree with the experiment of two cases, and sums of its sources.
func newTwoCases(t *testing.T) (Tree, *experiment.Experiment, map[string]string) {
	t.Helper()
	tree := newTree(t)
	put(t, filepath.Join(string(tree), "experiments/sub/one.toml"), twoCases)
	for name, text := range map[string]string{"Kbuild": "", "main.c": "#include \"text.h\"\n"} {
		put(t, filepath.Join(string(tree), "kernel/modeldisk", name), text)
	}
	x := tree.one(t)
	sums, err := tree.Sources(x)
	must(t, err)
	return tree, x, sums
}

// After a change of a module those contenders are measured that load it; after any other, all.
func TestPart(t *testing.T) {
	tree, x, sums := newTwoCases(t)
	all := contendersOf(x)
	for _, c := range []struct {
		changed, want []string
	}{
		{[]string{"rsd"}, []string{"null.rsd", "model.rsd"}},
		{[]string{"sfq"}, []string{"null.sfq"}},
		{[]string{"modeldisk"}, []string{"model.none", "model.rsd"}},
		{[]string{"modeldisk", "sfq"}, []string{"null.sfq", "model.none", "model.rsd"}},
		{[]string{"engine"}, all},
		{[]string{"experiment", "rsd"}, all},
	} {
		was := maps.Clone(sums)
		for _, name := range c.changed {
			if was[name] == "" {
				t.Fatalf("no sum of %s: %v", name, was)
			}
			was[name] = "other"
		}
		part, err := tree.part(x, &result.Document{Provenance: &result.Provenance{Sources: was}})
		must(t, err)
		if got := contendersOf(part); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s, want %s", c.changed, got, c.want)
		}
		if isAll := part == x; isAll != (len(c.want) == len(all)) {
			t.Errorf("%s: all of it: %v", c.changed, isAll)
		}
	}
	for _, was := range []*result.Document{nil, {}} {
		if part, err := tree.part(x, was); err != nil || part != x {
			t.Errorf("without a result with sources: %v, %v", part, err)
		}
	}
}

// runsOf are runs of an experiment's contenders, with figures that a file rounds.
func runsOf(x *experiment.Experiment, factor float64) (runs []result.Run) {
	for i, name := range contendersOf(x) {
		of, scheduler, _ := strings.Cut(name, ".")
		r := result.Run{Case: of, Scheduler: scheduler, Kernel: "6.1.0", Fio: "fio-3.33", Containers: []result.Container{
			{Name: "a", Weight: 100, BytesPS: factor * float64(i+1) * 12345678.912345}, {Name: "b", Weight: 200, BytesPS: factor * float64(i+1) * 23456789.123456},
		}}
		r.Sum()
		runs = append(runs, r)
	}
	return runs
}

func written(t *testing.T, doc *result.Document) string {
	t.Helper()
	var text bytes.Buffer
	must(t, doc.WriteJSON(&text))
	return text.String()
}

// A result completed with the runs of the last one is the same to the last byte as one of which all
// was measured.
func TestCompleted(t *testing.T) {
	_, x, _ := newTwoCases(t)
	for _, modules := range [][]string{{"rsd"}, {"sfq"}, {"modeldisk"}, {"rsd", "sfq"}} {
		old, err := result.Merge(x, runsOf(x, 1))
		must(t, err)
		was, err := Decode("was.json", []byte(written(t, old)))
		must(t, err)

		part := loading(x, modules)
		again := contendersOf(part)
		all := runsOf(x, 1)
		var measured []result.Run
		for i, r := range runsOf(x, 1.07) {
			if slices.Contains(again, r.Case+"."+r.Scheduler) {
				all[i] = r
				measured = append(measured, r)
			}
		}
		now, err := result.Merge(part, measured)
		must(t, err)
		got, err := completed(x, was, now)
		must(t, err)
		want, err := result.Merge(x, all)
		must(t, err)
		if a, b := written(t, got), written(t, want); a != b {
			t.Errorf("%s:\n%s\nwant\n%s", modules, a, b)
		}
	}
}

// Runs of two kernels or versions of fio are not one result.
func TestCompletedOfOneKernel(t *testing.T) {
	_, x, _ := newTwoCases(t)
	was, err := result.Merge(x, runsOf(x, 1))
	must(t, err)
	part := loading(x, []string{"rsd"})
	measured := runsOf(part, 1)
	for i := range measured {
		measured[i].Kernel = "6.1.1"
	}
	now, err := result.Merge(part, measured)
	must(t, err)
	if _, err := completed(x, was, now); err == nil || !strings.Contains(err.Error(), "not comparable") {
		t.Error(err)
	}
}
