// SPDX-License-Identifier: MIT

package guest

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"isolio/internal/lab/experiment"
)

// Loads with a real-time priority leave what has none a twentieth of the CPU, in one
// piece a second. A thousand containers leave it a turn every ten seconds: the
// timekeeper's thread has a priority of its own, but when it has made a system call it
// may have to wait for another thread of this program, which has none. The engine opens
// and closes its window on time all the same: while such loads run its threads have the
// highest priority of all, which no load may have.
const enginePriority = experiment.MaxRealtime + 1

// manyContainers is as many containers of a kind as keep the engine waiting.
const manyContainers = 16

// mustOutrank reports whether a job of the plan has a real-time priority, or there are
// very many of them.
func (p *Plan) mustOutrank() bool {
	for _, j := range p.Jobs {
		if j.Container.Job.Count("sched_rr", 0) > 0 || j.Container.Count >= manyContainers {
			return true
		}
	}
	return false
}

// outrank gives the engine's threads their priority, and undo takes it away.
// Whatever they start has none.
func outrank() (undo func() error, err error) {
	undo = func() error { return setPolicy(&unix.SchedAttr{Policy: unix.SCHED_NORMAL}) }
	err = setPolicy(&unix.SchedAttr{
		Policy:   unix.SCHED_FIFO,
		Priority: enginePriority,
		Flags:    unix.SCHED_FLAG_RESET_ON_FORK,
	})
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

// setPolicy changes how each thread of this process is scheduled.
func setPolicy(attr *unix.SchedAttr) error {
	const tasks = "/proc/self/task"
	attr.Size = unix.SizeofSchedAttr
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return fmt.Errorf("%s: %w", tasks, err)
		}
		if err = unix.SchedSetAttr(id, attr, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("give the engine a priority above loads with sched_rr (thread %d): %w; it takes root", id, err)
		}
	}
	return nil
}
