// SPDX-License-Identifier: MIT

package guest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
	"isolio/internal/plan/shell"
)

// Commands in place of fio. Each runs in a directory of its own on the case's file system, as
// the user `nobody`: the experiment's file decides what it does, and it needs no root. Its
// shell waits at the barrier and becomes the command when it is released.

// nobody is the user and the group that commands run as.
const nobody = 65534

// programBarrier is the shell's part: it has the FIFO "ready" as file 3 and its
// container's as file 4.
const programBarrier = `echo ready >&3; read go <&4; exec 3>&- 4<&-; exec "$@"`

// home is the directory of a container's command.
func (p *Plan) home(j Job) string { return filepath.Join(p.mounted, j.Name) }

// program fills in cmd what all of a container's commands have in common. Their output
// goes to a file: what they leave running may keep it open.
func (e Env) program(cmd *exec.Cmd, home string, out *os.File) {
	cmd.Dir, cmd.Stdout, cmd.Stderr = home, out, out
	cmd.Env = append(os.Environ(), "HOME="+home, "PWD="+home, "LC_ALL=C")
	// A group of its own: the shell's children are stopped with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: e.user}
}

// setUpPrograms makes each command's directory and runs its setup. It is done for all
// before any load is there, one after another.
func (e Env) setUpPrograms(ctx context.Context, p *Plan, dir string) error {
	for _, j := range p.Jobs {
		if j.Container.Program == nil {
			continue
		}
		if err := e.setUpProgram(ctx, j, p.home(j), filepath.Join(dir, j.Name+".setup.log")); err != nil {
			return fmt.Errorf("container %s: %w", j.Name, err)
		}
	}
	return nil
}

func (e Env) setUpProgram(ctx context.Context, j Job, home, log string) error {
	for _, words := range j.Container.Program.All() {
		if _, err := exec.LookPath(words[0]); err != nil {
			return fmt.Errorf("command %s: %w", words[0], err)
		}
	}
	if err := os.Mkdir(home, 0o755); err != nil {
		return err
	}
	if e.user != nil {
		if err := os.Chown(home, int(e.user.Uid), int(e.user.Gid)); err != nil {
			return err
		}
	}
	for _, words := range j.Container.Program.Setup {
		if err := e.setUp(ctx, j, words, home, log); err != nil {
			return fmt.Errorf("setup %s: %w; it says: %s", commandLine(words), err, lastLines(log))
		}
	}
	return nil
}

// setUp runs one command of a setup to its end.
func (e Env) setUp(ctx context.Context, j Job, words []string, home, log string) error {
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(words[0], words[1:]...)
	e.program(cmd, home, out)
	if err = e.start(cmd, j.Cgroup); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(e.limits.setup):
		err = fmt.Errorf("did not end within %s", e.limits.setup)
	}
	err = errors.Join(err, e.empty(j, j.Cgroup, time.Now().Add(e.limits.killed)))
	<-ended //nolint:errcheck // it was killed, and err says why
	return err
}

// dropCaches has the kernel forget what setups left in its caches: a load that reads
// begins with the disk, as fio's do. It is for runs with commands alone.
func (e Env) dropCaches(p *Plan) error {
	if !p.hasPrograms() {
		return nil
	}
	return os.WriteFile(e.System.Path("proc/sys/vm/drop_caches"), []byte("3"), 0o200)
}

// hasPrograms reports whether any container runs a command.
func (p *Plan) hasPrograms() bool {
	return slices.ContainsFunc(p.Jobs, func(j Job) bool { return j.Container.Program != nil })
}

// spawnProgram starts a container's command; its shell stops at the barrier.
func (e Env) spawnProgram(j Job, home, dir string) (r *process, err error) {
	gate, err := openFIFO(filepath.Join(dir, j.Name+".go"))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			gate.Close()
		}
	}()
	// Its own ends of the FIFOs: those of the engine do not block.
	ready, err := os.OpenFile(filepath.Join(dir, readyFIFO), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	release, err := os.OpenFile(gate.Name(), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer release.Close()
	out, err := os.Create(logOf(dir, j))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	words := j.Container.Program.Command
	cmd := exec.Command("/bin/sh", slices.Concat([]string{"-c", programBarrier, words[0]}, words)...)
	e.program(cmd, home, out)
	cmd.ExtraFiles = []*os.File{ready, release}
	if err = e.start(cmd, j.Cgroup); err != nil {
		return nil, fmt.Errorf("start %s: %w", words[0], err)
	}
	return waited(j, cmd, gate), nil
}

// terminate has a command and its children end, if they are still there.
func (r *process) terminate(p *experiment.Program) error {
	if p.Ends {
		return nil
	}
	select {
	case <-r.exited: // too early: await says so
		return nil
	default:
	}
	r.interrupted = true
	err := syscall.Kill(-r.cmd.Process.Pid, syscall.SIGTERM)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("container %s: stop %s: %w", r.job.Name, p.Command[0], err)
	}
	return nil
}

