// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"isolio/internal/lab/vm"
)

// Bounds on the watcher's clock. What takes longer than the first gets relief:
// all that may lawfully make it wait is undone, and it has the same time once more.
const (
	reliefAfter = 30 * time.Second
	failAfter   = 2 * reliefAfter
	// stalledAfter bounds how long a disk with requests in flight may complete
	// none. Lost requests time out after 1.5 s, SCSI's after some more.
	stalledAfter = 25 * time.Second
)

// A look a second; the clock advances by this much at most from one to the next.
// So time in which the host did not let the VM run does not count.
const mostBetween = 2 * time.Second

// sight is something that the watcher sees again and again.
type sight struct {
	since time.Duration // on the watcher's clock
	state string        // it is another thing when this differs
}

// watcher looks at everything once a second.
type watcher struct {
	w         *world
	clock     time.Duration
	looked    time.Time
	sights    map[string]sight // of the last look
	seen      map[string]sight // of this one
	kmsg      int
	relieved  time.Duration // when relief was given; 0 for not
	lastShown time.Time
	shown     time.Duration // when showRecent last did
	isDumping bool          // the kernel shows the state of memory: a group is at its limit
}

func (w *world) watch(stop <-chan struct{}) error {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		return err
	}
	v := &watcher{w: w, kmsg: fd, looked: time.Now(), lastShown: time.Now()}
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				v.look()
			}
		}
	}()
	return nil
}

func (v *watcher) look() {
	v.readLog()
	v.clock += min(time.Since(v.looked), mostBetween)
	v.looked = time.Now()
	v.seen = map[string]sight{}
	worst := max(v.tasks(), v.operations(), v.actorTimes(), v.stalls())
	v.refusals()
	v.sights = v.seen
	switch {
	case worst < reliefAfter:
		if v.relieved != 0 {
			fmt.Println("HOSTILE relief helped")
			v.relieved = 0
			v.w.calm.Store(false)
		}
	case v.relieved == 0:
		v.relieved = v.clock
		v.w.count("reliefs", 1)
		fmt.Printf("HOSTILE relief: something takes %s\n", worst.Round(time.Second))
		v.w.calm.Store(true)
		v.w.dump()
		go v.w.relief()
	case v.clock-v.relieved > failAfter-reliefAfter:
		v.w.fail("something takes %s", worst.Round(time.Second))
	}
	if time.Since(v.lastShown) > 3*time.Second {
		v.lastShown = time.Now()
		v.w.progress()
	}
}

// age is how long the watcher has seen the thing in this state.
func (v *watcher) age(thing, state string) time.Duration {
	now := sight{since: v.clock, state: state}
	if was, ok := v.sights[thing]; ok && was.state == state {
		now = was
	}
	v.seen[thing] = now
	return v.clock - now.since
}

// eachTask calls fn for every task, with its directory in /proc.
func eachTask(fn func(tid int, dir string)) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*") // the pattern is right
	for _, dir := range dirs {
		if tid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			fn(tid, dir)
		}
	}
}

// tasks is how long the longest sleeper has slept uninterruptibly, without
// running once.
func (v *watcher) tasks() (worst time.Duration) {
	eachTask(func(_ int, dir string) {
		text, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || !isBlocked(string(text)) {
			return
		}
		// It waits for the memory of a process, which swapoff holds while it reads back
		// page after page.
		if v.w.swapping.Load() && strings.Contains(string(text), "(khugepaged)") {
			return
		}
		worst = max(worst, v.age(dir, get(filepath.Join(dir, "schedstat"))))
	})
	return worst
}

func isBlocked(stat string) bool {
	return strings.HasPrefix(stat[strings.LastIndex(stat, ")")+1:], " D ")
}

// operations is how long the longest operation of a worker takes.
func (v *watcher) operations() (worst time.Duration) {
	for _, d := range v.w.disks {
		for _, r := range d.regions {
			began := atomic.LoadUint64(&r.words[wordBegan])
			if began != 0 && exists(fmt.Sprint("/proc/", r.words[wordThread])) { // else its worker was killed
				worst = max(worst, v.age(r.Memory, fmt.Sprint(began)))
			}
		}
	}
	return worst
}

