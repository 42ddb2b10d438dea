// SPDX-License-Identifier: MIT

package usage

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/target"
	"isolio/internal/must"
)

// machine is a sampler on a tree of files with two disks, one of which has the
// scheduler, and its clock.
type machine struct {
	*Sampler
	t   *testing.T
	now time.Time
	// listed is how often containers were looked for.
	listed int
}

func newMachine(t *testing.T, unit string) *machine {
	t.Helper()
	m := &machine{t: t, now: time.Unix(1000, 0)}
	m.Sampler = &Sampler{
		System: block.System{Root: t.TempDir()},
		Now:    func() time.Time { return m.now }, Histories: true,
		Containers: func([]string) ([]target.Container, error) {
			m.listed++
			return []target.Container{{Name: "web", Cgroup: "pod/a"}}, nil
		},
	}
	m.write("sys/block/sda/dev", "8:0\n")
	m.write("sys/block/sda/size", "8388608\n")
	m.write("sys/block/sda/queue/scheduler", "none [kyber-fairness] bfq\n")
	m.write("sys/block/sda/queue/iosched/share_by", strings.Replace("bytes iops time\n", unit, "["+unit+"]", 1))
	m.write("sys/block/sdb/dev", "8:16\n")
	m.write("sys/block/sdb/size", "8388608\n")
	m.write("sys/block/sdb/queue/scheduler", "none kyber-fairness [bfq]\n")
	m.write("sys/fs/cgroup/io.kyber.stat", "8:0 rbytes=0 wbytes=0 rios=0 wios=0 throttled_usec=0 weight=100 share_ppm=0\n")
	m.stat("pod", 0, 0, 0)
	return m
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	file := m.System.Path(name)
	must.OK(m.t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.OK(m.t, os.WriteFile(file, []byte(text), 0o644))
}

// stat gives a cgroup counters; of sdb too, which are to be passed over.
func (m *machine) stat(cgroup string, readKiB, ios, throttledMS int) {
	m.t.Helper()
	m.write("sys/fs/cgroup/"+cgroup+"/io.kyber.stat", fmt.Sprintf(
		"8:0 rbytes=%d wbytes=0 rios=%d wios=0 throttled_usec=%d weight=300 share_ppm=250000 rlat_ios=9 rlat_p50_usec=1500 rlat_p99_usec=42000\n"+
			"8:16 rbytes=99999999 rios=99999 weight=300\n", readKiB*1024, ios, throttledMS*1000))
}

func (m *machine) sample() Sample {
	m.t.Helper()
	s, err := m.Sample()
	must.OK(m.t, err)
	return s
}

// row is the one of a cgroup.
func row(t *testing.T, rows []Row, cgroup string) *Row {
	t.Helper()
	for i := range rows {
		if rows[i].Cgroup == cgroup {
			return &rows[i]
		}
	}
	t.Fatalf("no row of %s in %+v", cgroup, rows)
	return nil
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

func TestRatesAndShares(t *testing.T) {
	for unit, want := range map[string]float64{"bytes": 0.75, "iops": 0.2} {
		m := newMachine(t, unit)
		m.stat("pod/a", 1000, 100, 10)
		m.stat("pod/b", 5000, 100, 0)
		first := m.sample()
		if first.Over != 0 || row(t, first.Rows, "/pod/a").BytesPS() != 0 {
			t.Errorf("first sample has rates: %+v", first)
		}
		m.now = m.now.Add(2 * time.Second)
		m.stat("pod/a", 1600, 150, 510)
		m.stat("pod/b", 5100, 160, 0)
		m.stat("pod/c", 100, 140, 0) // new
		s := m.sample()
		a := row(t, s.Rows, "/pod/a")
		if !near(a.BytesPS(), 300*1024) || !near(a.IOPS(), 25) || !near(a.ThrottledPct, 25) || !near(a.Actual, want) || a.Entitled != 0.25 {
			t.Errorf("%s: a = %+v, want share %v", unit, a, want)
		}
		if c := row(t, s.Rows, "/pod/c"); !near(c.BytesPS(), 50*1024) {
			t.Errorf("%s: a new cgroup: %+v", unit, c)
		}
		if a.Name != "web" || a.MajMin != "8:0" || a.Weight != 300 || a.Disk != "sda" || len(s.Rows) != 5 {
			t.Errorf("%s: %d rows, a = %+v", unit, len(s.Rows), a)
		}
	}
}

// A change of scheduler begins counters again. A removed cgroup is forgotten.
func TestCountersBeginAgain(t *testing.T) {
	m := newMachine(t, "bytes")
	m.stat("pod/a", 1000, 100, 10)
	m.sample()
	m.now = m.now.Add(time.Second)
	m.stat("pod/a", 40, 10, 1)
	if a := row(t, m.sample().Rows, "/pod/a"); !near(a.BytesPS(), 40*1024) || !near(a.Actual, 1) {
		t.Errorf("a = %+v", a)
	}
	must.OK(t, os.RemoveAll(m.System.Path("sys/fs/cgroup/pod/a")))
	m.now = m.now.Add(time.Second)
	if s := m.sample(); len(s.Rows) != 2 || len(m.history) != 2 || len(m.last) != 2 {
		t.Errorf("after its removal: %+v; %d histories, %d counters", s.Rows, len(m.history), len(m.last))
	}
}

func TestHistory(t *testing.T) {
	m := newMachine(t, "bytes")
	for i := range HistoryLen + 5 {
		m.stat("pod/a", i*(i+1)/2, i+1, 0)
		s := m.sample()
		if got := len(row(t, s.Rows, "/pod/a").History); got != min(i, HistoryLen) {
			t.Errorf("sample %d: %d in the history", i, got)
		}
		m.now = m.now.Add(time.Second)
	}
	h := m.history[source{"/pod/a", "sda"}]
	if last := h[HistoryLen-1]; !near(last, (HistoryLen+4)*1024) || !near(h[0], 5*1024) {
		t.Errorf("history %v", h)
	}
}

func TestCheckNeedsADisk(t *testing.T) {
	m := newMachine(t, "bytes")
	m.write("sys/fs/cgroup/cgroup.controllers", "io\n")
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	m.write("sys/block/sda/queue/scheduler", "[none] kyber-fairness\n")
	if err := m.Check(); failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "isolio status") {
		t.Errorf("no disk with the scheduler: %v", err)
	}
}

// What cgroups inside a container do is the container's, with its weight.
func TestFold(t *testing.T) {
	m := newMachine(t, "bytes")
	m.stat("pod/a", 0, 0, 0)
	m.stat("pod/a/inner", 100, 10, 5)
	m.stat("pod/b", 100, 10, 0)
	m.sample()
	m.now = m.now.Add(time.Second)
	m.stat("pod/a/inner", 400, 40, 1005)
	rows := Fold(m.sample().Rows)
	a := row(t, rows, "/pod/a")
	if len(rows) != 4 || a.Counters.IOs() != 40 || !near(a.BytesPS(), 300*1024) || !near(a.ThrottledPct, 100) ||
		!near(a.Entitled, 0.5) || !near(a.Actual, 1) || a.Read.Latency.P99US != 42000 || len(a.History) != 1 {
		t.Errorf("%d rows, a = %+v", len(rows), a)
	}
	if m.listed != 1 {
		t.Errorf("containers were looked for %d times among the same cgroups", m.listed)
	}
	m.stat("pod/c", 0, 0, 0)
	if m.sample(); m.listed != 2 {
		t.Errorf("containers were looked for %d times after a new cgroup", m.listed)
	}
}

// A unit that was started again has other counters of the same name. Fewer bytes in
// more requests do not count as 2^64 bytes, and do not change the shares of others.
func TestCountersOfANewCgroup(t *testing.T) {
	m := newMachine(t, "bytes")
	m.stat("pod/a", 10*1024, 10, 0)
	m.stat("pod/b", 0, 0, 0)
	m.sample()
	m.now = m.now.Add(time.Second)
	m.stat("pod/a", 80, 20, 0)
	m.stat("pod/b", 80, 20, 0)
	s := m.sample()
	for _, group := range []string{"/pod/a", "/pod/b"} {
		if r := row(t, s.Rows, group); !near(r.BytesPS(), 80*1024) || !near(r.Actual, 0.5) || r.Did.ReadBytes != 80*1024 {
			t.Errorf("%s: %f bytes a second, share %f", group, r.BytesPS(), r.Actual)
		}
	}
}

// What cannot be read of one cgroup or one disk costs the others nothing.
func TestSkipped(t *testing.T) {
	m := newMachine(t, "bytes")
	m.stat("pod/a", 10, 10, 0)
	m.write("sys/fs/cgroup/pod/b/io.kyber.stat", "8:0 rbytes=\x1b\n")
	m.write("sys/block/sdb/queue/scheduler", "none [kyber-fairness] bfq\n")
	m.write("sys/block/sdb/queue/iosched/share_by", "nothing\n")
	s := m.sample()
	if row(t, s.Rows, "/pod/a") == nil || len(s.Skipped) != 2 || s.Skipped["sdb"] == "" || s.Skipped["/pod/b"] == "" {
		t.Errorf("%+v", s)
	}
}

// A container that was renamed has its new name, though no cgroup came or went.
func TestNamesAreLookedForAgain(t *testing.T) {
	m := newMachine(t, "bytes")
	m.stat("pod/a", 10, 10, 0)
	m.sample()
	m.now = m.now.Add(ownEvery / 2)
	m.sample()
	if m.listed != 1 {
		t.Errorf("%d times at first", m.listed)
	}
	m.now = m.now.Add(ownEvery)
	if m.sample(); m.listed != 2 {
		t.Errorf("%d times after a while", m.listed)
	}
}
