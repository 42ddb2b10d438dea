// SPDX-License-Identifier: MIT

package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// poll is how often the host looks at the guest's files. It does not touch the
// guest, so it is no part of the result.
const poll = 50 * time.Millisecond

// logLines is how much of the kernel log and of the payload's output a failure
// shows.
const logLines = 20

// watch runs QEMU and follows what the guest writes to its two serial ports.
type watch struct {
	argv            []string
	console, events string        // files of the serial ports
	timeout, stall  time.Duration // wall clock; timeout 0 is none
	kept            string
}

// follower is the state of one run.
type follower struct {
	watch
	on      func(Event)
	read    int64 // bytes of events taken
	part    []byte
	sign    time.Time // when the guest last wrote anything
	console int64     // size of the console file at that time
	output  []string  // the last lines of the payload
	failed  string    // the guest's own error
	exited  bool
	code    int
}

var errTimeout, errStall = errors.New("timeout"), errors.New("stall")

func (w watch) run(ctx context.Context, on func(Event)) (*Outcome, error) {
	if on == nil {
		on = func(Event) {}
	}
	f := &follower{watch: w, on: on, sign: time.Now()}
	limit := ctx
	if w.timeout > 0 {
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeoutCause(ctx, w.timeout, errTimeout)
		defer cancel()
	}
	var stderr bytes.Buffer
	proc, ended, err := startProcess(w.argv, &stderr)
	if err != nil {
		return nil, &Failure{Reason: "QEMU does not start: " + err.Error(), Command: shellLine(w.argv)}
	}
	stop, err := f.follow(limit, ended)
	if stop != nil {
		_ = syscall.Kill(-proc.Pid, syscall.SIGKILL) // its process group; it may just have ended
		<-ended
		if e := f.take(); e != nil && err == nil {
			err = e
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return f.judge(stop, err, stderr.String())
}

// exit is how a process ended.
type exit struct{ err error }

// startProcess starts argv so that it dies with this process, and returns the
// channel that gives its end. The thread that starts a child is the one whose
// end kills it, so that thread is held for as long.
func startProcess(argv []string, stderr *bytes.Buffer) (*os.Process, <-chan exit, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.WaitDelay = time.Second
	started, ended := make(chan error), make(chan exit, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- exit{cmd.Wait()}
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, nil, err
	}
	return cmd.Process, ended, nil
}

// follow reads events until QEMU ends (stop nil, err how) or has to be stopped
// (stop why).
func (f *follower) follow(ctx context.Context, ended <-chan exit) (stop, err error) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx), nil
		case e := <-ended:
			return nil, errors.Join(f.take(), e.err)
		case now := <-tick.C:
			if err := f.take(); err != nil {
				return err, nil
			}
			if now.Sub(f.sign) > f.stall {
				return errStall, nil
			}
		}
	}
}

// take reads what is new in the files of both ports.
func (f *follower) take() error {
	if st, err := os.Stat(f.watch.console); err == nil && st.Size() != f.console {
		f.console, f.sign = st.Size(), time.Now()
	}
	file, err := os.Open(f.events)
	if errors.Is(err, os.ErrNotExist) {
		return nil // QEMU has not made it yet
	}
	if err != nil {
		return err
	}
	defer file.Close()
	buf := make([]byte, 64<<10)
	for {
		n, _ := file.ReadAt(buf, f.read)
		if n == 0 {
			return nil
		}
		f.read += int64(n)
		f.sign = time.Now()
		f.part = append(f.part, buf[:n]...)
		for {
			line, rest, ok := bytes.Cut(f.part, []byte("\n"))
			if !ok {
				break
			}
			if err := f.event(line); err != nil {
				return err
			}
			f.part = rest
		}
	}
}

func (f *follower) event(line []byte) error {
	var ev Event
	if err := json.Unmarshal(line, &ev); err != nil {
		return fmt.Errorf("the guest wrote something that is no event: %q", line)
	}
	switch ev.Kind {
	case EventOutput:
		f.output = append(f.output, ev.Line)
		f.output = f.output[max(0, len(f.output)-logLines):]
	case EventError:
		f.failed = ev.Line
	case EventExit:
		f.exited, f.code = true, ev.Code
	}
	f.on(ev)
	return nil
}

// judge says how the run went: stop is why it was stopped, if it was, err what
// went wrong with QEMU or the events.
func (f *follower) judge(stop, err error, stderr string) (*Outcome, error) {
	text, readErr := os.ReadFile(f.watch.console)
	if readErr != nil && err == nil && stop == nil {
		err = readErr
	}
	log := strings.ReplaceAll(string(text), "\r", "")
	fail := &Failure{Command: shellLine(f.argv), Kept: f.kept}
	if log != "" {
		fail.Log = lastLines(log, logLines)
	}
	complaints := Complaints(log)
	switch {
	case errors.Is(stop, errTimeout):
		fail.Reason = fmt.Sprintf("the VM did not finish within %s", f.timeout.Round(time.Millisecond))
		fail.Lines = append(complaints, f.output...)
	case errors.Is(stop, errStall):
		fail.Reason = fmt.Sprintf("the guest hangs: no sign of life for %s", f.stall)
		fail.Unborn = f.read == 0
		fail.Lines = append(complaints, f.output...)
	case stop != nil:
		fail.Reason = stop.Error()
	case err != nil:
		fail.Reason = "QEMU failed: " + err.Error()
		fail.Lines = lastLines(stderr, logLines)
	case strings.Contains(stderr, notPreloaded):
		fail.Reason = "QEMU runs without the lab's clock; `make build` makes it anew"
		fail.Lines = lastLines(stderr, logLines)
	case f.failed != "":
		fail.Reason = "the guest gave up: " + f.failed
		fail.Lines = append(complaints, f.output...)
	case len(complaints) > 0:
		fail.Reason = "the guest's kernel complained: " + complaints[0]
		fail.Lines = complaints
	case !f.exited:
		fail.Reason = "the guest ended before its payload did"
		fail.Lines = append(complaints, f.output...)
	default:
		return &Outcome{Code: f.code, Output: f.output, Log: log, Command: fail.Command}, nil
	}
	return nil, fail
}
