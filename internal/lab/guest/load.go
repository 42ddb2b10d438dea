// SPDX-License-Identifier: MIT

package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"isolio/internal/lab/guest/fio"
	"isolio/internal/lab/result"
)

// The start barrier. Every process of every fio, once it is set up, runs
// prerun's shell command: it writes a line to the FIFO "ready" and reads one
// from its container's own. The engine counts the lines of "ready", and
// releases a container by writing as many lines as it has processes. So fio's
// start-up, which is slow and unequal, is over before any clock starts.
// The engine holds both ends of each FIFO open: no reader sees an end of file.
//
// One fio starts after another: each finds out at its start how long a short
// sleep takes, the longest of ten, and later spins for so long before the end of
// any thinktime. Started together they found what they make each other wait,
// milliseconds of CPU for every request of a job that is there to need none.
const readyFIFO = "ready"

// prerun is a shell command for fio, which runs it in its working directory
// and redirects its last part's output.
func prerun(container string) string {
	return "echo ready >" + readyFIFO + "; read go <" + container + ".go"
}

// memberPrerun is prerun for one of a container's several: the shell and its
// parent, the job's process, first go to a cgroup of their own. Nothing but the
// fio that started them stays behind, which is frozen: a shell that did would never
// let its job go.
//
// From its new cgroup the shell reads a block of the disk. With a cgroup's first
// request the kernel makes what it keeps of the cgroup for that disk, without
// waiting for memory; where that fails, it is made at a later request, and until
// then requests are the parent's. It fails time and again while a thousand processes
// leave no CPU to the worker that provides the memory, and costs each request more
// than all the rest. So it is done now, while all is quiet.
func memberPrerun(container, procs, disk string) string {
	first := ""
	if disk != "" {
		first = "dd if=" + disk + " of=/dev/null bs=4k count=1 iflag=direct status=none && "
	}
	return "echo $$ >" + procs + " && echo $PPID >" + procs + " && " + first + prerun(container)
}

// process is one running fio, or a command in its place.
type process struct {
	job    Job
	cmd    *exec.Cmd
	gate   *os.File // its container's FIFO
	exited chan struct{}
	err    error // of Wait, once exited is closed
	// released and ended are when its load began, and when it exited.
	released, ended time.Time
	// interrupted is whether the engine stopped it.
	interrupted bool
}

// output is what a job's process reported: fio, or a command in its place.
type output struct {
	*fio.Output // an empty one for a command
	operations  *result.Direction
	finishMS    *float64 // of what came to its own end
}

// load runs the plan's jobs to their end and returns their outputs in order,
// and what was counted meanwhile.
func (e Env) load(ctx context.Context, p *Plan, report func(string, float64)) (outputs []output, counted window, err error) {
	dir, err := os.MkdirTemp("", "isolio-bench-")
	if err != nil {
		return nil, counted, err
	}
	defer func() { err = errors.Join(err, removeDir(dir)) }()
	ready, err := openFIFO(filepath.Join(dir, readyFIFO))
	if err != nil {
		return nil, counted, err
	}
	var running []*process
	defer func() {
		err = errors.Join(err, e.kill(running))
		ready.Close() // ends awaitReady's reader, if it is still there
		for _, r := range running {
			r.gate.Close()
		}
	}()
	defer func() { err = errors.Join(err, e.emptyPrograms(p)) }() // of a setup that failed
	if err = e.setUpPrograms(ctx, p, dir); err != nil {
		return nil, counted, err
	}
	lines := readyLines(ready, p.processes())
	for _, j := range p.Jobs {
		r, err := e.spawn(p, j, dir)
		if err != nil {
			return nil, counted, fmt.Errorf("container %s: %w", j.Name, err)
		}
		running = append(running, r)
		if err = e.awaitReady(ctx, running, lines, dir); err != nil {
			return nil, counted, err
		}
	}
	if err = errors.Join(p.settleFiles(), e.dropCaches(p)); err != nil {
		return nil, counted, err
	}
	if counted, err = e.await(ctx, running, p, dir, report); err != nil {
		return nil, counted, err
	}
	for i, r := range running {
		o, err := r.reported(dir, counted.span(i))
		if err != nil {
			return nil, counted, fmt.Errorf("container %s: %w", r.job.Name, err)
		}
		outputs = append(outputs, o)
	}
	return outputs, counted, nil
}

