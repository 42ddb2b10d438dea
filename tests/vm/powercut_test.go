// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// How many cuts there are, over all schedulers and file systems, and the seed that
// chooses their moments: `make vm T=powercut CUTS=200 SEED=1` sets them.
const (
	cutsVariable = "ISOLIO_CUTS"
	seedVariable = "ISOLIO_SEED"
)

// cutLimit is how long a writer may take to see that the power is gone, or the
// first writes to be acknowledged.
const cutLimit = 30 * time.Second

// fileSystem is one that promises to keep what fsync() acknowledged.
type fileSystem struct {
	kind    string
	sizeMiB int
	make    []string
	check   []string // exit status 0: nothing is wrong
}

// Small ones, but xfs is made for 300 MiB and more.
var fileSystems = []fileSystem{
	{kind: "ext4", sizeMiB: 64, make: []string{"mkfs.ext4", "-q", "-F"}, check: []string{"e2fsck", "-f", "-n"}},
	{kind: "xfs", sizeMiB: 320, make: []string{"mkfs.xfs", "-q", "-f"}, check: []string{"xfs_repair", "-n"}},
}

// cutFigures is what the cuts of one disk came to.
type cutFigures struct {
	cuts, acked, lost, unclean int
}

// numberOf is a whole number in the environment.
func numberOf(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// cutDisk is a disk with a volatile cache and a file system, which power cuts
// go through one after the other.
type cutDisk struct {
	*disk
	fs      fileSystem
	at      string // where it is mounted
	options string // of mount(2)
	rng     *rand.Rand
	figures cutFigures
}

// newCutDisk makes the disk and its file system. What real disks differ in comes
// from the seed.
func newCutDisk(t *testing.T, fs fileSystem, scheduler string, seed int) *cutDisk {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(seed), 19))
	d := newModelDisk(t, []string{
		"model=fixed", fmt.Sprint("fixed/read_ns=", 50000+rng.IntN(200000)), fmt.Sprint("fixed/write_ns=", 50000+rng.IntN(400000)),
		fmt.Sprint("fixed/other_ns=", 100000+rng.IntN(1000000)), fmt.Sprint("fixed/parallel=", 1+rng.IntN(8)),
		fmt.Sprint("size_mib=", fs.sizeMiB), "tags=16", "memory_backed=1", "power_loss=1", "write_cache=1",
		fmt.Sprint("fua=", rng.IntN(2)), "discard=1", "discard_segments=8", "write_zeroes_kib=2048",
	})
	d.use(t, scheduler)
	c := &cutDisk{disk: d, fs: fs, at: t.TempDir(), rng: rng}
	if rng.IntN(2) == 1 {
		c.options = "discard"
	}
	c.program(t, fs.make)
	return c
}

// program runs a program on the disk, and fails the test if that fails.
func (c *cutDisk) program(t *testing.T, argv []string) {
	t.Helper()
	if out, err := c.try(argv); err != nil {
		t.Fatalf("%s: %v\n%s", argv[0], err, out)
	}
}

func (c *cutDisk) try(argv []string) ([]byte, error) {
	return exec.Command(argv[0], append(slices.Clone(argv[1:]), "/dev/"+c.name)...).CombinedOutput()
}

func (c *cutDisk) mount() error {
	if err := unix.Mount("/dev/"+c.name, c.at, c.fs.kind, 0, c.options); err != nil {
		return fmt.Errorf("mounting %s: %w", c.fs.kind, err)
	}
	return nil
}

// writerProcess is one writer: a process in a cgroup of its own.
type writerProcess struct {
	kind, dir string
	cmd       *exec.Cmd
	acked     *atomic.Uint64 // numbers that are on the disk, by what fsync() said
	ended     chan struct{}
	before    uint64 // what acked was when the power was still there
}

// startWriter starts a writer in the directory. Weights differ, so that
// a scheduler by weight holds some back.
func (c *cutDisk) startWriter(t *testing.T, kind, dir, group string) *writerProcess {
	t.Helper()
	must(t, os.Mkdir(dir, 0o755))
	cgroup, err := os.Open(group)
	must(t, err)
	defer cgroup.Close()
	memory, err := unix.MemfdCreate("acknowledged", 0)
	must(t, err)
	shared := os.NewFile(uintptr(memory), "acknowledged")
	defer shared.Close()
	must(t, shared.Truncate(int64(os.Getpagesize())))
	program, err := os.Executable()
	must(t, err)
	w := &writerProcess{kind: kind, dir: dir, cmd: exec.Command(program), ended: make(chan struct{})}
	w.acked, err = sharedNumber(memory)
	must(t, err)
	w.cmd.Env = append(os.Environ(), cutWriterOf+"="+kind+" "+dir)
	w.cmd.ExtraFiles = []*os.File{shared}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	must(t, w.cmd.Start())
	go func() {
		_ = w.cmd.Wait() // it ends with the error that it met
		close(w.ended)
	}()
	return w
}

