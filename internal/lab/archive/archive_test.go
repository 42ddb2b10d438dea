// SPDX-License-Identifier: MIT

package archive

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/guest"
	"isolio/internal/lab/result"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

const testExperiment = `# a comment
name = "one"
question = "Does it?"
schedulers = ["none", "rsd"]
ramp_s = 1.0
duration_s = 2.0
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
queues = 1
size_mib = 64
[job]
rw = "randread"
ioengine = "libaio"
[[container]]
name = "a"
weight = 100
`

const rsdSource = "#include \"guard.h\"\n#include \"trace.h\"\nint x = 1; /* one */\nvoid f(void) { say(\"hello\" \" you\"); }\n"

// newTree is a source tree with one experiment, and the modules that it knows.
func newTree(t *testing.T) Tree {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Kbuild": "obj-m :=", "LICENSE": "", "compat/private-types.txt": "", "compat/features.txt": "", "compat/compat.h": "#include <linux/bio.h>\n#include \"isolio_private.h\"\n",
		"common/guard.c": "#include \"guard.h\"\n", "common/guard.h": "# include <age.h>\n#include \"compat.h\"\n", "common/age.h": "", "common/text.h": "",
		"rsd/Kbuild": "", "rsd/main.c": rsdSource, "rsd/guard.c": "#include \"../common/guard.c\"\n", "rsd/trace.h": "", "rsd/unused.h": "",
		"rsd/tests/rsd_kunit.c": "", "sfq/Kbuild": "", "sfq/main.c": "#include \"text.h\"\n", "sfq/trace.h": "",
	} {
		put(t, filepath.Join(dir, "kernel", name), text)
	}
	put(t, filepath.Join(dir, "experiments/sub/one.toml"), testExperiment)
	return Tree(dir)
}

func put(t *testing.T, file, text string) {
	t.Helper()
	testtree.File(t, file, text)
}

func (t Tree) one(tb *testing.T) *experiment.Experiment {
	tb.Helper()
	all, err := t.Experiments()
	must.OK(tb, err)
	if len(all) != 1 {
		tb.Fatalf("%d experiments", len(all))
	}
	return all[0]
}

// measure writes a result of that name, of the tree's only experiment and its code.
func (t Tree) measure(tb *testing.T, name string) {
	tb.Helper()
	x := t.one(tb)
	if _, line, is := strings.Cut(name, KernelMark); is {
		x = OnKernel(x, line)
	}
	p, err := t.Provenance(x)
	must.OK(tb, err)
	must.OK(tb, t.Write(&result.Document{Schema: result.Schema, Experiment: name, Provenance: p}))
}

// A result is old when the experiment or the code of a module that it loads changes, and not
// for a comment, a message, a test, or what the experiment has nothing to do with.
func TestOld(t *testing.T) {
	for _, c := range []struct {
		file, text string
		want       []string
	}{
		{"experiments/sub/one.toml", strings.Replace(testExperiment, "# a comment", "# another\n#\n", 1), nil},
		{"experiments/sub/one.toml", strings.Replace(testExperiment, "weight = 100", "weight = 200", 1), []string{"experiment changed"}},
		{"kernel/rsd/main.c", "other", []string{"rsd changed"}},
		{"kernel/rsd/added.c", "", []string{"rsd changed"}},
		{"kernel/rsd/trace.h", "other", []string{"rsd changed"}},
		{"kernel/rsd/Kbuild", "other", []string{"rsd changed"}},
		{"kernel/common/guard.c", "other", []string{"rsd changed"}},
		{"kernel/common/age.h", "other", []string{"rsd changed"}},
		{"kernel/compat/compat.h", "other", []string{"rsd changed"}},
		{"kernel/compat/features.txt", "other", []string{"rsd changed"}},
		{"kernel/compat/isolio_private.h", "", []string{"rsd changed"}},
		{"kernel/Kbuild", "other", []string{"rsd changed"}},
		{"kernel/LICENSE", "other", nil},
		{"kernel/common/text.h", "other", nil},
		{"kernel/rsd/unused.h", "other", nil},
		{"kernel/rsd/tests/rsd_kunit.c", "other", nil},
		{"kernel/sfq/main.c", "other", nil},
		{"kernel/sfq/trace.h", "other", nil},
		{"kernel/rsd/main.c", rsdSource + "/* A comment,\n * of two lines. */ // another\n", nil},
		{"kernel/rsd/main.c", rsdSource + "int y = '/*';\n", []string{"rsd changed"}},
		{"kernel/rsd/Kbuild", "# a comment\n", nil},
		{"kernel/rsd/main.c", strings.Replace(rsdSource, `"hello" " you"`, `"good morning"`, 1), nil},
		{"kernel/rsd/main.c", strings.Replace(rsdSource, `"guard.h"`, `"guard.c"`, 1), []string{"rsd changed"}},
		{"kernel/rsd/main.c", strings.Replace(rsdSource, "x = 1", "x = 2", 1), []string{"rsd changed"}},
		{"internal/lab/result/table.go", "package result", nil},
		{"internal/lab/bench/run.go", "package bench", nil},
		{"libaps/source.c", "other", nil},
		{"README.md", "other", nil},
	} {
		tree := newTree(t)
		tree.measure(t, "one")
		put(t, filepath.Join(string(tree), c.file), c.text)
		doc, err := tree.Read("one")
		must.OK(t, err)
		why, err := tree.Old(tree.one(t), doc)
		must.OK(t, err)
		if !slices.Equal(why, c.want) {
			t.Errorf("%s: old for %q, want %q", c.file, why, c.want)
		}
	}
}

