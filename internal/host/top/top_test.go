// SPDX-License-Identifier: MIT

package top

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"charm.land/bubbles/v2/table"
	tea "charm.land/bubbletea/v2"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/policy"
	"isolio/internal/host/usage"
	"isolio/internal/must"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// someRows are two containers and a cgroup that is none's, on one disk.
func someRows() []usage.Row {
	did := usage.Counters{IOStat: cgroup.IOStat{ReadIOs: 1}}
	return []usage.Row{
		{Cgroup: "/pod/a", Name: "web", Within: "/pod/a", Disk: "sda", Weight: 100, Actual: 0.25, Entitled: 0.2, Counters: did, Read: usage.Traffic{BytesPS: 1 << 20, IOPS: 256}, History: []float64{1, 2}},
		{Cgroup: "/pod/b", Name: "db", Within: "/pod/b", Disk: "sda", Weight: 300, Actual: 0.5, Entitled: 0.6, Counters: did, Read: usage.Traffic{BytesPS: 2 << 20, IOPS: 128}, History: []float64{3}},
		{Cgroup: "/user", Disk: "sda", Weight: 50, Actual: 0, ThrottledPct: 3, Counters: did},
		{Cgroup: "/pod", Disk: "sda", Weight: 700},
	}
}

func shownTop(v View) string {
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
		{"default", DefaultView(), "db,web,user"},
		{"least first", View{Order: defaultOrder, Reverse: true}, "user,web,db"},
		{"by name", View{Order: titles["CONTAINER"]}, "db,user,web"},
		{"by requests", View{Order: titles["IOPS"]}, "web,db,user"},
		{"by throttling", View{Order: titles["THROTTLED%"]}, "user,db,web"},
		{"filter by name", View{Filter: "W"}, "web"},
		{"filter by cgroup", View{Order: defaultOrder, Filter: "pod"}, "db,web"},
		{"filter by disk", View{Filter: "sdb"}, ""},
		{"busy", View{Order: defaultOrder, Busy: true}, "db,web"},
		{"tree", View{Order: defaultOrder, Tree: true}, "/,  pod,    db,    web,  user"},
		{"filtered tree", View{Order: defaultOrder, Tree: true, Filter: "db"}, "/,  pod,    db"},
	} {
		if got := shownTop(tt.view); got != tt.want {
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
	must.OK(t, WriteJSON(&b, usage.Sample{At: time.Unix(0, 0), Over: 1500 * time.Millisecond}, DefaultView().Apply(someRows())[1:]))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	var first Line
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 2 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if first.Schema != Schema || first.Time != "1970-01-01T00:00:00Z" || first.IntervalS != 1.5 || first.Container != "web" || first.Share != 0.25 {
		t.Errorf("first line: %s", lines[0])
	}
}

func TestFigures(t *testing.T) {
	if got := spark([]float64{0, 7, 14}); got != "▁▄█" {
		t.Errorf("spark = %q", got)
	}
	if got := spark([]float64{0, 0}); got != "▁▁" {
		t.Errorf("spark of nothing = %q", got)
	}
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
	for name, want := range map[string]string{"/pod/very-long": "…-long", "    /pod/very-long": "…-long", "/pod/a/b": "…/a/b", "/p/web": "/p/web"} {
		if got := shorten(name, 6); got != want {
			t.Errorf("shorten(%s) = %q, want %q", name, got, want)
		}
	}
	if got := align("名前", 6, true); got != "名前  " {
		t.Errorf("align of characters that are two wide = %q", got)
	}
	if got := shorten("    /pod/very-long-name", 12); got != "    …ng-name" {
		t.Errorf("shorten in a tree = %q", got)
	}
}

// press types keys at a screen of 100 columns and 12 lines that shows someRows.
func press(t *testing.T, all ...string) *screen {
	t.Helper()
	s := newScreen(&usage.Sampler{}, time.Second, DefaultView())
	s.Update(tea.WindowSizeMsg{Width: 110, Height: 12})
	s.Update(sampled{sample: usage.Sample{At: time.Unix(0, 0), Over: time.Second, Rows: someRows()}})
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
		{nil, []string{"3.00 MiB/s", "384 IOPS", "ACTUAL%▼", "LAST", "db", "web", "user", "sort", "help", "quit"}, "reverse"},
		{[]string{"s"}, []string{"MiB/s▼", "db", "web"}, "ACTUAL%▼"},
		{[]string{"S", "r"}, []string{"ENTITLED%▲", "user ", "web", "db"}, "▼"},
		{[]string{"t"}, []string{"  pod", "    db", "    web", "  user"}, "/pod"},
		{[]string{"i"}, []string{"db", "web"}, "user "},
		{[]string{"/", "w", "e"}, []string{"filter: we", "web"}, "user "},
		{[]string{"/", "w", "enter", "i"}, []string{"filter: w", "web", "sort", "quit"}, " db"},
		{[]string{"/", "w", "esc"}, []string{"db", "web", "user "}, "filter:"},
		{[]string{"/", "w", "enter", "esc"}, []string{"db", "web", "user "}, "filter:"},
		{[]string{"space"}, []string{"PAUSED", "db"}, "filter:"},
		{[]string{"?"}, []string{"db", "web", "user ", "reverse", "page up"}, "PAUSED"},
		{[]string{"?", "?"}, []string{"db", "web", "help"}, "reverse"},
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

// A recording is gone through with keys, during its pause too, and has sparklines.
func TestReplay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kept")
	out, err := OpenRecord(file)
	must.OK(t, err)
	for n := range 100 {
		rows := someRows()
		rows[0].Read.BytesPS = float64(n) * (1 << 20)
		must.OK(t, WriteJSON(out, usage.Sample{At: time.Unix(int64(n), 0), Over: time.Second}, DefaultView().Apply(rows)))
	}
	must.OK(t, out.Close())
	replay, err := OpenReplay(file, time.Unix(70, 0))
	must.OK(t, err)
	s := newScreen(replay, time.Second, DefaultView())
	s.Update(tea.WindowSizeMsg{Width: 140, Height: 12})
	at := func(want int64) {
		t.Helper()
		if got := s.latest.At.Unix(); got != want {
			t.Errorf("the screen is at %d, want %d", got, want)
		}
		if content := s.View().Content; !strings.Contains(content, "replay of ") || !strings.Contains(content, "step 1, 60") {
			t.Errorf("the screen does not say that it is a recording:\n%s", content)
		}
	}
	s.Update(s.take())
	at(70)
	s.Update(s.take())
	at(71)
	for _, step := range []struct {
		key  rune
		want int64
	}{{']', 72}, {'[', 71}, {'[', 70}, {'{', 10}, {'{', 0}, {'}', 60}, {'}', 99}, {']', 99}} {
		_, cmd := s.Update(tea.KeyPressMsg{Code: step.key, Text: string(step.key)})
		s.Update(cmd())
		at(step.want)
	}
	if !s.paused || s.replay.Left() != 0 {
		t.Errorf("paused %v, %d left", s.paused, s.replay.Left())
	}
	s.Update(s.take())
	at(99)
	if s := press(t, "["); strings.Contains(s.View().Content, "step") || s.paused {
		t.Error("a machine that runs can be stepped through")
	}
}

// Names have the room that columns leave which had to go.
func TestNamesGrowBack(t *testing.T) {
	rows := someRows()
	rows[0].Name, rows[1].Name = "/system.slice/one-very-long-web.service", "/system.slice/another-very-long-web.service"
	all := columns()
	var titles []string
	var lines [][]string
	for _, c := range all {
		titles = append(titles, c.title)
	}
	for i := range rows {
		lines = append(lines, cells(all, &Row{Row: rows[i]}))
	}
	whole := fit(all, titles, lines, defaultOrder, 0).widths[0]
	for width := 40; width < 200; width++ {
		if l := fit(all, titles, lines, defaultOrder, width); l.widths[0] < whole && l.over(width) < 0 {
			t.Errorf("%d columns: names have %d of %d, and %d are free", width, l.widths[0], whole, -l.over(width))
		}
	}
}

// On a narrow screen columns go that tell least, and none is cut.
func TestNarrow(t *testing.T) {
	for _, tt := range []struct {
		width int
		keys  []string
		want  string
	}{
		{120, nil, "CONTAINER DISK WEIGHT ENTITLED% ACTUAL%▼ MiB/s IOPS READ p50/p99 WRITE p50/p99 THROTTLED% LAST"},
		{100, nil, "CONTAINER DISK WEIGHT ENTITLED% ACTUAL%▼ MiB/s IOPS READ p50/p99 THROTTLED% LAST"},
		{74, nil, "CONTAINER WEIGHT ENTITLED% ACTUAL%▼ MiB/s IOPS THROTTLED% LAST"},
		{60, nil, "CONTAINER WEIGHT ENTITLED% ACTUAL%▼ MiB/s THROTTLED%"},
		{60, []string{"s", "s"}, "CONTAINER ENTITLED% ACTUAL% MiB/s IOPS▼ THROTTLED%"},
		{30, nil, "CONTAINER ENTITLED% ACTUAL%▼"},
	} {
		s := press(t, tt.keys...)
		s.Update(tea.WindowSizeMsg{Width: tt.width, Height: 12})
		got := ""
		for _, c := range s.table.Columns() {
			got += " " + strings.TrimSpace(c.Title)
		}
		if got[1:] != tt.want {
			t.Errorf("%d wide: %s, want %s", tt.width, got[1:], tt.want)
		}
	}
}

// Each figure ends where its head does, and the foot has all keys, whatever the
// width.
func TestAligned(t *testing.T) {
	styles := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, width := range []int{80, 100, 160} {
		for _, keys := range [][]string{nil, {"t"}} {
			s := press(t, keys...)
			s.Update(tea.WindowSizeMsg{Width: width, Height: 12})
			lines := strings.Split(styles.ReplaceAllString(s.View().Content, ""), "\n")
			if foot := lines[len(lines)-1]; !strings.Contains(foot, "q quit") || utf8.RuneCountInString(foot) > width {
				t.Errorf("%d wide: foot %q", width, foot)
			}
			rows := len(s.table.Rows())
			if rows < 3 {
				t.Fatalf("%d wide, %v: %d rows", width, keys, rows)
			}
			for _, line := range lines[1 : 2+rows] {
				if err := aligned(s.table.Columns(), []rune(line)); err != nil {
					t.Errorf("%d wide, %v: %v in\n%s\n%s", width, keys, err, lines[1], line)
				}
			}
		}
	}
}

// aligned checks the places of a line's cells.
func aligned(columns []table.Column, line []rune) error {
	start := 0
	for _, c := range columns {
		end := start + c.Width
		if len(line) < end {
			return fmt.Errorf("%s is cut", c.Title)
		}
		isName := strings.TrimSpace(c.Title) == "CONTAINER" || strings.TrimSpace(c.Title) == "DISK" || c.Title == "LAST"
		if gap := string(line[end:min(end+columnGap, len(line))]); strings.TrimSpace(gap) != "" || !isName && line[end-1] == ' ' {
			return fmt.Errorf("%s does not end at %d", strings.TrimSpace(c.Title), end)
		}
		start = end + columnGap
	}
	return nil
}

// What decided weights is a column where it is known, and the first to go from a narrow
// screen.
func TestWeightBy(t *testing.T) {
	rows := someRows()
	rows[0].Reasons = &policy.Reasons{State: policy.InEffect, Want: &policy.Want{Weight: 100, Why: "rule 1\x1b[2J"}}
	rows[1].Reasons = &policy.Reasons{State: policy.ByHand}
	sample := sampled{sample: usage.Sample{At: time.Unix(0, 0), Over: time.Second, Rows: rows}}
	for _, tt := range []struct {
		width int
		shown bool
	}{{200, true}, {80, true}, {60, false}} {
		s := press(t)
		s.Update(tea.WindowSizeMsg{Width: tt.width, Height: 12})
		if strings.Contains(s.View().Content, weightBy) {
			t.Errorf("%d wide: the column is there where nothing is known", tt.width)
		}
		s.Update(sample)
		content := s.View().Content
		for _, text := range []string{weightBy, `rule 1\x1b[2J`, "by hand"} {
			if strings.Contains(content, text) != tt.shown {
				t.Errorf("%d wide: %q is in it: %t, in\n%s", tt.width, text, !tt.shown, content)
			}
		}
	}
}

// A table that is scrolled down stays there when the next sample comes.
func TestScrolls(t *testing.T) {
	var rows []usage.Row
	for i := range 60 {
		r := someRows()[0]
		r.Name, r.Cgroup, r.Within = fmt.Sprintf("c%02d", i), fmt.Sprintf("/c%02d", i), ""
		rows = append(rows, r)
	}
	sample := sampled{sample: usage.Sample{At: time.Unix(0, 0), Over: time.Second, Rows: rows}}
	s := press(t)
	s.Update(sample)
	for _, tt := range []struct{ key, first, last string }{{"G", "c51", "c59"}, {"g", "c00", "c08"}} {
		s.Update(tea.KeyPressMsg{Code: []rune(tt.key)[0], Text: tt.key})
		for range 2 {
			s.Update(sample)
			if content := s.View().Content; !strings.Contains(content, tt.first) || !strings.Contains(content, tt.last) {
				t.Errorf("%s: not from %s to %s:\n%s", tt.key, tt.first, tt.last, content)
			}
		}
	}
	s.Update(sampled{sample: usage.Sample{At: time.Unix(0, 0), Over: time.Second, Rows: rows[:3]}})
	if content := s.View().Content; !strings.Contains(content, "c02") {
		t.Errorf("fewer rows:\n%s", content)
	}
}

func TestPauseKeepsWhatIsShown(t *testing.T) {
	s := press(t, "space")
	s.Update(sampled{sample: usage.Sample{At: time.Unix(60, 0)}})
	if len(s.latest.Rows) == 0 {
		t.Error("a sample came through the pause")
	}
	s.Update(sampled{err: errors.New("no such tree")})
	if !strings.Contains(s.View().Content, "no such tree") {
		t.Error("an error is not shown")
	}
	s.Update(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
	s.Update(sampled{sample: usage.Sample{At: time.Unix(60, 0)}})
	if len(s.latest.Rows) != 0 || s.err != nil {
		t.Errorf("after the pause: %d rows, error %v", len(s.latest.Rows), s.err)
	}
	if _, cmd := s.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); cmd == nil {
		t.Error("q does not quit")
	} else if _, ok := cmd().(tea.QuitMsg); !ok {
		t.Error("q does not quit")
	}
}

// A name that a tenant chose acts on no terminal, in the table and in the tree.
func TestHostileNames(t *testing.T) {
	const hostile = "\x1b]52;c;aGk=\a\u202e\xff"
	rows := []usage.Row{
		{Cgroup: "/pod/a", Name: hostile, Within: "/pod/a", Disk: "sda", Weight: 100, Actual: 0.5, Counters: usage.Counters{IOStat: cgroup.IOStat{ReadIOs: 1}}},
		{Cgroup: "/pod/" + hostile, Disk: "sda", Weight: 100, Actual: 0.5, Counters: usage.Counters{IOStat: cgroup.IOStat{ReadIOs: 1}}},
	}
	for _, tree := range []bool{false, true} {
		v := DefaultView()
		v.Tree = tree
		var b strings.Builder
		must.OK(t, WriteTable(&b, v.Apply(rows)))
		if strings.ContainsAny(b.String(), "\x1b\a\u202e") || !utf8.ValidString(b.String()) || strings.Count(b.String(), `\x1b]52;c;aGk=\x07\u202e\xff`) != 2 {
			t.Errorf("tree %v: %q", tree, b.String())
		}
	}
}
