// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A user's model, as it reads back.
const givenModel = "rbps=1000000000 riops=81380 wbps=500000000 wiops=40000"

func (d *disk) tunable(name string) string { return d.queue(filepath.Join("iosched", name)) }

func TestShareByReadBack(t *testing.T) {
	loaded(t)
	d := newDisk(t, fast)
	d.use(t, elevator)
	file := d.tunable("share_by")
	for _, s := range []struct{ write, want string }{
		{"", "bytes iops [time]"},
		{"iops", "bytes [iops] time"},
		{"time\n", "bytes iops [time]"},
		{"bytes", "[bytes] iops time"},
	} {
		if s.write != "" {
			write(t, file, s.write)
		}
		if got := strings.TrimSpace(read(t, file)); got != s.want {
			t.Errorf("share_by reads %q after %q, want %q", got, s.write, s.want)
		}
	}
	for _, bad := range []string{"byte", "bytes iops", "[bytes]", "0", "\n", "TIME", "time\x00xxx"} {
		expectErrno(t, "share_by "+strconv.Quote(bad), put(file, bad), unix.EINVAL)
		if got := strings.TrimSpace(read(t, file)); got != "[bytes] iops time" {
			t.Fatalf("a refused %q changed share_by to %q", bad, got)
		}
	}
}

func TestCostModelReadBack(t *testing.T) {
	loaded(t)
	d := newDisk(t, fast)
	d.use(t, elevator)
	file := d.tunable("cost_model")
	if got := read(t, file); !strings.HasPrefix(got, "auto rbps=") {
		t.Errorf("cost_model is %q at first", got)
	}
	write(t, file, "wiops=40000 riops=81380  rbps=1000000000 wbps=500000000\n")
	expectGivenModel(t, d)
	invalid, outside := unix.EINVAL, unix.ERANGE
	for bad, want := range map[string]unix.Errno{
		"":                                 invalid,
		"learn":                            invalid,
		"rbps=1000000":                     invalid,
		givenModel + " rseqiops=1":         invalid,
		givenModel + " rbps":               invalid,
		givenModel + " rbps=":              invalid,
		givenModel + " rbps=many":          invalid,
		givenModel + " rbps=-5":            invalid,
		givenModel + " rbps=1000000000":    invalid, // a figure has one value
		"rbps=1000000000 " + givenModel:    invalid,
		givenModel + "\x00wiops=1":         invalid,
		"auto\x00xxx":                      invalid,
		"rbps=99999":                       outside,
		"riops=0":                          outside,
		"wiops=100000001":                  outside,
		"wbps=1" + strings.Repeat("0", 30): outside,
	} {
		if bad != "" {
			expectErrno(t, "cost_model "+strconv.Quote(bad), put(file, bad), want)
		}
		expectGivenModel(t, d)
	}
	write(t, file, "auto")
	if got := read(t, file); !strings.HasPrefix(got, "auto rbps=") {
		t.Errorf("cost_model is %q after auto", got)
	}
}

// expectGivenModel checks that the model is givenModel, but for rounding.
func expectGivenModel(t *testing.T, d *disk) {
	t.Helper()
	got := strings.Fields(read(t, d.tunable("cost_model")))
	want := strings.Fields(givenModel)
	if len(got) != 5 || got[0] != "user" {
		t.Fatalf("cost_model is %q, want user and four numbers", got)
	}
	for i, w := range want {
		name, value, _ := strings.Cut(w, "=")
		if g := figure(t, d, name); math.Abs(g/number(t, value)-1) > 1e-4 {
			t.Errorf("cost_model has %s, want %s", got[i+1], w)
		}
	}
}

// figure is one number of the disk's model.
func figure(t *testing.T, d *disk, name string) float64 {
	t.Helper()
	m := regexp.MustCompile(` ` + name + `=(\d+)`).FindStringSubmatch(read(t, d.tunable("cost_model")))
	if m == nil {
		t.Fatalf("cost_model has no %s: %q", name, read(t, d.tunable("cost_model")))
	}
	return number(t, m[1])
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	must(t, err)
	return n
}

// Two groups of the same weight send requests of 4 and of 16 KiB: what they have
// the same of is the unit. By the model given, 16 KiB take twice as long as 4.
func TestSharesInEachUnit(t *testing.T) {
	comparesRates(t)
	loaded(t)
	d := newDisk(t, []string{"irqmode=2", "completion_nsec=1000000", "hw_queue_depth=8", "submit_queues=1", "size=256"})
	d.use(t, elevator)
	small, large := newGroup(t, "small"), newGroup(t, "large")
	for i, group := range []string{small, large} {
		l := startFio(t, d, group, "--time_based", "--runtime=60", "--rw=randread", "--iodepth=32", "--bs="+[]string{"4k", "16k"}[i])
		l.untilBusy(t)
	}
	write(t, d.tunable("cost_model"), givenModel)
	for _, s := range []struct {
		unit string
		want float64 // bytes of the large requests for each of the small ones
	}{{"bytes", 1}, {"iops", 4}, {"time", 2}, {"bytes", 1}} {
		write(t, d.tunable("share_by"), s.unit)
		time.Sleep(500 * time.Millisecond)
		before := []int{readBytes(t, small, d), readBytes(t, large, d)}
		time.Sleep(time.Second)
		ratio := float64(readBytes(t, large, d)-before[1]) / float64(readBytes(t, small, d)-before[0])
		t.Logf("share_by %s: %.3f bytes in large requests for one in small ones", s.unit, ratio)
		if math.Abs(ratio/s.want-1) > 0.05 {
			t.Errorf("share_by %s: %.2f bytes in large requests for one in small ones, want %.0f", s.unit, ratio, s.want)
		}
	}
}