// untilAcked waits for the writer's first acknowledgement.
func (c *cutDisk) untilAcked(t *testing.T, w *writerProcess) {
	t.Helper()
	for started := time.Now(); w.acked.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Since(started) > cutLimit {
			c.logState(t)
			t.Fatalf("%s: nothing was acknowledged in %v", w.kind, cutLimit)
		}
	}
}

// cut has writers write, cuts the power at a moment that the seed chooses, brings it
// back and mounts again. It returns what is wrong with the data then: that is for
// the caller to judge.
func (c *cutDisk) cut(t *testing.T, groups map[string]string) []error {
	t.Helper()
	must(t, c.mount())
	c.figures.cuts++
	top := filepath.Join(c.at, fmt.Sprint("cut", c.figures.cuts))
	must(t, os.Mkdir(top, 0o755))
	must(t, syncDir(c.at))
	var writers []*writerProcess
	for _, kind := range slices.Sorted(maps.Keys(groups)) {
		writers = append(writers, c.startWriter(t, kind, filepath.Join(top, kind), groups[kind]))
	}
	c.untilAcked(t, writers[c.rng.IntN(len(writers))])
	time.Sleep(time.Duration(c.rng.IntN(100_000)) * time.Microsecond)
	// What is acknowledged after the cut, by a machine that would have none, does not
	// count: XFS's fsync of a directory returns 0 after its log was shut down.
	for _, w := range writers {
		w.before = w.acked.Load()
		c.figures.acked += int(w.before)
	}
	write(t, filepath.Join(c.config, "power_cut"), fmt.Sprint(1+c.rng.Uint64()>>1))
	c.awaitEnd(t, writers)
	must(t, unix.Unmount(c.at, 0))
	write(t, filepath.Join(c.config, "power_cut"), "0")
	if err := c.mount(); err != nil {
		return []error{err}
	}
	var wrong []error
	for _, w := range writers {
		if err := cutWriters[w.kind].check(w.dir, w.before, w.acked.Load()+1); err != nil {
			wrong = append(wrong, fmt.Errorf("%s, %d acknowledged: %w", w.kind, w.before, err))
		}
	}
	if err := os.RemoveAll(top); err != nil {
		wrong = append(wrong, err)
	}
	must(t, unix.Unmount(c.at, 0))
	return wrong
}

// awaitEnd waits until each writer has seen that the power is gone.
func (c *cutDisk) awaitEnd(t *testing.T, writers []*writerProcess) {
	t.Helper()
	for _, w := range writers {
		select {
		case <-w.ended:
		case <-time.After(cutLimit):
			c.logState(t)
			t.Fatalf("%s: still waits for a disk without power after %v", w.kind, cutLimit)
		}
	}
}

// writerGroups are cgroups, one for each kind of writer, of weights 100 to 1600.
func writerGroups(t *testing.T) map[string]string {
	t.Helper()
	groups := map[string]string{}
	weight := 100
	for _, kind := range slices.Sorted(maps.Keys(cutWriters)) {
		groups[kind] = newGroup(t, kind)
		if file := filepath.Join(groups[kind], weightFile); exists(file) {
			write(t, file, fmt.Sprint(weight))
		}
		weight *= 2
	}
	return groups
}

// needFileSystem skips the test where the kernel does not know the file system.
func needFileSystem(t *testing.T, kind string) {
	t.Helper()
	if !strings.Contains(read(t, "/proc/filesystems"), "\t"+kind+"\n") {
		t.Skipf("this kernel has no %s", kind)
	}
}

