// SPDX-License-Identifier: MIT

package top

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"isolio/internal/block"
	"isolio/internal/failure"
)

// machine is a sampler on a tree of files with two disks, one of which has the
// scheduler, and its clock.
type machine struct {
	*Sampler
	t   *testing.T
	now time.Time
}

func newMachine(t *testing.T, unit string) *machine {
	t.Helper()
	m := &machine{t: t, now: time.Unix(1000, 0)}
	m.Sampler = &Sampler{
		System: block.System{Root: t.TempDir()},
		Now:    func() time.Time { return m.now },
		Name:   func(cgroup string) string { return strings.TrimSuffix(strings.TrimPrefix(cgroup, "/pod/"), cgroup) },
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
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
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
	if err != nil {
		m.t.Fatal(err)
	}
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
		if a.Name != "a" || a.Weight != 300 || a.Disk != "sda" || len(s.Rows) != 5 {
			t.Errorf("%s: %d rows, a = %+v", unit, len(s.Rows), a)
		}
	}
}

// A change of scheduler begins counters again; who is removed is forgotten.
func TestCountersBeginAgain(t *testing.T) {
	m := newMachine(t, "bytes")
	m.stat("pod/a", 1000, 100, 10)
	m.sample()
	m.now = m.now.Add(time.Second)
	m.stat("pod/a", 40, 10, 1)
	if a := row(t, m.sample().Rows, "/pod/a"); !near(a.BytesPS(), 40*1024) || !near(a.Actual, 1) {
		t.Errorf("a = %+v", a)
	}
	if err := os.RemoveAll(m.System.Path("sys/fs/cgroup/pod/a")); err != nil {
		t.Fatal(err)
	}
	m.now = m.now.Add(time.Second)
	if s := m.sample(); len(s.Rows) != 2 || len(m.history) != 2 || len(m.last) != 2 {
		t.Errorf("after its removal: %+v; %d histories, %d counters", s.Rows, len(m.history), len(m.last))
	}
}

func TestHistory(t *testing.T) {
	m := newMachine(t, "bytes")
	for i := range historyLen + 5 {
		m.stat("pod/a", i*(i+1)/2, i+1, 0)
		s := m.sample()
		if got := len(row(t, s.Rows, "/pod/a").History); got != min(i, historyLen) {
			t.Errorf("sample %d: %d in the history", i, got)
		}
		m.now = m.now.Add(time.Second)
	}
	h := m.history[source{"/pod/a", "sda"}]
	if last := h[historyLen-1]; !near(last, (historyLen+4)*1024) || !near(h[0], 5*1024) {
		t.Errorf("history %v", h)
	}
	if got := spark([]float64{0, 7, 14}); got != "▁▄█" {
		t.Errorf("spark = %q", got)
	}
	if got := spark([]float64{0, 0}); got != "▁▁" {
		t.Errorf("spark of nothing = %q", got)
	}
}

func TestCheckNeedsADisk(t *testing.T) {
	m := newMachine(t, "bytes")
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	m.write("sys/block/sda/queue/scheduler", "[none] kyber-fairness\n")
	if err := m.Check(); failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "isolio enable DEV") {
		t.Errorf("no disk with the scheduler: %v", err)
	}
}

// someRows are two containers and a cgroup that is none's, on one disk.
func someRows() []Row {
	return []Row{
		{Cgroup: "/pod/a", Name: "web", Disk: "sda", Weight: 100, Actual: 0.25, Entitled: 0.2, Read: Traffic{BytesPS: 1 << 20, IOPS: 256}, History: []float64{1, 2}},
		{Cgroup: "/pod/b", Name: "db", Disk: "sda", Weight: 300, Actual: 0.5, Entitled: 0.6, Read: Traffic{BytesPS: 2 << 20, IOPS: 128}, History: []float64{3}},
		{Cgroup: "/user", Disk: "sda", Weight: 50, Actual: 0, ThrottledPct: 3},
		{Cgroup: "/pod", Disk: "sda", Weight: 700, never: true},
	}
}

func shown(v View) string {
	var labels []string
	for _, r := range v.Apply(someRows()) {
		labels = append(labels, r.label())
	}
	return strings.Join(labels, ",")
}

