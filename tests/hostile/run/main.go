// SPDX-License-Identifier: MIT

// Command run is the host side of the hostile suite: it boots the lab's VM with
// the suite as payload, and when a run fails it boots again and again with fewer
// kinds of operations and fewer operations, as long as the same failure shows,
// and prints what is left.
//
//	build/hostile-run --kernel 6.1 --seconds 900 [--seed N] [--cpus 2] [--virtual]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"isolio/internal/kernels"
	"isolio/tests/hostile/script"
)

// options are what all boots have in common.
type options struct {
	build, kernel, keep string
	disks               string // real drivers' ones
	cpus                int
	isVirtual           bool
	shrink              time.Duration
	more                []string // arguments for build/vm-run
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong arguments")

func run(ctx context.Context, args []string) error {
	var o options
	var choice script.Choice
	flags := flag.NewFlagSet("hostile-run", flag.ContinueOnError)
	flags.StringVar(&o.build, "build", "build", "directory with vm-run, hostile.test, kernel/ and modules/")
	flags.StringVar(&o.kernel, "kernel", kernels.Default(), "kernel `line` to boot")
	flags.StringVar(&o.keep, "keep", "", "keep the VM's files in `dir`")
	flags.StringVar(&o.disks, "disks", "nvme,virtio-blk,virtio-scsi,ahci,megasas,sd-card,usb-uas", "real drivers' disks, `kinds` that vm-run knows; none in virtual time")
	flags.IntVar(&o.cpus, "cpus", 2, "how many virtual CPUs the VM has, 1 to 8")
	flags.BoolVar(&o.isVirtual, "virtual", false, "virtual time: a seed gives the same run to the last byte, and CPUs take turns")
	flags.DurationVar(&o.shrink, "shrink", 20*time.Minute, "how long to look for a shorter sequence that fails; 0 for not at all")
	flags.Uint64Var(&choice.Seed, "seed", 0, "seed of all decisions; 0 takes one from the clock")
	flags.IntVar(&choice.Seconds, "seconds", 900, "how long the suite runs on the guest's clock")
	without := flags.String("without", "", "leave these `kinds` of operations out, separated by commas")
	cuts := flags.String("cuts", "", "end `actors` early: NAME=OPERATIONS, separated by commas")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	o.more, choice.IsLight = flags.Args(), o.isVirtual
	if err := complete(&choice, *without, *cuts); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	first, err := o.boot(ctx, choice, os.Stdout)
	if err != nil {
		return err
	}
	if first.passed {
		fmt.Printf("=== hostile: kernel %s, seed %d, %d s: nothing found\n", o.kernel, choice.Seed, choice.Seconds)
		return nil
	}
	fmt.Printf("=== hostile: seed %d fails: %s\n", choice.Seed, first.signature)
	shortest := o.shorten(ctx, choice, first)
	o.explain(shortest)
	return fmt.Errorf("kernel %s, seed %d: %s", o.kernel, choice.Seed, first.signature)
}

// complete checks a choice and adds what the flags say.
func complete(c *script.Choice, without, cuts string) error {
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	env := map[string]string{
		"HOSTILE_SEED": fmt.Sprint(c.Seed), "HOSTILE_SECONDS": fmt.Sprint(c.Seconds), "HOSTILE_LIGHT": fmt.Sprint(c.IsLight),
		"HOSTILE_WITHOUT": without, "HOSTILE_CUTS": cuts,
	}
	read, err := script.FromEnvironment(func(name string) string { return env[name] })
	if err != nil {
		return err
	}
	for _, kind := range read.Without {
		if !slices.Contains(script.Kinds(), kind) {
			return fmt.Errorf("--without: %s is no kind of operation; they are %s", kind, strings.Join(script.Kinds(), ", "))
		}
	}
	if read.Seconds < 1 {
		return fmt.Errorf("--seconds: %d is out of range; allowed: 1 and more", read.Seconds)
	}
	*c = read
	return nil
}

// explain prints what is left of a sequence, and how to run it again.
func (o options) explain(c script.Choice) {
	fmt.Printf("=== hostile: the shortest sequence found; to run it again:\n%s", filepath.Join(o.build, "hostile-run"))
	fmt.Printf(" --shrink 0 --kernel %s --cpus %d --seed %d --seconds %d", o.kernel, o.cpus, c.Seed, c.Seconds)
	if o.isVirtual {
		fmt.Print(" --virtual")
	}
	for _, line := range c.Environment()[3:] {
		name, value, _ := strings.Cut(line, "=")
		if value != "" {
			fmt.Printf(" --%s %s", strings.ToLower(strings.TrimPrefix(name, "HOSTILE_")), value)
		}
	}
	fmt.Println()
	const most = 100
	list := c.Sequence()
	for _, line := range list[max(0, len(list)-most):] {
		fmt.Println("  " + line)
	}
}
