// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupEnv is set in a process that first joins a cgroup, to the cgroup, and
// execEnv in one that then executes its arguments. Only the process itself can
// do so: this one stands still from fork to exec, so that it could not thaw a
// frozen group in which the new process waits.
const (
	groupEnv = "HOSTILE_GROUP"
	execEnv  = "HOSTILE_EXEC"
)

// lowestPriority is the nice value of all loads.
const lowestPriority = 19

// join is the beginning of a load; the value is for os.Exit if it is not 0.
func join() int {
	group := os.Getenv(groupEnv)
	if group == "" {
		return 0
	}
	if err := put(filepath.Join(group, "cgroup.procs"), fmt.Sprint(os.Getpid())); err != nil {
		return exitNoGroup
	}
	// A hundred loads want two CPUs. What they are to disturb goes before them: the actors, the watcher, and
	// what the kernel does for these. With equal priority swapoff took minutes, and the watcher for a look.
	if err := unix.Setpriority(unix.PRIO_PGRP, 0, lowestPriority); err != nil {
		fmt.Println("setpriority:", err)
		return exitFailed
	}
	if os.Getenv(execEnv) == "" {
		return 0
	}
	program, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = syscall.Exec(program, os.Args[1:], []string{"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp"})
	}
	fmt.Println("exec:", err)
	return exitFailed
}

// keeper starts a load again and again: it may be killed, or its disk removed.
type keeper struct {
	w     *world
	d     *disk // nil for the memory hog
	name  string
	group func() string
	start func() *exec.Cmd
	// isAway keeps the load from being started.
	isAway atomic.Bool
	// judge says what was wrong with an end; "" is nothing.
	judge func(err error, output string) string

	mu  sync.Mutex
	cmd *exec.Cmd // nil while none runs
}

func (w *world) keep(k *keeper) {
	k.w = w
	w.keepers = append(w.keepers, k)
	w.loads.Go(func() {
		for !w.ending.Load() {
			if !k.isAway.Load() && (k.d == nil || k.d.present.Load()) {
				k.once()
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// once runs the load from start to end.
func (k *keeper) once() {
	var output bytes.Buffer
	cmd := k.start()
	cmd.Stdout, cmd.Stderr = &output, &output
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, groupEnv+"="+k.group())
	// A fio that is told to end before it knows a job's process ID sends the signal to
	// process 0, which is its whole process group.
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	k.mu.Lock()
	if k.w.ending.Load() || k.d != nil && !k.d.present.Load() {
		k.mu.Unlock()
		return
	}
	err := cmd.Start()
	if err == nil {
		k.cmd = cmd
	}
	k.mu.Unlock()
	if err != nil {
		k.w.fail("%s does not start: %v", k.name, err)
	}
	err = cmd.Wait()
	k.mu.Lock()
	k.cmd = nil
	k.mu.Unlock()
	if cmd.ProcessState.ExitCode() == exitNoGroup {
		return
	}
	k.w.count("loads", 1)
	if wrong := k.judge(err, output.String()); wrong != "" {
		k.w.fail("%s: %s\n%s", k.name, wrong, tail(output.String(), 20))
	}
}

// signal sends a signal to the load, if it runs.
func (k *keeper) signal(s os.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd != nil {
		_ = k.cmd.Process.Signal(s) // it may just have ended
	}
}

// end kills the load, and waits until it is gone. The caller has set isAway; a load that was about to
// start then is killed as well.
func (k *keeper) end() {
	const quiet = 5 // looks in a row that find none
	for none := 0; none < quiet; time.Sleep(50 * time.Millisecond) {
		k.signal(unix.SIGKILL)
		none++
		if k.pid() != 0 {
			none = 0
		}
	}
}

func (k *keeper) pid() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil {
		return 0
	}
	return k.cmd.Process.Pid
}

// startLoads starts all that keeps the disks busy: two verifying workers a
// disk and a fio, and what fills memory.
func (w *world) startLoads() {
	for i, d := range w.disks {
		if d.isSwap || len(d.regions) == 0 {
			continue
		}
		for part := range 2 {
			var regions []regionOrder
			for n := part; n < len(d.regions); n += 2 {
				regions = append(regions, d.regions[n].regionOrder)
			}
			w.keepWorker(d, regions, uint64(10*i+part))
		}
		if d.fioMiB > 0 {
			w.keepFio(d, uint64(1000+i))
		}
	}
	w.keep(&keeper{
		name: "memory hog", group: func() string { return filepath.Join(groupRoot, "memory") },
		start: func() *exec.Cmd {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), hogEnv+"=48")
			return cmd
		},
		judge: func(_ error, output string) string {
			if strings.Contains(output, "WRONG") {
				return "memory is not what it was"
			}
			return ""
		},
	})
}

func (w *world) random(salt uint64) *rand.Rand { return rand.New(rand.NewPCG(w.choice.Seed, salt)) }

func (w *world) keepWorker(d *disk, regions []regionOrder, salt uint64) {
	rng := w.random(salt)
	w.keep(&keeper{
		d: d, name: fmt.Sprintf("worker %d on %s", salt%10, d.name),
		group: func() string { return w.anyGroup(rng.Uint32()) },
		start: func() *exec.Cmd {
			return workerCommand(order{Device: d.path(), Regions: regions, Seed: rng.Uint64(), Pause: w.choice.Slower(120 * time.Millisecond)})
		},
		judge: func(err error, output string) string { return w.judgeWorker(d, err, output) },
	})
}

func workerCommand(o order) *exec.Cmd {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // an order has nothing that JSON lacks
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text), "GOMAXPROCS=2")
	return cmd
}