// A module that an experiment loads has sources.
func TestProvenanceNeedsTheModule(t *testing.T) {
	tree := newTree(t)
	must.OK(t, os.RemoveAll(filepath.Join(string(tree), "kernel/rsd")))
	if _, err := tree.Provenance(tree.one(t)); err == nil || !strings.Contains(err.Error(), "code of rsd: ") || !strings.Contains(err.Error(), "kernel/rsd has no C file") {
		t.Error(err)
	}
}

func TestOldWithoutResult(t *testing.T) {
	tree := newTree(t)
	doc, err := tree.Read("one")
	must.OK(t, err)
	if doc != nil {
		t.Errorf("read %+v", doc)
	}
	for want, doc := range map[string]*result.Document{"not measured": nil, "measured at an unknown version": {}} {
		if why, err := tree.Old(tree.one(t), doc); err != nil || len(why) != 1 || why[0] != want {
			t.Errorf("%v, %v, want %q", why, err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"schema":9,"experiment":"one"}`:          "has schema 9, this program reads schema 1",
		`{"schema":1,"experiment":"two","runs":0}`: `is of experiment "two", not "one"`,
		`{"schema":1,`: "make results ONLY=one",
	} {
		tree := newTree(t)
		put(t, tree.file("one"), text)
		if _, err := tree.Read("one"); err == nil || !strings.Contains(err.Error(), want) || failure.Code(err) != failure.Usage {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestExperimentHasItsFilesName(t *testing.T) {
	tree := newTree(t)
	put(t, filepath.Join(string(tree), "experiments/two.toml"), testExperiment)
	if _, err := tree.Experiments(); err == nil || !strings.Contains(err.Error(), `name: is "one"; allowed: the file's, "two"`) {
		t.Error(err)
	}
}

// A result's name says on which other kernel its experiment was measured.
func TestMeasuredOnOtherKernels(t *testing.T) {
	tree := newTree(t)
	x := tree.one(t)
	tree.measure(t, "one@6.12")
	all, err := tree.Measured()
	must.OK(t, err)
	if len(all) != 2 || all[0].Name != "one" || all[0].Kernel != x.Kernel || all[1].Name != "one@6.12" || all[1].Kernel != "6.12" {
		t.Fatalf("%+v", all)
	}
	read, err := tree.Read("one@6.12")
	must.OK(t, err)
	if why, err := tree.Old(all[1], read); err != nil || why != nil {
		t.Error(why, err)
	}

	tree.measure(t, "two@6.12")
	if _, err := tree.Measured(); failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), `results/two@6.12.jsonl: no experiment is called "two"`) {
		t.Error(err)
	}
}

// Another engine is told by its version.
func TestOldEngine(t *testing.T) {
	tree := newTree(t)
	p, err := tree.Provenance(tree.one(t))
	must.OK(t, err)
	p.Engine--
	want := []string{fmt.Sprintf("engine %d, now %d", guest.EngineVersion-1, guest.EngineVersion)}
	if why, err := tree.Old(tree.one(t), &result.Document{Provenance: p}); err != nil || !slices.Equal(why, want) {
		t.Errorf("old for %q, %v, want %q", why, err, want)
	}
}

// The code of this tree is there to be summed up.
func TestProvenanceOfThisTree(t *testing.T) {
	tree := Tree("../../..")
	all, err := tree.Experiments()
	must.OK(t, err)
	withLibaps := 0
	for _, x := range all {
		p, err := tree.Provenance(x)
		must.OK(t, err)
		sums := p.Code
		if p.Plan == "" || p.Engine == 0 {
			t.Errorf("%s: %+v", x.Name, p)
		}
		if n := len(x.Modules()); n == 0 && x.Cases[0].Device.Kind == experiment.ModelDisk {
			t.Errorf("%s: no module", x.Name)
		}
		for _, module := range x.Modules() {
			if sums[module] == "" {
				t.Errorf("%s: no sum of %s: %v", x.Name, module, sums)
			}
		}
		if sums["libaps"] != "" {
			withLibaps++
		}
	}
	if withLibaps == 0 || withLibaps == len(all) {
		t.Errorf("%d of %d experiments have libaps", withLibaps, len(all))
	}
}
