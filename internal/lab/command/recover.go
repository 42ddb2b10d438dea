// SPDX-License-Identifier: MIT

package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/host/block"
	"isolio/internal/lab/recovery"
)

// attendFlag makes `bench --recover` wait for the end of its input, which is that of the
// bench that started it.
const attendFlag = "attend"

// attended has a second process take back what this one changes on the disk, in case it
// is killed. dismiss ends it, when all was taken back.
func (f *benchFlags) attended(d *block.Device) (dismiss func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	input, held, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer input.Close()
	words := []string{os.Args[0], "bench", "--recover", "--" + attendFlag, "--device", d.Name}
	if f.root != "" {
		words = append(words, "--root", f.root)
	}
	second := &exec.Cmd{
		Path: self, Args: words, Stdin: input, Stdout: os.Stderr, Stderr: os.Stderr,
		// Ctrl-C and a terminal's end are not for it.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := second.Start(); err != nil {
		held.Close()
		return nil, fmt.Errorf("start what takes back the changes if this is killed: %w", err)
	}
	return func() error {
		held.Close()
		return second.Wait()
	}, nil
}

// outliveReaders has a write fail where the terminal or a pipe went away, instead of
// ending the process.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// The kernel closes a process's files one after another: the pipe of one that was killed
// may go a moment before the lock of its record.
const (
	recordLookup = 20 * time.Millisecond
	recordGone   = 10 * time.Second
)

// awaitEnd returns when the bench that holds the other end of in has ended, and with it
// the lock of its record.
func (f *benchFlags) awaitEnd(in io.Reader, root string) error {
	outliveReaders()
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	for until := time.Now().Add(recordGone); time.Now().Before(until); time.Sleep(recordLookup) {
		killed, running, err := recovery.Find(root)
		for _, k := range killed {
			k.Release()
		}
		if err != nil || !slices.Contains(running, f.disk()) {
			return err
		}
	}
	return nil
}

// disk is the name of the disk that --recover is told to look at, "" for all.
func (f *benchFlags) disk() string { return strings.TrimPrefix(f.device, "/dev/") }

// takeBack has the machine as it was before benches that were killed.
func (f *benchFlags) takeBack(cmd *cobra.Command) error {
	root, err := cli.RootDir(f.root)
	if err != nil {
		return err
	}
	if f.attend {
		if err := f.awaitEnd(cmd.InOrStdin(), root); err != nil {
			return err
		}
	}
	killed, running, err := recovery.Find(root)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	for _, disk := range running {
		if !f.attend {
			fmt.Fprintf(out, "%s: its bench runs; nothing is taken back\n", disk)
		}
	}
	var errs []error
	done := 0
	for _, k := range killed {
		if f.device != "" && k.Disk != f.disk() {
			k.Release()
			continue
		}
		done++
		errs = append(errs, f.takeBackOne(out, root, k))
	}
	if done == 0 && len(running) == 0 && !f.attend {
		fmt.Fprintln(out, "no bench was killed: there is nothing to take back")
	}
	return errors.Join(errs...)
}

// takeBackOne prints what there is to take back, and does it.
func (f *benchFlags) takeBackOne(out io.Writer, root string, k *recovery.Kept) error {
	var errs []error
	for _, action := range k.Decide(root) {
		if f.dryRun {
			fmt.Fprintln(out, action.Shell)
		} else if err := action.Do(); err != nil {
			errs = append(errs, err)
		} else {
			fmt.Fprintln(out, action.Says)
		}
	}
	if !f.dryRun && len(errs) == 0 {
		errs = append(errs, k.End())
	}
	return errors.Join(errs...)
}
