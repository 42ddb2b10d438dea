// SPDX-License-Identifier: MIT

package guest

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

// withProgram is an experiment on a file system whose container a runs a command, and b fio.
func withProgram(t *testing.T, p experiment.Program) *experiment.Experiment {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	withMkfs(t)
	x := parse(t, "")
	x.Cases[0].Device.Filesystem = "ext4"
	a := &x.Cases[0].Containers[0]
	a.Job, a.Program = nil, &p
	return x
}

func sh(script string) []string { return []string{"sh", "-c", script} }

// The command runs in its directory, after its setup and at the same time as fio, until the
// engine stops it. Its rate is the kernel's, its operations are its own.
func TestProgram(t *testing.T) {
	m, e := newMachine(t, honest)
	x := withProgram(t, experiment.Program{
		Setup: [][]string{sh(`pwd > ` + m.root + `/where; echo 40 > took`), sh(`echo 60 >> took`)},
		Command: sh(`trap 'echo "9 of all"; exit 3' TERM
			echo "252:0 rbytes=0 wbytes=409600 rios=0 wios=100 dbytes=0 dios=0" > $GROUP/io.stat
			echo "user_usec 30000\nsystem_usec 0" > $GROUP/cpu.stat
			for n in $(seq 300); do while read ms; do echo "$ms ms"; done < took; sleep 0.1; done`),
		Output: experiment.Output{PerS: `(\d+) of all`, Latency: `(\d+) ms`, Unit: "ms"},
	})
	x.Cases[0].DurationS, x.Cases[0].Containers[0].EndS, x.Cases[0].Containers[1].EndS = 1, 1, 1
	begin := time.Now()
	run, err := runOn(context.Background(), e, x, "bfq", nil)
	must.OK(t, err)
	m.checkClean()
	where, err := os.ReadFile(filepath.Join(m.root, "where"))
	if at := filepath.Join(os.TempDir(), "isolio-x", "a"); err != nil || strings.TrimSpace(string(where)) != at {
		t.Errorf("the setup ran in %q, %v; want %s", where, err, at)
	}
	caches, err := os.ReadFile(filepath.Join(m.root, "proc/sys/vm/drop_caches"))
	if err != nil || string(caches) != "3" {
		t.Errorf("drop_caches is %q, %v: the setup's files are still in memory", caches, err)
	}
	a := run.Containers[0]
	if a.Operations == nil || a.Operations.IOPS != 9 || a.Operations.Lat.P30 != 40e3 || a.Operations.Lat.Max != 60e3 {
		t.Fatalf("operations %+v, want 9 a second of 40 and 60 ms", a.Operations)
	}
	within(t, "bytes written", a.Write.BytesPS, 409600, time.Second, time.Since(begin))
	within(t, "CPU", a.CPUUserPct, 3, time.Second, time.Since(begin))
	if a.FinishMS != nil || a.Read != nil {
		t.Errorf("finished after %v ms, read %+v; it was stopped, and only wrote", a.FinishMS, a.Read)
	}
	if b := run.Containers[1]; b.Operations != nil || run.Fio != "fio-3.33" {
		t.Errorf("fio %q did operations %+v", run.Fio, b.Operations)
	}
}

func TestProgramThatEnds(t *testing.T) {
	m, e := newMachine(t, honest)
	x := withProgram(t, experiment.Program{Command: sh("sleep 0.3"), Ends: true})
	run, err := runOn(context.Background(), e, x, "bfq", nil)
	must.OK(t, err)
	m.checkClean()
	if ms := run.Containers[0].FinishMS; ms == nil || *ms < 300 || *ms > 20_000 {
		t.Errorf("it took %v ms, want 300 and a little more", ms)
	}
}

func TestProgramsThatFail(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    experiment.Program
		want []string
	}{
		{"missing command", experiment.Program{Command: []string{"pgbunch", "-c", "4"}},
			[]string{"command pgbunch: ", "not found"}},
		{"missing setup", experiment.Program{Command: sh("sleep 60"), Setup: [][]string{{"initbd"}}},
			[]string{"command initbd: ", "not found"}},
		{"setup fails", experiment.Program{Command: sh("sleep 60"), Setup: [][]string{sh("echo disk is full; exit 7")}},
			[]string{"setup sh -c 'echo disk is full; exit 7': exit status 7; it says: disk is full"}},
		{"early, in words", experiment.Program{Command: sh("echo no such table; exit 1")},
			[]string{"command sh -c 'echo no such table; exit 1' ended before it was stopped: exit status 1; it says: no such table"}},
		{"early, without an error", experiment.Program{Command: sh("echo all done")},
			[]string{"ended before it was stopped: exited with status 0; it says: all done"}},
		{"its own end, with an error", experiment.Program{Command: sh("echo is corrupt; exit 2"), Ends: true},
			[]string{"'echo is corrupt; exit 2' ended: exit status 2; it says: is corrupt"}},
		{"a program called by it is missing", experiment.Program{Command: sh("pgbunch"), Ends: true},
			[]string{"ended: exit status 127; it says: ", "pgbunch: not found"}},
		{"nothing matches", experiment.Program{
			Command: sh("echo tps is high; sleep 60"),
			Output:  experiment.Output{PerS: `tps = ([0-9.]+)`},
		}, []string{`per_s: nothing matches "tps = ([0-9.]+)"; it says: tps is high`}},
		{"no number", experiment.Program{
			Command: sh("echo tps = none; sleep 60"),
			Output:  experiment.Output{PerS: `tps = ([a-z]+)`},
		}, []string{`per_s: "none" is not a number from 0 on; it says: tps = none`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, e := newMachine(t, "trap 'report; exit 128' INT; barrier; load")
			x := withProgram(t, tt.p)
			if strings.HasPrefix(tt.name, "early") { // before the load's end even where the shell waits for a CPU
				k := &x.Cases[0]
				k.DurationS, k.Containers[0].EndS, k.Containers[1].EndS = 20, 20, 20
			}
			_, err := runOn(context.Background(), e, x, "bfq", nil)
			if failure.Code(err) != failure.Failed {
				t.Fatalf("Run = %v, exit code %d, want %d", err, failure.Code(err), failure.Failed)
			}
			for _, want := range append(tt.want, "container a: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in %v", want, err)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
			m.checkClean()
		})
	}
}

