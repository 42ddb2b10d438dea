// SPDX-License-Identifier: MIT

package guest

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
	"isolio/internal/must"
)

const honest = "barrier; trace run; report"

// within fails the test unless a rate is that of amount over a window that
// was no longer than the whole run took. It is shorter than planned where it
// opens late, as it may on a loaded machine.
func within(t *testing.T, what string, rate, amount float64, planned, took time.Duration) {
	t.Helper()
	if rate > 2*amount/planned.Seconds() || rate < amount/took.Seconds() {
		t.Errorf("%s: %g/s, want %g in %s to %s", what, rate, amount, planned, took)
	}
}

func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, "barrier; sleep 0.02; count 4096000 40960; trace run; report")
	x := parse(t, "")
	x.Cases[0].DurationS, x.Cases[0].Containers[0].EndS, x.Cases[0].Containers[1].EndS = 0.6, 0.6, 0.6
	begin := time.Now()
	var phases []string
	run, err := runOn(context.Background(), e, x, "bfq", func(p Progress) {
		if p.Scheduler != "bfq" || p.Fraction < 0 || p.Fraction > 1 {
			t.Errorf("progress %+v", p)
		}
		phases = append(phases, p.Phase)
	})
	must.OK(t, err)
	m.checkClean()
	if run.Scheduler != "bfq" || run.Kernel != "6.1.0-test" || run.Fio != "fio-3.33" || run.Device != "nullb0, 4096 MiB, nr_requests 64" {
		t.Errorf("run is of %q on %q, kernel %q, %q", run.Scheduler, run.Device, run.Kernel, run.Fio)
	}
	want := []string{"queue/scheduler = bfq", "queue/iosched/low_latency = 0", "a/io.bfq.weight = 300", "b/io.bfq.weight = 100"}
	if !slices.Equal(run.Settings, want) {
		t.Errorf("settings %q, want %q", run.Settings, want)
	}
	if len(run.Containers) != 2 {
		t.Fatalf("%d containers, want 2", len(run.Containers))
	}
	a := run.Containers[0]
	if a.Name != "a" || a.Weight != 300 || math.Abs(a.Share-0.5) > 0.01 || a.EntitledShare != 0.75 || a.Read == nil || a.Write == nil {
		t.Fatalf("container a: %+v", a)
	}
	// Rates are the kernel's, latencies fio's.
	took := time.Since(begin)
	within(t, "total bytes", run.TotalBytesPS, 2*4136960, 600*time.Millisecond, took)
	within(t, "total requests", run.TotalIOPS, 2*1010, 600*time.Millisecond, took)
	within(t, "bytes read", a.Read.BytesPS, 4096000, 600*time.Millisecond, took)
	within(t, "writes", a.Write.IOPS, 10, 600*time.Millisecond, took)
	if a.Write.Lat.P50 != 34.048 {
		t.Errorf("latency of writes %+v, want the fixture's", a.Write.Lat)
	}
	if a.Both == nil || a.Both.Lat.P99 != 313.344 || a.Both.Requests != 77556 || a.Both.IOPS != a.IOPS || a.Both.BytesPS != a.BytesPS {
		t.Errorf("reads and writes together %+v, want the fixture's latency, and rates of %+v", a.Both, a)
	}
	if phases[0] != PhaseSetup || phases[1] != PhaseStart || phases[len(phases)-1] != PhaseDone {
		t.Errorf("phases %v", phases)
	}
}

func TestRunMakesItsOwnDevice(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, honest)
	e.Find = nil
	run, err := runOn(context.Background(), e, parse(t, ""), "iocost", nil)
	must.OK(t, err)
	m.checkClean()
	if run.Device != "null_blk, completion 1000 us, 1 queue of 32 tags, 4096 MiB" {
		t.Errorf("device %q", run.Device)
	}
	log := strings.Join(m.log, "\n")
	for _, want := range []string{
		"sys/kernel/config/nullb/isolio0/completion_nsec = 1000000",
		"sys/fs/cgroup/io.cost.qos = 252:1 enable=1 ctrl=user rpct=95.00",
		"sys/fs/cgroup/io.cost.qos = 252:1 enable=0",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q among the changes:\n%s", want, log)
		}
	}
	if want := "sys/kernel/config/nullb/isolio0/power = 0\nrmdir sys/kernel/config/nullb/isolio0"; !strings.Contains(log, want) {
		t.Errorf("the device is not taken down:\n%s", log)
	}
}

// A tunable that the scheduler does not have is known once it is active. All
// that was changed until then is taken back.
func TestRunWithATunableThatIsNotThere(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, honest)
	x := parse(t, "[[contender]]\nname = \"v\"\nscheduler = \"bfq\"\ntunables = { low_latency = 1, lower_latency = 1 }\n")
	_, err := runOn(context.Background(), e, x, "v", nil)
	if want := "set up v: scheduler bfq has no tunable lower_latency; allowed: low_latency"; err == nil || err.Error() != want {
		t.Errorf("Run = %v, want %s", err, want)
	}
	if failure.Code(err) != failure.Usage {
		t.Errorf("exit code %d", failure.Code(err))
	}
	m.checkClean()
}

