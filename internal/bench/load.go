// SPDX-License-Identifier: MIT

package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"isolio/internal/fio"
)

// The start barrier. Every process of every fio, once it is set up, runs
// prerun's shell command: it writes a line to the FIFO "ready" and reads one
// from its container's own. The engine counts the lines of "ready", and
// releases a container by writing as many lines as it has processes. So fio's
// start-up, which is slow and unequal, is over before any clock starts.
// The engine holds both ends of each FIFO open: nobody sees an end of file.
const readyFIFO = "ready"

// prerun is a shell command for fio, which runs it in its working directory
// and redirects its last part's output.
func prerun(container string) string {
	return "echo ready >" + readyFIFO + "; read go <" + container + ".go"
}

// process is one running fio.
type process struct {
	job    Job
	cmd    *exec.Cmd
	gate   *os.File // its container's FIFO
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// load runs the plan's jobs to their end and returns their outputs in order.
func (e Env) load(ctx context.Context, p *Plan, ramp time.Duration, report func(string, float64)) (outputs []*fio.Output, err error) {
	dir, err := os.MkdirTemp("", "isolio-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ready, err := openFIFO(filepath.Join(dir, readyFIFO))
	if err != nil {
		return nil, err
	}
	var running []*process
	defer func() {
		err = errors.Join(err, e.kill(running))
		ready.Close() // ends awaitReady's reader, if it is still there
		for _, r := range running {
			r.gate.Close()
		}
	}()
	total := 0
	for _, j := range p.Jobs {
		r, err := e.spawn(j, dir)
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", j.Name, err)
		}
		running = append(running, r)
		total += j.Processes()
	}
	if err = e.awaitReady(ctx, running, ready, total, dir); err != nil {
		return nil, err
	}
	if err = e.await(ctx, running, p.Load, ramp, dir, report); err != nil {
		return nil, err
	}
	for _, r := range running {
		o, err := r.output(dir)
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", r.job.Name, err)
		}
		outputs = append(outputs, o)
	}
	return outputs, nil
}