// A setup that does not come to its end is ended.
func TestSetupThatHangs(t *testing.T) {
	m, e := newMachine(t, honest)
	e.limits.setup = 200 * time.Millisecond
	_, err := runOn(context.Background(), e, withProgram(t, experiment.Program{Command: sh("true"), Setup: [][]string{sh("echo waiting; sleep 60")}}), "bfq", nil)
	if err == nil || !strings.Contains(err.Error(), "did not end within 200ms") || !strings.Contains(err.Error(), "it says: waiting") {
		t.Errorf("Run = %v", err)
	}
	m.checkClean()
}

// All operations are those of the whole time; with "at" they are those of the counted one.
func TestReadOperations(t *testing.T) {
	const text = "1000.5 took 8 ms\n1001.25 took 2 ms\n1002.75 took 4 ms\n1003.5 took 9 ms\nP99: 12.5\nP99: 14.5\n"
	counted := span{time.Unix(1001, 0), time.Unix(1003, 0)}
	ran := span{time.Unix(1000, 0), time.Unix(1008, 0)}
	for _, tt := range []struct {
		name                   string
		out                    experiment.Output
		perS, number, p50, p99 float64
	}{
		{"all", experiment.Output{Latency: `took (\d+) ms`, Unit: "ms"}, 0.5, 4, 4e3, 9e3},
		{"of the counted time", experiment.Output{Latency: `(?P<at>[\d.]+) took (\d+) ms`, Unit: "ms"}, 1, 2, 2e3, 4e3},
		{"at after the number", experiment.Output{Latency: `took (\d+) ms\n(?P<at>[\d.]+)`, Unit: "s"}, 1, 2, 2e6, 8e6},
		{"as the program says", experiment.Output{Statistics: map[string]string{"p99": `P99: ([\d.]+)`}, Unit: "us"}, 0, 0, 0, 14.5},
	} {
		d, err := readOperations(&tt.out, text, counted, ran)
		if err != nil || d.IOPS != tt.perS || d.Requests != tt.number || d.Lat.P50 != tt.p50 || math.Abs(d.Lat.P99-tt.p99) > 1e-9 {
			t.Errorf("%s: %+v, %v; want %g a second, %g of them, p50 %g us, p99 %g us", tt.name, d, err, tt.perS, tt.number, tt.p50, tt.p99)
		}
	}
	// It was kept from the disk for all of the counted time: that is a figure.
	late := span{time.Unix(2000, 0), time.Unix(2001, 0)}
	if d, err := readOperations(&experiment.Output{Latency: `(?P<at>[\d.]+) took (\d+) ms`, Unit: "ms"}, text, late, ran); err != nil || d.IOPS != 0 || d.Lat.Max != 0 {
		t.Errorf("without any in the counted time: %+v, %v", d, err)
	}
}

func TestPrintOfAProgram(t *testing.T) {
	_, e := newMachine(t, honest)
	x := withProgram(t, experiment.Program{Setup: [][]string{{"initdb", "-D", "my data"}}, Command: []string{"pgbench", "-T", "9"}})
	p, err := decide(t, e, x, "bfq")
	must.OK(t, err)
	var b strings.Builder
	must.OK(t, p.Print(&b))
	at := filepath.Join(os.TempDir(), "isolio-x", "a")
	want := "# in isolio-x/a, as user 65534 in " + at + ", before the load:\ninitdb -D 'my data'\n# from 0s on, stopped with SIGTERM after 100ms:\npgbench -T 9\n"
	if !strings.Contains(b.String(), want) {
		t.Errorf("no\n%s\nin\n%s", want, b.String())
	}
	if changes := len(p.Setup); changes == 0 || strings.Contains(b.String(), "--filename="+at) {
		t.Errorf("fio runs in place of the command:\n%s", b.String())
	}
}
