// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"isolio/tests/hostile/script"
)

var errNothing = errors.New("there is nothing to do it to")

// schedulers are all that a disk may have.
var schedulers = append([]string{"none", "mq-deadline", "kyber", "bfq"}, own...)

// own are the project's.
var own = []string{"kyber-fairness", "rsd", "sfq"}

func doSwitch(w *world, a *actor, op script.Op) error {
	w.loading.RLock()
	defer w.loading.RUnlock()
	return a.put(pick(w.disks, op.A).queue("scheduler"), pick(schedulers, op.B))
}

func doRequests(w *world, a *actor, op script.Op) error {
	numbers := []uint32{0, 1, 2, 4, 5, 8, 16, 64, 256, 1024, 10000, 1 << 31}
	return a.put(pick(w.disks, op.A).queue("nr_requests"), fmt.Sprint(pick(numbers, op.B)))
}

// doQueues gives a null_blk another number of hardware queues while it runs.
func doQueues(w *world, a *actor, op script.Op) error {
	var disks []*disk
	for _, d := range w.disks {
		if d.config != "" && exists(filepath.Join(d.config, "submit_queues")) {
			disks = append(disks, d)
		}
	}
	d := pick(disks, op.A)
	if d == nil {
		return errNothing
	}
	if changesMeetSwitches {
		w.loading.Lock()
		defer w.loading.Unlock()
	}
	defer w.keepCPUs()()
	return a.put(filepath.Join(d.config, "submit_queues"), fmt.Sprint(1+op.B%2))
}

// changesMeetSwitches is set on kernels that let a scheduler start while the number of
// hardware queues changes, between its own switch to none and the new queues: these
// then have no tags, and the next request oopses in blk_mq_get_tag(), whatever the
// scheduler. Since 6.16 the two exclude each other.
var changesMeetSwitches = isOlderThan(6, 16)

// keepCPUs has all CPUs stay, until the function that it returns is called, where changing
// the number of hardware queues takes that.
func (w *world) keepCPUs() (end func()) {
	if !staysInactive {
		return func() {}
	}
	w.away.Lock()
	return w.away.Unlock
}

// staysInactive is set on kernels that use a hardware context again with the flag that its
// CPUs are away. It has the flag when these go, and keeps it when it is retired, as the number
// of hardware queues changes meanwhile. The next change may map CPUs that are there to it: a
// task on one of them then tries for ever to have a tag, with a reference to the queue held
// ("blk-mq: clear stale inactive flag on hctx reuse", in 6.12.117, not in 7.2.13).
var staysInactive = !isOlderThan(6, 13)

// garbage is what no file expects.
var garbage = []string{
	"", "\n", " ", "-1", "0", "18446744073709551615", "18446744073709551616", "-9223372036854775809", "0x", "1e9", "abc",
	"100\x00200", "default", "default -1", "default 18446744073709551616", "sums", "sum 100", "999:999 100", "0:0 1", "1 2 3 4 5 6 7 8 9", "rbps=", "\xff\xfe\xfd",
	strings.Repeat("9", 4000), strings.Repeat("a", 4095), strings.Repeat("1 ", 2000),
}

// doGarbage writes garbage to a file of the scheduler, the queue or a group.
func doGarbage(w *world, a *actor, op script.Op) error {
	var files []string
	switch d := pick(w.disks, op.A); op.C % 4 {
	case 0:
		files, _ = filepath.Glob(d.queue("iosched/*")) // the patterns here are right
	case 1:
		files = []string{d.queue("scheduler"), d.queue("nr_requests"), d.queue("io_timeout"), d.queue("read_ahead_kb"), d.queue("rq_affinity"), d.queue("nomerges")}
		if op.C>>2%6 == 2 {
			files = files[:2] // a valid timeout would change what is lawful
		}
	default:
		dir := pick(everyGroup(), op.A)
		for _, file := range weightFiles {
			files = append(files, filepath.Join(dir, file))
		}
		files = append(files, filepath.Join(dir, "io.max"))
	}
	file := pick(files, op.C>>8)
	if file == "" || strings.HasSuffix(file, "io_timeout") || isLeftOut(file) {
		return errNothing
	}
	return a.put(file, pick(garbage, op.B))
}

func doMake(_ *world, a *actor, op script.Op) error {
	dir := filepath.Join(groupRoot, pick(groupNames, op.A))
	a.doing.Store("make " + dir)
	return os.Mkdir(dir, 0o755)
}

func doRemove(w *world, a *actor, op script.Op) error {
	dir := filepath.Join(groupRoot, pick(groupNames, op.A))
	a.doing.Store("remove " + dir)
	if !exists(dir) {
		return errNothing
	}
	return w.removeGroup(dir)
}