func openFIFO(path string) (*os.File, error) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("mkfifo %s: %w", path, err)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// spawn starts a job's fio in its cgroup; it stops at the barrier.
func (e Env) spawn(j Job, dir string) (*process, error) {
	gate, err := openFIFO(filepath.Join(dir, j.Name+".go"))
	if err != nil {
		return nil, err
	}
	// Messages go to a file, not a pipe: fio's children keep it open, and
	// waiting for a pipe's end would be waiting for them.
	messages, err := os.Create(filepath.Join(dir, j.Name+".log"))
	if err != nil {
		gate.Close()
		return nil, err
	}
	defer messages.Close()
	cmd := exec.Command(e.Fio, j.Args(j.Name+".json")...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, messages, messages
	if err = e.start(cmd, j.Cgroup); err != nil {
		gate.Close()
		return nil, fmt.Errorf("start fio: %w", err)
	}
	r := &process{job: j, cmd: cmd, gate: gate, exited: make(chan struct{})}
	go func() {
		r.err = cmd.Wait()
		close(r.exited)
	}()
	return r, nil
}

// awaitReady waits until total lines came through the FIFO.
func (e Env) awaitReady(ctx context.Context, running []*process, ready *os.File, total int, dir string) error {
	lines := make(chan struct{}, total)
	go func() {
		in := bufio.NewScanner(ready)
		for n := 0; n < total && in.Scan(); n++ {
			lines <- struct{}{}
		}
	}()
	over := time.After(e.limits.ready)
	ended := firstExit(running)
	for n := 0; n < total; {
		select {
		case <-lines:
			n++
		case r := <-ended:
			return fmt.Errorf("container %s: fio ended before the load: %w", r.job.Name, r.failure(dir))
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return fmt.Errorf("fio is not ready after %s: %d of %d processes are; it says: %s",
				e.limits.ready, n, total, messages(running, dir))
		}
	}
	return nil
}

// firstExit delivers each process as it exits.
func firstExit(running []*process) <-chan *process {
	ended := make(chan *process, len(running))
	for _, r := range running {
		go func() {
			<-r.exited
			ended <- r
		}()
	}
	return ended
}

// tick is how often progress is reported while the load runs.
const tick = 500 * time.Millisecond

// await releases the containers at their times and waits until all ended.
func (e Env) await(ctx context.Context, running []*process, load, ramp time.Duration, dir string, report func(string, float64)) error {
	begin := time.Now()
	gates := make(chan *process, len(running))
	for _, r := range running {
		if r.job.Start == 0 {
			if err := r.release(); err != nil {
				return err
			}
			continue
		}
		timer := time.AfterFunc(r.job.Start, func() { gates <- r })
		defer timer.Stop()
	}
	ended := firstExit(running)
	over := time.After(load + e.limits.slack)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for left := len(running); left > 0; {
		select {
		case r := <-gates:
			if err := r.release(); err != nil {
				return err
			}
		case r := <-ended:
			left--
			if r.err != nil {
				return fmt.Errorf("container %s: %w", r.job.Name, r.failure(dir))
			}
		case <-ticker.C:
			elapsed := time.Since(begin)
			phase := PhaseMeasure
			if elapsed < ramp {
				phase = PhaseRamp
			}
			report(phase, loadFraction+(1-loadFraction)*min(1, float64(elapsed)/float64(load)))
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return fmt.Errorf("fio did not end within %s after its %s and was killed; it says: %s",
				e.limits.slack, load, messages(running, dir))
		}
	}
	return nil
}

// release lets a container's processes go, all at once.
func (r *process) release() error {
	_, err := r.gate.WriteString(strings.Repeat("\n", r.job.Processes()))
	return err
}

// output reads what fio measured. The process must have exited.
func (r *process) output(dir string) (*fio.Output, error) {
	text, err := os.ReadFile(filepath.Join(dir, r.job.Name+".json"))
	if err != nil {
		return nil, err
	}
	return fio.Decode(text)
}

// failure says why fio ended as it did: its JSON knows, or else its messages.
func (r *process) failure(dir string) error {
	if _, err := r.output(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	says := messages([]*process{r}, dir)
	if r.err == nil {
		return fmt.Errorf("fio exited without an error; it says: %s", says)
	}
	return fmt.Errorf("fio: %w; it says: %s", r.err, says)
}

// messages are the last words of the processes' standard error.
func messages(running []*process, dir string) string {
	const limit = 400
	var all []string
	for _, r := range running {
		text, err := os.ReadFile(filepath.Join(dir, r.job.Name+".log"))
		if err != nil {
			continue
		}
		words := strings.Join(strings.Fields(string(text)), " ")
		if len(words) > limit {
			words = "..." + words[len(words)-limit:]
		}
		if words != "" {
			all = append(all, r.job.Name+": "+words)
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, "; ")
}

// kill ends every process that is still there, with all that it started, and
// waits until it is gone.
func (e Env) kill(running []*process) error {
	var errs []error
	for _, r := range running {
		select {
		case <-r.exited:
			if r.err == nil {
				continue // fio waits for its own children
			}
		default:
		}
		// fio's job processes leave its session, so only their cgroup has all.
		errs = append(errs, e.Cgroups.Kill(r.job.Cgroup))
		if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, fmt.Errorf("kill fio of %s: %w", r.job.Name, err))
		}
	}
	over := time.After(e.limits.killed)
	for _, r := range running {
		select {
		case <-r.exited:
		case <-over:
			return errors.Join(append(errs, fmt.Errorf("fio of %s (process %d) is still there %s after it was killed: its disk may hang",
				r.job.Name, r.cmd.Process.Pid, e.limits.killed))...)
		}
	}
	return errors.Join(errs...)
}
