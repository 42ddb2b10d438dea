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
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// chargedOf is the variable that has this program do one of chargedWork in a directory:
// "NAME DIRECTORY".
const chargedOf = "ISOLIO_CHARGED"

// What each of chargedWork writes or reads, and how many files it makes.
const (
	chargedBytes = 8 << 20
	chargedFiles = 500
)

// chargedWork is what the tasks of a cgroup do.
var chargedWork = map[string]func(dir string) error{
	"write":       func(dir string) error { return chargedWrite(dir, 0, false) },
	"write+fsync": func(dir string) error { return chargedWrite(dir, 0, true) },
	"direct":      func(dir string) error { return chargedWrite(dir, unix.O_DIRECT, true) },
	"read":        chargedRead,
	"sync":        syncAll,
	"create":      func(dir string) error { return chargedCreate(dir, false) },
	"create+sync": func(dir string) error { return chargedCreate(dir, true) },
	"stat": func(dir string) error {
		return eachCharged(dir, func(path string) error { _, err := os.Lstat(path); return err })
	},
	"remove": func(dir string) error { return eachCharged(dir, os.Remove) },
}

func workCharged(text string) error {
	name, dir, _ := strings.Cut(text, " ")
	work := chargedWork[name]
	if work == nil {
		return fmt.Errorf("%s: unknown work %q", chargedOf, name)
	}
	return work(dir)
}