func doMove(w *world, a *actor, op script.Op) error {
	k := pick(w.keepers, op.A)
	if k.d == nil {
		return errNothing // the hog stays where its memory is limited
	}
	pid := k.pid()
	if pid == 0 {
		return errNothing
	}
	return a.put(filepath.Join(w.anyGroup(op.B), "cgroup.procs"), strconv.Itoa(pid))
}

func doFreeze(w *world, a *actor, op script.Op) error {
	file := filepath.Join(w.anyGroup(op.A), "cgroup.freeze")
	err := a.put(file, "1")
	a.sleep(time.Duration(op.B%500) * time.Millisecond)
	return errors.Join(err, a.put(file, "0"))
}

func doKill(w *world, a *actor, op script.Op) error {
	return a.put(filepath.Join(w.anyGroup(op.A), "cgroup.kill"), "1")
}

var weightFiles = []string{"io.kyber.weight", "io.bfq.weight", "io.weight"}

func doWeight(w *world, a *actor, op script.Op) error {
	dir := pick(everyGroup(), op.A)
	weights := []string{"1", "2", "10", "50", "100", "100", "200", "500", "1000", "10000", "sum", "sum"}
	value := pick(weights, op.B)
	switch op.C % 4 {
	case 0:
		value = pick(w.disks, op.C>>4).number() + " " + value
	case 1:
		value = pick(w.disks, op.C>>4).number() + " default"
	case 2:
		value = "default " + value
	}
	return a.put(filepath.Join(dir, pick(weightFiles, op.C>>2)), value)
}

// doMax limits a group on a disk, or lifts the limit: limits that every
// operation of a worker keeps to in a second or so.
func doMax(w *world, a *actor, op script.Op) error {
	limit := "rbps=max wbps=max riops=max wiops=max"
	if op.B%2 == 0 {
		limit = fmt.Sprintf("rbps=%d wbps=%d riops=%d wiops=%d", 1<<20+op.C%(1<<20), 1<<20+op.C%(1<<21), 100+op.C%400, 100+op.C%900)
	}
	d := pick(w.disks, op.B>>1)
	if loopsAtRemoval {
		if !d.mu.TryLock() {
			return errNothing
		}
		defer d.mu.Unlock()
	}
	return a.put(filepath.Join(pick(everyGroup(), op.A), "io.max"), d.number()+" "+limit)
}

// loopsAtRemoval is set on kernels whose blk-throttle, when a disk goes, puts the groups
// among those that wait which do not, and takes the first of these for ever if another does
// (blk_throtl_cancel_bios() of 6.1; 6.12 leaves them out). There io.max throttles nothing
// when a disk goes.
var loopsAtRemoval = isOlderThan(6, 12)

// liftMax lifts all limits that io.max has for the disk.
func liftMax(d *disk) {
	for _, dir := range everyGroup() {
		_ = put(filepath.Join(dir, "io.max"), d.number()+" rbps=max wbps=max riops=max wiops=max")
	}
}

func doCost(w *world, a *actor, op script.Op) error {
	number := pick(w.disks, op.A).number()
	if op.B%2 == 0 {
		return a.put(filepath.Join(cgroupRoot, "io.cost.qos"), number+" enable=0")
	}
	err := a.put(filepath.Join(cgroupRoot, "io.cost.model"), number+" ctrl=user model=linear rbps=200000000 rseqiops=50000 rrandiops=40000 wbps=200000000 wseqiops=50000 wrandiops=40000")
	return errors.Join(err, a.put(filepath.Join(cgroupRoot, "io.cost.qos"), number+" enable=1 ctrl=user rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00"))
}

// doPriority gives a load another I/O priority: best effort or idle, level 0 to
// 7. Not real time: bfq serves nothing else while such a load has requests.
func doPriority(w *world, a *actor, op script.Op) error {
	pid := pick(w.keepers, op.A).pid()
	if pid == 0 {
		return errNothing
	}
	a.doing.Store("ioprio_set")
	for _, task := range list(fmt.Sprintf("/proc/%d/task/*", pid)) {
		tid, err := strconv.Atoi(filepath.Base(task))
		if err != nil {
			return err
		}
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, 1, uintptr(tid), uintptr(2+op.B%2)<<13|uintptr(op.C%8)) // it may just have ended
	}
	return nil
}

func list(pattern string) []string {
	files, _ := filepath.Glob(pattern) // patterns here are right
	return files
}

// doTunable writes a number near one that is there, or an extreme one.
func doTunable(w *world, a *actor, op script.Op) error {
	d := pick(w.disks, op.A)
	file := pick(list(d.queue("iosched/*")), op.B)
	if file == "" || isLeftOut(file) {
		return errNothing
	}
	_, active := d.schedulers()
	w.mu.Lock()
	usual := w.defaults[active+"/"+filepath.Base(file)]
	w.mu.Unlock()
	number, err := strconv.ParseUint(usual, 10, 63)
	values := []string{usual, usual, "0", "1", "2", "4294967295", "9223372036854775807"}
	if err == nil {
		values = append(values, fmt.Sprint(number*2), fmt.Sprint(number/2), fmt.Sprint(number+1), fmt.Sprint(number*10))
	}
	return a.put(file, pick(values, op.C))
}

