// SPDX-License-Identifier: MIT

package archive

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const testExperiment = `# a comment
name = "one"
question = "Does it?"
schedulers = ["none"]
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

// newTree is a source tree with one experiment, and a file for each part.
func newTree(t *testing.T) Tree {
	t.Helper()
	dir := t.TempDir()
	for _, p := range parts {
		for _, name := range p.dirs {
			if filepath.Ext(name) == "" { // a directory
				name += "/source.c"
			}
			put(t, filepath.Join(dir, name), p.name)
		}
	}
	put(t, filepath.Join(dir, "experiments/sub/one.toml"), testExperiment)
	return Tree(dir)
}

func put(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(text), 0o644))
}

func (t Tree) one(tb *testing.T) *experiment.Experiment {
	tb.Helper()
	all, err := t.Experiments()
	must(tb, err)
	if len(all) != 1 {
		tb.Fatalf("%d experiments", len(all))
	}
	return all[0]
}

// A result is stale when a source that was measured changes, and not for a comment, a
// test, or a part that the experiment has nothing to do with.
func TestStale(t *testing.T) {
	for _, c := range []struct {
		file, text string
		want       []string
	}{
		{"experiments/sub/one.toml", strings.Replace(testExperiment, "# a comment", "# another\n#\n", 1), nil},
		{"experiments/sub/one.toml", strings.Replace(testExperiment, "weight = 100", "weight = 200", 1), []string{"experiment changed"}},
		{"kernel/source.c", "other", []string{"modules changed"}},
		{"kernel/more/added.h", "", []string{"modules changed"}},
		{"kernel/more/tests/added.c", "", nil},
		{"internal/lab/run.go", "other", []string{"engine changed"}},
		{"internal/lab/bench/source_test.go", "", nil},
		{"internal/lab/report/source.go", "", nil},
		{"libaps/source.c", "other", nil},
		{"README.md", "other", nil},
	} {
		tree := newTree(t)
		x := tree.one(t)
		sources, err := tree.Sources(x)
		must(t, err)
		doc := &result.Document{Schema: result.Schema, Experiment: "one", Provenance: &result.Provenance{Sources: sources}}
		must(t, tree.Write(doc))
		put(t, filepath.Join(string(tree), c.file), c.text)
		doc, err = tree.Read("one")
		must(t, err)
		why, err := tree.Stale(tree.one(t), doc)
		must(t, err)
		if !slices.Equal(why, c.want) {
			t.Errorf("%s: stale for %q, want %q", c.file, why, c.want)
		}
	}
}

func TestStaleWithoutResult(t *testing.T) {
	tree := newTree(t)
	doc, err := tree.Read("one")
	must(t, err)
	if doc != nil {
		t.Errorf("read %+v", doc)
	}
	for want, doc := range map[string]*result.Document{"not measured": nil, "of unknown sources": {}} {
		if why, err := tree.Stale(tree.one(t), doc); err != nil || len(why) != 1 || why[0] != want {
			t.Errorf("%v, %v, want %q", why, err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"schema":9,"experiment":"one"}`: "has schema 9, this program reads schema 1",
		`{"schema":1,"experiment":"two"}`: `is of experiment "two", not "one"`,
		`{"schema":1,`:                    "make results ONLY=one",
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

func TestOutdated(t *testing.T) {
	doc := &result.Document{Kernel: "6.1.0", Provenance: &result.Provenance{QEMU: "7.2", Compiler: "12"}}
	if why := Outdated(doc, "6.1.0", doc.Provenance); why != nil {
		t.Error(why)
	}
	why := Outdated(doc, "6.1.1", &result.Provenance{QEMU: "7.2", Compiler: "14"})
	if want := []string{"kernel: 6.1.0, now 6.1.1", "compiler: 12, now 14"}; !slices.Equal(why, want) {
		t.Errorf("%q, want %q", why, want)
	}
}

// The sources of this tree are there to be summed up.
func TestSourcesOfThisTree(t *testing.T) {
	tree := Tree("../../..")
	all, err := tree.Experiments()
	must(t, err)
	withLibaps := 0
	for _, x := range all {
		sums, err := tree.Sources(x)
		must(t, err)
		if sums["modules"] == "" || sums["engine"] == "" || sums["experiment"] == "" {
			t.Errorf("%s: %v", x.Name, sums)
		}
		if sums["libaps"] != "" {
			withLibaps++
		}
	}
	if withLibaps == 0 || withLibaps == len(all) {
		t.Errorf("%d of %d experiments have libaps", withLibaps, len(all))
	}
}