// judgeWorker judges a worker's end, and each error that it met.
func (w *world) judgeWorker(d *disk, err error, output string) string {
	errs := strings.Count(output, "ERROR ")
	w.count("io-errors", errs)
	if strings.Contains(output, "WRONG ") {
		return "wrong data"
	}
	if d.mayFail || d.mayError() {
		return "" // told apart by time, as far as it is known
	}
	if errs > 0 {
		return "an I/O error that was not injected"
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitGone && d.present.Load() {
		return "the disk is gone for the worker, and is there"
	}
	return ""
}

// fioJobs are what fio does, verified where the disk has no faults.
var fioJobs = []string{
	"--rw=randwrite --bs=4k --iodepth=32 --ioengine=libaio",
	"--rw=randrw --bsrange=4k-128k --iodepth=64 --ioengine=libaio --fsync=32",
	"--rw=write --bs=64k --iodepth=16 --ioengine=io_uring --fdatasync=16",
	"--rw=randrw --bs=8k --iodepth=128 --ioengine=io_uring",
	"--rw=randwrite --bs=4k --iodepth=8 --ioengine=libaio --sync=dsync",
	"--rw=randrw --bsrange=64k-1m --iodepth=16 --ioengine=libaio",
}

func (w *world) keepFio(d *disk, salt uint64) {
	rng := w.random(salt)
	w.keep(&keeper{
		d: d, name: "fio on " + d.name,
		group: func() string { return w.anyGroup(rng.Uint32()) },
		start: func() *exec.Cmd {
			args := []string{
				"--name=load", "--filename=" + d.path(), "--direct=1", "--thread", "--output-format=terse", "--randrepeat=1",
				fmt.Sprintf("--offset=%dm", d.fioFrom), fmt.Sprintf("--size=%dm", d.fioMiB), fmt.Sprintf("--io_size=%dm", 1+rng.IntN(8)),
				fmt.Sprint("--randseed=", rng.Uint32()), "--norandommap=0", "--allow_file_create=0", fmt.Sprint("--nice=", loadNice),
				// Bursts: the CPU is slow, and all have a part of it.
				fmt.Sprintf("--thinktime=%dms", w.choice.Slower(500*time.Millisecond).Milliseconds()), "--thinktime_blocks=64",
			}
			args = append(args, strings.Fields(fioJobs[rng.IntN(len(fioJobs))])...)
			if !d.mayFail {
				args = append(args, "--verify=crc32c", "--do_verify=1", "--verify_fatal=1")
			}
			cmd := exec.Command("/proc/self/exe", append([]string{"fio"}, args...)...)
			cmd.Env = append(os.Environ(), execEnv+"=1")
			return cmd
		},
		judge: func(err error, output string) string {
			var exit *exec.ExitError
			if err == nil || d.mayFail || d.mayError() || errors.As(err, &exit) && !exit.Exited() {
				return ""
			}
			// The limits of a cgroup may leave fio without memory.
			if strings.Contains(output, "Cannot allocate memory") {
				return ""
			}
			if strings.Contains(output, "terminating on signal") && !strings.Contains(output, "verify:") {
				return "" // the end of the run
			}
			if strings.Contains(output, "Resource temporarily unavailable") && !strings.Contains(output, "verify:") {
				// The kernel's own: what io_uring sends with REQ_NOWAIT and io.max
				// holds for a while fails where a worker of the kernel submits it.
				w.count("fio-again", 1)
				return ""
			}
			return "fio: " + err.Error()
		},
	})
}

// stopLoads ends all loads; it returns when all have ended.
func (w *world) stopLoads() {
	w.ending.Store(true)
	done := make(chan struct{})
	go func() { w.loads.Wait(); close(done) }()
	for {
		for _, k := range w.keepers {
			s := os.Signal(unix.SIGTERM)
			if k.d == nil {
				s = unix.SIGKILL
			}
			k.signal(s)
		}
		select {
		case <-done:
			return
		case <-time.After(time.Second):
		}
	}
}

// checkAll reads all regions of all disks.
func (w *world) checkAll() {
	for _, d := range w.disks {
		if len(d.regions) == 0 {
			continue
		}
		var regions []regionOrder
		for _, r := range d.regions {
			regions = append(regions, r.regionOrder)
		}
		output, err := workerCommand(order{Device: d.path(), Regions: regions, Check: true}).CombinedOutput()
		if err != nil || strings.Contains(string(output), "ERROR") {
			w.fail("%s: the last check of all data: %v\n%s", d.name, err, tail(string(output), 20))
		}
		w.count("blocks-checked-last", len(d.regions)*regionBlocks)
	}
}

// operations sums what workers did.
func (w *world) operations() (done, failed uint64) {
	for _, d := range w.disks {
		for _, r := range d.regions {
			done += atomic.LoadUint64(&r.words[wordDone])
			failed += atomic.LoadUint64(&r.words[wordErrors])
		}
	}
	return done, failed
}

// tail is the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