// isLeftOut tells of a file that must not be written: bfq's low_latency has it look at all
// cgroups of the disk, also at those that were deleted before it was chosen and are still in the
// disk's list, for which it has no data since blkcg_activate_policy() leaves them out. 7.2 oopses
// in bfq_end_wr_async_queues().
func isLeftOut(file string) bool {
	return filepath.Base(file) == "low_latency" && !isOlderThan(6, 13)
}

func doReadQueue(w *world, a *actor, op script.Op) error {
	d := pick(w.disks, op.A)
	files := append(list(d.queue("*")), list(d.queue("iosched/*"))...)
	files = append(files, list(d.sys("mq/*/*"))...)
	files = append(files, d.sys("stat"), d.sys("inflight"), "/proc/diskstats")
	return a.reads(pick(files, op.B))
}

func doReadDebug(w *world, a *actor, op script.Op) error {
	d := pick(w.disks, op.A)
	var files []string
	for _, pattern := range []string{"sched/*", "hctx*/sched/*", "*", "hctx*/*", "rqos/*/*"} {
		files = append(files, list(filepath.Join(d.debug(), pattern))...)
	}
	file := pick(files, op.B)
	if file == "" {
		return errNothing
	}
	if !d.mayRead(file) {
		return errExcluded
	}
	if !isOfScheduler(file) {
		return a.reads(file)
	}
	defer w.holdModules()()
	return a.reads(file)
}

// holdModules keeps the kernel's own modules where they are until release is called, while a debugfs file
// of a scheduler is open; see unload.
func (w *world) holdModules() (release func()) {
	w.unloading.RLock()
	return w.unloading.RUnlock
}

// unload unloads a scheduler's module. Of the kernel's own it waits until no task has a debugfs file of a
// scheduler open: when the last one closes it, the block layer looks at what the module had of it, and
// that is an oops if the module is gone. A task that was forked has the reader's file open until it
// executes its program.
func (w *world) unload(scheduler, module string) error {
	if slices.Contains(own, scheduler) {
		return unix.DeleteModule(module, unix.O_NONBLOCK)
	}
	w.unloading.Lock()
	defer w.unloading.Unlock()
	for hasOpen("/sys/kernel/debug/block/*/sched/*") || hasOpen("/sys/kernel/debug/block/*/hctx*/sched/*") {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // what is no longer in a table of files may still be about to be closed
	return unix.DeleteModule(module, unix.O_NONBLOCK)
}

// hasOpen reports whether a task has a file open whose name matches, one that was removed as well.
func hasOpen(pattern string) bool {
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is right
	return slices.ContainsFunc(fds, func(fd string) bool {
		name, err := os.Readlink(fd)
		if err != nil {
			return false // it was just closed
		}
		isMatch, _ := filepath.Match(pattern, strings.TrimSuffix(name, " (deleted)")) // the patterns are right
		return isMatch
	})
}

// isOfScheduler tells the debugfs files that a scheduler has.
func isOfScheduler(file string) bool { return filepath.Base(filepath.Dir(file)) == "sched" }

var errExcluded = errors.New("left out for a fault of the kernel's own")

// mayRead leaves out debugfs files of the kernel's own schedulers: since 6.16
// they go only after the scheduler has, and reading one meanwhile is an oops.
func (d *disk) mayRead(file string) bool {
	if !isOfScheduler(file) {
		return true
	}
	_, active := d.schedulers()
	return slices.Contains(own, active)
}

func doReadGroup(_ *world, a *actor, op script.Op) error {
	dir := pick(append(everyGroup(), cgroupRoot), op.A)
	file := pick(append(list(filepath.Join(dir, "io.*")), list(filepath.Join(dir, "memory.*"))...), op.B)
	if file == "" {
		return errNothing
	}
	return a.reads(file)
}

// doPoke has the block layer run a disk's queues.
func doPoke(w *world, a *actor, op script.Op) error {
	return a.put(filepath.Join(pick(w.disks, op.A).debug(), "state"), pick([]string{"run", "start", "kick"}, op.B))
}

// doCPU takes a CPU away for a while.
func doCPU(w *world, a *actor, op script.Op) error {
	file := pick(list("/sys/devices/system/cpu/cpu[1-9]*/online"), op.A)
	if file == "" {
		return errNothing
	}
	defer w.keepCPUs()()
	err := a.put(file, "0")
	a.sleep(time.Duration(op.B%1000) * time.Millisecond)
	return errors.Join(err, a.put(file, "1"))
}
