// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"isolio/internal/host/profile"
)

// param is a parameter of the disk's model.
func (d *disk) param(t *testing.T, name string) float64 {
	t.Helper()
	text := strings.TrimSpace(read(t, filepath.Join(d.config, name)))
	n, err := strconv.ParseFloat(text, 64)
	must(t, err)
	return n
}

// figures are what a model can do, in requests of 4 KiB and bytes a second of device
// time, as its equations in docs/design/models.md say; 0 for what they do not say.
type figures struct {
	alone, reads, sequential float64
	writes                   float64
}

// known are the figures of each model, from its parameters alone.
var known = map[string]func(p func(string) float64) figures{
	"hdd": func(p func(string) float64) figures {
		turn, outer := 60e9/p("rpm"), p("outer_track_sects")
		return figures{
			alone: 1e9 / (p("overhead_ns") + meanSeek(p) + turn/2 + turn*8/outer),
			// Of the outermost zone, where a reader begins: a track, and the way to the next one.
			sequential: outer * 512 * 1e9 / (turn + p("switch_ns")),
		}
	},
	// Bytes have no limit there: how many one read has decides.
	"fixed": func(p func(string) float64) figures {
		return figures{
			alone:  1e9 / p("read_ns"),
			reads:  p("parallel") * 1e9 / p("read_ns"),
			writes: p("parallel") * 1e9 / p("write_ns"),
		}
	},
	"nvme": func(p func(string) float64) figures {
		medium := p("channels") * p("dies") * p("planes") * p("page_kib") * 1024 / // bytes in the time of a program
			(p("program_ns") + p("planes")*p("page_kib")/4*p("channel_ns"))
		return figures{
			alone:      1e9 / (p("command_ns") + p("read_ns") + p("channel_ns") + 4096*1e3/p("link_bytes_per_us") + p("read_fixed_ns")),
			reads:      1e9 / p("command_ns"),
			sequential: p("link_bytes_per_us") * 1e6,
			writes:     medium * 1e9 / 4096 * 1000 / p("random_wa"),
		}
	},
	"ull": func(p func(string) float64) figures {
		f := figures{
			alone:      1e9 / (p("before_ns") + p("serial_read_ns") + p("read_ns") + p("move_ns") + p("after_ns")),
			reads:      1e9 / p("serial_read_ns"),
			sequential: 4096 * 1e9 / p("serial_read_ns"),
			writes:     1e9 / p("serial_write_ns"),
		}
		if p("buffer_kib") > 0 {
			f.writes = 1e9 / (p("drain_ns") * p("random_wa") / 1000)
		}
		return f
	},
	"flash": func(p func(string) float64) figures {
		f := figures{alone: 1e9 / (p("command_ns") + p("read_ns") + p("channel_ns") + p("link_ns"))}
		// A page written pays its part of a collection: of a victim with the part u valid,
		// (1 - u) of its pages are gained on average.
		pages, dies := p("block_pages"), p("channels")*p("dies")
		valid := pages * validPart(1+p("op_permille")/1000-spareBlocks*pages*dies/(p("../size_mib")*256), pages)
		collect := math.Ceil(valid/p("row_pages"))*(p("read_ns")+p("program_ns")) + p("erase_ns")
		if p("queue_depth") > 1 {
			f.reads = 1e9 / p("command_ns")
			f.sequential = 4096 * 1e9 / p("link_ns")
			// Whole rows leave the buffer.
			f.writes = dies * 1e9 / (p("program_ns")/p("row_pages") + collect/(pages-valid))
			return f
		}
		f.reads = f.alone // one command at a time, and each write is programmed for itself
		f.writes = 1e9 / (p("command_ns") + p("link_ns") + p("program_ns") + collect/(pages-valid))
		return f
	},
}

// meanSeek is the mean time of a seek between two sectors anywhere on a hard disk. Outer tracks have more of them.
func meanSeek(p func(string) float64) float64 {
	const steps = 400
	sectors := func(x float64) float64 { return 1 - p("zone_permille")/1000*x }
	time := func(x float64) float64 {
		return p("seek_ns") + p("seek_sqrt_ns")*math.Sqrt(x) + p("seek_stroke_ns")*x
	}
	sum, weights := 0.0, 0.0
	for i := range steps {
		for j := range steps {
			a, b := (float64(i)+0.5)/steps, (float64(j)+0.5)/steps
			weight := sectors(a) * sectors(b)
			sum, weights = sum+weight*time(math.Abs(a-b)), weights+weight
		}
	}
	return sum / weights
}

