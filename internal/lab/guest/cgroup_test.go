// SPDX-License-Identifier: MIT

package guest

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
	"isolio/internal/must"
	"isolio/internal/plan"
	"isolio/internal/testtree"
)

func fakeCgroups(t *testing.T, files map[string]string) Cgroups {
	t.Helper()
	return Cgroups{Root: testtree.New(t, files)}
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
		steps, err := fakeCgroups(t, map[string]string{"cgroup.subtree_control": tt.enabled}).Enable(tt.want)
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
	steps := Cgroups{Root: "/cg"}.Make("isolio-x", []string{"a", "k8s/pod1", "k8s/pod2"}, []string{"io"})
	must.OK(t, plan.Print(&b, steps))
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
	for _, s := range (Cgroups{}).Make("x", []string{"a/b"}, []string{"io", "memory"}) {
		if filepath.Base(s.Path) == "cgroup.subtree_control" && (s.Value == "+io" || s.Value == "+memory") {
			n++
		}
	}
	if n != 4 {
		t.Errorf("%d controllers passed on, want 2 by each of x and x/a", n)
	}
}

func TestMakeSaysThatTheGroupIsThere(t *testing.T) {
	tree := fakeCgroups(t, map[string]string{"isolio-x/cgroup.procs": ""})
	err := plan.On(plan.OS{}).Apply(tree.Make("isolio-x", nil, []string{"io"}))
	if err == nil || !strings.Contains(err.Error(), "isolio-x is there already") {
		t.Errorf("Apply = %v", err)
	}
}

func TestSetNamesGroupAndFile(t *testing.T) {
	s := Cgroups{Root: "/cg"}.Set("isolio-x/a", "io.weight", "default 100")
	if s.Name != "a/io.weight" || s.Path != "/cg/isolio-x/a/io.weight" {
		t.Errorf("Set = %+v", s)
	}
}

func TestKillUsesTheKernelsFile(t *testing.T) {
	tree := fakeCgroups(t, map[string]string{"x/cgroup.kill": "", "x/cgroup.procs": "1\n"})
	must.OK(t, tree.Kill("x"))
	if got, _ := os.ReadFile(tree.Path("x", "cgroup.kill")); string(got) != "1\n" {
		t.Errorf("cgroup.kill holds %q", got)
	}
}

func TestKillWithoutTheKernelsFile(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	must.OK(t, sleep.Start())
	tree := fakeCgroups(t, map[string]string{"x/cgroup.procs": strconv.Itoa(sleep.Process.Pid) + "\n"})
	must.OK(t, tree.Kill("x"))
	var exit *exec.ExitError
	if err := sleep.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("sleep ended with %v, want killed", err)
	}
	if err := tree.Kill("x"); err != nil {
		t.Errorf("Kill of what is gone: %v", err)
	}
	for _, bad := range []string{"0\n", "-1\n", "1\n", "x\n"} {
		tree = fakeCgroups(t, map[string]string{"x/cgroup.procs": bad})
		if err := tree.Kill("x"); err == nil {
			t.Errorf("Kill took the process %q", bad)
		}
	}
}

func TestOpenWantsADirectory(t *testing.T) {
	tree := fakeCgroups(t, map[string]string{"x/cgroup.procs": ""})
	dir, err := tree.Open("x")
	must.OK(t, err)
	dir.Close()
	if f, err := tree.Open("x/cgroup.procs"); err == nil {
		f.Close()
		t.Error("Open took a file")
	}
}