// Units and models change while requests are in flight: nothing is lost, and shares
// are as they were before.
func TestUnitSwitchedUnderLoad(t *testing.T) {
	loaded(t)
	d := newDisk(t, fast)
	d.use(t, elevator)
	a, b := newGroup(t, "a"), newGroup(t, "b")
	loads := []*load{
		startFio(t, d, a, "--time_based", "--runtime=2", "--bsrange=4k-128k"),
		startFio(t, d, b, "--time_based", "--runtime=2", "--bs=4k"),
	}
	untilBusy(t, d)
	for i := range 200 {
		write(t, d.tunable("share_by"), []string{"time", "bytes", "iops"}[i%3])
		write(t, d.tunable("cost_model"), []string{"auto", givenModel}[i%2])
		time.Sleep(5 * time.Millisecond)
	}
	for _, l := range loads {
		l.wait(t)
	}
	comparesRates(t)
	write(t, d.tunable("share_by"), "bytes")
	groups := []string{a, b}
	startReaders(t, d, groups)
	rates := ratesIn(t, 500*time.Millisecond, time.Second, d, groups)
	if ratio := rates[0] / rates[1]; math.Abs(ratio-1) > 0.05 {
		t.Errorf("the same weight and the same load gave %.0f and %.0f KiB in a second", rates[0]/1024, rates[1]/1024)
	}
}

// Beside reads of the same size a write costs what it takes alone: as much on null_blk,
// six times as much on the P4500, which has it in a buffer only.
func TestWritesCostByTheirTimeAlone(t *testing.T) {
	comparesRates(t)
	loaded(t)
	withModelDisk(t)
	for name, c := range map[string]struct {
		disk        func() *disk
		least, most float64
	}{
		"null_blk": {func() *disk {
			return newDisk(t, []string{"irqmode=2", "completion_nsec=1000000", "hw_queue_depth=64", "submit_queues=1", "size=256"})
		}, 1, 1.3},
		"P4500": {func() *disk {
			return newModelDisk(t, []string{"model=nvme", "preset=p4500-2tb", "scale=16", "tags=1023"})
		}, 5.9, 6.1},
	} {
		t.Run(name, func(t *testing.T) {
			d := c.disk()
			d.use(t, elevator)
			reader, writer := newGroup(t, "reader"), newGroup(t, "writer")
			l := []*load{
				startFio(t, d, reader, "--time_based", "--runtime=3", "--rw=randread", "--iodepth=16"),
				startFio(t, d, writer, "--time_based", "--runtime=3", "--rw=randwrite", "--iodepth=16"),
			}
			l[0].wait(t)
			l[1].wait(t)
			if got := figure(t, d, "riops") / figure(t, d, "wiops"); got < c.least || got > c.most {
				t.Errorf("a write costs %.2f of a read, want %.1f to %.1f: %s", got, c.least, c.most, read(t, d.tunable("cost_model")))
			}
		})
	}
}

// Reads and writes of one group go in order of arrival.
func TestOwnReadsAndWrites(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	d := newSteadyDisk(t, 8, 2*time.Millisecond)
	d.use(t, elevator)
	write(t, d.queue("nr_requests"), "256") // so that all wait where they can be chosen from
	mixed, reader := newGroup(t, "mixed"), newGroup(t, "reader")
	startFio(t, d, reader, "--time_based", "--runtime=60", "--rw=randread", "--iodepth=64").untilBusy(t)
	l := startFio(t, d, mixed, "--time_based", "--runtime=2", "--rw=randrw", "--iodepth=64")
	l.wait(t)
	r, w := l.meanLatency(t)
	t.Logf("a read takes %.1f ms, a write %.1f", r/1000, w/1000)
	if w/r < 0.8 || w/r > 1.25 {
		t.Errorf("a write takes %.2f times as long as a read", w/r)
	}
}

