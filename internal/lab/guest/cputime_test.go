// SPDX-License-Identifier: MIT

package guest

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCPUTime(t *testing.T) {
	m, e := newMachine(t, honest)
	stat := filepath.Join(m.root, "proc/stat")
	// Two CPUs, idle for 3 and 4 s and waiting for disks for 0.5 and 1 s; the
	// sum of them does not count again.
	m.file(stat, "cpu  10 0 20 700 150 3 4 0 0 0\ncpu0 5 0 10 300 50 1 2 0 0 0\ncpu1 5 0 10 400 100 2 2 0 0 0\nintr 5 1 2 3 4 5\nctxt 5\n")
	got, err := e.cpuTime()
	if err != nil || got.idle != 8500*time.Millisecond || got.cpus != 2 || time.Since(got.at) > time.Minute {
		t.Errorf("cpuTime = %+v, %v", got, err)
	}
	for text, want := range map[string]string{"intr 5\n": "lists no CPU", "cpu0 1 2 3 four 5 6\n": `"cpu0 1 2 3 four 5 6"`} {
		m.file(stat, text)
		if _, err = e.cpuTime(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), stat) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDiskBytesPS(t *testing.T) {
	then := spent{cpu: cpuTime{at: time.Now()}, movedBytes: 4096}
	now := spent{cpu: cpuTime{at: then.cpu.at.Add(2 * time.Second)}, movedBytes: 3 * 4096}
	if got := now.diskBytesPS(then); got != 4096 {
		t.Errorf("8 KiB in two seconds are %g bytes a second", got)
	}
	if got := then.diskBytesPS(then); got != 0 {
		t.Errorf("nothing in no time is %g bytes a second", got)
	}
}

func TestBusyPct(t *testing.T) {
	then := cpuTime{at: time.Now(), idle: 5 * time.Second, cpus: 2}
	for _, tt := range []struct {
		passed, idle time.Duration
		want         float64
	}{
		{2 * time.Second, 3 * time.Second, 50},
		{2 * time.Second, 0, 200},
		{2 * time.Second, 4 * time.Second, 0},
		{2 * time.Second, 4*time.Second + userTick, 0}, // a tick on the other side of the window
		{0, 0, 0},
	} {
		now := cpuTime{at: then.at.Add(tt.passed), idle: then.idle + tt.idle, cpus: 2}
		if got := now.busyPct(then); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s with %s idle: %g %%, want %g", tt.passed, tt.idle, got, tt.want)
		}
	}
}