// reported is what the process says of its load, which must have ended.
func (r *process) reported(dir string, counted span) (o output, err error) {
	if r.job.Container.Program != nil {
		o.Output, o.finishMS = &fio.Output{}, r.finishMS()
		o.operations, err = r.operations(dir, counted)
		return o, err
	}
	if o.Output, err = r.output(dir); err == nil && r.job.Container.Job.Ends() && o.Ended {
		o.finishMS = &o.RuntimeMS
	}
	return o, err
}

func openFIFO(path string) (*os.File, error) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("mkfifo %s: %w", path, err)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// spawn starts a job's fio, or command, in its cgroup; it stops at the barrier.
func (e Env) spawn(p *Plan, j Job, dir string) (*process, error) {
	if j.Container.Program != nil {
		return e.spawnProgram(j, p.home(j), dir)
	}
	gate, err := openFIFO(filepath.Join(dir, j.Name+".go"))
	if err != nil {
		return nil, err
	}
	// Messages go to a file, not a pipe: fio's children keep it open, and
	// waiting for a pipe's end would be waiting for them.
	messages, err := os.Create(logOf(dir, j))
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
	return waited(j, cmd, gate), nil
}

// waited is a process that was started, and is waited for.
func waited(j Job, cmd *exec.Cmd, gate *os.File) *process {
	r := &process{job: j, cmd: cmd, gate: gate, exited: make(chan struct{})}
	go func() {
		r.err = cmd.Wait()
		r.ended = time.Now()
		close(r.exited)
	}()
	return r
}

// readyLines delivers the first total lines that come through the FIFO.
func readyLines(ready *os.File, total int) <-chan struct{} {
	lines := make(chan struct{}, total)
	go func() {
		in := bufio.NewScanner(ready)
		for n := 0; n < total && in.Scan(); n++ {
			lines <- struct{}{}
		}
	}()
	return lines
}