// A disk whose requests take as long as the target for reads does not come to rest
// for it: a reader and a writer of the same weight have half of it each. What requests
// take is measured while cgroups share the disk: from the start, or once writes are known
// and the first reads come.
func TestTargetOutOfReach(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	needsTimers(t)
	for _, readsLater := range []bool{false, true} {
		t.Run(fmt.Sprintf("reads_later=%t", readsLater), func(t *testing.T) {
			d := newSteadyDisk(t, 8, 2*time.Millisecond)
			reader, writer := newGroup(t, "reader"), newGroup(t, "writer")
			start := func(group, rw string) *load {
				return startFio(t, d, group, "--time_based", "--runtime=60", "--rw="+rw, "--iodepth=64")
			}
			d.use(t, "none")
			alone := []*load{start(writer, "randwrite"), start(reader, "randread")}
			alone[1].untilBusy(t)
			before := d.completed(t)
			time.Sleep(time.Second)
			able := d.completed(t) - before
			for _, l := range alone {
				l.stop(t)
			}
			d.use(t, elevator)
			write(t, d.queue("nr_requests"), "256")
			if got := strings.TrimSpace(read(t, d.tunable("read_lat_nsec"))); got != "2000000" {
				t.Fatalf("reads aim at %s ns, want what the disk takes", got)
			}
			if readsLater {
				start(writer, "randwrite")
				other := start(newGroup(t, "other"), "randwrite")
				time.Sleep(1500 * time.Millisecond)
				other.stop(t)
				start(reader, "randread")
			} else {
				start(reader, "randread").untilBusy(t)
				start(writer, "randwrite")
			}
			time.Sleep(3 * time.Second) // thirty looks
			ios := func() (reads, writes int) {
				return keyed(t, reader, statFile, d)["rios"], keyed(t, writer, statFile, d)["wios"]
			}
			r, w := ios()
			time.Sleep(time.Second)
			reads, writes := ios()
			reads, writes = reads-r, writes-w
			t.Logf("%d reads and %d writes in a second, %d of both with none", reads, writes, able)
			if 10*(reads+writes) < 9*able {
				d.logState(t)
				t.Errorf("%d requests in a second, want %d, as with none", reads+writes, able)
			}
			if share := float64(reads) / float64(reads+writes); share < 0.47 || share > 0.53 {
				t.Errorf("the reader has %.2f of them, want half", share)
			}
		})
	}
}

// completed is how many reads and writes the disk has done.
func (d *disk) completed(t *testing.T) int {
	t.Helper()
	var reads, writes, skip int
	if _, err := fmt.Sscan(read(t, filepath.Join("/sys/block", d.name, "stat")), &reads, &skip, &skip, &skip, &writes); err != nil {
		t.Fatal(err)
	}
	return reads + writes
}

// A cgroup with one request at a time, which thinks for less than it counts as present, waits no
// longer for it than with no scheduler, and no other waits for the cgroup. It asks for some 300 reads
// a second of a disk that does 20,000, and has two sevenths of the weights: were it waited for, the
// other had 1,500.
func TestThinkerHoldsNoOther(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	d := newModelDisk(t, []string{"model=fixed", "fixed/parallel=4", "fixed/read_ns=200000", "size_mib=256", "tags=128"})
	thinker, reader := newGroup(t, "thinker"), newGroup(t, "reader")
	write(t, filepath.Join(thinker, weightFile), "200")
	write(t, filepath.Join(reader, weightFile), "500")
	// beside is how many reads a second the reader has, and how long one of the thinker takes, us.
	beside := func(scheduler string) (nr int, took float64) {
		d.use(t, scheduler)
		first := startFio(t, d, reader, "--rw=randread", "--iodepth=32", "--time_based", "--runtime=60")
		first.untilBusy(t)
		second := startFio(t, d, thinker, "--rw=randread", "--iodepth=1", "--thinktime=1500", "--time_based", "--runtime=60")
		second.untilBusy(t)
		time.Sleep(time.Second)
		before := readBytes(t, reader, d)
		time.Sleep(time.Second)
		nr = (readBytes(t, reader, d) - before) / 4096
		second.stop(t)
		first.stop(t)
		took, _ = second.meanLatency(t)
		return nr, took
	}
	_, withNone := beside("none")
	nr, took := beside(elevator)
	t.Logf("in a second %d reads; one of the thinker takes %.0f us, %.0f with none", nr, took, withNone)
	if nr < 10000 {
		d.logState(t)
		t.Errorf("%d reads a second next to a thinker, want 10000 and more", nr)
	}
	if took > 1.25*withNone {
		t.Errorf("a read of the thinker takes %.0f us, want 1.25 of what it takes with none at most, %.0f", took, withNone)
	}
}

// Variables that have this program read a mebibyte of a disk, or ask for one, and end.
const (
	readMebibyteOf = "ISOLIO_READ_MEBIBYTE"
	askMebibyteOf  = "ISOLIO_ASK_MEBIBYTE"
)

// askMebibyte has the kernel read what is at the process's number, and does not wait for it.
func askMebibyte(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	at := int64(os.Getpid()%256) << 20
	return errors.Join(unix.Fadvise(int(f.Fd()), at, 1<<20, unix.FADV_DONTNEED), unix.Fadvise(int(f.Fd()), at, 1<<20, unix.FADV_WILLNEED), f.Close())
}

func readMebibyte(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	buffer, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	_, err = f.Read(buffer)
	return errors.Join(err, unix.Munmap(buffer), f.Close())
}