// actorTimes is how long the longest operation of an actor takes.
func (v *watcher) actorTimes() (worst time.Duration) {
	for _, a := range v.w.actors {
		if began := a.began.Load(); began != 0 {
			worst = max(worst, v.age(a.Name, fmt.Sprint(began)))
		}
	}
	return worst
}

// stalls is how long a disk has had requests in flight and completed none.
func (v *watcher) stalls() (worst time.Duration) {
	for _, d := range v.w.disks {
		if d.statistics(8) == 0 {
			continue
		}
		stalled := v.age(d.path(), fmt.Sprint(d.statistics(0, 4, 11, 15)))
		if stalled > stalledAfter {
			worst = max(worst, stalled+reliefAfter-stalledAfter)
		}
	}
	return worst
}

// refusals fails where a disk that takes bios has a scheduler after all.
func (v *watcher) refusals() {
	for _, d := range v.w.disks {
		// Of other disks the file is not read: that waits for a switch of theirs, and the
		// watcher's clock for the look.
		if !d.takesBios {
			continue
		}
		if offered, _ := d.schedulers(); len(offered) > 0 && !slices.Equal(offered, []string{"none"}) {
			v.w.fail("%s takes bios, and has the schedulers %q", d.name, offered)
		}
	}
}

// explained are lines of the kernel's log, of a warning's level and above, that
// the suite causes: errors that it injects, limits that it sets, CPUs and disks
// that it removes, tunables that the kernel refuses.
var explained = regexp.MustCompile(strings.Join([]string{
	`^(I/O|timeout|operation not supported|critical \S+|nonretryable|recoverable transport) error, dev `,
	`^(Buffer|buffer_io_error|lost async page write).*`,
	`^Dev \S+: unable to read RDB block \d+$`, // the same, of the search for an Amiga's partitions
	// The search for any goes on while the disk's connection ends, and its size becomes 0.
	`^nbd\d+: (partition table (partially )?beyond EOD, |unable to read partition table)`,
	`^(sd|scsi|host) \S+: `,    // errors of scsi_debug, recovered or not
	`^hrtimer: interrupt took`, // the host lets the VM wait
	`^(hpet: Lost|clocksource: )`,
	`^smpboot: do_boot_cpu failed\(-1\)`, // a CPU that does not start within 10 s, for the same reason
	`callbacks suppressed$`,
	`^block nbd\d+: `,                                           // its connection ends
	`^nvme nvme\d+: `,                                           // its controller is reset
	`^mmc\d+: (Timeout waiting for hardware interrupt|sdhci: )`, // a CPU that leaves, or gets no time, takes it late; the request is sent again
	`^(fio\[\d+\]: segfault| in fio\[|Code: )`,                  // fio's own, where it ends while a job starts
	`^block device autoloading is deprecated`,                   // a disk is opened that was just removed
}, "|"))

// showRecent prints what the actors did last beside a line of the log, unless it
// just did: a stack has many lines. v.w.mu is held.
func (v *watcher) showRecent(prefix, message string) {
	fmt.Printf("HOSTILE odd: %s %s\n", prefix, message)
	if v.clock-v.shown < 10*time.Second && v.shown != 0 {
		return
	}
	v.shown = v.clock
	for _, what := range v.w.recent {
		fmt.Println("HOSTILE recent:", what)
	}
}

// endOfDump is the last line of what the kernel says when a group's memory does
// not suffice.
var endOfDump = regexp.MustCompile(`^(Memory cgroup out of memory: Killed|Out of memory and no killable)`)