// Whatever fsync() acknowledged is on the disk after a power cut, and the file
// system is clean, under every scheduler.
func TestPowerCut(t *testing.T) {
	combinations := len(everyScheduler) * len(fileSystems)
	// By default each scheduler has one cut, and every other file system.
	cuts, seed := numberOf(t, cutsVariable, len(everyScheduler)), numberOf(t, seedVariable, 1)
	var total cutFigures
	at := 0
	for _, fs := range fileSystems {
		for _, scheduler := range everyScheduler {
			here := cuts*(at+1)/combinations - cuts*at/combinations
			at++
			if here == 0 {
				continue
			}
			t.Run(fs.kind+" "+scheduler, func(t *testing.T) {
				needFileSystem(t, fs.kind)
				withGuard(t)
				c := newCutDisk(t, fs, scheduler, seed*1000+at)
				groups := writerGroups(t)
				for range here {
					for _, err := range c.cut(t, groups) {
						c.figures.lost++
						t.Errorf("cut %d: %v", c.figures.cuts, err)
					}
					if out, err := c.try(c.fs.check); err != nil {
						c.figures.unclean++
						t.Errorf("cut %d: %s: %v\n%s", c.figures.cuts, c.fs.check[0], err, out)
					}
					if t.Failed() {
						break // the next one would start from what is broken
					}
				}
				c.tell(t)
				c.figures.send(t, cutsFound{Filesystem: fs.kind, Scheduler: scheduler, Seed: seed})
				total.add(c.figures)
			})
		}
	}
	t.Logf("all: %d cuts, %d acknowledged, %d lost, %d unclean", total.cuts, total.acked, total.lost, total.unclean)
}

func (f *cutFigures) add(other cutFigures) {
	f.cuts += other.cuts
	f.acked += other.acked
	f.lost += other.lost
	f.unclean += other.unclean
}

// cutsFound is a line of the data, for docs/results/reliability.md.
type cutsFound struct {
	Kernel     string `json:"kernel"`
	Filesystem string `json:"filesystem"`
	Scheduler  string `json:"scheduler,omitempty"`
	NoFlushes  bool   `json:"no_flushes,omitempty"`
	Databases  bool   `json:"databases,omitempty"`
	Seed       int    `json:"seed"`
	Cuts       int    `json:"cuts"`
	Acked      int    `json:"acknowledged"`
	Lost       int    `json:"lost"`
	Unclean    int    `json:"unclean"`
}

func (f *cutFigures) send(t *testing.T, line cutsFound) {
	t.Helper()
	line.Kernel = kernelLine(t)
	line.Cuts, line.Acked, line.Lost, line.Unclean = f.cuts, f.acked, f.lost, f.unclean
	send(t, "cuts", line)
}

// tell prints what came of the disk's cuts, and what the disk did to its blocks.
func (c *cutDisk) tell(t *testing.T) {
	t.Helper()
	t.Logf("%d cuts, %d acknowledged, %d lost, %d unclean; blocks of the cache: %d kept, %d dropped; in flight: %d landed, %d torn off; %d flushes",
		c.figures.cuts, c.figures.acked, c.figures.lost, c.figures.unclean,
		c.stat(t, "cached_blocks_kept"), c.stat(t, "cached_blocks_lost"),
		c.stat(t, "torn_blocks_kept"), c.stat(t, "torn_blocks_lost"), c.stat(t, "flushes"))
}

// The check of the check: where the disk is sent no flush, what fsync()
// acknowledged is lost.
func TestPowerCutWithoutBarriers(t *testing.T) {
	cuts := max(3, numberOf(t, cutsVariable, 0)/len(fileSystems)/len(everyScheduler))
	seed := numberOf(t, seedVariable, 1)
	for _, fs := range fileSystems {
		t.Run(fs.kind, func(t *testing.T) {
			needFileSystem(t, fs.kind)
			withGuard(t)
			groups := writerGroups(t)
			var total cutFigures
			for cut := range cuts {
				// On a new disk: this one's file system may be beyond repair.
				c := newCutDisk(t, fs, everyScheduler[cut%len(everyScheduler)], seed*1000+cut)
				write(t, c.queue("write_cache"), "write through")
				if wrong := c.cut(t, groups); len(wrong) > 0 {
					c.figures.lost++
					t.Logf("cut %d, %d acknowledged: %v", cut+1, c.figures.acked, errors.Join(wrong...))
				}
				total.add(c.figures)
			}
			t.Logf("%d cuts without a flush, %d acknowledged, %d of the cuts lost some", total.cuts, total.acked, total.lost)
			total.send(t, cutsFound{Filesystem: fs.kind, NoFlushes: true, Seed: seed})
			if total.lost == 0 {
				t.Error("nothing that was acknowledged was lost")
			}
		})
	}
}
