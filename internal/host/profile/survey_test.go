// SPDX-License-Identifier: MIT

package profile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// model is a disk that takes alone for a request and completes most of them a
// second at most; run is how often a kind was run at a depth.
type model struct {
	alone time.Duration
	most  float64
	// rate of window w of the n-th run of all, where the disk is not as that.
	rate func(steady float64, n, w int) float64
	// drains is for how many windows after a write the disk is busy with it, and reads at
	// half its rate.
	drains int
	busy   int    // windows, from now on
	other  uint64 // bytes that another program moves in each window
	runs   int
	moved  uint64
}

func (m *model) machine() machine {
	return machine{
		moved: func() (uint64, error) { return m.moved, nil },
		run: func(ctx context.Context, job Job, window time.Duration, enough func([]Window) bool) ([]Window, error) {
			var windows []Window
			steady := min(float64(job.Depth)/m.alone.Seconds(), m.most)
			for {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				rate := steady
				if m.rate != nil {
					rate = m.rate(steady, m.runs, len(windows))
				}
				switch {
				case job.ReadPct < 100:
					m.busy = m.drains
				case m.busy > 0:
					m.busy--
					rate /= 2
				}
				var w Window
				for i := range int(math.Round(rate * window.Seconds())) {
					kind := ReadIO
					if i%100 >= job.ReadPct {
						kind = WriteIO
					}
					w.Latency[kind].Add(time.Duration(float64(job.Depth) / rate * 1e9))
				}
				m.moved += w.Requests()*uint64(job.Block) + m.other
				windows = append(windows, w)
				if enough(windows) {
					m.runs++
					return windows, nil
				}
			}
		},
	}
}

func surveyOf(t *testing.T, names string, writes bool) *Survey {
	t.Helper()
	kinds, err := choose(strings.Split(names, ","), writes)
	must.OK(t, err)
	s := &Survey{kinds: kinds, identity: "wwid-1", options: Options{Time: time.Second}, info: block.Info{Scheduler: "none"}}
	s.disk = &block.Device{Name: "sda", SizeBytes: 1 << 30}
	return s
}

func measured(t *testing.T, s *Survey, m *model) *Profile {
	t.Helper()
	lines := 0
	p, err := s.measure(t.Context(), m.machine(), func(string) { lines++ })
	must.OK(t, err)
	if lines != m.runs {
		t.Errorf("%d lines of progress for %d runs", lines, m.runs)
	}
	text, err := p.Encode()
	must.OK(t, err)
	if _, err := Decode([]byte(text)); err != nil {
		t.Errorf("the profile cannot be read back: %v", err)
	}
	return p
}

// A disk of 100 us and 50,000 a second is found to be one: its rates, its knee at 8
// (5 would do), no more than four times its knee, and both runs alike.
func TestMeasureFinds(t *testing.T) {
	m := &model{alone: 100 * time.Microsecond, most: 50000}
	p := measured(t, surveyOf(t, "randread-4k,read-128k", false), m)
	l := p.Loads[0]
	if l.KneeDepth != 8 || l.Points[len(l.Points)-1].Depth != 32 || p.Loads[1].KneeDepth != 8 || len(p.Loads[1].Points) != len(shallow) {
		t.Errorf("%+v", p.Loads)
	}
	for _, at := range l.Points {
		want := min(50000, float64(at.Depth)*10000)
		if math.Abs(at.IOPS/want-1) > 0.001 || at.BytesPS != at.IOPS*4096 || len(at.Runs) != 2 || at.DifferPct > 0.01 || at.Why != "" {
			t.Errorf("%+v, want %.0f a second", at, want)
		}
		if mean := float64(at.Depth) / want * 1e6; math.Abs(at.Read.Mean/mean-1) > 0.001 || math.Abs(at.Read.P99/mean-1) > 0.035 || at.Write != nil {
			t.Errorf("depth %d: %+v, %+v, want %.0f us", at.Depth, at.Read, at.Write, mean)
		}
	}
	if p.WrittenBytes != 0 || len(p.Notes) != 0 || m.runs != 2*(6+6) {
		t.Errorf("%d bytes written, notes %q, %d runs", p.WrittenBytes, p.Notes, m.runs)
	}
}