const modelDisk = `name = "x"
question = "Is it a disk?"
schedulers = ["none", "iocost"]
duration_s = 0.4
[device]
kind = "modeldisk"
model = "nvme"
scale = 16
[device.params]
dies = 48
[device.iocost]
rbps = 3200
rseqiops = 3201
rrandiops = 1600
wbps = 1600
wseqiops = 160
wrandiops = 16
[job]
rw = "randrw"
[[container]]
name = "a"
weight = 100
[[case]]
name = "one"
`

func modelDiskRun(t *testing.T, script, scheduler string) (*fakeMachine, result.Run, error) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, script)
	e.Find = nil
	x, err := experiment.Parse("x.toml", []byte(modelDisk))
	must.OK(t, err)
	run, err := runOn(context.Background(), e, x, scheduler, nil)
	return m, run, err
}

func TestRunOnAModelDisk(t *testing.T) {
	m, run, err := modelDiskRun(t, "barrier; sleep 0.1; count 4096 0; stat 110 15 47 9; load; report; exit 128", "iocost")
	must.OK(t, err)
	m.checkClean()
	if run.Case != "one" || run.Device != "modeldisk nvme, dies 48, scale 16, 1 queue of 64 tags" {
		t.Errorf("case %q, device %q", run.Case, run.Device)
	}
	// Counts are the window's, a maximum is that so far; 40 pages for 10.
	want := map[string]float64{"reads": 100, "host_pages": 10, "media_pages": 40, "depth_max": 9, "write_amplification": 4}
	if !maps.Equal(run.DeviceStat, want) {
		t.Errorf("device_stat %v, want %v", run.DeviceStat, want)
	}
	log := strings.Join(m.log, "\n")
	for _, want := range []string{
		"mkdir sys/kernel/config/modeldisk/isolio0\nsys/kernel/config/modeldisk/isolio0/model = nvme\n" +
			"sys/kernel/config/modeldisk/isolio0/nvme/dies = 48\n",
		"io.cost.model = 252:1 ctrl=user model=linear rbps=200 rseqiops=200 rrandiops=100 wbps=100 wseqiops=10 wrandiops=1\n",
		"io.cost.qos = 252:1 enable=1 ctrl=user rpct=0.00 rlat=0 wpct=0.00 wlat=0 min=100.00 max=100.00\n",
		"sys/kernel/config/modeldisk/isolio0/power = 0\nrmdir sys/kernel/config/modeldisk/isolio0",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q among the changes:\n%s", want, log)
		}
	}
}

func TestAModelDiskThatSaysNonsense(t *testing.T) {
	m, _, err := modelDiskRun(t, "barrier; stat ten 1 1 1; load; report; exit 128", "none")
	if err == nil || !strings.Contains(err.Error(), `"reads ten" is not a name and a number`) {
		t.Errorf("Run = %v", err)
	}
	m.checkClean()
}

func TestAParameterThatIsNotThere(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, honest)
	e.Find = nil
	x, err := experiment.Parse("x.toml", []byte(strings.Replace(modelDisk, "dies = 48", "heads = 48", 1)))
	must.OK(t, err)
	_, err = runOn(context.Background(), e, x, "none", nil)
	want := `make modeldisk: write "48" to ` + m.root + "/sys/kernel/config/modeldisk/isolio0/nvme/heads: no such file or directory; allowed in " +
		m.root + "/sys/kernel/config/modeldisk/isolio0/nvme/: dies"
	if err == nil || err.Error() != want || failure.Code(err) != failure.Usage {
		t.Errorf("Run (code %d)\n got %v\nwant %s", failure.Code(err), err, want)
	}
	m.checkClean()
}

// Whichever change fails, the run fails with its error, and what was changed
// before it is taken back.
func TestRunCleansUpWhereverItFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, honest)
	if _, err := runOn(context.Background(), e, parse(t, ""), "bfq", nil); err != nil {
		t.Fatal(err)
	}
	changes := slices.Index(m.log, "rmdir sys/fs/cgroup/isolio-x/b")
	if changes < 6 {
		t.Fatalf("log %q", m.log)
	}
	for i := range changes {
		m, e := newMachine(t, honest)
		m.fail = i
		_, err := runOn(context.Background(), e, parse(t, ""), "bfq", nil)
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("change %d fails: Run = %v", i, err)
		}
		m.checkClean()
		if _, err := os.Stat(filepath.Join(m.root, "trace")); err == nil {
			t.Errorf("change %d fails: load ran", i)
		}
	}
}