// programFailure says why a command ended as it did.
func (r *process) programFailure(dir string) error {
	state := "exited with status 0"
	if r.err != nil {
		state = r.err.Error()
	}
	early := ""
	if !r.job.Container.Program.Ends {
		early = " before it was stopped"
	}
	return fmt.Errorf("command %s ended%s: %s; it says: %s", commandLine(r.job.Container.Program.Command), early, state, lastLines(logOf(dir, r.job)))
}

// finishMS is how long the command ran, in milliseconds, if it came to its own end.
func (r *process) finishMS() *float64 {
	if !r.job.Container.Program.Ends {
		return nil
	}
	return new(float64(r.ended.Sub(r.released).Microseconds()) / 1e3)
}

// span is a time that is counted.
type span struct{ from, to time.Time }

func (s span) seconds() float64 { return s.to.Sub(s.from).Seconds() }

// operations are what a command says of itself, nil where nothing is read from it.
func (r *process) operations(dir string, counted span) (*result.Direction, error) {
	out := &r.job.Container.Program.Output
	if !out.Measures() {
		return nil, nil
	}
	text, err := os.ReadFile(logOf(dir, r.job))
	if err != nil {
		return nil, err
	}
	d, err := readOperations(out, string(text), counted, span{r.released, r.ended})
	if err != nil {
		return nil, fmt.Errorf("command %s: %w; it says: %s", commandLine(r.job.Container.Program.Command), err, lastLines(logOf(dir, r.job)))
	}
	return d, nil
}

// readOperations reads figures from what a command printed. Operations that say when they
// ended are those of the counted time, others those of the whole time that it ran.
func readOperations(out *experiment.Output, text string, counted, ran span) (*result.Direction, error) {
	d := &result.Direction{}
	if out.PerS != "" {
		perS, err := lastNumber(out.PerS, text)
		if err != nil {
			return nil, fmt.Errorf("per_s: %w", err)
		}
		d.IOPS = perS
	}
	for name, pattern := range out.Statistics {
		n, err := lastNumber(pattern, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		to, _ := d.Lat.Statistic(name)
		*to = n * out.Microseconds()
	}
	if out.Latency == "" {
		return d, nil
	}
	us, timed, err := latencies(out, text, counted)
	if err != nil {
		return nil, fmt.Errorf("latency: %w", err)
	}
	d.Lat, d.Requests = result.LatencyOf(us), float64(len(us))
	of := ran
	if timed {
		of = counted
	}
	if seconds := of.seconds(); out.PerS == "" && seconds > 0 {
		d.IOPS = d.Requests / seconds
	}
	return d, nil
}

// latencies are those of all matches, in microseconds; timed is whether they say when they
// ended, so that they are those of the counted time.
func latencies(out *experiment.Output, text string, counted span) (us []float64, timed bool, err error) {
	re, err := regexp.Compile(out.Latency)
	if err != nil {
		return nil, false, err
	}
	number, at := experiment.Groups(re)
	all := re.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return nil, false, fmt.Errorf("nothing matches %q", out.Latency)
	}
	for _, match := range all {
		n, err := parseNumber(match[number])
		if err != nil {
			return nil, false, err
		}
		if at >= 0 {
			when, err := parseNumber(match[at])
			if err != nil {
				return nil, false, err
			}
			if ended := time.UnixMicro(int64(when * 1e6)); ended.Before(counted.from) || ended.After(counted.to) {
				continue
			}
		}
		us = append(us, n*out.Microseconds())
	}
	return us, at >= 0, nil
}

// lastNumber is the number in a pattern's last match.
func lastNumber(pattern, text string) (float64, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return 0, err
	}
	all := re.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return 0, fmt.Errorf("nothing matches %q", pattern)
	}
	return parseNumber(all[len(all)-1][1])
}

func parseNumber(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return 0, fmt.Errorf("%q is not a number from 0 on", text)
	}
	return n, nil
}

// commandLine is a command as a message shows it, not too long of it.
func commandLine(words []string) string {
	const limit = 120
	text := strings.Join(strings.Fields(shell.Join(words...)), " ")
	if len(text) > limit {
		text = text[:limit] + "..."
	}
	return text
}

// logOf is the file with a job's messages; of a command it is all that it prints.
func logOf(dir string, j Job) string { return filepath.Join(dir, j.Name+".log") }

// lastLines are the last words of a file, on one line.
func lastLines(file string) string {
	const limit = 400
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	if len(words) > limit {
		words = "..." + words[len(words)-limit:]
	}
	if words == "" {
		return "nothing"
	}
	return words
}