// What did not last is told from what did, and why two runs differ is said.
func TestMeasureTells(t *testing.T) {
	for _, c := range []struct {
		name  string
		loads string
		model model
		notes []string // parts of them, in order
		why   string   // of a point; "" for none that differs
	}{
		{
			"a buffer in front", "randwrite-4k",
			model{rate: func(steady float64, n, w int) float64 {
				if n == 0 && w < 7 {
					return 10 * steady
				}
				return steady
			}},
			[]string{"randwrite-4k: 50000 IOPS for the first 0.7 s, then less: a cache or blocks erased beforehand", "MiB were written"}, "",
		},
		{
			"a rate that falls on and on", "randread-4k",
			model{rate: func(steady float64, _, w int) float64 { return steady * math.Pow(0.97, float64(w)) }},
			[]string{"randread-4k: 14 of its runs were not steady"}, "",
		},
		{
			"another program", "randread-4k", model{other: 4096 * 400},
			[]string{"others moved up to "}, "",
		},
		{
			"another program in one run", "randread-4k",
			model{other: 4096 * 50, rate: func(steady float64, n, _ int) float64 {
				if n == 2 {
					return steady * 0.9
				}
				return steady
			}},
			[]string{"others moved up to "}, "others moved up to ",
		},
		{
			"hotter with time", "randread-4k",
			model{rate: func(steady float64, n, _ int) float64 { return steady * (1 - 0.01*float64(n)) }},
			nil, "the disk was slower throughout the second run, by 7 % in the middle",
		},
		{
			"a cache that learns", "randread-4k",
			model{rate: func(steady float64, n, _ int) float64 {
				if n == 7 {
					return steady * 1.2
				}
				return steady
			}},
			nil, "the second run was faster",
		},
		{
			"one slow run", "randread-4k",
			model{rate: func(steady float64, n, _ int) float64 {
				if n == 7 {
					return steady * 0.8
				}
				return steady
			}},
			nil, "no cause found",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.model.alone, c.model.most = 2*time.Millisecond, 5000
			s := surveyOf(t, c.loads, true)
			p := measured(t, s, &c.model)
			if len(p.Notes) != len(c.notes) {
				t.Errorf("notes %q", p.Notes)
			}
			for i := range min(len(p.Notes), len(c.notes)) {
				if !strings.Contains(p.Notes[i], c.notes[i]) {
					t.Errorf("note %q, want %q", p.Notes[i], c.notes[i])
				}
			}
			var whys []string
			for _, at := range p.Loads[0].Points {
				if (at.DifferPct > Repeatable) != (at.Why != "") {
					t.Errorf("depth %d: runs are %.1f %% apart: %q", at.Depth, at.DifferPct, at.Why)
				}
				if at.Why != "" {
					whys = append(whys, at.Why)
				}
			}
			if (len(whys) > 0) != (c.why != "") || !slices.ContainsFunc(append(whys, ""), func(w string) bool { return strings.HasPrefix(w, c.why) }) {
				t.Errorf("why: %q, want %q", whys, c.why)
			}
		})
	}
}

// Reads are measured on a disk that has nothing to do for earlier writes, in both runs.
func TestReadsComeBeforeWrites(t *testing.T) {
	m := &model{alone: 2 * time.Millisecond, most: 5000, drains: 600}
	p := measured(t, surveyOf(t, "randread-4k,read-128k,randwrite-4k", true), m)
	for _, l := range p.Loads {
		for _, at := range l.Points {
			if len(at.Runs) != runs || at.DifferPct > 0.01 || math.Abs(at.IOPS/min(5000, float64(at.Depth)*500)-1) > 0.01 {
				t.Errorf("%s, depth %d: %+v", l.Name, at.Depth, at)
			}
		}
	}
	if m.busy == 0 {
		t.Error("nothing was written")
	}
}