func TestRunFailures(t *testing.T) {
	tests := []struct {
		name, script string
		limits       func(*limits)
		want         []string // parts of the message
	}{
		{"fio refuses", "echo 'fio: bad option' >&2; exit 1", nil,
			[]string{"bfq: container ", "ended before the load", "exit status 1", "fio: bad option"}},
		{"fio reports an error in its JSON", "cp " + abs(t, "fio/testdata/failed.json") + " $out; exit 1", nil,
			[]string{"errno 21", "Is a directory"}},
		{"fio skips the barrier", "exit 0", nil,
			[]string{"ended before the load", "without an error"}},
		{"fio hangs at its start", "echo stuck >&2; exec sleep 60", func(l *limits) { l.ready = 2 * time.Second },
			[]string{"container a: fio is not ready after 2s: 0 of 1", "stuck"}},
		{"one of two hangs at its start", "test $name = b && exec sleep 60; barrier", func(l *limits) { l.ready = 3 * time.Second },
			[]string{"container b: fio is not ready after 3s: 0 of 1"}},
		{"fio does not end", "trap '' INT; barrier; echo busy >&2; exec sleep 60", func(l *limits) { l.slack = 2 * time.Second },
			[]string{"did not end within 2s after its 100ms and was killed", "busy"}},
		{"fio fails during the load", "barrier; test $name = b && { echo 'io error' >&2; exit 3; }; exec sleep 60", nil,
			[]string{"container b: fio: exit status 3", "io error"}},
		{"fio reports nothing", "barrier", nil,
			[]string{"container a", "a.json: no such file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			m, e := newMachine(t, tt.script)
			if tt.limits != nil {
				tt.limits(&e.limits)
			}
			begin := time.Now()
			_, err := runOn(context.Background(), e, parse(t, ""), "bfq", nil)
			if took := time.Since(begin); took > 15*time.Second {
				t.Errorf("Run took %s", took)
			}
			if err == nil {
				t.Fatal("Run reports success")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			m.checkClean()
		})
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(path)
	must.OK(t, err)
	return full
}

func TestRunEndsWithItsContext(t *testing.T) {
	for _, script := range []string{"exec sleep 60", "trap '' INT; barrier; trace run; exec sleep 60"} {
		t.Setenv("TMPDIR", t.TempDir())
		m, e := newMachine(t, script)
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		begin := time.Now()
		_, err := runOn(ctx, e, parse(t, ""), "bfq", nil)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 15*time.Second {
			t.Errorf("Run = %v after %s", err, time.Since(begin))
		}
		m.checkClean()
	}
}

// traced is the order in which the scripts passed a point.
func traced(t *testing.T, m *fakeMachine) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, "trace"))
	must.OK(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestNobodyStartsBeforeAllAreReady(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, "test $name = a && sleep 0.4; trace ready; barrier; trace run; report")
	if _, err := runOn(context.Background(), e, parse(t, ""), "none", nil); err != nil {
		t.Fatal(err)
	}
	got := traced(t, m)
	// Which one is ready first is the machine's affair.
	first := slices.Sorted(slices.Values(got[:len(got)/2]))
	if want := []string{"ready a", "ready b"}; !slices.Equal(first, want) || len(got) != 4 {
		t.Errorf("order %q, want first %q", got, want)
	}
}

func TestEveryProcessOfAContainerWaits(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	// Three processes stop at the barrier, as with fio's numjobs=3.
	m, e := newMachine(t, "test $name = b && { barrier & barrier & }; barrier; wait; trace run; report")
	x := parse(t, "[container.job]\nnumjobs = 3\n")
	if _, err := runOn(context.Background(), e, x, "none", nil); err != nil {
		t.Fatal(err)
	}
	if got := traced(t, m); len(got) != 2 {
		t.Errorf("trace %q", got)
	}
}

func TestAContainerMayStartLater(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, "barrier; trace run; count 4096000 0; test $name = b && { sleep 0.3; count 8192000 0; trace end; }; report")
	x := parse(t, "")
	x.Cases[0].DurationS = 2
	x.Cases[0].Containers[0].StartS, x.Cases[0].Containers[0].EndS = 1, 2 // half of the time
	x.Cases[0].Containers[1].EndS = 2
	run, err := runOn(context.Background(), e, x, "none", nil)
	must.OK(t, err)
	if got, want := traced(t, m), []string{"run b", "end b", "run a"}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
	a, b := run.Containers[0], run.Containers[1]
	if math.Abs(a.BytesPS/b.BytesPS-0.5) > 0.01 || math.Abs(a.CPUSystemPct-b.CPUSystemPct/2) > 1e-9 || math.Abs(a.Share-1.0/3) > 0.01 {
		t.Errorf("half the time: a has %g bytes/s, %g %% CPU, share %g; b %g, %g",
			a.BytesPS, a.CPUSystemPct, a.Share, b.BytesPS, b.CPUSystemPct)
	}
}
