// SPDX-License-Identifier: MIT

package guest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

func TestMustOutrank(t *testing.T) {
	for options, want := range map[string]bool{"": false, "0": false, "50": true} {
		job := experiment.Job{"ioengine": "aps"}
		if options != "" {
			job["sched_rr"] = options
		}
		p := &Plan{Jobs: []Job{{}, {Container: experiment.Container{Job: job}}}}
		if got := p.mustOutrank(); got != want {
			t.Errorf("sched_rr %q: %v, want %v", options, got, want)
		}
	}
	for count, want := range map[int]bool{0: false, 4: false, 1024: true} {
		p := &Plan{Jobs: []Job{{}, {Container: experiment.Container{Count: count}}}}
		if got := p.mustOutrank(); got != want {
			t.Errorf("%d containers: %v, want %v", count, got, want)
		}
	}
}

// The engine has its priority, what it starts does not, and it gives it back. Without
// the right to it, it says so.
func TestOutrank(t *testing.T) {
	policy := func(pid int) uint32 {
		attr, err := unix.SchedGetAttr(pid, 0)
		must.OK(t, err)
		return attr.Policy
	}
	undo, err := outrank()
	if errors.Is(err, unix.EPERM) {
		if !strings.Contains(err.Error(), "sched_rr") || !strings.Contains(err.Error(), "root") {
			t.Errorf("the error is %q: no word of what asked for it, or of who may", err)
		}
		return
	}
	must.OK(t, err)
	if got := policy(os.Getpid()); got != unix.SCHED_FIFO {
		t.Errorf("its policy is %d, want %d", got, unix.SCHED_FIFO)
	}
	child := exec.Command("sleep", "60")
	must.OK(t, child.Start())
	if got := policy(child.Process.Pid); got != unix.SCHED_NORMAL {
		t.Errorf("the policy of what it starts is %d, want %d", got, unix.SCHED_NORMAL)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	must.OK(t, undo())
	if got := policy(os.Getpid()); got != unix.SCHED_NORMAL {
		t.Errorf("its policy is %d at the end, want %d", got, unix.SCHED_NORMAL)
	}
}
