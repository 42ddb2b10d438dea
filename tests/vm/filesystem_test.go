// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// treeWalkerOf is the variable that has this program ask for the status of each directory
// below the one that it names, with so many threads.
const (
	treeWalkerOf    = "ISOLIO_TREE_WALKER"
	treeWalkThreads = 64
)

// A tree of so many directories in so many. The inode of each is a block of metadata.
const treeParents, treeChildren = 64, 150

// walkTree looks at each directory of a tree, treeWalkThreads at a time.
func walkTree(dir string) error {
	parents, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	paths, errs := make(chan string), make(chan error, treeWalkThreads)
	var walkers sync.WaitGroup
	for range treeWalkThreads {
		walkers.Go(func() {
			for path := range paths {
				if _, err := os.Lstat(path); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	go func() {
		defer close(paths)
		for child := range treeChildren {
			for _, parent := range parents {
				select {
				case paths <- filepath.Join(dir, parent.Name(), fmt.Sprint(child)):
				case <-time.After(time.Minute):
					return // the walkers have failed
				}
			}
		}
	}()
	walkers.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// newTree makes an ext4 with a tree of directories, of which nothing is in memory.
func newTree(t *testing.T, d *disk) *cutDisk {
	t.Helper()
	needFileSystem(t, "ext4")
	// What it reads ahead is no metadata to the block layer.
	c := &cutDisk{disk: d, fs: fileSystem{kind: "ext4"}, at: t.TempDir(), options: "inode_readahead_blks=0"}
	c.program(t, []string{"mkfs.ext4", "-q", "-F", "-b", "4096", "-I", "4096", "-N", "12288", "-E", "lazy_itable_init=0,lazy_journal_init=0"})
	must(t, c.mount())
	for parent := range treeParents {
		for child := range treeChildren {
			must(t, os.MkdirAll(filepath.Join(c.at, "tree", fmt.Sprint(parent), fmt.Sprint(child)), 0o755))
		}
	}
	must(t, unix.Unmount(c.at, 0))
	must(t, c.mount())
	t.Cleanup(func() { must(t, unix.Unmount(c.at, 0)) })
	return c
}

// newExt4 makes an ext4 on the disk and mounts it until the test ends.
func newExt4(t *testing.T, d *disk, options ...string) *cutDisk {
	t.Helper()
	needFileSystem(t, "ext4")
	c := &cutDisk{disk: d, fs: fileSystem{kind: "ext4"}, at: t.TempDir()}
	c.program(t, append([]string{"mkfs.ext4", "-q", "-F"}, options...))
	must(t, c.mount())
	t.Cleanup(func() { must(t, unix.Unmount(c.at, 0)) })
	return c
}

// startSelf runs this program in the group with the variable set.
func startSelf(t *testing.T, group, variable string, out io.Writer) *exec.Cmd {
	t.Helper()
	dir, err := os.Open(group)
	must(t, err)
	defer dir.Close()
	program, err := os.Executable()
	must(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), variable)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	must(t, cmd.Start())
	return cmd
}

// A disk that does 4,000 reads a second, and keeps what is written.
var filesystemDisk = []string{
	"model=fixed", "fixed/parallel=4", "fixed/read_ns=1000000", "fixed/write_ns=1000000", "fixed/other_ns=1000000",
	"size_mib=256", "tags=32", "memory_backed=1", "write_cache=1", "fua=0",
}

// Metadata that a cgroup reads goes before others' data only until the cgroup has had
// its share: a walk through a cold tree does not take the disk. Nor do data that the
// cgroup reads afterwards wait for long because of it.
func TestColdTreeTakesNoShare(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	d := newModelDisk(t, filesystemDisk)
	at := newTree(t, d).at
	d.use(t, elevator)
	heavy, light := newGroup(t, "heavy"), newGroup(t, "light")
	write(t, filepath.Join(heavy, weightFile), "1000")
	write(t, filepath.Join(light, weightFile), "10")
	alone := readRates(t, d, []string{heavy}, "--iodepth=32")[0]

	walker := startSelf(t, light, treeWalkerOf+"="+filepath.Join(at, "tree"), nil)
	for readBytes(t, light, d) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	before, walked := readBytes(t, heavy, d), readBytes(t, light, d)
	time.Sleep(time.Second)
	beside := float64(readBytes(t, heavy, d) - before)
	walked = readBytes(t, light, d) - walked
	if err := walker.Process.Signal(unix.Signal(0)); err != nil {
		t.Fatalf("the walk has ended already: %v", err)
	}
	t.Logf("%.0f KiB in a second beside the walk, which had %d KiB; %.0f alone", beside/1024, walked/1024, alone/1024)
	if beside < 0.95*alone {
		d.logState(t)
		t.Errorf("%.0f KiB in a second beside a walk of weight 10, want 0.95 of %.0f", beside/1024, alone/1024)
	}
	if walked == 0 {
		t.Error("the walk had nothing")
	}

	must(t, walker.Process.Kill())
	_ = walker.Wait()
	// Counted at the disk, with nothing that fio would have the kernel write back before.
	const reads = 4
	read := readBytes(t, light, d)
	startFio(t, d, light, "--rw=randread", "--ioengine=psync", "--invalidate=0", fmt.Sprint("--number_ios=", reads))
	began := time.Now()
	// By its share it has 40 reads a second.
	for most := 2 * time.Second; readBytes(t, light, d) < read+reads*4096; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > most {
			d.logState(t)
			t.Fatalf("%d bytes were read in %v after the walk, want %d", readBytes(t, light, d)-read, most, reads*4096)
		}
	}
	t.Logf("%d reads after the walk took %v", reads, time.Since(began).Round(time.Millisecond))
}

// A journal is written for all cgroups, by the kernel's threads. That it is does
// not change how two readers share, from one moment to the next.
func TestJournalChangesNoShare(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	d := newModelDisk(t, filesystemDisk)
	c := newExt4(t, d)
	d.use(t, elevator)
	big, small, writer := newGroup(t, "big"), newGroup(t, "small"), newGroup(t, "writer")
	write(t, filepath.Join(big, weightFile), "1000")
	write(t, filepath.Join(small, weightFile), "100")
	var writers []*writerProcess
	for i := range 4 {
		writers = append(writers, c.startWriter(t, "create", filepath.Join(c.at, fmt.Sprint(i)), writer))
	}
	t.Cleanup(func() {
		for _, w := range writers {
			_ = w.cmd.Process.Kill()
			<-w.ended
		}
	})
	startFio(t, d, big, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=32").untilBusy(t)
	startFio(t, d, small, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=32").untilBusy(t)
	time.Sleep(time.Second)

	const window, windows = 250 * time.Millisecond, 40
	acked := writers[0].acked.Load()
	var bigSum, smallSum, least int
	for i := range windows {
		bigBefore, smallBefore := readBytes(t, big, d), readBytes(t, small, d)
		time.Sleep(window)
		had := readBytes(t, small, d) - smallBefore
		bigSum += readBytes(t, big, d) - bigBefore
		smallSum += had
		if i == 0 || had < least {
			least = had
		}
	}
	ratio := float64(bigSum) / float64(smallSum)
	t.Logf("%d and %d KiB, ratio %.2f; the smaller had at least %d KiB in %v; %d files were synced by one of four",
		bigSum/1024, smallSum/1024, ratio, least/1024, window, writers[0].acked.Load()-acked)
	if ratio < 9.5 || ratio > 10.5 {
		t.Errorf("weights 1000 and 100 beside a journal gave a ratio of %.2f; want 9.5..10.5", ratio)
	}
	if mean := smallSum / windows; least < mean/2 {
		t.Errorf("the smaller had %d KiB in one of %d windows, %d on average; want half of that", least/1024, windows, mean/1024)
	}
}

// A disk that takes 96 requests at a time, for 12,000 reads a second.
var wideDisk = []string{
	"model=fixed", "fixed/parallel=96", "fixed/read_ns=8000000", "fixed/write_ns=1000000", "fixed/other_ns=1000000",
	"size_mib=256", "tags=256", "memory_backed=1", "write_cache=0",
}

// A journal has one request outstanding at a time, and it goes first, so by default no cgroup waits for
// the root, which is charged for it. Nor do they if the root wrote large requests before, of which its share
// would be few. On a disk that takes 32 at a time one outstanding is about what it is worth to
// wait for, as a journal's requests are a few times as large as the readers'; of 96 it is not.
func TestJournalHoldsBackNoReader(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	d := newModelDisk(t, wideDisk)
	c := newExt4(t, d)
	d.use(t, elevator)
	writer, readers := newGroup(t, "writer"), []string{newGroup(t, "one"), newGroup(t, "other")}
	write(t, filepath.Join(writer, weightFile), "1000")
	for _, group := range readers {
		startFio(t, d, group, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=96").untilBusy(t)
	}
	large, err := os.Create(filepath.Join(c.at, "large"))
	must(t, err)
	_, err = large.Write(make([]byte, 48<<20))
	must(t, errors.Join(err, large.Sync(), large.Close()))

	// The median: a probe takes half a second in a minute at most.
	rate := func() int {
		time.Sleep(time.Second)
		return 2 * medianReadBytes(t, time.Second/2, d, readers) / 1024
	}
	without := rate()
	w := c.startWriter(t, "create", filepath.Join(c.at, "synced"), writer)
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.ended
	})
	beside, synced := rate(), w.acked.Load()
	t.Logf("two readers have %d KiB/s, %d beside a journal with %d files synced", without, beside, synced)
	// What goes first counts for nothing that others wait for.
	if 10*beside < 9*without {
		d.logState(t)
		t.Errorf("two readers have %d KiB/s beside a journal, and %d without; want 0.9 of that", beside, without)
	}
	if synced < 100 {
		t.Errorf("%d files synced in 3.5 s: there is no journal to speak of", synced)
	}

	// Now they may wait for the journal, but each has its own disk all the same: 100 of 1300.
	write(t, d.tunable("min_total_pct"), "0")
	if all := rate(); 13*all < 2*without {
		d.logState(t)
		t.Errorf("two readers have %d KiB/s beside a journal with min_total_pct = 0, and %d without; want two 13ths of that", all, without)
	}
}

// longestSync writes a page and syncs it until the time is over.
func longestSync(f *os.File, during time.Duration) (longest time.Duration, nr int, err error) {
	page := make([]byte, 4096)
	for end := time.Now().Add(during); time.Now().Before(end); nr++ {
		began := time.Now()
		if _, err := f.WriteAt(page, int64(nr%1000)*4096); err != nil {
			return 0, 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, 0, err
		}
		longest = max(longest, time.Since(began))
	}
	return longest, nr, nil
}

// A write that a flush follows does not wait for its cgroup's share: meanwhile the block
// layer would send no other cgroup's flush, for up to 5 s.
func TestThrottledWriteHoldsUpNoFlush(t *testing.T) {
	withModelDisk(t)
	d := newModelDisk(t, filesystemDisk)
	d.use(t, elevator)
	heavy, light := newGroup(t, "heavy"), newGroup(t, "light")
	write(t, filepath.Join(heavy, weightFile), "10000")
	write(t, filepath.Join(light, weightFile), "1")
	startFio(t, d, heavy, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=32").untilBusy(t)
	l := startFio(t, d, light, "--time_based", "--runtime=600", "--rw=randwrite", "--sync=1", "--ioengine=psync", "--numjobs=4", "--offset=128m", "--size=64m")
	time.Sleep(500 * time.Millisecond)

	f, err := os.OpenFile("/dev/"+d.name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	longest, nr, err := longestSync(f, 5*time.Second)
	must(t, err)
	t.Logf("%d syncs, the longest took %v", nr, longest)
	if most := 500 * time.Millisecond; longest > most {
		d.logState(t)
		t.Errorf("a sync took %v beside a cgroup of weight 1 that writes through, want %v at most", longest, most)
	}
	if l.cmd.ProcessState != nil {
		t.Error("the writer has ended")
	}
}

// longestPause is the longest time between two acknowledgements, and how many there were.
func (w *writerProcess) longestPause(during time.Duration) (longest time.Duration, nr int) {
	last, since := w.acked.Load(), time.Now()
	first := last
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		longest = max(longest, time.Since(since))
		if now := w.acked.Load(); now != last {
			last, since = now, time.Now()
		}
	}
	return longest, int(last - first)
}

// unequalGroups are three of weights 10000, 1 and 1000.
func unequalGroups(t *testing.T) (heavy, light, other string) {
	t.Helper()
	heavy, light, other = newGroup(t, "heavy"), newGroup(t, "light"), newGroup(t, "other")
	write(t, filepath.Join(heavy, weightFile), "10000")
	write(t, filepath.Join(light, weightFile), "1")
	write(t, filepath.Join(other, weightFile), "1000")
	return heavy, light, other
}

// A throttled cgroup may hold what all users of a filesystem wait for: a handle of the
// journal, or a buffer in a checkpoint. What such a cgroup waits for goes soon.
func TestThrottledCgroupHoldsUpNoJournal(t *testing.T) {
	withModelDisk(t)
	d := newModelDisk(t, filesystemDisk)
	// A small journal, so that there are checkpoints.
	c := newExt4(t, d, "-b", "1024", "-J", "size=1")
	d.use(t, elevator)
	heavy, light, other := unequalGroups(t)
	writers := []*writerProcess{
		c.startWriter(t, "append", filepath.Join(c.at, "other"), other),
		c.startWriter(t, "create", filepath.Join(c.at, "light1"), light),
		c.startWriter(t, "rename", filepath.Join(c.at, "light2"), light),
	}
	t.Cleanup(func() {
		for _, w := range writers {
			_ = w.cmd.Process.Kill()
			<-w.ended
		}
	})
	startFio(t, d, heavy, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=32").untilBusy(t)
	c.untilAcked(t, writers[0])

	longest, syncs := writers[0].longestPause(8 * time.Second)
	t.Logf("%d syncs, the longest took %v; %d of the cgroup of weight 1", syncs, longest, writers[1].acked.Load()+writers[2].acked.Load())
	// The module looks every 100 ms, at what has waited for as long; a commit may wait for three
	// such requests one after the other.
	// Each of the handful of requests of a sync waits for the 31 in flight, 8 ms, and this loop looks
	// every 2 ms.
	if most := 3*200*time.Millisecond + 50*time.Millisecond; longest > most {
		d.logState(t)
		t.Errorf("a sync took %v beside writers of weight 1 on the same filesystem, want %v at most", longest, most)
	}
	if syncs < 8 {
		t.Errorf("%d syncs in 8 s", syncs)
	}
}
