// SPDX-License-Identifier: MIT

package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"isolio/internal/host/weight"
	"isolio/internal/must"
)

// Where several cgroup v2 trees are mounted, the one with the io controller is meant.
func TestFind(t *testing.T) {
	const proc = "proc/self/mountinfo"
	v2 := func(at string) string { return "30 22 0:26 / " + at + " rw,nosuid shared:4 - cgroup2 cgroup2 rw\n" }
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no mountinfo", nil, "sys/fs/cgroup"},
		{"usual", map[string]string{proc: v2("/sys/fs/cgroup")}, "sys/fs/cgroup"},
		{"elsewhere", map[string]string{proc: v2("/mnt/cg")}, "mnt/cg"},
		{"hybrid, without io", map[string]string{proc: v2("/sys/fs/cgroup/unified"), "sys/fs/cgroup/unified/cgroup.controllers": "\n"}, "sys/fs/cgroup/unified"},
		{"two", map[string]string{proc: v2("/a") + v2("/b"), "a/cgroup.controllers": "memory\n", "b/cgroup.controllers": "cpu io\n"}, "b"},
		{"none", map[string]string{proc: "22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw\n"}, "sys/fs/cgroup"},
	} {
		root := fakeTree(t, tt.files).Root
		got, err := Find(root)
		if err != nil || got.Root != filepath.Join(root, tt.want) {
			t.Errorf("%s: Find = %s, %v; want %s", tt.name, got.Root, err, tt.want)
		}
	}
}

func TestGroups(t *testing.T) {
	tree := fakeTree(t, map[string]string{"io.stat": "", "b/x/io.stat": "", "a/io.stat": "", "b/io.stat": ""})
	got, err := tree.Groups()
	if want := []string{"a", "b", "b/x"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Groups = %v, %v; want %v", got, err, want)
	}
	if _, err := (Tree{Root: "/no/such/tree"}).Groups(); err == nil {
		t.Error("a tree that is not there has no error")
	}
}

func TestWeights(t *testing.T) {
	tree := fakeTree(t, map[string]string{
		"a/io.weight": "default 200\n8:0 500\n",
		"b/io.weight": "nonsense here now\n",
		"c/io.stat":   "",
	})
	if v, there, err := tree.Weights("a", "io.weight"); err != nil || !there || v.On("8:0") != 500 || v.Default != 200 {
		t.Errorf("a: %v, %v, %v", v, there, err)
	}
	if _, _, err := tree.Weights("b", "io.weight"); err == nil {
		t.Error("b: no error")
	}
	if v, there, err := tree.Weights("c", "io.weight"); err != nil || there || v.Said() {
		t.Errorf("c: %v, %v, %v", v, there, err)
	}
}

// The undoing of a write is what was there before, to the letter.
func TestSetWeight(t *testing.T) {
	tree := fakeTree(t, map[string]string{"a/io.kyber.weight": "default 200\n8:0 500\n"})
	for _, tt := range []struct {
		majMin, value, undo string
		n                   weight.Value
	}{
		{"", "300", "200", 300},
		{"", "100", "200", 0},
		{"8:0", "8:0 300", "8:0 500", 300},
		{"8:0", "8:0 default", "8:0 500", 0},
		{"8:16", "8:16 7", "8:16 default", 7},
		{"", "sum", "200", weight.Sum},
		{"8:0", "8:0 sum", "8:0 500", weight.Sum},
	} {
		s, err := tree.SetWeight("a", "io.kyber.weight", tt.majMin, tt.n)
		if err != nil || s.Value != tt.value || s.Undo != tt.undo || s.Path != tree.Path("a/io.kyber.weight") {
			t.Errorf("%s on %q: %+v, %v; want %q, undone by %q", tt.n, tt.majMin, s, err, tt.value, tt.undo)
		}
	}
	tree = fakeTree(t, map[string]string{"a/io.kyber.weight": "default sum\n8:0 sum\n"})
	for majMin, undo := range map[string]string{"": "sum", "8:0": "8:0 sum"} {
		if s, err := tree.SetWeight("a", "io.kyber.weight", majMin, 7); err != nil || s.Undo != undo {
			t.Errorf("7 on %q: undone by %q, %v; want %q", majMin, s.Undo, err, undo)
		}
	}
}

func TestIOCost(t *testing.T) {
	tree := fakeTree(t, map[string]string{"io.cost.qos": "254:0 enable=1 ctrl=auto rpct=0.00\n8:0 enable=0 ctrl=auto\n"})
	got, err := tree.IOCost()
	if err != nil || !got["254:0"] || got["8:0"] || len(got) != 1 {
		t.Errorf("IOCost = %v, %v", got, err)
	}
	must.OK(t, os.Remove(tree.Path("io.cost.qos")))
	if got, err := tree.IOCost(); err != nil || len(got) != 0 {
		t.Errorf("without io.cost: %v, %v", got, err)
	}
}

func TestKeyed(t *testing.T) {
	tree := fakeTree(t, map[string]string{"a/io.kyber.stat": "259:0 rbytes=10 share_ppm=540000\n8:0 rbytes=1 name=x\n", "a/cgroup.subtree_control": "cpu io\n"})
	got, err := tree.Keyed("a", "io.kyber.stat")
	if err != nil || got["259:0"]["share_ppm"] != 540000 || got["8:0"]["rbytes"] != 1 || len(got["8:0"]) != 1 {
		t.Errorf("Keyed = %v, %v", got, err)
	}
	if got, err := tree.Keyed("b", "io.kyber.stat"); err != nil || len(got) != 0 {
		t.Errorf("no such group: %v, %v", got, err)
	}
	for group, want := range map[string]bool{"a": true, "b": false} {
		if got, err := tree.Passes(group); err != nil || got != want {
			t.Errorf("Passes(%s) = %v, %v", group, got, err)
		}
	}
}