// readMuchOf, if set, has the test binary read much of that disk by one call, and tell before.
const readMuchOf = "ISOLIO_READ_MUCH"

// readMuch reads 128 MiB past the page cache into one mebibyte, by one call: if the task is
// killed meanwhile, the kernel submits what is left all the same.
func readMuch(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	buffer, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	to := slices.Repeat([][]byte{buffer}, 128)
	if _, err := os.Stdout.Write([]byte{'!'}); err != nil {
		return err
	}
	_, err = unix.Preadv(int(f.Fd()), to, 0)
	return err
}

// A tenant of weight 50 kills its own tasks while they submit, again and again, since what they have
// to do then goes first. That is up to a bound: a reader of weight 950 has nine tenths of the disk.
func TestKilledTasksHaveTheirShare(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	d := newModelDisk(t, []string{"model=nvme", "preset=p4500-2tb", "scale=16", "tags=1023", "size_mib=256"})
	d.use(t, elevator)
	reader, killer := newGroup(t, "reader"), newGroup(t, "killer")
	write(t, filepath.Join(reader, weightFile), "950")
	write(t, filepath.Join(killer, weightFile), "50")
	startFio(t, d, reader, "--time_based", "--runtime=120", "--rw=randread", "--bs=128k", "--iodepth=16").untilBusy(t)
	dir, err := os.Open(killer)
	must(t, err)
	defer dir.Close()
	var tasks sync.WaitGroup
	var nr atomic.Int32
	kill := func(lasts time.Duration) {
		for began := time.Now(); time.Since(began) < lasts; {
			if nr.Load() == 8 {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			task := exec.Command(os.Args[0])
			task.Env = append(os.Environ(), readMuchOf+"=/dev/"+d.name)
			task.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
			said, err := task.StdoutPipe()
			must(t, err)
			must(t, task.Start())
			if _, err := said.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond)
			must(t, task.Process.Kill())
			nr.Add(1)
			tasks.Go(func() {
				_ = task.Wait()
				nr.Add(-1)
			})
		}
	}
	kill(3 * time.Second) // what the disk does is known then
	// What went to the disk: io.stat counts what is submitted.
	had := func(group string) int { return keyed(t, group, statFile, d)["rbytes"] }
	mine, others, began := had(reader), had(killer), time.Now()
	kill(10 * time.Second)
	took := time.Since(began)
	mine, others = had(reader)-mine, had(killer)-others
	t.Logf("the reader has %d of %d MiB in %v", mine>>20, (mine+others)>>20, took.Round(time.Millisecond))
	if 10*mine < 9*(mine+others) {
		d.logState(t)
		t.Errorf("the reader has %d of %d MiB, want nine tenths", mine>>20, (mine+others)>>20)
	}
	if others>>20 == 0 {
		t.Error("the tasks that were killed have nothing")
	}
	write(t, filepath.Join(reader, "cgroup.kill"), "1") // the tasks that are killed have the disk
	tasks.Wait()
}

// A tenant that makes a cgroup for each of its requests has no more than its share, also if they
// are deleted while their requests are queued: those that come begin one after another. Its
// weight is 50, the reader's 950; a request is 1 MiB, and the disk does fifty of them a
// second. It makes eight at a time.
func TestNewCgroupForEachRequest(t *testing.T) {
	t.Run("that waits", func(t *testing.T) { newCgroups(t, readMebibyteOf) })
	t.Run("that does not wait", func(t *testing.T) { newCgroups(t, askMebibyteOf) })
}

func newCgroups(t *testing.T, variable string) {
	t.Helper()
	comparesRates(t)
	withModelDisk(t)
	self, err := os.Executable()
	must(t, err)
	d := newModelDisk(t, []string{"model=fixed", "fixed/parallel=1", "fixed/read_ns=20000000", "size_mib=256", "tags=32"})
	d.use(t, elevator)
	// Room for all that is queued: a task that waits for a tag waits in line with all others.
	write(t, d.queue("nr_requests"), "1024")
	reader, tenant := newGroup(t, "reader"), newGroup(t, "tenant")
	write(t, filepath.Join(reader, weightFile), "950")
	write(t, filepath.Join(tenant, weightFile), "50")
	write(t, filepath.Join(tenant, "cgroup.subtree_control"), "+io")
	l := startFio(t, d, reader, "--rw=randread", "--bs=1m", "--iodepth=8", "--time_based", "--runtime=60")
	l.untilBusy(t)
	// What the disk read, and of that what the reader had, MiB.
	had := func() (all, its int) {
		sectors, err := strconv.Atoi(strings.Fields(read(t, filepath.Join("/sys/block", d.name, "stat")))[2])
		must(t, err)
		return sectors >> 11, keyed(t, reader, statFile, d)["rbytes"] >> 20
	}
	allBefore, itsBefore := had()
	start := time.Now()
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			for n := 0; time.Since(start) < 8*time.Second; n++ {
				child := filepath.Join(tenant, fmt.Sprintf("child%d-%d", worker, n))
				err := os.Mkdir(child, 0o755)
				var dir *os.File
				if err == nil {
					dir, err = os.Open(child)
				}
				if err == nil {
					c := exec.Command(self)
					c.Env = append(os.Environ(), variable+"=/dev/"+d.name)
					c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
					err = errors.Join(c.Run(), dir.Close(), os.Remove(child))
				}
				if err != nil {
					t.Error(err)
					break
				}
			}
		})
	}
	workers.Wait()
	all, its := had()
	all, its = all-allBefore, its-itsBefore
	t.Logf("the reader has %d of %d MiB in %v", its, all, time.Since(start))
	if its < all*92/100 || its > all*39/40 {
		d.logState(t)
		t.Errorf("the reader has %d of %d MiB, want 92 to 97 %%", its, all)
	}
	stopLoads(t, d, []*load{l})
}

