// SPDX-License-Identifier: MIT

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/activation"
	"isolio/internal/host/block"
	"isolio/internal/host/lock"
	"isolio/internal/plan"
)

// enableFlags are the flags of `isolio enable` and `disable`.
type enableFlags struct {
	request        activation.Request
	asJSON, dryRun bool
	all            bool // of disable
}

func newEnableCommand() *cobra.Command {
	var f enableFlags
	cmd := &cobra.Command{
		Use:   "enable DEV",
		Short: "Share a disk among containers by weight",
		Long: `Give a disk a scheduler that shares it by weight. enable checks that the module fits
the structures of the running kernel, loads it, sets the disk's scheduler, and reads
it back. It notes the scheduler before, for 'isolio disable'.

The scheduler stays until the next boot; with --persist, a udev rule sets it for this
disk at each boot. Partitions, LVM, RAID and paths of a multipath device are refused
with the name of the device where a scheduler works.`,
		Example: `  isolio enable nvme0n1
  isolio enable /dev/disk/by-id/nvme-INTEL_SSDPE2KX020T8 --persist
  isolio enable sda --scheduler bfq
  isolio enable sda --dry-run`,
		Args:              cli.Exactly(1),
		ValidArgsFunction: f.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0], activation.Enable)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.request.Scheduler, "scheduler", activation.Default, "the `NAME` of the scheduler: "+strings.Join(activation.Schedulers, ", "))
	flags.BoolVar(&f.request.Persist, "persist", false, "bring it back with every boot, by a udev rule")
	flags.StringVar(&f.request.Module, "module", "", "load this module `FILE` instead of the installed one")
	f.addFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("scheduler", cobra.FixedCompletions(activation.Schedulers, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func newDisableCommand() *cobra.Command {
	var f enableFlags
	cmd := &cobra.Command{
		Use:   "disable DEV | --all",
		Short: "Take back what enable did to a disk",
		Long: `Give a disk back the scheduler that it had before 'isolio enable', with its number of
requests; remove the udev rule; unload the module if enable loaded it and no other disk
uses it. No queued request is lost.

Weights in systemd's units and in the kernel's own files stay.`,
		Example: `  isolio disable nvme0n1
  isolio disable nvme0n1 --scheduler none
  isolio disable nvme0n1 --dry-run
  isolio disable --all`,
		Args:              cli.Between(0, 1),
		ValidArgsFunction: f.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.all && len(args) > 0:
				return failure.Usagef("--all: stands beside %s; leave one out", args[0])
			case f.all:
				return f.disableAll(cmd)
			}
			if err := cli.Exactly(1)(cmd, args); err != nil {
				return err
			}
			return f.run(cmd, args[0], activation.Disable)
		},
	}
	cmd.Flags().BoolVar(&f.all, "all", false, "every disk that enable gave a scheduler")
	cmd.Flags().StringVar(&f.request.Scheduler, "scheduler", "", "go back to the scheduler `NAME` instead of that of before")
	f.addFlags(cmd)
	return cmd
}

func (f *enableFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.dryRun, "dry-run", false, "print every change as a shell command; change nothing")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON document instead of a line")
	cli.RootFlag(cmd, &f.request.Root)
}

func (f *enableFlags) run(cmd *cobra.Command, device string, decide func(activation.Request) (*activation.Plan, error)) (err error) {
	if err := oneOutput(f.dryRun, f.asJSON); err != nil {
		return err
	}
	f.request.Device = device
	if f.request.Root, err = cli.RootDir(f.request.Root); err != nil {
		return err
	}
	if f.request.Module, err = cli.Absolute(f.request.Module); err != nil {
		return err
	}
	if f.request.Self, err = os.Executable(); err != nil {
		return err
	}
	if !f.dryRun {
		// Two that decide at a time would note each other's scheduler as that of before.
		release, err := lock.Take(cmd.Context(), f.request.Root, lock.Disks, lockWait)
		switch {
		case errors.Is(err, fs.ErrPermission): // the first step says what is needed
		case err != nil:
			return fmt.Errorf("device %s: %w: another isolio changes a disk's scheduler", device, err)
		default:
			defer release()
		}
	}
	p, err := decide(f.request)
	if err != nil {
		return err
	}
	for _, note := range p.Notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "isolio: %s\n", note)
	}
	if f.dryRun {
		return plan.Print(cmd.OutOrStdout(), p.Steps)
	}
	if err := apply(p.Steps, p.Verify); err != nil {
		return err
	}
	if f.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(p.Report)
	}
	fmt.Fprintln(cmd.OutOrStdout(), p.Report)
	return nil
}

// lockWait is how long another change of a scheduler may take: the kernel waits
// for requests in flight.
const lockWait = time.Minute

// disableAll takes back what enable did to any disk. It goes on after an error.
func (f *enableFlags) disableAll(cmd *cobra.Command) error {
	root, err := cli.RootDir(f.request.Root)
	if err != nil {
		return err
	}
	disks, err := activation.Enabled(block.System{Root: root})
	if err != nil {
		return err
	}
	var errs []error
	for _, disk := range disks {
		one := *f
		errs = append(errs, one.run(cmd, disk, activation.Disable))
	}
	return errors.Join(errs...)
}

// oneOutput refuses two kinds of output at a time.
func oneOutput(dryRun, asJSON bool) error {
	if dryRun && asJSON {
		return failure.Usagef("--dry-run: prints shell commands, and --json JSON; leave one out")
	}
	return nil
}

// completeDisks lets a shell complete disks, for one argument or a flag.
func completeDisks(dir *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		root, err := cli.Absolute(*dir)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, _ := block.System{Root: root}.All() // nothing to complete is no error
		var names []string
		for _, i := range all {
			if i.TakesScheduler {
				names = append(names, i.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// complete lets a shell complete the one argument.
func (f *enableFlags) complete(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeDisks(&f.request.Root)(cmd, args, begin)
}
