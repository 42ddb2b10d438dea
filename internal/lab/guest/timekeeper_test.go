// SPDX-License-Identifier: MIT

package guest

import (
	"context"
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

// paused has a pause of a from 0.3 to 0.6 s and, where sampled, a reading every
// 20 ms from 0.2 to 1.0 s.
func paused(t *testing.T, sample int) *experiment.Experiment {
	t.Helper()
	x := parse(t, "")
	k := &x.Cases[0]
	k.RampS, k.DurationS, k.SampleMS = 0.2, 0.8, sample
	for i := range k.Containers {
		k.Containers[i].EndS = 1
	}
	k.Containers[0].Pauses = []experiment.Pause{{FromS: 0.3, ToS: 0.6}}
	return x
}

func TestPause(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, `trap 'report; exit 128' INT; barrier
		until grep -q 1 $GROUP/cgroup.freeze || test $name = b; do sleep 0.01; done; trace frozen
		until grep -q 0 $GROUP/cgroup.freeze || test $name = b; do sleep 0.01; done; trace thawed
		load`)
	run, err := runOn(context.Background(), e, paused(t, 0), "none", nil)
	must.OK(t, err)
	if got := strings.Join(traced(t, m), ", "); !strings.HasSuffix(got, "frozen a, thawed a") {
		t.Errorf("order %s", got)
	}
	a, b := run.Containers[0], run.Containers[1]
	if len(a.PausesS) != 1 || b.PausesS != nil || a.Series != nil {
		t.Fatalf("pauses %v and %v, series %v", a.PausesS, b.PausesS, a.Series)
	}
	// A test's machine may be late, but never early.
	for i, want := range []float64{0.3, 0.6} {
		if got := a.PausesS[0][i]; got < want || got > want+1 {
			t.Errorf("pause %v, want from 0.3 to 0.6", a.PausesS)
		}
	}
}

func TestPauseOnAnOldKernel(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, "rm -f $GROUP/cgroup.freeze; barrier; load; report; exit 128")
	_, err := runOn(context.Background(), e, paused(t, 0), "none", nil)
	if !errors.Is(err, syscall.ENOENT) || !strings.Contains(err.Error(), "container a: pause: ") {
		t.Errorf("Run = %v", err)
	}
	m.checkClean()
}

// Each step has what the counters grew by in it; the sum is the window's. The
// counters are overwritten in place, as an emptied file would count for 0.
func TestSeries(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, e := newMachine(t, `
		grow() { printf '252:0 rbytes=%08d wbytes=4096 rios=%08d wios=1\n' $(($1 * 4096)) $1 1<>$GROUP/io.stat; }
		trap 'report; exit 128' INT; grow 100; barrier; sleep 0.5; grow 250; load`)
	run, err := runOn(context.Background(), e, paused(t, 20), "none", nil)
	must.OK(t, err)
	for _, c := range run.Containers {
		s := c.Series
		if s == nil || s.StepMS != 20 || math.Abs(s.StartS-0.2) > 1e-9 || len(s.Bytes) != 40 || len(s.IOs) != 40 || s.LateUS <= 0 {
			t.Fatalf("%s: series %+v", c.Name, s)
		}
		var sum uint64
		at := -1
		for i, n := range s.Bytes {
			if n > 0 {
				at = i
			}
			sum += n
			if n != 4096*s.IOs[i] {
				t.Errorf("%s: step %d: %d bytes in %d requests", c.Name, i, n, s.IOs[i])
			}
		}
		// 0.3 s after the ramp, or a little later.
		if sum != 150*4096 || at < 14 {
			t.Errorf("%s: %d bytes, the last in step %d", c.Name, sum, at)
		}
	}
}

func TestSleepUntilEndsWithItsContext(t *testing.T) {
	now, err := monotonic()
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err = sleepUntil(ctx, now+time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 10*time.Second {
		t.Errorf("sleepUntil = %v after %s", err, time.Since(begin))
	}
}
