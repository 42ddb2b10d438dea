// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"isolio/internal/lab/vm"
	"isolio/tests/hostile/script"
)

// outcome is how a boot ended.
type outcome struct {
	passed bool
	// signature says what failed, without what differs from run to run.
	signature string
	// progress is how many operations each actor had begun.
	progress map[string]int
}

// stock are the kernel's modules for more disks: one of SCSI, in memory, that
// can be told to fail, one on a file, one behind a socket, and compressed memory.
var stock = []string{"sd_mod", "scsi_debug dev_size_mb=24 ndelay=200000 lbpu=1", "loop max_loop=1", "nbd nbds_max=1", "zram"}

// compressor is zram's on kernels where that is a module of its own.
const compressor = "lzo-rle"

// stackModules are those of the stack above disks of real drivers. The programs that
// make it are in the roots of generic kernels only.
var stackModules = []string{"dm-mod", "raid1"}

// boot runs the suite once. The error says that it could not be run.
func (o options) boot(ctx context.Context, c script.Choice, show io.Writer) (outcome, error) {
	limit := time.Duration(c.Seconds)*time.Second + 10*time.Minute
	args := []string{
		"--build", o.build, "--kernel", o.kernel, "--init", filepath.Join(o.build, "isolio-guest"), "--isolio", filepath.Join(o.build, "guest", "isolio"),
		"--binary", filepath.Join(o.build, "hostile.test"),
		"--cpus", fmt.Sprint(o.cpus), "--work", "900", "--limit", limit.String(), "--timeout", (2 * limit).String(),
	}
	kernel, err := vm.OpenKernel(o.build, o.kernel)
	if err != nil {
		return outcome{}, err
	}
	modules, err := kernel.Modules(compressor)
	if err != nil {
		return outcome{}, err
	}
	modules = append(modules, stock...)
	if !o.isVirtual && strings.HasSuffix(o.kernel, "-generic") {
		modules = append(modules, stackModules...)
		args = append(args, "--programs", "fio,dmsetup,mdadm")
	} else {
		args = append(args, "--programs", "fio")
	}
	for _, module := range modules {
		args = append(args, "--stock", module)
	}
	if !o.isVirtual {
		args = append(args, "--parallel")
		if o.disks != "" {
			args = append(args, "--hardware", o.disks)
		}
	}
	if o.keep != "" {
		args = append(args, "--keep", o.keep)
	}
	for _, line := range c.Environment() {
		args = append(args, "--env", line)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(o.build, "vm-run"), append(args, o.more...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	output, err := cmd.StdoutPipe()
	if err != nil {
		return outcome{}, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return outcome{}, fmt.Errorf("%w; `make vm T=hostile` builds it", err)
	}
	result := read(io.TeeReader(output, show))
	err = cmd.Wait()
	if ctx.Err() != nil {
		return outcome{}, ctx.Err()
	}
	result.passed = err == nil
	if err != nil && result.signature == "" {
		result.signature = err.Error()
	}
	return result, nil
}

// What differs between two runs that fail alike.
var varies = regexp.MustCompile(`0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\[[^\]]*\]|[0-9]+`)

// read takes from a run's output what failed, and how far the actors were.
func read(output io.Reader) outcome {
	result := outcome{progress: map[string]int{}}
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "HOSTILE progress "); ok {
			for field := range strings.FieldsSeq(rest) {
				name, number, _ := strings.Cut(field, "=")
				result.progress[name], _ = strconv.Atoi(number) // the suite prints numbers
			}
		}
		if text := failure(line); text != "" && result.signature == "" {
			result.signature = strings.Join(strings.Fields(varies.ReplaceAllString(text, "N")), " ")
		}
		if err != nil {
			return result
		}
	}
}

// failure is what a line says that failed, "" if it says nothing of it.
func failure(line string) string {
	for _, mark := range []string{"HOSTILE FAIL ", "kernel log: ", "the guest's kernel complained: ", "vm tests: "} {
		if _, text, ok := strings.Cut(line, mark); ok {
			return text
		}
	}
	return ""
}
