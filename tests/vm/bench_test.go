// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// benchOf is an experiment that goes on until it is ended.
const benchOf = `name = "ended"
question = "Is all taken back?"
schedulers = ["bfq"]
duration_s = 600
nr_requests = 128
[device]
kind = "null_blk"
completion_us = 1000
tags = 16
[job]
rw = "randread"
ioengine = "libaio"
direct = 1
bs = 4096
iodepth = 4
[[container]]
name = "a"
weight = 300
[[container]]
name = "b"
weight = 100
`

// isBusy reports whether a disk cannot be had by a program that wants it for itself, as
// mount and mkfs do.
func isBusy(t *testing.T, d *disk) bool {
	t.Helper()
	fd, err := unix.Open("/dev/"+d.name, unix.O_RDONLY|unix.O_EXCL, 0)
	if err == nil {
		must(t, unix.Close(fd))
		return false
	}
	if !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	return true
}

// `isolio bench` takes back what it changed however it ends: by itself after a signal, by
// the process that waits for its end after SIGKILL, and with --recover where that one was
// killed as well. While its load runs the disk is held.
func TestBenchIsTakenBack(t *testing.T) {
	watchLog(t)
	file := filepath.Join(t.TempDir(), "ended.toml")
	must(t, os.WriteFile(file, []byte(benchOf), 0o644))
	t.Setenv("TMPDIR", t.TempDir()) // where the bench has its own
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
		both   bool
	}{
		{name: "hangup", signal: unix.SIGHUP},
		{name: "term", signal: unix.SIGTERM},
		{name: "kill", signal: unix.SIGKILL},
		{name: "kill both", signal: unix.SIGKILL, both: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDisk(t, busyDisk)
			d.use(t, "mq-deadline")
			for name, value := range map[string]string{"nr_requests": "48", "read_ahead_kb": "64", "iosched/read_expire": "80"} {
				write(t, d.queue(name), value)
			}
			before := stateOf(t, d)
			cmd := exec.Command("isolio", "bench", file, "--device", d.name)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			must(t, cmd.Start())
			group := filepath.Join(cgroupRoot, "isolio-ended/a")
			for tries := 0; !exists(group) || readBytes(t, group, d) == 0; tries++ {
				if tries == 1000 {
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
					t.Fatalf("the bench does no I/O: %s", said.String())
				}
				time.Sleep(20 * time.Millisecond)
			}
			if !isBusy(t, d) {
				t.Error("while load runs, another program can have the disk for itself")
			}
			if d.scheduler(t) != "bfq" {
				t.Errorf("the scheduler is %s", d.scheduler(t))
			}
			if tt.both {
				must(t, unix.Kill(attendant(t), unix.SIGKILL))
			}
			must(t, cmd.Process.Signal(tt.signal))
			err := cmd.Wait() // returns when its output is closed: the attendant has it open, too
			if err == nil {
				t.Errorf("it succeeds: %s", said.String())
			}
			switch {
			case tt.both:
				killedBench(t, d, file, group)
			case tt.signal == unix.SIGKILL:
				takenBack(t, d, said.String(), group)
			}
			if now := stateOf(t, d); now != before {
				t.Errorf("the disk has\n%s\nand had\n%s\nsaid: %s", now, before, said.String())
			}
			for _, left := range []string{filepath.Dir(group), filepath.Join("/run/isolio/bench", d.name+".json")} {
				if exists(left) {
					t.Errorf("%s is left; said: %s", left, said.String())
				}
			}
			if left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); err != nil || len(left) > 0 {
				t.Errorf("left: %q, %v", left, err)
			}
			if isBusy(t, d) {
				t.Error("the disk is held still")
			}
		})
	}
}

// killedBench is what a bench that was killed leaves, and what then takes it back.
func killedBench(t *testing.T, d *disk, file, group string) {
	t.Helper()
	before := readBytes(t, group, d)
	time.Sleep(200 * time.Millisecond)
	if readBytes(t, group, d) == before || d.scheduler(t) != "bfq" {
		t.Error("nothing is left that could be taken back")
	}
	if _, stderr, code := isolio(t, "bench", file, "--device", d.name); code != 2 || !strings.Contains(stderr, "isolio bench --recover") && !strings.Contains(stderr, "(fio) has it open") {
		t.Errorf("another one begins: exit status %d, %q", code, stderr)
	}
	plan := succeeds(t, "bench", "--recover", "--dry-run")
	if d.scheduler(t) != "bfq" || !strings.Contains(plan, "queue/scheduler") {
		t.Errorf("--dry-run prints %q", plan)
	}
	takenBack(t, d, succeeds(t, "bench", "--recover"), group)
	if out := succeeds(t, "bench", "--recover"); !strings.Contains(out, "nothing to take back") {
		t.Errorf("once more: %s", out)
	}
}

// takenBack checks what is said of a bench's changes that another process took back.
func takenBack(t *testing.T, d *disk, said, group string) {
	t.Helper()
	t.Logf("taken back:\n%s", said)
	for _, want := range []string{"ended the processes in " + group, "removed the cgroup " + group, d.name + ": scheduler mq-deadline, was bfq", "iosched/read_expire 80"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q", want)
		}
	}
}

// attendant is the process that waits for the end of the bench.
func attendant(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range files {
		words, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(words, []byte("\x00--attend\x00")) {
			continue // it has gone, or is another
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		must(t, err)
		return pid
	}
	t.Fatal("no process waits for the end of the bench")
	return 0
}

// scheduler is the disk's.
func (d *disk) scheduler(t *testing.T) string {
	t.Helper()
	_, active := d.schedulers(t)
	return active
}

// stateOf are the disk's settings that a bench may change.
func stateOf(t *testing.T, d *disk) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("scheduler " + d.scheduler(t) + "\n")
	own, err := filepath.Glob(d.queue("iosched/*"))
	must(t, err)
	for _, name := range append([]string{d.queue("nr_requests"), d.queue("read_ahead_kb"), d.queue("wbt_lat_usec"), d.queue("rq_affinity")}, own...) {
		if text, err := os.ReadFile(name); err == nil {
			b.WriteString(strings.TrimPrefix(name, d.queue("")) + " " + string(text))
		}
	}
	return b.String()
}