// A disk that completes nothing, or fails, has no profile.
func TestMeasureFails(t *testing.T) {
	m := &model{alone: time.Second, most: 1000, rate: func(float64, int, int) float64 { return 0 }}
	if _, err := surveyOf(t, "randread-4k", false).measure(t.Context(), m.machine(), func(string) {}); err == nil || !strings.Contains(err.Error(), "load randread-4k at depth 1: nothing completed in 10s") {
		t.Errorf("%v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := surveyOf(t, "randread-4k", false).measure(ctx, m.machine(), func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// machineWith is a root directory with one disk.
func machineWith(t *testing.T, more map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"sys/block/sda/dev": "8:0", "sys/block/sda/size": "2097152", "sys/block/sda/device/wwid": "naa.5002538d", "sys/block/sda/queue/scheduler": "[mq-deadline] none",
		"sys/block/sda/queue/nr_requests": "256", "dev/sda": "", "proc/self/mountinfo": "", "proc/swaps": "",
	}
	testtree.Write(t, root, files, more)
	return root
}

func TestDecideRefuses(t *testing.T) {
	mounted := map[string]string{"proc/self/mountinfo": "22 1 8:0 / /data rw - ext4 /dev/sda rw\n"}
	for _, c := range []struct {
		name    string
		options Options
		more    map[string]string
		code    int
		want    string
	}{
		{"a write that was not allowed", Options{Loads: []string{"randwrite-4k"}}, nil, failure.Usage, "--loads: randwrite-4k overwrites the disk; it needs --allow-writes"},
		{"a load that is none", Options{Loads: []string{"randread-4k", "x"}}, nil, failure.Usage, `--loads: "x" is not a load; allowed: randread-4k, `},
		{"no load", Options{Loads: []string{}}, nil, failure.Usage, "--loads: is empty"},
		{"depth 0", Options{Depths: []int{1, 0}}, nil, failure.Usage, "--depths: 0 1; allowed: 1 to 4096"},
		{"too short", Options{Time: time.Millisecond}, nil, failure.Usage, "--time: 1ms is out of range; allowed: 200ms to 10m0s"},
		{"a scheduler that is not there", Options{Scheduler: "bfq"}, nil, failure.Usage, `--scheduler: "bfq" is not there; allowed: mq-deadline, none`},
		{"writes to a mounted disk", Options{AllowWrites: true}, mounted, failure.Usage, "device sda: in use: sda is mounted at /data"},
		{"a disk without medium", Options{}, map[string]string{"sys/block/sda/size": "0"}, failure.Usage, "device sda: has 0 bytes; allowed: 16 MiB or more"},
		{"a disk without a number", Options{}, map[string]string{"sys/block/sda/device/wwid": ""}, failure.Unsupported, "has no identity that outlasts a boot"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Root, c.options.Device = machineWith(t, c.more), "sda"
			if c.options.Time == 0 {
				c.options.Time = time.Second
			}
			_, err := Decide(c.options)
			if failure.Code(err) != c.code || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// Reads go to a mounted disk as well; what is not a block device gets none.
func TestRunChecksTheNode(t *testing.T) {
	root := machineWith(t, map[string]string{"proc/self/mountinfo": "22 1 8:0 / /data rw - ext4 /dev/sda rw\n"})
	s, err := Decide(Options{Root: root, Device: "sda", Time: time.Second, Scheduler: "none"})
	must.OK(t, err)
	if _, err := s.Run(t.Context(), func(string) {}); err == nil || !strings.Contains(err.Error(), "is not a block device's node") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(filepath.Join(root, "sys/block/sda/queue/scheduler")); err != nil || string(text) != "[mq-deadline] none" {
		t.Errorf("the scheduler is %q, %v", text, err)
	}
	var b strings.Builder
	if err := s.Describe(&b); err != nil || !strings.HasPrefix(b.String(), "echo 'none' > ") || strings.Contains(b.String(), "overwrites") ||
		!strings.HasSuffix(b.String(), "/var/lib/isolio/profiles/wwid-naa.5002538d.json\n") {
		t.Errorf("%v: %s", err, b.String())
	}
	if _, err := os.Stat(filepath.Join(root, Dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is kept: %v", err)
	}
}
