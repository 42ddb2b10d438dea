// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"isolio/internal/lab"
)

// Bounds on the guest's clock. What takes longer than the first gets relief: all
// that may lawfully make it wait is undone, and it has the same time once more.
const (
	reliefAfter = 30 * time.Second
	failAfter   = 2 * reliefAfter
	// stalledAfter bounds how long a disk with requests in flight may complete
	// none. Lost requests time out after 1.5 s, SCSI's after some more.
	stalledAfter = 25 * time.Second
)

// sighting is a task that sleeps where no signal wakes it.
type sighting struct {
	since time.Time
	runs  string // how often it had run then
	text  string
}

// progressOf is what a disk had done when it was last seen to do something.
type progressOf struct {
	done  uint64
	since time.Time
}

// watcher looks at everything once a second.
type watcher struct {
	w         *world
	sleepers  map[int]sighting
	disks     map[*disk]progressOf
	kmsg      int
	relieved  time.Time
	lastShown time.Time
}

func (w *world) watch(stop <-chan struct{}) error {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		return err
	}
	v := &watcher{w: w, sleepers: map[int]sighting{}, disks: map[*disk]progressOf{}, kmsg: fd, lastShown: time.Now()}
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
	worst := max(v.tasks(), v.operations(), v.actorTimes(), v.stalls())
	switch {
	case worst < reliefAfter:
		if !v.relieved.IsZero() {
			fmt.Println("HOSTILE relief helped")
			v.relieved = time.Time{}
			v.w.calm.Store(false)
		}
	case v.relieved.IsZero():
		v.relieved = time.Now()
		v.w.count("reliefs", 1)
		fmt.Printf("HOSTILE relief: something takes %s\n", worst.Round(time.Second))
		v.w.calm.Store(true)
		v.w.dump()
		go v.w.relief()
	case time.Since(v.relieved) > failAfter-reliefAfter:
		v.w.fail("something takes %s", worst.Round(time.Second))
	}
	if time.Since(v.lastShown) > 3*time.Second {
		v.lastShown = time.Now()
		v.w.progress()
	}
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
	now := time.Now()
	seen := map[int]sighting{}
	eachTask(func(tid int, dir string) {
		text, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || !isBlocked(string(text)) {
			return
		}
		at := sighting{since: now, runs: get(filepath.Join(dir, "schedstat")), text: dir}
		if was, ok := v.sleepers[tid]; ok && was.runs == at.runs && was.text == dir {
			at = was
		}
		seen[tid] = at
		worst = max(worst, now.Sub(at.since))
	})
	v.sleepers = seen
	return worst
}

func isBlocked(stat string) bool {
	return strings.HasPrefix(stat[strings.LastIndex(stat, ")")+1:], " D ")
}

// operations is how long the longest operation of a worker takes.
func (v *watcher) operations() (worst time.Duration) {
	now := monotonic()
	for _, d := range v.w.disks {
		for _, r := range d.regions {
			began := atomic.LoadUint64(&r.words[wordBegan])
			thread := r.words[wordThread]
			if began == 0 || began > now || !exists(fmt.Sprint("/proc/", thread)) {
				continue // none, or its worker was killed
			}
			worst = max(worst, time.Duration(now-began))
		}
	}
	return worst
}

// actorTimes is how long the longest operation of an actor takes.
func (v *watcher) actorTimes() (worst time.Duration) {
	now := monotonic()
	for _, a := range v.w.actors {
		if began := a.began.Load(); began != 0 && began < now {
			worst = max(worst, time.Duration(now-began))
		}
	}
	return worst
}

// stalls is how long a disk has had requests in flight and completed none.
func (v *watcher) stalls() (worst time.Duration) {
	now := time.Now()
	for _, d := range v.w.disks {
		at := progressOf{done: d.statistics(0, 4, 11, 15), since: now}
		was, ok := v.disks[d]
		if ok && was.done == at.done && d.statistics(8) > 0 {
			at.since = was.since
		}
		v.disks[d] = at
		if stalled := now.Sub(at.since); stalled > stalledAfter {
			worst = max(worst, stalled+reliefAfter-stalledAfter)
		}
	}
	return worst
}

// explained are lines of the kernel's log, of a warning's level and above, that
// the suite causes: errors that it injects, limits that it sets, CPUs and disks
// that it removes, tunables that the kernel refuses.
var explained = regexp.MustCompile(strings.Join([]string{
	`^(I/O|timeout|critical \S+|nonretryable|recoverable transport) error, dev `,
	`^Buffer I/O error on dev`,
	`^hrtimer: interrupt took`, // the host lets the VM wait
	`^(hpet: Lost|clocksource: )`,
	`: hybrid_.*|^workqueue: `,
}, "|"))

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
		v.w.mu.Lock()
		v.w.log = append(v.w.log, message)
		v.w.log = v.w.log[max(0, len(v.w.log)-60):]
		if level&7 <= 4 && !explained.MatchString(message) && len(v.w.odd) < 200 {
			v.w.odd = append(v.w.odd, message)
		}
		v.w.mu.Unlock()
		if wrong := lab.Complaints("[    0.000000] " + message); len(wrong) > 0 {
			time.Sleep(time.Second)
			v.w.fail("the kernel complained: %s", message)
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
		if text, err := os.ReadFile(filepath.Join(dir, "stat")); err == nil && isBlocked(string(text)) {
			fmt.Printf("HOSTILE blocked %d (%s) in %s\n%s\n", tid, get(filepath.Join(dir, "comm")), get(filepath.Join(dir, "cgroup")), get(filepath.Join(dir, "stack")))
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.log {
		fmt.Println("HOSTILE kernel:", line)
	}
}

func (w *world) dumpDisk(d *disk, now uint64) {
	_, active := d.schedulers()
	fmt.Printf("HOSTILE disk %s, scheduler %q, present %t, stat %s, inflight %s\n", d.name, active, d.present.Load(), get(d.sys("stat")), get(d.sys("inflight")))
	for _, r := range d.regions {
		if began := atomic.LoadUint64(&r.words[wordBegan]); began != 0 && now-began > uint64(time.Second) {
			fmt.Printf("HOSTILE   thread %d: %s at block %d for %s\n", r.words[wordThread], workerOpNames[r.words[wordWhat]], r.words[wordBlock],
				time.Duration(now-began).Round(time.Millisecond))
		}
	}
	for _, pattern := range []string{"sched/*", "hctx*/sched/*", "hctx*/state", "hctx*/dispatch", "hctx*/busy", "hctx*/tags", "requeue_list", "state"} {
		files, _ := filepath.Glob(filepath.Join(d.debug(), pattern)) // the patterns are right
		for _, file := range files {
			if text := get(file); text != "" && d.statistics(8) > 0 {
				fmt.Printf("HOSTILE   %s: %s\n", strings.TrimPrefix(file, d.debug()+"/"), tail(text, 30))
			}
		}
	}
}
