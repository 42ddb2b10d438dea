// SPDX-License-Identifier: MIT

package vm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// runPayload starts the manifest's program, passes on what it prints, and
// returns its exit status when it and all that it left behind are gone.
func runPayload(ch *channel, m manifest) (int, error) {
	outR, outW, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("init: %w", err)
	}
	dataR, dataW, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("init: %w", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("init: %w", err)
	}
	// Not os/exec: it would wait for its child, and so does reap.
	pid, err := syscall.ForkExec(m.Argv[0], m.Argv, &syscall.ProcAttr{
		Dir: "/", Env: m.Env,
		Files: []uintptr{null.Fd(), outW.Fd(), outW.Fd(), dataW.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("init: %s: %w", m.Argv[0], err)
	}
	null.Close()
	outW.Close()
	dataW.Close()

	var pipes sync.WaitGroup
	pipes.Go(func() {
		eachLine(outR, func(line string) { ch.send(Event{Kind: EventOutput, Line: line}) })
	})
	pipes.Go(func() {
		eachLine(dataR, func(line string) {
			if !json.Valid([]byte(line)) {
				ch.send(Event{Kind: EventOutput, Line: line})
				return
			}
			ch.send(Event{Kind: EventData, Data: json.RawMessage(line)})
		})
	})
	status := make(chan int, 1)
	go func() {
		code := reap(pid)
		pipes.Wait()
		status <- code
	}()
	beat := time.NewTicker(time.Duration(m.BeatMS) * time.Millisecond)
	defer beat.Stop()
	limit := time.Duration(m.LimitMS) * time.Millisecond
	over := time.After(limit)
	for {
		select {
		case code := <-status:
			return code, nil
		case <-beat.C:
			ch.send(Event{Kind: EventBeat})
		case <-over:
			showBlocked()
			return 0, fmt.Errorf("the payload did not end within %s of the guest's clock", limit)
		}
	}
}

// reap waits for children, which includes every orphan, until the payload and
// then all others have ended. What the payload leaves running is killed.
func reap(payload int) int {
	code := -1
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD: none is left
			return code
		case pid == payload:
			code = ws.ExitStatus()
			if ws.Signaled() {
				code = 128 + int(ws.Signal())
			}
			_ = unix.Kill(-1, unix.SIGKILL) // all but init itself; none there is fine
		}
	}
}

// eachLine calls fn for every line of r, of any length, without its end.
func eachLine(r io.Reader, fn func(string)) {
	for in := bufio.NewReader(r); ; {
		line, err := in.ReadString('\n')
		if line != "" {
			fn(strings.TrimRight(line, "\r\n"))
		}
		if err != nil {
			return
		}
	}
}

// showBlocked makes the kernel log where every uninterruptible task sleeps.
func showBlocked() {
	if err := os.WriteFile("/proc/sysrq-trigger", []byte("w"), 0o200); err != nil {
		fmt.Println("isolio: init:", err)
	}
}
