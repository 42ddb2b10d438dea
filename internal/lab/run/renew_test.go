// SPDX-License-Identifier: MIT

package run

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/lab/archive"
	"isolio/internal/lab/result"
	"isolio/internal/must"
)

// newTree is a source tree with one experiment, and no module.
func newTree(t *testing.T) archive.Tree {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(dir, "experiments"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(dir, "experiments/one.toml"), []byte(strings.Replace(testExperiment, `name = "t"`, `name = "one"`, 1)), 0o644))
	return archive.Tree(dir)
}

// keep writes a result of that name, as if the tree's experiment had been measured now.
func keep(t *testing.T, tree archive.Tree, name string) {
	t.Helper()
	all, err := tree.Experiments()
	must.OK(t, err)
	x := all[0]
	if _, line, is := strings.Cut(name, archive.KernelMark); is {
		x = archive.OnKernel(x, line)
	}
	p, err := tree.Provenance(x)
	must.OK(t, err)
	must.OK(t, tree.Write(&result.Document{Schema: result.Schema, Experiment: name, Runs: []result.Run{{Scheduler: "none"}}, Provenance: p}))
}

// A pattern and a kernel say which experiments are renewed.
func TestRenewalOf(t *testing.T) {
	tree := newTree(t)
	all, err := tree.Experiments()
	must.OK(t, err)
	x := all[0]
	keep(t, tree, "one@6.12")
	for _, c := range []struct {
		only, kernel string
		want         []string
	}{
		{"", "", []string{"one", "one@6.12"}},
		{"o*", "", []string{"one", "one@6.12"}},
		{"one@*", "", []string{"one@6.12"}},
		{"two", "", nil},
		{"one", "7.2", []string{"one@7.2"}},
		{"one", x.Kernel, []string{"one"}},
	} {
		r := Renewal{Tree: tree, Only: c.only, Kernel: c.kernel}
		all, err := r.experiments()
		must.OK(t, err)
		var names []string
		for _, x := range all {
			if r.isAsked(x) {
				names = append(names, x.Name)
			}
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("only %q, kernel %q: %q, want %q", c.only, c.kernel, names, c.want)
		}
	}
	r := Renewal{Tree: tree, Kernel: "6.12"}
	if _, err := r.experiments(); failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), "no experiment is named to measure on 6.12") {
		t.Error(err)
	}
}

// What is old is measured, and with All what is not.
func TestRenewalOfOld(t *testing.T) {
	tree := newTree(t)
	says := func(all bool) string {
		t.Helper()
		var out bytes.Buffer
		r := Renewal{Tree: tree, Lab: Options{Jobs: 1}, DryRun: true, All: all, Out: &out}
		must.OK(t, r.Run(context.Background()))
		return out.String()
	}
	if got, want := says(false), "[1/1] one: not measured; 3 VMs, at most about 33 s; 33 s left for all\n"; got != want {
		t.Errorf("not measured: %q, want %q", got, want)
	}
	keep(t, tree, "one")
	if got, want := says(false), "results: none is older than the code\n"; got != want {
		t.Errorf("measured: %q, want %q", got, want)
	}
	if got := says(true); !strings.Contains(got, "one: asked for; 3 VMs") {
		t.Errorf("all: %q", got)
	}
	file := filepath.Join(string(tree), "experiments/one.toml")
	text, err := os.ReadFile(file)
	must.OK(t, err)
	must.OK(t, os.WriteFile(file, bytes.Replace(text, []byte("weight = 100"), []byte("weight = 101"), 1), 0o644))
	if got := says(false); !strings.Contains(got, "one: experiment changed; 3 VMs") {
		t.Errorf("changed: %q", got)
	}
}