// spareBlocks are not in use on each die: the model keeps two or three free.
const spareBlocks = 2.5

// validPart solves s (1 - u) = 1/b + 1/(b-1) + ... + 1/(u b + 1), as docs/design/models.md has it,
// for s pages of flash for each of data and blocks of b pages.
func validPart(s, b float64) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		u := (low + high) / 2
		sum := 0.0
		for k := b; k >= u*b+1; k-- {
			sum += 1 / k
		}
		k := math.Ceil(u*b+1) - (u*b + 1) // the part of the last term
		sum += k / math.Max(u*b, 1)
		if s*(1-u) < sum {
			low = u
		} else {
			high = u // 1 is a solution as well, which no disk has
		}
	}
	return low
}

// everyMeasureVariable has TestMeasure measure every preset with each of its loads.
const everyMeasureVariable = "ISOLIO_EVERY_MEASURE"

// isolio measure finds what a model disk can do, within 5 %, by its parameters. The scale
// keeps the guest's own time for a request small beside the disk's.
func TestMeasure(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	const reads, sequential, writes = "randread-4k", "read-128k", "randwrite-4k"
	for i, c := range []struct {
		model, preset string
		scale         int
		loads         string
		time          string
		depths        string
	}{
		{"flash", "emmc", 10, reads, "500ms", "1,2,32"},
		{"flash", "sata-ssd", 32, reads, "500ms", "1,32,64"},
		{"flash", "sata-ssd", 8, sequential, "500ms", "1,32,64"},
		{"nvme", "p4500-2tb", 32, reads, "500ms", "1,128,256"},
		{"nvme", "p4500-2tb", 8, sequential, "500ms", "1,32,64"},
		{"ull", "optane-p4800x", 200, reads, "500ms", "1,16,32"},
		{"ull", "optane-p4800x", 20, sequential, "500ms", "1,16,32"},
		{"ull", "z-ssd", 200, reads, "1s", "1,16,32"},
		{"ull", "z-ssd", 20, sequential, "500ms", "1,16,32"},
		{"flash", "emmc", 1, writes, "4s", "1,2"}, // it stalls for a third of a second at a time
		{"nvme", "p4500-2tb", 32, writes, "500ms", "16,128"},
		{"ull", "optane-p4800x", 100, writes, "500ms", "16,128"},
		{"ull", "z-ssd", 100, writes, "500ms", "16,128"},
		{"hdd", "desktop-2008", 1, reads, "4s", "1,31"},
		{"hdd", "desktop-2008", 1, sequential, "1s", "1,4"},
		// What was written is no load of the reads that are measured again.
		{"nvme", "p4500-2tb", 32, reads + "," + writes, "500ms", "1,128,256"},
		{"hdd", "desktop-2008-h1", 1, reads, "4s", "1,31"},
		{"hdd", "desktop-2008-h1", 1, sequential, "1s", "1,4"},
		{"flash", "emmc-clustered", 10, reads, "500ms", "1,2,32"},
		{"flash", "sata-ssd", 2, writes, "2s", "1,32"},
		{"nvme", "p4500-1tb", 32, reads, "500ms", "1,128,256"},
		{"nvme", "p4500-1tb", 8, sequential, "500ms", "1,32,64"},
		{"nvme", "p4500-1tb", 32, writes, "500ms", "16,128"},
		{"nvme", "p4500-4tb", 64, reads, "500ms", "1,128,256"},
		{"nvme", "p4500-4tb", 8, sequential, "500ms", "1,32,64"},
		{"nvme", "p4500-4tb", 16, writes, "1s", "16,128"},
		{"fixed", "ideal", 5, reads, "4s", "1,32,64"},
		{"fixed", "ideal", 5, writes, "4s", "32,64"},
	} {
		t.Run(fmt.Sprintf("%s %s", c.preset, c.loads), func(t *testing.T) {
			if i%6 != 0 && os.Getenv(everyMeasureVariable) == "" {
				t.Skipf("one in six is measured: vm-run --env %s=1 measures all", everyMeasureVariable)
			}
			d := newModelDisk(t, []string{"model=" + c.model, "preset=" + c.preset, fmt.Sprint("scale=", c.scale), "tags=1023"})
			args := []string{"measure", d.name, "--scheduler", "none", "--loads", c.loads, "--json", "--time", c.time}
			if strings.Contains(c.loads, writes) {
				args = append(args, "--allow-writes")
			}
			if c.depths != "" {
				args = append(args, "--depths", c.depths)
			}
			out, progress, code := isolio(t, args...)
			if code != 0 {
				t.Fatalf("exit status %d: %s", code, progress)
			}
			var p profile.Profile
			must(t, json.Unmarshal([]byte(out), &p))
			if kept := succeeds(t, "measure", d.name, "--show", "--json"); kept != out {
				t.Errorf("what is kept is not what was measured:\n%s", kept)
			}
			if !strings.Contains(progress, "run 2 of 2: ") {
				t.Errorf("progress: %s", progress)
			}
			if table := succeeds(t, "measure", d.name, "--show"); !strings.Contains(table, "  knee\n") && c.model != "hdd" {
				t.Errorf("--show prints no knee:\n%s", table)
			}
			f := known[c.model](func(name string) float64 { return d.param(t, filepath.Join(c.model, name)) })
			within := func(what string, got, want float64) {
				t.Helper()
				if want == 0 && c.model == "hdd" { // how it chooses from a queue has no equation
					t.Logf("%s: %.0f a second", what, got)
					return
				}
				want /= float64(c.scale)
				t.Logf("%s: %.0f a second, by its parameters %.0f: %+.1f %%", what, got, want, 100*(got/want-1))
				if math.Abs(got/want-1) > 0.05 {
					t.Errorf("%s: %.0f a second, want %.0f to 5 %%", what, got, want)
				}
			}
			for i := range p.Loads {
				l := &p.Loads[i]
				switch full := l.Full(); l.Name {
				case "randread-4k":
					within("reads alone", l.Points[0].IOPS, f.alone)
					within("reads", full.IOPS, f.reads)
				case "read-128k":
					within("bytes read", full.BytesPS, f.sequential)
				case "randwrite-4k":
					within("writes", full.IOPS, f.writes)
				}
				if l.KneeDepth == 0 && c.model != "hdd" { // a hard disk does more with each request
					t.Errorf("%s has no knee", l.Name)
				}
				for _, at := range l.Points {
					if at.DifferPct > profile.Repeatable {
						t.Errorf("%s, depth %d: runs are %.1f %% apart: %s", l.Name, at.Depth, at.DifferPct, at.Why)
					}
					for _, r := range at.Runs {
						if !r.Settled || r.OthersPct > 1 {
							t.Errorf("%s, depth %d: %+v", l.Name, at.Depth, r)
						}
					}
				}
				// A buffer is told from what lasts: these drives have one of 32 MiB. That of the
				// SATA SSD, of 2 MiB, is full within a window or two.
				buffer := c.model == "nvme" || c.preset == "z-ssd"
				if burst := l.Points[len(l.Points)-1].Runs[0].Burst; l.Name == writes && c.preset != "sata-ssd" && (burst != nil) != buffer {
					t.Errorf("%s: first there was %+v", l.Name, burst)
				}
			}
		})
	}
}

// A disk that is in use is not written to, and one without a number has no profile.
func TestMeasureRefuses(t *testing.T) {
	withModelDisk(t)
	d := newModelDisk(t, []string{"model=fixed", "size_mib=64"})
	startFio(t, d, newGroup(t, "a"), "--rw=randread", "--time_based", "--runtime=600")
	untilBusy(t, d)
	if _, stderr, code := isolio(t, "measure", d.name, "--allow-writes"); code != 2 || !strings.Contains(stderr, "in use: process ") {
		t.Errorf("a disk in use: exit status %d, %q", code, stderr)
	}
	if writes := d.stat(t, "writes"); writes != 0 {
		t.Errorf("%d writes", writes)
	}
	if _, stderr, code := isolio(t, "measure", newDisk(t, fast).name); code != 3 || !strings.Contains(stderr, "has no identity that outlasts a boot") {
		t.Errorf("a disk without a number: exit status %d, %q", code, stderr)
	}
}
