// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sfqModuleName = "sfq_iosched"
	sfqModuleFile = "sfq-iosched.ko"
)

// withSFQ starts a test of sfq: its module is loaded, and the kernel's log must
// be clean at the end.
func withSFQ(t *testing.T) {
	t.Helper()
	watchLog(t)
	if !inserted(t, sfqModuleName) {
		must(t, insertModule(sfqModuleFile))
	}
}

// decision is one figure of what sfq says that it decided.
func (d *disk) decision(t *testing.T, name string) int {
	t.Helper()
	file := filepath.Join("/sys/kernel/debug/block", d.name, "sched/decisions")
	for line := range strings.Lines(read(t, file)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			n, err := strconv.Atoi(value)
			must(t, err)
			return n
		}
	}
	t.Fatalf("%s has no %s", file, name)
	return 0
}

// directions are how many reads and writes the disk has completed.
func (d *disk) directions(t *testing.T) (reads, writes int) {
	t.Helper()
	fields := strings.Fields(read(t, filepath.Join("/sys/block", d.name, "stat")))
	reads, err := strconv.Atoi(fields[0])
	must(t, err)
	writes, err = strconv.Atoi(fields[4])
	must(t, err)
	return reads, writes
}

// writesOf is how many writes of a group the disk has completed.
func writesOf(t *testing.T, group string, d *disk) int {
	t.Helper()
	return keyed(t, group, "io.stat", d)["wios"]
}

// slowFlash is a disk of 4,000 requests a second that the load, not the CPU,
// keeps full.
var slowFlash = []string{"irqmode=2", "completion_nsec=1000000", "hw_queue_depth=4", "submit_queues=1", "size=256"}

func TestSFQSwitchUnderLoad(t *testing.T) {
	withSFQ(t)
	d := newDisk(t, fast)
	loads := []*load{
		startFio(t, d, newGroup(t, "a"), "--time_based", "--runtime=60", "--numjobs=4", "--ioengine=psync"),
		startFio(t, d, newGroup(t, "b"), "--time_based", "--runtime=60", "--bs=64k", "--iodepth=64"),
	}
	for _, other := range others {
		d.use(t, "sfq")
		untilBusy(t, d)
		d.use(t, other)
		untilBusy(t, d)
	}
	d.use(t, "sfq")
	untilBusy(t, d)
	for _, l := range loads {
		must(t, l.cmd.Process.Signal(unix.SIGINT))
	}
	for _, l := range loads {
		_ = l.cmd.Wait() // 128 after SIGINT; its I/O errors are what counts
		if fioErrors(l) {
			t.Errorf("fio saw an error:\n%s", l.out.String())
		}
	}
}

func TestSFQReload(t *testing.T) {
	withSFQ(t)
	d := newDisk(t, fast)
	group := newGroup(t, "a")
	for range 5 {
		if !inserted(t, sfqModuleName) {
			must(t, insertModule(sfqModuleFile))
		}
		d.use(t, "sfq")
		expectErrno(t, "unloading while a disk has it", unix.DeleteModule(sfqModuleName, unix.O_NONBLOCK), unix.EAGAIN, unix.EBUSY)
		startFio(t, d, group, "--size=256k").wait(t)
		d.use(t, "none")
		must(t, unix.DeleteModule(sfqModuleName, unix.O_NONBLOCK))
	}
}

func TestSFQDeviceRemovedUnderLoad(t *testing.T) {
	withSFQ(t)
	group := newGroup(t, "a")
	for range 3 {
		d := newDisk(t, fast)
		d.use(t, "sfq")
		l := startFio(t, d, group, "--time_based", "--runtime=60", "--iodepth=128")
		untilBusy(t, d)
		write(t, filepath.Join(d.config, "power"), "0")
		if err := l.cmd.Wait(); err == nil {
			t.Error("fio did not notice that its disk is gone")
		}
		must(t, os.Remove(d.config))
	}
}

