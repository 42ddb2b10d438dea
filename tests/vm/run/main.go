// SPDX-License-Identifier: MIT

// Command run boots a stock kernel in the lab's VM with the compiled guest
// tests of tests/vm as its payload, prints what they print as they print it,
// and fails if a test fails, if no test ran, or if the kernel complained.
//
//	go test -c -tags vm -o build/vm.test ./tests/vm
//	go run ./tests/vm/run --kernel 6.1 [--run REGEXP] [--keep DIR]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"isolio/internal/lab"
)

// guestTest is where the test binary lies in the guest.
const guestTest = "/tests/vm.test"

func main() {
	if lab.InGuest() {
		os.Exit(lab.GuestMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm tests:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	var (
		build   = flags.String("build", "build", "directory with kernel/<line>/ and modules/<line>/")
		line    = flags.String("kernel", "6.1", "kernel `line` to boot")
		binary  = flags.String("binary", "build/vm.test", "compiled guest tests")
		match   = flags.String("run", "", "run only tests that match the `regexp`")
		keep    = flags.String("keep", "", "keep initramfs, kernel log and events in `dir`")
		timeout = flags.Duration("timeout", 20*time.Minute, "wall-clock limit")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	vm, err := guestTests(*build, *line, *binary, *match)
	if err != nil {
		return err
	}
	vm.Keep, vm.Timeout = *keep, *timeout

	started := time.Now()
	passed := 0
	res, err := lab.Boot(ctx, vm, func(ev lab.Event) {
		switch ev.Kind {
		case lab.EventBoot:
			fmt.Fprintf(out, "=== kernel %s\n", ev.Line)
		case lab.EventOutput:
			fmt.Fprintln(out, ev.Line)
			if strings.HasPrefix(ev.Line, "--- PASS: ") {
				passed++
			}
		}
	})
	switch {
	case err != nil:
		return err
	case res.Code != 0:
		return fmt.Errorf("guest tests failed (exit status %d); kernel %s", res.Code, vm.Kernel.Release)
	case passed == 0:
		return errors.New("no guest test ran")
	}
	fmt.Fprintf(out, "=== kernel %s: %d tests passed, kernel log clean, %.0f s\n",
		vm.Kernel.Release, passed, time.Since(started).Seconds())
	return nil
}

// guestTests is the VM that runs the test binary.
func guestTests(build, line, binary, match string) (lab.VM, error) {
	kernel, err := lab.OpenKernel(build, line)
	if err != nil {
		return lab.VM{}, err
	}
	if _, err := os.Stat(binary); err != nil {
		return lab.VM{}, fmt.Errorf("%w; `go test -c -tags vm -o %s ./tests/vm` makes it", err, binary)
	}
	modules, err := filepath.Glob(filepath.Join(build, "modules", line, "*.ko"))
	if err != nil {
		return lab.VM{}, err
	}
	if len(modules) == 0 {
		return lab.VM{}, fmt.Errorf("%s: no module; `make modules KERNEL=%s` builds them", filepath.Join(build, "modules", line), line)
	}
	argv := []string{guestTest, "-test.v", "-test.timeout=9m"}
	if match != "" {
		argv = append(argv, "-test.run="+match)
	}
	return lab.VM{
		Kernel:   kernel,
		Programs: []string{"fio", "sh"},
		Stock:    []string{"null_blk nr_devices=0", "bfq", "kyber-iosched"},
		Carry:    modules, // the tests load and unload them
		Payload: lab.Payload{
			Argv:  argv,
			Env:   []string{"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp"},
			Files: map[string]string{guestTest: binary},
		},
		WorkMiB: 448, // data integrity tests keep a disk's contents in memory
		Limit:   10 * time.Minute,
	}, nil
}