func TestCounters(t *testing.T) {
	const mine = "rbytes=8192 wbytes=12288 rios=2 wios=3 dbytes=4096 dios=1"
	want := counters{ReadBytes: 8192, WriteBytes: 12288, ReadIOs: 2, WriteIOs: 3}
	tests := []struct {
		name, text string
		want       counters
	}{
		{"no request yet", "", counters{}},
		{"only others", "8:0 " + mine + "\n252:1 " + mine + "\n1252:0 " + mine + "\n", counters{}},
		{"among others", "8:0 rbytes=1 wbytes=1 rios=1 wios=1 dbytes=0 dios=0\n252:0 " + mine + "\n259:0 rbytes=9\n", want},
		{"with what io.cost adds", "252:0 " + mine + " cost.vrate=100.00 cost.usage=52304\n", want},
		{"nothing but what io.cost adds", "252:0 cost.usage=0\n", counters{}},
		{"a line without counters", "252:0 \n", counters{}},
	}
	for _, tt := range tests {
		got, err := fakeCgroups(t, map[string]string{"x/io.stat": tt.text}).Counters("x", "252:0")
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestCountersRefuses(t *testing.T) {
	tree := fakeCgroups(t, map[string]string{"x/io.stat": "252:0 rbytes=-1\n"})
	if _, err := tree.Counters("x", "252:0"); err == nil || !strings.Contains(err.Error(), `io.stat: 252:0: "rbytes=-1" is not a number`) {
		t.Errorf("Counters = %v", err)
	}
	if _, err := tree.Counters("y", "252:0"); err == nil {
		t.Error("Counters of a group that is not there")
	}
}

// One reader tells what the counters are at each reading, whatever their length.
func TestCountersReaderReadsAgain(t *testing.T) {
	tree := fakeCgroups(t, map[string]string{"x/io.stat": "252:0 rbytes=4096 rios=1\n"})
	r, err := tree.OpenCounters("x", "252:0")
	must.OK(t, err)
	defer r.Close()
	for _, tt := range []struct {
		text string
		want counters
	}{
		{"252:0 rbytes=4096 rios=1\n", counters{ReadBytes: 4096, ReadIOs: 1}},
		{"252:0 rbytes=12288 rios=3\n", counters{ReadBytes: 12288, ReadIOs: 3}},
		{strings.Repeat("8:16 rbytes=1 wbytes=1 rios=1 wios=1 dbytes=0 dios=0\n", 400) + "252:0 rbytes=16384 rios=4\n", counters{ReadBytes: 16384, ReadIOs: 4}},
	} {
		testtree.File(t, tree.Path("x", "io.stat"), tt.text)
		if got, err := r.Read(); err != nil || got != tt.want {
			t.Errorf("%d bytes: %+v, %v, want %+v", len(tt.text), got, err, tt.want)
		}
	}
}

func TestFreeze(t *testing.T) {
	tree := fakeCgroups(t, map[string]string{"x/cgroup.freeze": "0\n", "y/io.stat": ""})
	for on, want := range map[bool]string{true: "1\n", false: "0\n"} {
		must.OK(t, tree.Freeze("x", on))
		if got, err := os.ReadFile(tree.Path("x", "cgroup.freeze")); err != nil || string(got) != want {
			t.Errorf("Freeze(%t) wrote %q, %v", on, got, err)
		}
	}
	if err := tree.Freeze("y", true); failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "Linux 5.2 or newer") {
		t.Errorf("a kernel without the file: %v", err)
	}
}

func TestCPUTimeOfGroup(t *testing.T) {
	tree := fakeCgroups(t, map[string]string{
		"a/cpu.stat": "usage_usec 30\nuser_usec 20\nsystem_usec 10\nnr_periods 0\n",
		"b/cpu.stat": "user_usec soon\n",
	})
	if user, system, err := tree.CPUTime("a"); err != nil || user != 20*time.Microsecond || system != 10*time.Microsecond {
		t.Errorf("CPUTime(a) = %s, %s, %v", user, system, err)
	}
	if user, system, err := tree.CPUTime("without"); err != nil || user != 0 || system != 0 {
		t.Errorf("CPUTime(without) = %s, %s, %v", user, system, err)
	}
	if _, _, err := tree.CPUTime("b"); err == nil || !strings.Contains(err.Error(), `user_usec: "soon" is not a number`) {
		t.Errorf("CPUTime(b) = %v", err)
	}
}

func TestWriteback(t *testing.T) {
	tree := fakeCgroups(t, map[string]string{
		"a/memory.stat": "file 9\nfile_dirty 7\nfile_writeback 4096\n",
		"b/memory.stat": "file_writeback none\n",
		"c/memory.stat": "file 9\n",
	})
	for group, want := range map[string]uint64{"a": 4096, "c": 0, "without": 0} {
		if got, err := tree.Writeback(group); err != nil || got != want {
			t.Errorf("Writeback(%s) = %d, %v; want %d", group, got, err, want)
		}
	}
	if _, err := tree.Writeback("b"); err == nil || !strings.Contains(err.Error(), "b/memory.stat") {
		t.Errorf("Writeback of no number: %v; want an error with the file", err)
	}
}