// Requests merge, forwards and backwards, and what is written is read back.
func TestSFQKeepsData(t *testing.T) {
	withSFQ(t)
	d := newDisk(t, []string{
		"memory_backed=1", "cache_size=4", "irqmode=2", "completion_nsec=200000",
		"hw_queue_depth=2", "submit_queues=1", "size=64",
	})
	d.use(t, "sfq")
	write(t, d.queue("nr_requests"), "128")
	group := newGroup(t, "a")
	for _, job := range [][]string{
		{"--rw=write", "--size=2m", "--iodepth=32", "--fdatasync=64"},
		{"--rw=write:-8k", "--size=2m", "--iodepth=32"}, // each before the last one
		{"--rw=randrw", "--bsrange=4k-128k", "--size=4m", "--fsync=8"},
	} {
		before := d.merges(t)
		l := startFio(t, d, group, append(job, "--norandommap=0", "--verify=crc32c", "--verify_fatal=1", "--do_verify=1")...)
		l.wait(t)
		if fioErrors(l) || l.kib(t) == 0 {
			t.Errorf("%v:\n%s", job, l.out.String())
		}
		// On a debugging kernel the disk is done before the next one comes.
		if job[0] != "--rw=randrw" && d.merges(t) == before && !onDebugKernel(t) {
			t.Errorf("%v: nothing was merged", job)
		}
	}
}

// The kernel refuses values that would leave a queue without turns.
func TestSFQTunables(t *testing.T) {
	withSFQ(t)
	d := newDisk(t, fast)
	d.use(t, "sfq")
	for name, want := range map[string]string{
		"sync_selections": "3", "turn_requests": "3", "turn_reads": "2", "turn_writes": "1", "age_th": "0",
	} {
		if got := strings.TrimSpace(read(t, d.queue("iosched/"+name))); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for name, bad := range map[string]string{
		"sync_selections": "0", "turn_requests": "1", "turn_reads": "0", "turn_writes": "0",
		"reads_first": "2", "writes_inside_pct": "101", "read_expire_ms": "0",
	} {
		expectErrno(t, name+" = "+bad, put(d.queue("iosched/"+name), bad), unix.ERANGE)
	}
	expectErrno(t, "a zero byte in a number", put(d.queue("iosched/turn_reads"), "2\x00xxx"), unix.EINVAL)
	l := startFio(t, d, newGroup(t, "a"), "--time_based", "--runtime=60")
	for _, set := range []string{"turn_reads=1", "turn_writes=9", "turn_requests=2", "reads_first=0", "sync_selections=1", "turn_requests=20", "age_th=20"} {
		name, value, _ := strings.Cut(set, "=")
		write(t, d.queue("iosched/"+name), value)
		if got := strings.TrimSpace(read(t, d.queue("iosched/"+name))); got != value {
			t.Errorf("%s is %s after writing %s", name, got, value)
		}
		untilBusy(t, d)
	}
	must(t, l.cmd.Process.Signal(unix.SIGINT))
	_ = l.cmd.Wait()
}

// An endless reader and an endless writer each have what the rules give them: as
// many writes to a thousand reads, within a twentieth. Each has a half of the disk: a
// read of a page that is dirty in memory writes it first, and waits for that.
func TestSFQSharesDirections(t *testing.T) {
	comparesRates(t)
	withSFQ(t)
	d := newDisk(t, slowFlash)
	d.use(t, "sfq")
	write(t, d.queue("nr_requests"), "256")
	// The block layer's own throttling would let in one asynchronous write at a time.
	write(t, d.queue("wbt_lat_usec"), "0")
	direct := []string{"--rw=randwrite", "--iodepth=32"}
	for i, c := range []struct {
		name      string
		insidePct string
		writer    []string
		per1000   int
	}{
		// Two reads to one, when there is room for as many writes in the disk.
		{"synchronous", "100", direct, 500},
		// One of the disk's four places is for writes, three for reads.
		{"synchronous, bounded inside", "25", direct, 333},
		// After three turns of the reader, two reads each, one.
		{"asynchronous", "25", []string{"--rw=randwrite", "--numjobs=4", "--ioengine=psync", "--direct=0", "--sync_file_range=write:64"}, 167},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, d.queue("iosched/writes_inside_pct"), c.insidePct)
			reader := startFio(t, d, newGroup(t, fmt.Sprint("reader", i)), "--rw=randread", "--iodepth=32", "--size=128m", "--time_based", "--runtime=60")
			reader.untilBusy(t)
			writer := startFio(t, d, newGroup(t, fmt.Sprint("writer", i)), append(c.writer, "--offset=128m", "--size=128m", "--time_based", "--runtime=60")...)
			_, written := d.directions(t)
			for _, now := d.directions(t); now < written+200; _, now = d.directions(t) {
				time.Sleep(10 * time.Millisecond)
			}
			reads0, writes0 := d.directions(t)
			reads, writes := reads0, writes0
			for reads < reads0+2000 {
				time.Sleep(10 * time.Millisecond)
				reads, writes = d.directions(t)
			}
			got := (writes - writes0) * 1000 / (reads - reads0)
			if got < c.per1000*95/100 || got > c.per1000*105/100 {
				d.logState(t)
				t.Errorf("%d writes to 1000 reads, want %d", got, c.per1000)
			}
			interrupt(t, []*load{reader, writer})
		})
	}
}