func TestView(t *testing.T) {
	titles := map[string]int{}
	for i, c := range columns() {
		titles[c.title] = i
	}
	for _, tt := range []struct {
		name string
		view View
		want string
	}{
		{"default", DefaultView(), "db,web,/user"},
		{"least first", View{Order: defaultOrder, Reverse: true}, "/user,web,db"},
		{"by name", View{Order: titles["CONTAINER"]}, "/user,db,web"},
		{"by requests", View{Order: titles["IOPS"]}, "web,db,/user"},
		{"by throttling", View{Order: titles["THROTTLED%"]}, "/user,db,web"},
		{"filter by name", View{Filter: "W"}, "web"},
		{"filter by cgroup", View{Order: defaultOrder, Filter: "pod"}, "db,web"},
		{"filter by disk", View{Filter: "sdb"}, ""},
		{"busy", View{Order: defaultOrder, Busy: true}, "db,web"},
		{"tree", View{Order: defaultOrder, Tree: true}, "/,  pod,    db,    web,  user"},
		{"filtered tree", View{Order: defaultOrder, Tree: true, Filter: "db"}, "/,  pod,    db"},
	} {
		if got := shown(tt.view); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTreeAdds(t *testing.T) {
	rows := View{Order: defaultOrder, Tree: true}.Apply(someRows())
	pod := rows[1]
	if pod.Weight != 700 || !near(pod.Actual, 0.75) || !near(pod.Entitled, 0.8) || !near(pod.BytesPS(), 3<<20) || !near(pod.IOPS(), 384) {
		t.Errorf("pod = %+v", pod)
	}
	if len(pod.History) != 2 || pod.History[0] != 1 || pod.History[1] != 5 {
		t.Errorf("history %v, want 1 and 2+3", pod.History)
	}
	if root := rows[0]; !near(root.Actual, 0.75) || !near(root.ThrottledPct, 3) || root.weight() != "-" {
		t.Errorf("root = %+v", root)
	}
}

func TestWriteJSON(t *testing.T) {
	var b strings.Builder
	if err := WriteJSON(&b, Sample{At: time.Unix(0, 0), Over: 1500 * time.Millisecond}, someRows()[:2]); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	var first jsonRow
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 2 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if first.Schema != Schema || first.Time != "1970-01-01T00:00:00Z" || first.IntervalS != 1.5 || first.Container != "web" || first.Share != 0.25 {
		t.Errorf("first line: %s", lines[0])
	}
}

func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{0: "-", 0.125: "0.12", 9.99: "9.99", 42.25: "42.2", 1234.5: "1234"} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) = %s, want %s", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		90 * time.Microsecond: "90us", 1234 * time.Microsecond: "1.23ms", 12345 * time.Microsecond: "12.3ms",
		123 * time.Millisecond: "123ms", 12340 * time.Millisecond: "12.34s",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%v) = %s, want %s", d, got, want)
		}
	}
	if got := shorten("/pod/very-long", 6); got != "…-long" {
		t.Errorf("shorten = %q", got)
	}
}

// press types keys at a screen of 100 columns and 12 lines that shows someRows.
func press(t *testing.T, all ...string) *screen {
	t.Helper()
	s := newScreen(newMachine(t, "bytes").Sampler, time.Second, DefaultView())
	s.Update(tea.WindowSizeMsg{Width: 110, Height: 12})
	s.Update(sampled{sample: Sample{At: time.Unix(0, 0), Over: time.Second, Rows: someRows()}})
	for _, name := range all {
		k := tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
		switch name {
		case "enter":
			k = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "esc":
			k = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "space":
			k = tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
		}
		s.Update(k)
	}
	return s
}

func TestScreen(t *testing.T) {
	for _, tt := range []struct {
		keys []string
		want []string // in this order
		not  string
	}{
		{nil, []string{"3.00 MiB/s", "384 IOPS", "ACTUAL%▼", "LAST", "db", "web", "/user", "sort by"}, "PAUSED"},
		{[]string{"s"}, []string{"MiB/s▼", "db", "web"}, "ACTUAL%▼"},
		{[]string{"S", "r"}, []string{"ENTITLED%▲", "/user", "web", "db"}, "▼"},
		{[]string{"t"}, []string{"  pod", "    db", "    web", "  user"}, "/pod"},
		{[]string{"i"}, []string{"db", "web"}, "/user"},
		{[]string{"/", "w", "e"}, []string{"filter: we", "web"}, "/user"},
		{[]string{"/", "w", "enter", "i"}, []string{"filter: w", "web", "sort by"}, " db"},
		{[]string{"/", "w", "esc"}, []string{"db", "web", "/user"}, "filter:"},
		{[]string{"/", "w", "enter", "esc"}, []string{"db", "web", "/user"}, "filter:"},
		{[]string{"space"}, []string{"PAUSED", "db"}, "filter:"},
		{[]string{"space", "p"}, []string{"db"}, "PAUSED"},
	} {
		content := press(t, tt.keys...).View().Content
		rest := content
		for _, want := range tt.want {
			at := strings.Index(rest, want)
			if at < 0 {
				t.Errorf("%v: no %q in its place in\n%s", tt.keys, want, content)
				break
			}
			rest = rest[at+len(want):]
		}
		if strings.Contains(content, tt.not) {
			t.Errorf("%v: %q in\n%s", tt.keys, tt.not, content)
		}
		if lines := strings.Count(content, "\n") + 1; lines > 12 {
			t.Errorf("%v: %d lines on a screen of 12", tt.keys, lines)
		}
	}
}

func TestPauseKeepsWhatIsShown(t *testing.T) {
	s := press(t, "space")
	s.Update(sampled{sample: Sample{At: time.Unix(60, 0)}})
	if len(s.latest.Rows) == 0 {
		t.Error("a sample came through the pause")
	}
	s.Update(sampled{err: errors.New("no such tree")})
	if !strings.Contains(s.View().Content, "no such tree") {
		t.Error("an error is not shown")
	}
	s.Update(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
	s.Update(sampled{sample: Sample{At: time.Unix(60, 0)}})
	if len(s.latest.Rows) != 0 || s.err != nil {
		t.Errorf("after the pause: %d rows, error %v", len(s.latest.Rows), s.err)
	}
	if _, cmd := s.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); cmd == nil {
		t.Error("q does not quit")
	} else if _, ok := cmd().(tea.QuitMsg); !ok {
		t.Error("q does not quit")
	}
}