// Of a mix of reads and writes no more are in flight than the ceiling, and the disk is
// busy all the same. Writes take it twice as long as reads, 8 of either at once: the
// product is 8, so the ceiling is the least there is, 32.
func TestCeiling(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	loaded(t)
	const readMS, writeMS, parallel, most = 2, 4, 8, 32
	d := newModelDisk(t, []string{"model=fixed", "fixed/parallel=8", "fixed/read_ns=2000000", "fixed/write_ns=4000000", "size_mib=256", "tags=128"})
	d.use(t, elevator)
	groups := []string{newGroup(t, "a"), newGroup(t, "b")}
	for _, g := range groups {
		startFio(t, d, g, "--time_based", "--runtime=60", "--iodepth=64").untilBusy(t)
	}
	time.Sleep(time.Second) // what went in before the second cgroup came
	busyMS := func() (ms int) {
		for _, g := range groups {
			n := keyed(t, g, statFile, d)
			ms += n["rios"]*readMS + n["wios"]*writeMS
		}
		return ms
	}
	before, seen := busyMS(), 0
	for range 50 {
		time.Sleep(20 * time.Millisecond)
		seen = max(seen, d.inside(t))
	}
	busy := float64(busyMS()-before) / (1000 * parallel)
	t.Logf("%d in flight at most, and the disk is busy for %.3f of the time", seen, busy)
	if seen > most || seen < most/2 {
		d.logState(t)
		t.Errorf("%d in flight at most, want %d to %d", seen, most/2, most)
	}
	if busy < 0.95 {
		t.Errorf("the disk is busy for %.2f of the time", busy)
	}
}

// When the cgroup that goes before the others sends nothing for 60 ms, the others do not
// wait for it to come back. It does that forty times in three seconds.
func TestNoWaitForCgroupThatStopped(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	loaded(t)
	// The lightest has 32 reads at a sixteenth of 25,000 a second, 20 ms, and few take twice or three
	// times that: as the first comes back, it may be two leads of 5.4 ms ahead, and a probe fills the
	// disk. Were it waited for, 32 reads of each would take longer, forty times, some 15 %.
	const tooLong, most = 60 * time.Millisecond, 0.02
	d := newModelDisk(t, []string{"model=nvme", "preset=p4500-2tb", "scale=16", "size_mib=256", "tags=128"})
	d.use(t, elevator)
	group := func(name, weight string, args ...string) string {
		g := newGroup(t, name)
		write(t, filepath.Join(g, weightFile), weight)
		startFio(t, d, g, append([]string{"--time_based", "--runtime=60", "--rw=randread", "--iodepth=32"}, args...)...).untilBusy(t)
		return g
	}
	stops := group("stops", "1000", "--thinktime=60000", "--thinktime_blocks=300")
	others := map[string]string{"half": group("half", "500"), "tenth": group("tenth", "100")}
	// of is how many reads a group has had, how many of them took too long, and how many twice that. A
	// bucket has the name of its end.
	of := func(group string) (all, late, worst int) {
		counts := keyed(t, group, latencyFile, d)
		for bucket, n := range counts {
			if !strings.HasPrefix(bucket, "r") {
				continue
			}
			all += n
			end := math.Inf(1)
			if bucket != "rmore" {
				end = number(t, bucket[1:])
			}
			if end > float64(tooLong) {
				late += n
			}
			if end > float64(2*tooLong) {
				worst += n
			}
		}
		return all, late, worst
	}
	before := keyed(t, stops, statFile, d)["rios"]
	allBefore, lateBefore, worstBefore := map[string]int{}, map[string]int{}, map[string]int{}
	for name, g := range others {
		allBefore[name], lateBefore[name], worstBefore[name] = of(g)
	}
	time.Sleep(3 * time.Second)
	nr := (keyed(t, stops, statFile, d)["rios"] - before) / 300
	if nr < 20 {
		t.Errorf("it stopped %d times, want 20 or more", nr)
	}
	for name, g := range others {
		all, late, worst := of(g)
		all, late, worst = all-allBefore[name], late-lateBefore[name], worst-worstBefore[name]
		t.Logf("%s: %d reads, %d of more than %v; the other stopped %d times", name, all, late, tooLong, nr)
		if float64(late) > most*float64(all) {
			t.Errorf("%d of %d reads of %s took more than %v, want %g of them at most", late, all, name, tooLong, most)
		}
		if worst > 0 {
			t.Errorf("%d of %d reads of %s took more than %v", worst, all, name, 2*tooLong)
		}
	}
}

