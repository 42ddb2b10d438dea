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

	"isolio/internal/lab/guest/fio"
	"isolio/internal/must"
)

// Over the same time, the kernel's counters and fio's own give the same rates.
func TestWindowAgreesWithFio(t *testing.T) {
	text, err := os.ReadFile("fio/testdata/mixed.json")
	must.OK(t, err)
	o, err := fio.Decode(text)
	must.OK(t, err)
	// The fixture: 159080448 bytes in 38832 reads and 158593024 in 38717 writes,
	// and 32 more (16 each) that are in flight at its end, in 701 ms.
	open := counters{ReadBytes: 1 << 40, WriteBytes: 1 << 30, ReadIOs: 1 << 28, WriteIOs: 1 << 18}
	closed := open
	closed.ReadBytes += 159080448 + 16*4096
	closed.ReadIOs += 38832 + 16
	closed.WriteBytes += 158593024 + 16*4096
	closed.WriteIOs += 38717 + 16
	begin := time.Now()
	w := window{open: [][]sample{{{at: begin, io: open}}}, close: [][]sample{{{at: begin.Add(701 * time.Millisecond), io: closed}}}}
	read, write, _ := w.rates(0)
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"bytes read", read.BytesPS, o.Read.BytesPS}, {"reads", read.IOPS, o.Read.IOPS},
		{"bytes written", write.BytesPS, o.Write.BytesPS}, {"writes", write.IOPS, o.Write.IOPS},
	} {
		if math.Abs(tt.got/tt.want-1) > 0.02 {
			t.Errorf("%s: %g/s, fio has %g/s", tt.name, tt.got, tt.want)
		}
	}
}

// A direction without requests in the window is none, whatever was before.
func TestWindowWithoutRequests(t *testing.T) {
	io := counters{ReadBytes: 4096, ReadIOs: 1, WriteBytes: 8192, WriteIOs: 2}
	more := io
	more.WriteBytes += 4096
	more.WriteIOs++
	begin := time.Now()
	w := window{open: [][]sample{{{at: begin, io: io}}}, close: [][]sample{{{at: begin.Add(time.Second / 2), io: more}}}}
	read, write, _ := w.rates(0)
	if read != nil || write == nil || write.BytesPS != 8192 || write.IOPS != 2 {
		t.Errorf("read %+v, write %+v", read, write)
	}
}

// What fio does in the ramp, and after the window, does not count.
func TestOnlyTheWindowCounts(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, e := newMachine(t, "trap 'count 99999744 0; report; exit 128' INT; barrier; count 40960000 0; sleep 1.4; count 45056000 0; load")
	x := parse(t, "")
	x.Cases[0].RampS, x.Cases[0].DurationS = 0.8, 1.6
	for i := range x.Cases[0].Containers {
		x.Cases[0].Containers[i].EndS = 2.4
	}
	begin := time.Now()
	run, err := runOn(context.Background(), e, x, "none", nil)
	must.OK(t, err)
	took := time.Since(begin)
	for _, c := range run.Containers {
		within(t, c.Name, c.BytesPS, 4096000, 1600*time.Millisecond, took)
		if c.Write != nil {
			t.Errorf("%s: writes %+v, want none", c.Name, c.Write)
		}
	}
	// SIGINT ended the minute of load.
	if took > 20*time.Second {
		t.Errorf("Run took %s", took)
	}
}

// A container whose time is over is stopped while others go on.
func TestAContainerMayStopEarlier(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, "barrier; load; trace stop; report; exit 128")
	x := parse(t, "")
	x.Cases[0].DurationS = 1
	x.Cases[0].Containers[0].EndS, x.Cases[0].Containers[1].EndS = 1, 0.3
	if _, err := runOn(context.Background(), e, x, "none", nil); err != nil {
		t.Fatal(err)
	}
	if got, want := traced(t, m), []string{"stop b", "stop a"}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
}

// The exit status that SIGINT gives is an error if the engine sent none.
func TestInterruptedByAnother(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, "barrier; report; exit 128")
	x := parse(t, "")
	x.Cases[0].DurationS = 20
	for i := range x.Cases[0].Containers {
		x.Cases[0].Containers[i].EndS = 20
	}
	if _, err := runOn(context.Background(), e, x, "none", nil); err == nil || !strings.Contains(err.Error(), "exit status 128") {
		t.Errorf("Run = %v", err)
	}
	m.checkClean()
}

func TestCountersThatCannotBeRead(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, "rm -f $GROUP/io.stat; barrier; exec sleep 60")
	_, err := runOn(context.Background(), e, parse(t, ""), "none", nil)
	if !errors.Is(err, syscall.ENOENT) || !strings.Contains(err.Error(), filepath.Join("isolio-x", "a", "io.stat")) {
		t.Errorf("Run = %v", err)
	}
	m.checkClean()
}

// What fio started goes with it, and the directory that it writes to only
// when all of it is gone.
func TestWritersAreGoneBeforeTheirDirectory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, "(while :; do : > f$$.$((i += 1)); done) & sleep 0.1; exit 1")
	if _, err := runOn(context.Background(), e, parse(t, ""), "none", nil); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("Run = %v", err)
	}
	m.checkClean()
}

// What the disk and the guard counted is of the window; states are of its end.
func TestWindowOfWhatIsTold(t *testing.T) {
	begin := time.Now()
	w := window{
		open: [][]sample{{{at: begin}}}, close: [][]sample{{{at: begin.Add(2 * time.Second)}}},
		openTold: told{
			disk:      map[string]uint64{"reads": 100, "overtaken_max": 40},
			overtaken: map[string]uint64{"0": 90, "16": 10},
			guard:     map[string]uint64{"closings": 2, "closed_us": 100_000, "age_th": 30, "delay_max": 40},
		},
		told: told{
			disk:      map[string]uint64{"reads": 300, "overtaken_max": 55},
			overtaken: map[string]uint64{"0": 270, "16": 29, "52": 1},
			guard:     map[string]uint64{"closings": 5, "closed_us": 300_000, "age_th": 31, "delay_max": 55},
		},
	}
	want := map[string]float64{"closings": 3, "closed_us": 200_000, "closed_pct": 10, "age_th": 31, "delay_max": 55}
	if got := w.guardStat(); !maps.Equal(got, want) {
		t.Errorf("the guard's %v, want %v", got, want)
	}
	delays, err := w.delays()
	if err != nil || delays.Requests() != 200 || delays.P50 != 0 || delays.P99 != 16 || delays.Max != 55 {
		t.Errorf("delays %+v, %v", delays, err)
	}
	w.told.overtaken["often"] = 1
	if _, err = w.delays(); err == nil || !strings.Contains(err.Error(), `"often" is not a count`) {
		t.Errorf("bad delays: %v", err)
	}
	if delays, err = (window{}).delays(); delays != nil || err != nil || (window{}).guardStat() != nil {
		t.Errorf("delays of a disk that tells nothing: %v, %v", delays, err)
	}
}