// readLog reads what the kernel logged since the last time.
func (v *watcher) readLog() {
	buf := make([]byte, 8192)
	for {
		n, err := unix.Read(v.kmsg, buf) // one record: priority,number,time,flags;message\n
		if errors.Is(err, unix.EPIPE) {
			continue // some were overwritten
		}
		if err != nil {
			return
		}
		prefix, message, _ := strings.Cut(string(buf[:n]), ";")
		message, _, _ = strings.Cut(message, "\n")
		priority, _, _ := strings.Cut(prefix, ",")
		level, _ := strconv.Atoi(priority)
		if strings.Contains(message, " invoked oom-killer: ") {
			v.isDumping = true
			v.w.count("out-of-memory", 1)
		}
		v.w.mu.Lock()
		v.w.log = append(v.w.log, message)
		v.w.log = v.w.log[max(0, len(v.w.log)-60):]
		if level&7 <= 4 && !v.isDumping && !explained.MatchString(message) && len(v.w.odd) < 200 {
			v.w.odd = append(v.w.odd, message)
			v.showRecent(prefix, message)
		}
		v.w.mu.Unlock()
		v.isDumping = v.isDumping && !endOfDump.MatchString(message)
		if wrong := vm.Complaints("[    0.000000] " + message); len(wrong) > 0 {
			v.showRest()
			v.w.fail("the kernel complained: %s", message)
		}
	}
}

// showRest prints what the kernel says after it has begun to complain: stacks, and
// what it knows of tasks.
func (v *watcher) showRest() {
	buf := make([]byte, 8192)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		n, err := unix.Read(v.kmsg, buf)
		if err == nil {
			_, message, _ := strings.Cut(string(buf[:n]), ";")
			fmt.Print("HOSTILE then: ", message)
		} else if !errors.Is(err, unix.EPIPE) {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// dump prints the state of everything that may hang.
func (w *world) dump() {
	now := monotonic()
	for _, a := range w.actors {
		text := "idle"
		if began := a.began.Load(); began != 0 {
			text = fmt.Sprintf("for %s: %s", time.Duration(now-began).Round(time.Millisecond), a.doing.Load())
		}
		fmt.Printf("HOSTILE actor %s, operation %d, %s\n", a.Name, a.index.Load(), text)
	}
	for _, d := range w.disks {
		w.dumpDisk(d, now)
	}
	eachTask(func(tid int, dir string) {
		// A worker of io.max that tries again and again sleeps for a moment each time.
		text, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err == nil && (isBlocked(string(text)) || strings.Contains(string(text), "+kthrotld)")) {
			fmt.Printf("HOSTILE blocked %d (%s) in %s\n%s\n", tid, get(filepath.Join(dir, "comm")), get(filepath.Join(dir, "cgroup")), get(filepath.Join(dir, "stack")))
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range w.recent {
		fmt.Println("HOSTILE recent:", what)
	}
	for _, line := range w.log {
		fmt.Println("HOSTILE kernel:", line)
	}
}

func (w *world) dumpDisk(d *disk, now uint64) {
	_, active := d.schedulers()
	fmt.Printf("HOSTILE disk %s, scheduler %q, present %t, stat %s, inflight %s\n", d.name, active, d.present.Load(), get(d.sys("stat")), get(d.sys("inflight")))
	isStuck := false
	for _, r := range d.regions {
		if began := atomic.LoadUint64(&r.words[wordBegan]); began != 0 && began+uint64(time.Second) < now {
			isStuck = isStuck || began+uint64(10*time.Second) < now
			fmt.Printf("HOSTILE   thread %d: %s at block %d for %s\n", r.words[wordThread], workerOpNames[r.words[wordWhat]], r.words[wordBlock],
				time.Duration(now-began).Round(time.Millisecond))
		}
	}
	if queues, _ := filepath.Glob(d.sys("mq/*/cpu_list")); isStuck { // the pattern is right
		for _, file := range queues {
			fmt.Printf("HOSTILE   hctx%s: of CPUs %s\n", filepath.Base(filepath.Dir(file)), get(file))
		}
	}
	for _, pattern := range []string{"sched/*", "hctx*/sched/*", "hctx*/state", "hctx*/dispatch", "hctx*/busy", "hctx*/tags", "requeue_list", "state"} {
		files, _ := filepath.Glob(filepath.Join(d.debug(), pattern)) // the patterns are right
		for _, file := range files {
			// A request that the driver does not have is not in flight, and may be why.
			if !d.mayRead(file) || d.statistics(8) == 0 && !isStuck {
				continue
			}
			release := w.holdModules()
			text := get(file)
			release()
			if text != "" {
				fmt.Printf("HOSTILE   %s: %s\n", strings.TrimPrefix(file, d.debug()+"/"), tail(text, 30))
			}
		}
	}
}