// interrupt ends loads, of which one may have written to memory what is not on the disk yet.
func interrupt(t *testing.T, loads []*load) {
	t.Helper()
	for _, l := range loads {
		must(t, l.cmd.Process.Signal(unix.SIGINT))
	}
	for _, l := range loads {
		_ = l.cmd.Wait()
	}
}

// untilWritten waits until the disk has done n writes and more, and each of the loads has had one
// at some time, and returns how many in a hundred of those n were theirs.
func (d *disk) untilWritten(t *testing.T, n int, loads ...*load) (pct int) {
	t.Helper()
	theirs := func() (sum int, all bool) {
		all = true
		for _, l := range loads {
			nr := writesOf(t, l.group, d)
			sum += nr
			all = all && nr > 0
		}
		return sum, all
	}
	_, written := d.directions(t)
	before, _ := theirs()
	for _, now := d.directions(t); ; _, now = d.directions(t) {
		if sum, all := theirs(); all && now >= written+n {
			return (sum - before) * 100 / (now - written)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A process that waits for its writes has three turns before what is written back has
// one, also where a reader goes before both: those are not turns of processes that
// the asynchronous queue may count. Written back are pieces of 64 KiB, after each of
// which 32 reads go. It is less than three of four when none of its writes is there yet.
func TestSFQSyncWritesBeforeAsync(t *testing.T) {
	comparesRates(t)
	withSFQ(t)
	d := newDisk(t, slowFlash)
	d.use(t, "sfq")
	// More than all have, 32, 8 and at most 32 pieces: no request waits for a place.
	write(t, d.queue("nr_requests"), "1024")
	write(t, d.queue("wbt_lat_usec"), "0")
	var loads []*load
	for _, c := range []struct {
		name string
		args []string
	}{
		{"reader", []string{"--rw=randread", "--iodepth=32"}},
		{"saver", []string{"--rw=randwrite", "--iodepth=8", "--offset=64m"}},
		{"copy", []string{"--rw=randwrite", "--bs=64k", "--numjobs=4", "--ioengine=psync", "--direct=0", "--sync_file_range=write:16", "--offset=128m", "--size=2m"}},
	} {
		loads = append(loads, startFio(t, d, newGroup(t, "order-"+c.name), append([]string{"--size=64m", "--time_based", "--runtime=60"}, c.args...)...))
	}
	d.untilWritten(t, 100, loads[1:]...)
	got := d.untilWritten(t, 200, loads[1])
	t.Logf("%d %% of the writes were those that somebody waits for", got)
	if got < 30 || got > 90 {
		d.logState(t)
		t.Errorf("%d %% of the writes were those that somebody waits for, want 75, or less", got)
	}
	interrupt(t, loads)
}

// What is written back has its turns next to two processes that each have reads and writes waiting
// all the time: a process may go as a reader until its turn has no read left, and has its turn all
// the same. After three turns of a write each there is one of the asynchronous queue, which has
// more than that where a process waits for its reads alone.
func TestSFQAsyncNextToMixedProcesses(t *testing.T) {
	comparesRates(t)
	withSFQ(t)
	d := newDisk(t, slowFlash)
	d.use(t, "sfq")
	write(t, d.queue("nr_requests"), "1024")
	write(t, d.queue("wbt_lat_usec"), "0")
	write(t, d.queue("iosched/writes_inside_pct"), "100")
	var loads []*load
	for i, args := range [][]string{
		{"--rw=randrw", "--rwmixread=67", "--iodepth=128"},
		{"--rw=randrw", "--rwmixread=67", "--iodepth=128", "--offset=64m"},
		{"--rw=randwrite", "--numjobs=4", "--ioengine=psync", "--direct=0", "--sync_file_range=write:64", "--offset=128m"},
	} {
		loads = append(loads, startFio(t, d, newGroup(t, fmt.Sprint("mixed-", i)), append([]string{"--size=64m", "--time_based", "--runtime=60"}, args...)...))
	}
	// Not before each has begun: how long a fio takes for that says nothing of turns.
	d.untilWritten(t, 200, loads...)
	got := 100 - d.untilWritten(t, 800, loads[:2]...)
	t.Logf("%d %% of the writes were written back", got)
	// It was 2 without turns of its own. How many go in one depends on what fio has there then.
	if got < 8 || got > 80 {
		d.logState(t)
		t.Errorf("%d %% of the writes were written back, want 8 to 80", got)
	}
	interrupt(t, loads)
}

// sfq waits for a read as long as the read gains by it. Where writes do not delay reads
// it does not wait, whatever patience_us allows; where they do, it waits up to that. It
// needs only as many reads as it takes to try both, however reads and writes fall: where
// one write of two ends in each think time, no read finds an idle disk by itself, and
// none a full one.
func TestSFQPatienceIsWhatReadsGain(t *testing.T) {
	withModelDisk(t)
	withSFQ(t)
	const most = 4 * time.Millisecond
	// Two reads, after which a write may go, take longer with their thought than that
	// write: where writes wait for the reader, it has none inside in between.
	for _, c := range []struct {
		name               string
		parallel, thinkUS  string
		leastMin, leastMax time.Duration
	}{
		{"in nobody's way", "8", "1500", 0, most / 20},
		{"in nobody's way, 1300", "8", "1300", 0, most / 20},
		{"in nobody's way, 1050", "8", "1050", 0, most / 20},
		{"one request after the other", "1", "1500", most / 4, most},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newModelDisk(t, []string{"model=fixed", "fixed/parallel=" + c.parallel, "fixed/read_ns=200000", "fixed/write_ns=2000000", "size_mib=256", "tags=8"})
			d.use(t, "sfq")
			write(t, d.queue("iosched/patience_us"), strconv.Itoa(int(most.Microseconds())))
			patience := func() time.Duration {
				_, rest, _ := strings.Cut(read(t, filepath.Join("/sys/kernel/debug/block", d.name, "sched/queues")), " patience_us=")
				us, err := strconv.Atoi(strings.Fields(rest)[0])
				must(t, err)
				return time.Duration(us) * time.Microsecond
			}
			if got := patience(); got != most {
				t.Errorf("where nothing is known it waits for %v, want %v", got, most)
			}
			reader := startFio(t, d, newGroup(t, "reader"+c.parallel+"-"+c.thinkUS), "--rw=randread", "--ioengine=psync", "--thinktime="+c.thinkUS, "--size=64m", "--time_based", "--runtime=60")
			writer := startFio(t, d, newGroup(t, "writer"+c.parallel+"-"+c.thinkUS), "--rw=randwrite", "--iodepth=64", "--offset=128m", "--size=64m", "--time_based", "--runtime=60")
			least := most
			reads, _ := d.directions(t)
			// At most 512 and 64 until it has seen reads among writes, 64 until it has
			// seen some alone, and what the disk does between two looks.
			enough := func(now int) bool {
				return now >= reads+700 || now >= reads+400 && least <= c.leastMax
			}
			for now := reads; !enough(now); now, _ = d.directions(t) {
				least = min(least, patience())
				time.Sleep(20 * time.Millisecond)
			}
			if least < c.leastMin || least > c.leastMax {
				d.logState(t)
				t.Errorf("it waits for %v at least, want %v to %v", least, c.leastMin, c.leastMax)
			}
			interrupt(t, []*load{reader, writer})
		})
	}
}

// Of the scheduler's requests, few or many, writes get three quarters: a read that
// comes to more writes than there are requests finds one, and goes before them.
func TestSFQKeepsRoomForReads(t *testing.T) {
	withSFQ(t)
	d := newDisk(t, []string{"irqmode=2", "completion_nsec=5000000", "hw_queue_depth=2", "submit_queues=1", "size=256"})
	d.use(t, "sfq")
	readAt := directRead(t, d)
	for _, requests := range []int{64, 256} {
		write(t, d.queue("nr_requests"), strconv.Itoa(requests))
		waiting := func() int { return d.decision(t, "inserted") - d.decision(t, "merged") - d.decision(t, "dispatched") }
		l := startFio(t, d, newGroup(t, fmt.Sprint("writer", requests)), "--rw=randwrite", "--iodepth=300", "--time_based", "--runtime=60")
		most := requests * 3 / 4
		for range 3000 {
			if waiting() >= most*9/10 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		n := waiting()
		if n < most*9/10 || n > most {
			d.logState(t)
			t.Errorf("of %d requests %d writes wait, want %d, less the two in the disk", requests, n, most)
		}
		_, before := d.directions(t)
		must(t, readAt(0))
		if _, now := d.directions(t); now-before > n/2 {
			d.logState(t)
			t.Errorf("%d writes, of %d that were there before it, went before a read", now-before, n)
		}
		must(t, l.cmd.Process.Signal(unix.SIGINT))
		_ = l.cmd.Wait()
	}
}

// A process has the disk read ahead and ends. What it asked for is read all the
// same, and nothing of it is left: the module's caches are empty when it goes.
func TestSFQOrphans(t *testing.T) {
	withSFQ(t)
	d := newDisk(t, []string{"irqmode=2", "completion_nsec=20000000", "hw_queue_depth=2", "submit_queues=1", "size=256"})
	d.use(t, "sfq")
	write(t, d.queue("nr_requests"), "128")
	self, err := os.Executable()
	must(t, err)
	// The last one to close a disk would wait for what is being read.
	f, err := os.Open("/dev/" + d.name)
	must(t, err)
	for range 3 {
		before := d.ios(t)
		orphans := d.decision(t, "orphans")
		c := exec.Command(self)
		c.Env = append(os.Environ(), readAheadOf+"=/dev/"+d.name)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if left := readAheadRequests - (d.ios(t) - before); left < readAheadRequests/2 {
			t.Errorf("only %d of %d requests were waiting when the process had ended", left, readAheadRequests)
		}
		for range 500 {
			if d.ios(t) >= before+readAheadRequests && d.inside(t) == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if d.inside(t) != 0 || d.ios(t) < before+readAheadRequests {
			d.logState(t)
			t.Fatalf("%d of %d requests done, %d left", d.ios(t)-before, readAheadRequests, d.inside(t))
		}
		if d.decision(t, "orphans") == orphans {
			t.Error("nobody left requests waiting")
		}
		must(t, dropCache(f)) // so that the next one reads again
	}
	must(t, f.Close())

	// Nor of one that is killed with writes waiting: it goes when they are done.
	waiting := func() int { return d.decision(t, "inserted") - d.decision(t, "merged") - d.decision(t, "dispatched") }
	l := startFio(t, d, newGroup(t, "killed"), "--rw=randwrite", "--thread", "--numjobs=4", "--time_based", "--runtime=60")
	const enough = 16
	for range 3000 {
		if waiting() >= enough {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if waiting() < enough {
		d.logState(t)
		t.Errorf("only %d requests wait when the writers are killed", waiting())
	}
	must(t, l.cmd.Process.Kill())
	_ = l.cmd.Wait()
	if waiting() != 0 || d.inside(t) != 0 {
		d.logState(t)
		t.Errorf("%d requests wait, %d are in the disk", waiting(), d.inside(t))
	}
	d.use(t, "none")
	must(t, unix.DeleteModule(sfqModuleName, unix.O_NONBLOCK))
}

// readAheadOf is the variable that has this program read ahead of a disk, and end.
const readAheadOf = "ISOLIO_READ_AHEAD"

const readAheadRequests = 64

// readAhead asks for pages here and there, and waits for none of them.
func readAhead(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	for i := range int64(readAheadRequests) {
		if err = unix.Fadvise(int(f.Fd()), i<<20, 4096, unix.FADV_WILLNEED); err != nil {
			return err
		}
	}
	return nil
}
