// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Classes of ionice, as fio has them.
const (
	classRT   = "--prioclass=1"
	classBE   = "--prioclass=2"
	classIdle = "--prioclass=3"

	ring = " --ioengine=io_uring"
)

// processReadBytes is what a process has read of disks.
func processReadBytes(t *testing.T, pid int) (n int) {
	t.Helper()
	text := read(t, filepath.Join("/proc", fmt.Sprint(pid), "io"))
	for line := range strings.Lines(text) {
		if _, err := fmt.Sscanf(line, "read_bytes: %d", &n); err == nil {
			return n
		}
	}
	t.Fatalf("no read_bytes in %q", text)
	return 0
}

// inClasses has readers of these classes read for some seconds, and tells what part each had, and
// how many bytes the last one had in all.
func inClasses(t *testing.T, d *disk, groups, classes []string, all time.Duration) (parts []float64, last int) {
	t.Helper()
	loads := make([]*load, len(classes))
	for i, class := range classes {
		// In one process, so that what it has read is known.
		options := []string{"--time_based", "--runtime=600", "--rw=randread", "--iodepth=32", "--thread"}
		loads[i] = startFio(t, d, groups[i], append(options, strings.Fields(class)...)...)
		t.Cleanup(func() {
			_ = loads[i].cmd.Process.Kill()
			_ = loads[i].cmd.Wait()
		})
	}
	began := time.Now()
	time.Sleep(1500 * time.Millisecond)
	had, total := make([]float64, len(classes)), 0.0
	for i, l := range loads {
		had[i] = -float64(processReadBytes(t, l.cmd.Process.Pid))
	}
	time.Sleep(2500 * time.Millisecond)
	for i, l := range loads {
		had[i] += float64(processReadBytes(t, l.cmd.Process.Pid))
		total += had[i]
	}
	for i := range had {
		had[i] /= total
	}
	time.Sleep(time.Until(began.Add(all)))
	return had, processReadBytes(t, loads[len(loads)-1].cmd.Process.Pid)
}

// Within a container classes go in their order; between containers the weight alone counts.
func TestIOClasses(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	d := newModelDisk(t, []string{
		"model=fixed", "fixed/parallel=32", "fixed/read_ns=16000000", "fixed/write_ns=16000000", "fixed/other_ns=16000000",
		"size_mib=256", "tags=32", "memory_backed=0", "write_cache=0",
	})
	d.use(t, elevator)
	one, other := newGroup(t, "one"), newGroup(t, "other")
	for _, c := range []struct {
		name            string
		groups, classes []string
		first, last     [2]float64 // the parts of the first and the last one: at least, at most
		all             time.Duration
	}{
		{"none", []string{one, one}, []string{classBE, classBE}, [2]float64{0.45, 0.55}, [2]float64{0.45, 0.55}, 0},
		{"idle", []string{one, one}, []string{classBE, classIdle}, [2]float64{0.95, 1}, [2]float64{0, 0.05}, 14 * time.Second},
		// It may not sleep: its requests come again from a worker.
		{"idle through io_uring", []string{one, one}, []string{classBE, classIdle + ring}, [2]float64{0.9, 1}, [2]float64{0, 0.1}, 0},
		// Readahead of a task that has requests in advance is not throttled.
		{"idle pages through io_uring", []string{one, one}, []string{classBE, classIdle + ring + " --direct=0 --rw=read --iodepth_batch=8"}, [2]float64{0, 0.8}, [2]float64{0.2, 1}, 0},
		{"real time", []string{one, one}, []string{classRT, classBE}, [2]float64{0.95, 1}, [2]float64{0, 0.05}, 14 * time.Second},
		{"of two containers", []string{one, other}, []string{classBE, classIdle}, [2]float64{0.49, 0.51}, [2]float64{0.49, 0.51}, 0},
		{"in one beside another", []string{one, other, other}, []string{classRT, classBE, classIdle}, [2]float64{0.49, 0.51}, [2]float64{0, 0.05}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			had, read := inClasses(t, d, c.groups, c.classes, c.all)
			t.Logf("parts: %.3f; the last one has read %d KiB", had, read/1024)
			first, last := had[0], had[len(had)-1]
			if first < c.first[0] || first > c.first[1] || last < c.last[0] || last > c.last[1] {
				d.logState(t)
				t.Errorf("parts %.3f; want %v of the first and %v of the last", had, c.first, c.last)
			}
			if read == 0 && c.all > 0 {
				t.Errorf("the last one has read nothing in %v, want a request in ten seconds", c.all)
			}
		})
	}
}

// And on disks of real drivers.
func TestIOClassesOnRealDisks(t *testing.T) {
	wanted := strings.Split(os.Getenv("ISOLIO_DISKS"), ",")
	if wanted[0] == "" {
		t.Skip("takes real drivers' disks: make vm T=drivers")
	}
	loaded(t)
	disks := realDisks(t, wanted)
	for _, kind := range wanted {
		if strings.HasSuffix(kind, "-zoned") {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			d, one := disks[kind][0], newGroup(t, "one")
			d.use(t, elevator)
			t.Cleanup(func() { d.use(t, "none") })
			had, _ := inClasses(t, d, []string{one, one}, []string{classBE, classIdle}, 0)
			t.Logf("parts: %.3f", had)
			// It goes while the other has none outstanding: they all complete at once now and then.
			if had[1] > 0.15 {
				d.logState(t)
				t.Errorf("the idle one has %.3f of all reads, want 0.15 at most", had[1])
			}
		})
	}
}