// A SATA SSD that writes past its buffer: a read behind one write takes longer than the
// target, so that is missed however few writes are in flight, and a reader that is held to
// its share has less of a disk that does less. So the target throttles no cgroup then: the
// reader does about as much as without a target. With targets before shares it did 0.23 of that.
func TestTargetTakesNoShare(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	loaded(t)
	const (
		settles = 2 * time.Second // fio starts; the limits change ten times a second
		counted = 3 * time.Second
	)
	d := newModelDisk(t, []string{"model=flash", "preset=sata-ssd", "scale=4", "size_mib=1024", "tags=32",
		"flash/buffer_pages=0", "flash/overwrite_area_permille=62"})
	d.use(t, elevator)
	write(t, d.tunable("write_lat_nsec"), "5000000000")
	var groups []string
	group := func(name, weight string, args ...string) {
		g := newGroup(t, name)
		write(t, filepath.Join(g, weightFile), weight)
		startFio(t, d, g, append([]string{"--time_based", "--runtime=60"}, args...)...)
		groups = append(groups, g)
	}
	group("reader", "400", "--rw=randread", "--iodepth=8")
	group("writer-1", "100", "--rw=randwrite", "--iodepth=32", "--size=63m")
	group("writer-2", "100", "--rw=randwrite", "--iodepth=32", "--size=63m")
	for _, g := range groups {
		for stat := keyed(t, g, statFile, d); stat["rios"]+stat["wios"] == 0; stat = keyed(t, g, statFile, d) {
			time.Sleep(10 * time.Millisecond)
		}
	}
	done := func(targetNS string) (reads, all int) {
		write(t, d.tunable("read_lat_nsec"), targetNS)
		time.Sleep(settles)
		reads, all = -keyed(t, groups[0], statFile, d)["rios"], 0
		for _, sign := range []int{-1, 1} {
			for _, g := range groups {
				stat := keyed(t, g, statFile, d)
				all += sign * (stat["rios"] + stat["wios"])
			}
			if sign < 0 {
				time.Sleep(counted)
			}
		}
		return reads + keyed(t, groups[0], statFile, d)["rios"], all
	}
	reads, all := done("5000000000")
	held, heldAll := done("2000000")
	t.Logf("%d requests in %v without a target, of them %d reads; %d and %d with 2 ms", all, counted, reads, heldAll, held)
	if 10*heldAll < 7*all || 10*held < 7*reads {
		d.logState(t)
		t.Errorf("%d reads of %d requests with a target, %d of %d without, want 0.7 of both", held, heldAll, reads, all)
	}
}