func chargedWrite(dir string, flags int, sync bool) error {
	f, err := os.OpenFile(filepath.Join(dir, "data"), os.O_WRONLY|os.O_CREATE|flags, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	const block = 64 << 10
	buf := aligned(block, 1)
	for at := int64(0); at < chargedBytes; at += block {
		if _, err := f.WriteAt(buf, at); err != nil {
			return err
		}
	}
	if !sync {
		return nil
	}
	return f.Sync()
}

func chargedRead(dir string) error {
	f, err := os.Open(filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}

func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}

func eachCharged(dir string, do func(path string) error) error {
	for i := range chargedFiles {
		if err := do(filepath.Join(dir, fmt.Sprint("file", i))); err != nil {
			return err
		}
	}
	return nil
}

func chargedCreate(dir string, sync bool) error {
	return eachCharged(dir, func(path string) error {
		f, err := os.Create(path)
		if err == nil && sync {
			err = f.Sync()
		}
		if err == nil {
			err = f.Close()
		}
		return err
	})
}

// chargedCase is a row of the table: what the cgroups a and b do in turn, each as one of
// chargedWork; "wait" waits for the kernel's writeback.
type chargedCase struct {
	what  string
	steps []string // "a write"
	cold  bool     // the file system is mounted anew before
	reads bool     // counts what was read, and not what was written
	data  bool     // chargedBytes, of which a is charged for all but a few
}

var chargedCases = []chargedCase{
	{what: "data, `fsync`", steps: []string{"a write+fsync"}, data: true},
	{what: "data, no sync", steps: []string{"a write", "wait"}, data: true},
	{what: "data, the other's `syncfs`", steps: []string{"a write", "b sync"}, data: true},
	{what: "data on pages that the other wrote before", steps: []string{"b write", "b sync", "count", "a write+fsync"}},
	{what: "data, direct", steps: []string{"a direct"}, data: true},
	{what: "data read", steps: []string{"a write+fsync", "count", "a read"}, cold: true, reads: true, data: true},
	{what: "500 files made, the other's `syncfs`", steps: []string{"a create", "b sync"}},
	{what: "500 files made, `fsync` of each", steps: []string{"a create+sync"}},
	{what: "500 inodes read", steps: []string{"a create", "b sync", "count", "a stat"}, cold: true, reads: true},
	{what: "500 files removed, the other's `syncfs`", steps: []string{"a create", "b sync", "count", "a remove", "b sync"}},
}

// charge is a line of the data: KiB that each was charged for.
type charge struct {
	Kernel     string `json:"kernel"`
	Filesystem string `json:"filesystem"`
	What       string `json:"what"`
	Own        int    `json:"own_kib"`
	Other      int    `json:"other_kib"`
	None       int    `json:"none_kib"` // no container
}

// kib are KiB that a disk or a cgroup has moved in a direction.
func (d *disk) kib(t *testing.T, reads bool) int {
	t.Helper()
	field := 6 // sectors written, in /sys/block/*/stat
	if reads {
		field = 2
	}
	n, err := strconv.Atoi(strings.Fields(read(t, filepath.Join("/sys/block", d.name, "stat")))[field])
	must(t, err)
	return n / 2
}

func groupKiB(t *testing.T, group string, d *disk, reads bool) int {
	t.Helper()
	key := "wbytes"
	if reads {
		key = "rbytes"
	}
	return keyed(t, group, "io.stat", d)[key] >> 10
}

// Pages that are written back are charged to the cgroup that they belong to, whichever cgroup syncs,
// on each file system that promises it; which one is charged for the rest is measured.
func TestWritebackIsCharged(t *testing.T) {
	withModelDisk(t)
	withWriteback(t, "20", "50")
	for _, fs := range []fileSystem{
		{kind: "ext4", make: []string{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"}},
		{kind: "xfs", make: []string{"mkfs.xfs", "-q", "-f"}},
		{kind: "btrfs", make: []string{"mkfs.btrfs", "-q", "-f"}},
	} {
		t.Run(fs.kind, func(t *testing.T) {
			needFileSystem(t, fs.kind)
			if _, err := exec.LookPath(fs.make[0]); err != nil {
				t.Skip(err)
			}
			d := newModelDisk(t, []string{"model=fixed", "fixed/parallel=4", "fixed/read_ns=50000", "fixed/write_ns=50000", "size_mib=320", "memory_backed=1"})
			d.use(t, elevator)
			c := &cutDisk{disk: d, fs: fs, at: t.TempDir()}
			c.program(t, fs.make)
			must(t, c.mount())
			t.Cleanup(func() { must(t, unix.Unmount(c.at, 0)) })
			for i := range chargedCases {
				c.charged(t, i)
			}
		})
	}
}

// charged measures one case, in a directory of its own.
func (c *cutDisk) charged(t *testing.T, i int) {
	t.Helper()
	k := &chargedCases[i]
	dir := filepath.Join(c.at, fmt.Sprint("case", i))
	must(t, os.Mkdir(dir, 0o755))
	must(t, syncAll(c.at))
	groups := map[string]string{"a": newGroup(t, fmt.Sprint("a", i)), "b": newGroup(t, fmt.Sprint("b", i))}
	count := func() (disk, own, other int) {
		return c.kib(t, k.reads), groupKiB(t, groups["a"], c.disk, k.reads), groupKiB(t, groups["b"], c.disk, k.reads)
	}
	disk, own, other := count()
	for _, step := range k.steps {
		group, name, _ := strings.Cut(step, " ")
		switch group {
		case "count":
			must(t, syncAll(c.at))
			if k.cold {
				must(t, unix.Unmount(c.at, 0)) // ext4's journal and btrfs hold on to inodes that are written
				must(t, c.mount())
			}
			disk, own, other = count()
		case "wait":
			time.Sleep(3 * time.Second)
		default:
			if err := startSelf(t, groups[group], chargedOf+"="+name+" "+dir, nil).Wait(); err != nil {
				t.Fatalf("%s: %s: %v", k.what, step, err)
			}
		}
	}
	must(t, syncAll(c.at)) // what is left of it, by no container
	diskNow, ownNow, otherNow := count()
	row := charge{Kernel: kernelLine(t), Filesystem: c.fs.kind, What: k.what, Own: ownNow - own, Other: otherNow - other}
	row.None = diskNow - disk - row.Own - row.Other
	t.Logf("%s, %s: %d KiB own, %d the other's, %d of no container", c.fs.kind, k.what, row.Own, row.Other, row.None)
	send(t, "charges", row)
	if all := row.Own + row.Other + row.None; all == 0 {
		t.Errorf("%s: nothing reached the disk", k.what)
	}
	if most := chargedBytes >> 10; k.data && row.Own < most*95/100 {
		t.Errorf("%s: a is charged for %d KiB of its %d", k.what, row.Own, most)
	}
	if few := chargedBytes >> 10 / 20; k.data && row.Other > few {
		t.Errorf("%s: b is charged for %d KiB of a's data", k.what, row.Other)
	}
}

// dirtierOf is the variable that has this program dirty so many pages of a file, in a directory,
// once the file "go" is there: "PAGES KIND DIRECTORY". Between two of them is one that is clean,
// or none if the kind is "new", and not "old".
const dirtierOf = "ISOLIO_DIRTIER"

func dirtyPages(text string) error {
	var pages int
	var kind, dir string
	if _, err := fmt.Sscan(text, &pages, &kind, &dir); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer f.Close()
	const page = 4 << 10
	buf := make([]byte, 2*page)
	for i := 0; kind == "old" && i < pages; i++ {
		if _, err := f.WriteAt(buf, int64(i*2*page)); err != nil {
			return err
		}
	}
	if err := errors.Join(f.Sync(), os.WriteFile(filepath.Join(dir, "ready"), nil, 0o644)); err != nil {
		return err
	}
	for !exists(filepath.Join(dir, "go")) {
		time.Sleep(time.Millisecond)
	}
	for i := range pages {
		if _, err := f.WriteAt(buf[:page], int64(i*2*page)); err != nil {
			return err
		}
	}
	return nil
}

// What a cgroup of weight 1 has dirtied, and no task waits for, leaves tags to what one of
// weight 1000 has: kernel threads write both, each a page at a time.
func TestBackgroundWritesHaveTheirTags(t *testing.T) {
	const heavyPages, lightPages = 1000, 4000
	withModelDisk(t)
	withWriteback(t, "10", "10")
	d := newModelDisk(t, []string{"model=fixed", "fixed/parallel=4", "fixed/read_ns=4000000", "fixed/write_ns=4000000", "tags=32", "size_mib=128", "memory_backed=1"})
	d.use(t, elevator)
	c := newExt4(t, d, "-E", "lazy_itable_init=0,lazy_journal_init=0")
	groups := map[string]string{}
	for name, pages := range map[string]int{"heavy": heavyPages, "light": lightPages} {
		groups[name] = newGroup(t, name)
		must(t, os.Mkdir(filepath.Join(c.at, name), 0o755))
		cmd := startSelf(t, groups[name], fmt.Sprint(dirtierOf, "=", pages, " old ", filepath.Join(c.at, name)), os.Stderr)
		defer func() { must(t, cmd.Wait()) }()
	}
	write(t, filepath.Join(groups["heavy"], weightFile), "1000")
	write(t, filepath.Join(groups["light"], weightFile), "1")
	written := func(name string) int { return groupKiB(t, groups[name], d, false) / 4 }
	// until has it written so many pages more than before, and returns how many it has then.
	until := func(name string, before, pages int) int {
		t.Helper()
		for began := time.Now(); written(name) < before+pages; time.Sleep(time.Millisecond) {
			if time.Since(began) > cutLimit {
				d.logState(t)
				t.Fatalf("%s: %d of %d pages written in %v", name, written(name)-before, pages, cutLimit)
			}
		}
		return written(name)
	}
	// start has it dirty its pages, and returns how many it had written before.
	start := func(name string) int {
		t.Helper()
		for began := time.Now(); !exists(filepath.Join(c.at, name, "ready")); time.Sleep(time.Millisecond) {
			if time.Since(began) > cutLimit {
				t.Fatalf("%s: not ready in %v", name, cutLimit)
			}
		}
		before := written(name)
		must(t, os.WriteFile(filepath.Join(c.at, name, "go"), nil, 0o644))
		return before
	}
	until("light", start("light"), 500)
	heavy := until("heavy", start("heavy"), 10)
	light, began := written("light"), time.Now()
	until("heavy", heavy, heavyPages-50)
	took, beside := time.Since(began), written("light")-light
	t.Logf("weight 1000: %d pages in %v, weight 1: %d pages meanwhile", heavyPages-50, took.Round(time.Millisecond), beside)
	if beside > heavyPages/10 {
		t.Errorf("weight 1 had %d pages written while weight 1000 had %d, want %d at most", beside, heavyPages-50, heavyPages/10)
	}
}

// newPages has a cgroup write pages to new blocks, a page at a time, as long as the test lasts.
func (c *cutDisk) newPages(t *testing.T, group string) {
	t.Helper()
	dir := filepath.Join(c.at, filepath.Base(group))
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	dirtier := startSelf(t, group, fmt.Sprint(dirtierOf, "=4000 new ", dir), os.Stderr)
	t.Cleanup(func() { must(t, dirtier.Wait()) })
}

// A journal's commit waits for what a throttled cgroup wrote to new blocks, however many requests
// it is. They go soon, whatever the cgroup's weight is.
func TestNewPagesHoldUpNoJournal(t *testing.T) {
	withModelDisk(t)
	withWriteback(t, "10", "10")
	for _, beside := range []string{"nothing", "old requests", "a cold tree"} {
		t.Run(beside, func(t *testing.T) {
			d := newModelDisk(t, filesystemDisk)
			c := newTree(t, d)
			d.use(t, elevator)
			heavy, light, other := unequalGroups(t)
			startFio(t, d, heavy, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=40").untilBusy(t)
			// They have more than may go of what is old, or of what others are likely to wait for.
			greedy := newGroup(t, "greedy")
			write(t, filepath.Join(greedy, weightFile), "1")
			// So that its requests do not take long to end.
			t.Cleanup(func() { write(t, filepath.Join(heavy, "cgroup.kill"), "1") })
			const tags = 256 // for them
			write(t, d.queue("nr_requests"), strconv.Itoa(tags))
			switch beside {
			case "old requests":
				// So many that some are old all the time.
				startFio(t, d, greedy, "--time_based", "--runtime=600", "--rw=randread", "--bs=1m", "--iodepth=64")
				time.Sleep(11 * time.Second)
			case "a cold tree":
				walker := startSelf(t, greedy, treeWalkerOf+"="+filepath.Join(c.at, "tree"), nil)
				t.Cleanup(func() {
					_ = walker.Process.Kill()
					_ = walker.Wait()
				})
			}
			c.newPages(t, light)
			w := c.startWriter(t, "append", filepath.Join(c.at, "other"), other)
			t.Cleanup(func() {
				_ = w.cmd.Process.Kill()
				<-w.ended
			})
			c.untilAcked(t, w)

			const seconds = 8
			completed := d.completed(t)
			longest, syncs := w.longestPause(seconds * time.Second)
			perSecond := (d.completed(t) - completed) / seconds
			t.Logf("%d syncs, the longest took %v; weight 1 has written %d KiB; %d KiB of the greedy", syncs, longest, groupKiB(t, light, d, false), groupKiB(t, greedy, d, true))
			// The module looks every 100 ms, at what has waited for as long or for twice what the disk
			// takes for as many requests as there are tags. A commit may wait for three such times
			// one after another: for the commit before, for what it writes itself, and for what is
			// written for it. Twice as long where half of what may go is another's. What goes finds the
			// disk's 32 tags taken, and so do a commit's log, its last block and the flushes of both.
			waits := max(100*time.Millisecond, time.Duration(2*tags)*time.Second/time.Duration(perSecond))
			through := 32 * time.Second / time.Duration(perSecond)
			most := 3 * (100*time.Millisecond + waits + 5*through)
			if beside == "a cold tree" {
				most *= 2
			}
			if longest > most {
				d.logState(t)
				t.Errorf("a sync took %v beside a writer of weight 1 on the same filesystem, want %v at most", longest, most)
			}
			if kib := groupKiB(t, light, d, false); kib < 1000 && !onDebugKernel(t) {
				t.Errorf("weight 1 has written %d KiB, want 1000 and more: a commit may wait for any of them", kib)
			}
		})
	}
}

// besideLimitedPages has a reader with an io.max beside one whose pages are throttled for weight 1.
// One worker of the kernel sends what all cgroups with an io.max submit, one after another, and
// waits for no tag of theirs.
func (c *cutDisk) besideLimitedPages(t *testing.T) {
	t.Helper()
	const seconds = 5
	d := c.disk
	heavy, light, other := unequalGroups(t)
	startFio(t, d, heavy, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=40").untilBusy(t)
	completed := d.completed(t)
	time.Sleep(time.Second)
	// Less than the share of each is good for.
	riops := max((d.completed(t)-completed)/20, 2)
	write(t, filepath.Join(light, "io.max"), fmt.Sprintf("%s wiops=%d", d.number, riops/2))
	write(t, filepath.Join(other, "io.max"), fmt.Sprintf("%s riops=%d", d.number, riops))
	startFio(t, d, other, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=8").untilBusy(t)
	c.newPages(t, light)
	for began := time.Now(); groupKiB(t, light, d, false) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > cutLimit {
			t.Fatalf("weight 1 has no page written in %v", cutLimit)
		}
	}
	before := readBytes(t, other, d)
	time.Sleep(seconds * time.Second)
	nr := (readBytes(t, other, d) - before) / 4096
	t.Logf("%d reads in %d s, of %d that io.max allows; weight 1 has written %d KiB", nr, seconds, riops*seconds, groupKiB(t, light, d, false))
	for _, group := range []string{light, other} {
		write(t, filepath.Join(group, "io.max"), d.number+" riops=max wiops=max") // what is left goes soon
	}
	write(t, filepath.Join(heavy, "cgroup.kill"), "1")
	if nr < riops*seconds*8/10 {
		d.logState(t)
		t.Errorf("%d reads in %d s beside limited pages of weight 1, want 8 of 10 that io.max allows", nr, seconds)
	}
}

// writtenBack is an ext4 on a disk whose rate is known, whose pages are written back soon.
func writtenBack(t *testing.T) *cutDisk {
	t.Helper()
	comparesRates(t)
	withModelDisk(t)
	withWriteback(t, "10", "10")
	d := newModelDisk(t, filesystemDisk)
	c := newExt4(t, d, "-E", "lazy_itable_init=0,lazy_journal_init=0")
	d.use(t, elevator)
	return c
}

func TestLimitedPagesHoldUpNoReader(t *testing.T) { writtenBack(t).besideLimitedPages(t) }

// besideNewFiles is what an appending writer, which syncs, and readers of weight 10000 have in 8 s beside
// a cgroup of weight 1 that makes files of 4 MiB, in requests of 1 MiB, and whose readers have all the
// tags that it may have.
type besideNewFiles struct {
	longest            time.Duration // sync
	syncs, kib, nrRead int           // kib: weight 1 has written
}

func (c *cutDisk) besideNewFiles(t *testing.T) besideNewFiles {
	t.Helper()
	d := c.disk
	heavy, light, other := unequalGroups(t)
	readers := startFio(t, d, heavy, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=40")
	readers.untilBusy(t)
	own := startFio(t, d, light, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=8", "--invalidate=0")
	own.untilBusy(t)
	group, err := os.Open(light)
	must(t, err)
	defer group.Close()
	writer := exec.Command("fio", "--name=files", "--directory="+c.at, "--nrfiles=24", "--filesize=4M", "--openfiles=1",
		"--create_on_open=1", "--unlink_each_loop=1", "--file_service_type=sequential", "--loops=1000", "--rw=write",
		"--bs=1M", "--ioengine=psync", "--fallocate=none", "--invalidate=0")
	writer.SysProcAttr = inGroup(group)
	must(t, writer.Start())
	w := c.startWriter(t, "append", filepath.Join(c.at, "other"), other)
	t.Cleanup(func() {
		for _, group := range []string{light, heavy, other} {
			write(t, filepath.Join(group, "cgroup.kill"), "1")
		}
		<-w.ended
		for _, cmd := range []*exec.Cmd{writer, own.cmd, readers.cmd} {
			_ = cmd.Wait()
		}
	})
	c.untilAcked(t, w)

	var b besideNewFiles
	kib, read := groupKiB(t, light, d, false), readBytes(t, heavy, d)
	b.longest, b.syncs = w.longestPause(8 * time.Second)
	b.kib, b.nrRead = groupKiB(t, light, d, false)-kib, (readBytes(t, heavy, d)-read)/4096
	t.Logf("%d syncs, the longest took %v; weight 1 has written %d KiB, weight 10000 has %d reads", b.syncs, b.longest, b.kib, b.nrRead)
	// A file is four requests, and each look lets a few go.
	if b.longest > 3*time.Second {
		d.logState(t)
		t.Errorf("a sync took %v beside a writer of weight 1 on the same filesystem, want 3 s at most", b.longest)
	}
	if b.kib < 4096 {
		t.Error("weight 1 has written nothing to speak of")
	}
	return b
}

// The same with files, on a disk whose rate is known.
func TestNewFilesHoldUpNoJournal(t *testing.T) {
	c := writtenBack(t)
	b := c.besideNewFiles(t)
	// Of 4,000 a second; a sixteenth is for what is overdue, and the syncs take some.
	if b.nrRead < 8*4000*9/10 {
		t.Errorf("weight 10000 has %d reads in 8 s, want nine tenths of the disk's", b.nrRead)
	}
}

// And on disks of real drivers.
func TestNewFilesOnRealDisks(t *testing.T) {
	wanted := strings.Split(os.Getenv("ISOLIO_DISKS"), ",")
	if wanted[0] == "" {
		t.Skip("takes real drivers' disks: make vm T=drivers")
	}
	loaded(t)
	withWriteback(t, "10", "10")
	disks := realDisks(t, wanted)
	for _, kind := range wanted {
		if strings.HasSuffix(kind, "-zoned") {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			d := disks[kind][0]
			c := newExt4(t, d, "-E", "lazy_itable_init=0,lazy_journal_init=0")
			d.use(t, elevator)
			t.Cleanup(func() { d.use(t, "none") })
			t.Run("new files", func(t *testing.T) { c.besideNewFiles(t) })
			t.Run("limited pages", func(t *testing.T) { c.besideLimitedPages(t) })
		})
	}
}

// withWriteback has pages belong to a cgroup, and written back after so many hundredths of a
// second: how often the kernel looks, and for what is so old.
func withWriteback(t *testing.T, every, expired string) {
	t.Helper()
	control := filepath.Join(cgroupRoot, "cgroup.subtree_control")
	write(t, control, "+memory")
	t.Cleanup(func() { write(t, control, "-memory") })
	for file, value := range map[string]string{"dirty_writeback_centisecs": every, "dirty_expire_centisecs": expired} {
		path := filepath.Join("/proc/sys/vm", file)
		before := strings.TrimSpace(read(t, path))
		write(t, path, value)
		t.Cleanup(func() { write(t, path, before) })
	}
}

// kernelLine is the kernel's version, without what Debian adds.
func kernelLine(t *testing.T) string {
	t.Helper()
	release := read(t, "/proc/sys/kernel/osrelease")
	parts := strings.SplitN(release, ".", 3)
	minor, _, _ := strings.Cut(parts[1], "-")
	return parts[0] + "." + strings.TrimSpace(minor)
}
