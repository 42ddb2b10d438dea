// SPDX-License-Identifier: MIT

package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/plan"
)

func fakeTree(t *testing.T, files map[string]string) Tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Tree{Root: root}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string // part of the message, "" for none
	}{
		{"good", map[string]string{"cgroup.controllers": "cpuset cpu io memory pids\n"}, ""},
		{"not cgroup v2", nil, "is not a cgroup v2 tree"},
		{"cgroup v1", map[string]string{"blkio/blkio.weight": "500\n"}, "blkio is of cgroup v1, and isolio works with v2 only; boot with"},
		{"io in v1", map[string]string{"cgroup.controllers": "cpuset pids\n"}, "has no io controller (it has: cpuset pids)"},
		{"not quite io", map[string]string{"cgroup.controllers": "iox rdma\n"}, "has no io controller"},
	}
	for _, tt := range tests {
		err := fakeTree(t, tt.files).Check()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || failure.Code(err) != failure.Unsupported):
			t.Errorf("%s: %v (code %d), want %q", tt.name, err, failure.Code(err), tt.want)
		}
	}
}

func TestEnable(t *testing.T) {
	for _, tt := range []struct {
		enabled string
		want    []string
		wanted  []string
	}{
		{"cpu memory\n", []string{"io"}, []string{"+io -io"}},
		{"cpu io\n", []string{"io"}, nil},
		{"cpu io\n", []string{"io", "memory"}, []string{"+memory -memory"}},
		{"\n", []string{"io", "memory"}, []string{"+io -io", "+memory -memory"}},
	} {
		steps, err := fakeTree(t, map[string]string{"cgroup.subtree_control": tt.enabled}).Enable(tt.want)
		var got []string
		for _, s := range steps {
			got = append(got, s.Value+" "+s.Undo)
		}
		if err != nil || !slices.Equal(got, tt.wanted) {
			t.Errorf("%q: Enable(%q) = %q, %v, want %q", tt.enabled, tt.want, got, err, tt.wanted)
		}
	}
}

func TestMake(t *testing.T) {
	var b strings.Builder
	steps := Tree{Root: "/cg"}.Make("isolio-x", []string{"a", "k8s/pod1", "k8s/pod2"}, []string{"io"})
	if err := plan.Print(&b, steps); err != nil {
		t.Fatal(err)
	}
	want := `mkdir /cg/isolio-x
echo '+io' > /cg/isolio-x/cgroup.subtree_control
mkdir /cg/isolio-x/a
mkdir /cg/isolio-x/k8s
echo '+io' > /cg/isolio-x/k8s/cgroup.subtree_control
mkdir /cg/isolio-x/k8s/pod1
mkdir /cg/isolio-x/k8s/pod2
`
	if b.String() != want {
		t.Errorf("Make:\n%swant\n%s", b.String(), want)
	}
}

// Each group on the way passes all controllers on.
func TestMakePassesControllersOn(t *testing.T) {
	n := 0
	for _, s := range (Tree{}).Make("x", []string{"a/b"}, []string{"io", "memory"}) {
		if filepath.Base(s.Path) == "cgroup.subtree_control" && (s.Value == "+io" || s.Value == "+memory") {
			n++
		}
	}
	if n != 4 {
		t.Errorf("%d controllers passed on, want 2 by each of x and x/a", n)
	}
}

func TestMakeSaysThatTheGroupIsThere(t *testing.T) {
	tree := fakeTree(t, map[string]string{"isolio-x/cgroup.procs": ""})
	err := plan.On(plan.OS{}).Apply(tree.Make("isolio-x", nil, []string{"io"}))
	if err == nil || !strings.Contains(err.Error(), "isolio-x is there already") {
		t.Errorf("Apply = %v", err)
	}
}

func TestSetNamesGroupAndFile(t *testing.T) {
	s := Tree{Root: "/cg"}.Set("isolio-x/a", "io.weight", "default 100")
	if s.Name != "a/io.weight" || s.Path != "/cg/isolio-x/a/io.weight" {
		t.Errorf("Set = %+v", s)
	}
}

func TestKillUsesTheKernelsFile(t *testing.T) {
	tree := fakeTree(t, map[string]string{"x/cgroup.kill": "", "x/cgroup.procs": "1\n"})
	if err := tree.Kill("x"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(tree.Path("x", "cgroup.kill")); string(got) != "1\n" {
		t.Errorf("cgroup.kill holds %q", got)
	}
}

func TestKillWithoutTheKernelsFile(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	tree := fakeTree(t, map[string]string{"x/cgroup.procs": strconv.Itoa(sleep.Process.Pid) + "\n"})
	if err := tree.Kill("x"); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := sleep.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("sleep ended with %v, want killed", err)
	}
	if err := tree.Kill("x"); err != nil {
		t.Errorf("Kill of what is gone: %v", err)
	}
	for _, bad := range []string{"0\n", "-1\n", "1\n", "x\n"} {
		tree = fakeTree(t, map[string]string{"x/cgroup.procs": bad})
		if err := tree.Kill("x"); err == nil {
			t.Errorf("Kill took the process %q", bad)
		}
	}
}

func TestOpenWantsADirectory(t *testing.T) {
	tree := fakeTree(t, map[string]string{"x/cgroup.procs": ""})
	dir, err := tree.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	dir.Close()
	if f, err := tree.Open("x/cgroup.procs"); err == nil {
		f.Close()
		t.Error("Open took a file")
	}
}

// The stall of some task, in microseconds; below 0 where the kernel does not count it.
func TestStalled(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"some avg10=0.00 avg60=0.11 avg300=0.22 total=1234567\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n": 1234567 * time.Microsecond,
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n":                                                       -1,
		"":             -1,
		"some avg=1\n": -1,
	} {
		tree := Tree{Root: t.TempDir()}
		if err := os.WriteFile(tree.Path("io.pressure"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := tree.Stalled(""); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	tree := Tree{Root: t.TempDir()}
	if got, err := tree.Stalled(""); err != nil || got != -1 {
		t.Errorf("no file: %s, %v", got, err)
	}
	if err := os.WriteFile(tree.Path("io.pressure"), []byte("some total=x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := tree.Stalled(""); err == nil {
		t.Errorf("no number: %s", got)
	}
}