// awaitReady waits until the processes of the job that was started last are at
// the barrier.
func (e Env) awaitReady(ctx context.Context, running []*process, lines <-chan struct{}, dir string) error {
	started := running[len(running)-1]
	total := started.job.Processes()
	over := time.After(e.limits.ready)
	for n := 0; n < total; {
		select {
		case <-lines:
			n++
		case <-started.exited:
			return fmt.Errorf("container %s: %s ended before the load: %w", started.job.Name, started.name(), started.failure(dir))
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return fmt.Errorf("container %s: %s is not ready after %s: %d of %d processes are; it says: %s",
				started.job.Name, started.name(), e.limits.ready, n, total, messages(running, dir))
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

// await releases and stops the containers at their times, counts, and waits
// until all ended.
func (e Env) await(ctx context.Context, running []*process, p *Plan, dir string, report func(string, float64)) (counted window, err error) {
	if e.Outrank && p.mustOutrank() {
		undo, rankErr := outrank()
		if rankErr != nil {
			return counted, rankErr
		}
		defer func() { err = errors.Join(err, undo()) }()
	}
	actions := e.schedule(p, running, &counted)
	keeper, err := e.timekeeper(p)
	if err != nil {
		return counted, err
	}
	defer keeper.close()
	ended := firstExit(running)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	begin := time.Now()
	clock, err := monotonic()
	if err != nil {
		return counted, err
	}
	kept := make(chan error, 1)
	keeping := true
	keeperCtx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		if keeping {
			<-kept //nolint:errcheck // another error is being returned
		}
	}()
	go func() { kept <- keeper.run(keeperCtx, clock) }()
	over := time.After(p.Load + e.limits.slack)
	next := time.NewTimer(0)
	defer next.Stop()
	for left := len(running); left > 0 || len(actions) > 0 || keeping; {
		select {
		case err = <-kept:
			keeping = false
			if err != nil {
				return counted, err
			}
		case <-next.C:
			for len(actions) > 0 && time.Since(begin) >= actions[0].at {
				if err = actions[0].do(); err != nil {
					return counted, err
				}
				actions = actions[1:]
			}
			if len(actions) > 0 {
				next.Reset(actions[0].at - time.Since(begin))
			}
		case r := <-ended:
			left--
			if r.failed() {
				return counted, fmt.Errorf("container %s: %w", r.job.Name, r.failure(dir))
			}
		case <-ticker.C:
			elapsed := time.Since(begin)
			phase := PhaseMeasure
			if elapsed < p.Ramp {
				phase = PhaseRamp
			}
			report(phase, loadFraction+(1-loadFraction)*min(1, float64(elapsed)/float64(p.Load)))
		case <-ctx.Done():
			return counted, ctx.Err()
		case <-over:
			return counted, fmt.Errorf("%s did not end within %s after its %s and was killed; it says: %s",
				stillThere(running), e.limits.slack, p.Load, messages(running, dir))
		}
	}
	counted.keeper = keeper
	return counted, nil
}

// name is what runs, for messages.
func (r *process) name() string {
	if p := r.job.Container.Program; p != nil {
		return "command " + p.Command[0]
	}
	return "fio"
}

// stillThere names what has not exited: each command with its container; "fio" of all others.
func stillThere(running []*process) string {
	var names []string
	for _, r := range running {
		select {
		case <-r.exited:
			continue
		default:
		}
		name := r.name()
		if r.job.Container.Program != nil {
			name += " of container " + r.job.Name
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// release lets a container's processes go, all at once.
func (r *process) release() error {
	r.released = time.Now()
	_, err := r.gate.WriteString(strings.Repeat("\n", r.job.Processes()))
	return err
}

// interrupt has fio stop its load and report, if it is still there. A command is told to
// end, with its children, unless it comes to its own end.
func (r *process) interrupt() error {
	if p := r.job.Container.Program; p != nil {
		return r.terminate(p)
	}
	r.interrupted = true
	err := r.cmd.Process.Signal(syscall.SIGINT)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("container %s: stop fio: %w", r.job.Name, err)
	}
	return nil
}

// interruptedCode is fio's exit status after SIGINT.
const interruptedCode = 128

// failed reports whether fio, which must have exited, failed.
func (r *process) failed() bool {
	if p := r.job.Container.Program; p != nil {
		return !r.interrupted && (r.err != nil || !p.Ends)
	}
	stopped := r.interrupted && r.cmd.ProcessState.ExitCode() == interruptedCode
	return r.err != nil && !stopped
}

// output reads what fio measured. The process must have exited.
func (r *process) output(dir string) (*fio.Output, error) {
	text, err := os.ReadFile(filepath.Join(dir, r.job.Name+".json"))
	if err != nil {
		return nil, err
	}
	o, err := fio.Decode(text)
	if err == nil {
		o.Ended = r.cmd.ProcessState.ExitCode() == 0
	}
	return o, err
}

// failure says why fio ended as it did: its JSON knows, or else its messages.
func (r *process) failure(dir string) error {
	if r.job.Container.Program != nil {
		return r.programFailure(dir)
	}
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
		text, err := os.ReadFile(logOf(dir, r.job))
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

// kill ends all that the processes' cgroups hold, and waits until they hold
// nothing and the processes are gone. After a load that went well nothing is
// left to kill. fio's job processes leave its session and its process group,
// so only the cgroup has all.
func (e Env) kill(running []*process) error {
	var errs []error
	deadline := time.Now().Add(e.limits.killed)
	for _, r := range running {
		for _, group := range r.job.allGroups() {
			errs = append(errs, e.empty(r.job, group, deadline))
		}
	}
	over := time.After(time.Until(deadline))
	for _, r := range running {
		select {
		case <-r.exited:
		case <-over:
			return errors.Join(errs...) // empty said so already
		}
	}
	return errors.Join(errs...)
}

// killRetry is how often a cgroup's processes are looked for, and killed
// again: on old kernels a fork can escape the first time.
const killRetry = 10 * time.Millisecond

// allGroups are the cgroups that hold the job's processes.
func (j Job) allGroups() []string {
	if j.Container.Count == 0 {
		return j.Groups
	}
	return append([]string{j.Cgroup}, j.Groups...)
}

// emptyPrograms ends what commands' setups left running. After a load kill has done so.
func (e Env) emptyPrograms(p *Plan) error {
	var errs []error
	deadline := time.Now().Add(e.limits.killed)
	for _, j := range p.Jobs {
		if j.Container.Program != nil {
			errs = append(errs, e.empty(j, j.Cgroup, deadline))
		}
	}
	return errors.Join(errs...)
}

// empty kills what is in one of a job's cgroups until nothing is.
func (e Env) empty(j Job, group string, deadline time.Time) error {
	for {
		pids, err := e.procs(group)
		if err != nil {
			return fmt.Errorf("container %s: %w", j.Name, err)
		}
		if len(pids) == 0 {
			return nil
		}
		if err = e.Cgroups.Kill(group); err != nil {
			return fmt.Errorf("container %s: %w", j.Name, err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the load of %s (processes %v) is still there %s after it was killed: its disk may hang",
				j.Name, pids, e.limits.killed)
		}
		time.Sleep(killRetry)
	}
}

// removeDir removes a directory that a process which does not die may still
// write to.
func removeDir(dir string) error {
	var err error
	for range 50 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(killRetry)
	}
	return err
}