// The one large request that a probe waits for is lost in the disk, and there are none but large
// ones. The probe ends after a second all the same, and the others go.
func TestLostRequestOfProbe(t *testing.T) {
	withModelDisk(t)
	loaded(t)
	d := newModelDisk(t, []string{"model=fixed", "fixed/parallel=1", "fixed/read_ns=1000000", "fixed/write_ns=50000000", "size_mib=256", "tags=64"})
	d.use(t, elevator)
	const timeout = 8 * time.Second
	write(t, d.queue("io_timeout"), fmt.Sprint(timeout.Milliseconds()))
	startFio(t, d, newGroup(t, "writer"), "--time_based", "--runtime=120", "--rw=write", "--bs=1M", "--iodepth=16")
	band := filepath.Join("/sys/kernel/debug/block", d.name, "sched/band")
	probes := func() bool {
		_, line, _ := strings.Cut(read(t, band), "\nwrite large in_flight=")
		return strings.Contains(line, "probing=1")
	}
	for tries := 0; ; tries++ {
		if tries == 6000 {
			d.logState(t)
			t.Fatal("no probe of large writes came, or each ended before a request of it was lost")
		}
		if time.Sleep(10 * time.Millisecond); !probes() {
			continue
		}
		d.fail(t, "lose_resets=0", "lose_ok=1", "lose_every=1")
		time.Sleep(120 * time.Millisecond) // two of them
		lost := probes()
		d.fail(t, "lose_every=0")
		if lost {
			break
		}
	}
	before, began := d.ios(t), time.Now()
	const want, most = 10, timeout / 2
	for d.ios(t)-before < want {
		if time.Since(began) > most {
			d.logState(t)
			t.Fatalf("%d requests completed in %v after one was lost, want %d", d.ios(t)-before, most, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d requests completed in %v after one was lost", want, time.Since(began).Round(time.Millisecond))
	time.Sleep(timeout - time.Since(began)) // fio cannot end before
}

// Disks that leave requests for long, or are far from full: shares are exact by weight, whatever
// is outstanding. A disk that turns goes to what is near first, so that the few requests for which
// the lightest cgroup has tags are often all in the disk for a second. And of four with as many
// outstanding the heaviest keeps little more than what others wait for.
func TestSharesAtAnyDepth(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	hdd := []string{"model=hdd", "preset=desktop-2008", "tags=31"}
	nullBlk := []string{"irqmode=2", "completion_nsec=1000000", "hw_queue_depth=32", "submit_queues=1", "size=256"}
	for _, test := range []struct {
		name          string
		disk          func(*testing.T, []string) *disk
		settings      []string
		iodepth       string
		ramp, seconds time.Duration
		most          float64 // error of a share; the lead is so much of the lightest one's
	}{
		{"hdd-4", newModelDisk, hdd, "4", 5, 30, 0.03},
		{"hdd-32", newModelDisk, hdd, "32", 5, 30, 0.03},
		{"null_blk-4", newDisk, nullBlk, "4", 1, 2, 0.02},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := test.disk(t, test.settings)
			d.use(t, elevator)
			var groups []string
			weights := []float64{1000, 500, 250, 100}
			for i, weight := range weights {
				g := newGroup(t, fmt.Sprint("w", weight))
				write(t, filepath.Join(g, weightFile), fmt.Sprint(weight))
				groups = append(groups, g)
				// Each in a part of its own: the arm is seldom where the lightest one's is.
				startFio(t, d, g, "--time_based", "--runtime=600", "--rwmixread=70", "--iodepth="+test.iodepth,
					fmt.Sprintf("--offset=%d%%", 25*i), "--size=25%", "--randrepeat=0", fmt.Sprint("--randseed=", i+1))
			}
			rates := ratesIn(t, test.ramp*time.Second, test.seconds*time.Second, d, groups)
			var sum float64
			for _, rate := range rates {
				sum += rate
			}
			t.Logf("%.0f requests a second: %.0f", sum/4096, rates)
			for i, rate := range rates {
				if share, want := rate/sum, weights[i]/1850; math.Abs(share/want-1) > test.most {
					d.logState(t)
					t.Errorf("weight %.0f has %.4f of the disk, want %.4f", weights[i], share, want)
				}
			}
		})
	}
}

// A cgroup has one request at a time, and the others wait for it. The disk does not complete it, or
// takes long for it as it is a discard: the others have the disk meanwhile.
func TestStuckHoldsUpNoOther(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	for _, test := range []struct {
		name, rw string
		parallel float64 // what the reader has of four
	}{{"lost", "randread", 3}, {"discards", "randtrim", 3}} {
		t.Run(test.name, func(t *testing.T) {
			d := newModelDisk(t, []string{"model=fixed", "fixed/parallel=4", "fixed/read_ns=1000000", "fixed/write_ns=1000000", "fixed/other_ns=100000000",
				"size_mib=256", "tags=64", "discard=1", "discard_kib=256"})
			d.use(t, elevator)
			const timeout = 6 * time.Second
			write(t, d.queue("io_timeout"), fmt.Sprint(timeout.Milliseconds()))
			reader, single := newGroup(t, "reader"), newGroup(t, "single")
			startFio(t, d, reader, "--time_based", "--runtime=60", "--rw=randread", "--iodepth=32").untilBusy(t)
			l := startFio(t, d, single, "--time_based", "--runtime=60", "--rw="+test.rw, "--bs=4k", "--iodepth=1")
			time.Sleep(2 * time.Second)
			began := time.Now()
			if test.name == "lost" {
				// Alone it loses its own request, and no other's.
				write(t, filepath.Join(reader, "cgroup.freeze"), "1")
				time.Sleep(100 * time.Millisecond)
				d.fail(t, "lose_resets=0", "lose_ok=1", "lose_every=1")
				began = time.Now()
				time.Sleep(100 * time.Millisecond)
				d.fail(t, "lose_every=0")
				write(t, filepath.Join(reader, "cgroup.freeze"), "0")
			}
			time.Sleep(time.Second) // they wait for half of that
			before := readBytes(t, reader, d)
			time.Sleep(2 * time.Second)
			rate := float64(readBytes(t, reader, d)-before) / 4096 / 2
			t.Logf("%.0f reads a second beside it", rate)
			if want := 0.9 * test.parallel * 1000; rate < want {
				d.logState(t)
				t.Errorf("%.0f reads a second beside it, want %.0f", rate, want)
			}
			if test.name == "lost" {
				time.Sleep(timeout - time.Since(began)) // fio cannot end before
			}
			must(t, l.cmd.Process.Signal(unix.SIGINT))
			_ = l.cmd.Wait() // discards are neither reads nor writes
		})
	}
}

// Requests of 1 MiB on a disk that does fifteen a second, 64 outstanding: what another cgroup
// sends waits for all that are in flight, four seconds under none. So there are few of them, in
// any state: with one cgroup alone, with two, and while a probe fills the disk. It is kept busy.
func TestFewLargeRequestsInFlight(t *testing.T) {
	withModelDisk(t)
	loaded(t)
	const most = 12 // as many as a lead has, 8, or three times what the disk needs
	d := newModelDisk(t, []string{"model=nvme", "preset=p4500-2tb", "scale=64", "size_mib=256", "tags=1023"})
	d.use(t, elevator)
	writers := []string{newGroup(t, "a"), newGroup(t, "b")}
	few := func(when string, seconds int) {
		t.Helper()
		before, seen := d.ios(t), 0
		for range 20 * seconds {
			time.Sleep(50 * time.Millisecond)
			seen = max(seen, d.inside(t))
		}
		done := d.ios(t) - before
		t.Logf("%s: %d in flight at most, %d completed in %d s", when, seen, done, seconds)
		if seen > most || done < 12*seconds {
			d.logState(t)
			t.Errorf("%s: %d requests of 1 MiB in flight at most, and %d completed in %d s; want %d at most, and %d or more",
				when, seen, done, seconds, most, 12*seconds)
		}
	}
	write1 := func(g string) {
		startFio(t, d, g, "--time_based", "--runtime=120", "--rw=write", "--bs=1M", "--iodepth=64")
		for tries := 0; keyed(t, g, statFile, d)["wios"] == 0; tries++ {
			if tries == 3000 { // half a minute: a debugging kernel takes a second to start fio
				t.Fatalf("%s wrote nothing", g)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Second) // what went in before it was known that they are large
	}
	write1(writers[0])
	few("one cgroup", 3)
	began := time.Now()
	startFio(t, d, newGroup(t, "small"), "--rw=randwrite", "--number_ios=4", "--iodepth=1").wait(t)
	took := time.Since(began)
	t.Logf("four writes of 4 KiB, one at a time, took %v with the start of fio", took.Round(time.Millisecond))
	if took > 5*time.Second { // one waits four seconds for 64
		t.Errorf("four writes of 4 KiB took %v", took)
	}
	write1(writers[1])
	few("two cgroups", 12)
}

// A cgroup that reads from another CPU, one page at a time, gets its places in turn, though the
// tasks of the other take each that comes back: none of its reads waits for the work that runs
// ten times a second.
func TestNoHardwareQueueIsPassedOver(t *testing.T) {
	severalCPUs(t)
	withModelDisk(t)
	d := newModelDisk(t, []string{
		"model=fixed", "fixed/parallel=16", "fixed/read_ns=2000000", "size_mib=256", "tags=512", "queues=2",
	})
	d.use(t, elevator)
	deep := startFio(t, d, newGroup(t, "deep"), "--rw=randread", "--iodepth=256", "--cpus_allowed=0", "--time_based", "--runtime=600")
	deep.untilBusy(t)
	rare := startFio(t, d, newGroup(t, "rare"), "--rw=randread", "--iodepth=1", "--cpus_allowed=1", "--time_based", "--runtime=3")
	rare.wait(t)
	deep.stop(t)
	read, _ := rare.meanLatency(t)
	longest, _ := rare.longestUs(t)
	t.Logf("a read took %.1f ms, the longest %.1f", read/1e3, longest/1e3)
	if longest > 90e3 {
		t.Errorf("the longest read took %.1f ms; want at most 90", longest/1e3)
	}
}

// Reads keep no write waiting that may go, though more of them wait all the time than there
// are places: a batch of reads, and it is the writes' turn. What a flush follows waits for no
// share.
func TestReadsKeepNoWriteWaiting(t *testing.T) {
	withModelDisk(t)
	needsTimers(t)
	for _, parallel := range []int{1, 4} {
		t.Run(fmt.Sprint(parallel), func(t *testing.T) {
			d := newModelDisk(t, []string{
				"model=fixed", fmt.Sprint("fixed/parallel=", parallel), "fixed/read_ns=1000000", "fixed/write_ns=1000000", "fixed/other_ns=100000",
				"size_mib=256", "tags=32", "write_cache=1", "fua=0",
			})
			d.use(t, elevator)
			heavy, light := newGroup(t, "heavy"), newGroup(t, "light")
			write(t, filepath.Join(heavy, weightFile), "10000")
			write(t, filepath.Join(light, weightFile), "1")
			readers := startFio(t, d, heavy, "--rw=randread", "--iodepth=48", "--time_based", "--runtime=600")
			readers.untilBusy(t)
			// Both are known after half a second.
			writer := startFio(t, d, light, "--rw=randwrite", "--ioengine=psync", "--sync=1", "--time_based", "--ramp_time=500ms", "--runtime=3")
			writer.wait(t)
			readers.stop(t)
			_, mean := writer.meanLatency(t)
			_, longest := writer.longestUs(t)
			t.Logf("a write took %.1f ms, the longest %.1f", mean/1e3, longest/1e3)
			comparesRates(t)
			// In flight may be as many as there are tags: before the write, of the batch, and
			// before the flush.
			if most := 4 * 32e3 / float64(parallel); longest > most {
				d.logState(t)
				t.Errorf("the longest write took %.1f ms; want at most %.1f", longest/1e3, most/1e3)
			}
		})
	}
}
