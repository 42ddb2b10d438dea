// SPDX-License-Identifier: MIT

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/enable"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/plan"
)

// enableFlags are the flags of `isolio enable` and `disable`.
type enableFlags struct {
	request        enable.Request
	asJSON, dryRun bool
	all            bool
	configured     bool // of enable
	follows        bool // of enable
	errorFile      string
	disables       bool
	// rules are those of the machine, nil before they are read.
	rules *rule.Config
	// failed are the disks for which each got an error.
	failed []state.EnableError
}

func newEnableCommand() *cobra.Command {
	var f enableFlags
	cmd := &cobra.Command{
		Use:   "enable DEV | --all | --configured [DEV]",
		Short: "Share a disk among containers by weight",
		Long: `Give a disk a scheduler that shares it by weight. enable checks that the module fits
the structures of the running kernel, loads it, sets the disk's scheduler, and reads
it back. It notes the scheduler before, for 'isolio disable'.

A [[disk]] table of ` + rule.File + ` says which scheduler a disk has and what its
tunables are: then the disk gets these, and they come back with every boot. Otherwise
the scheduler stays until the next boot; with --persist, a udev rule sets it for this
disk at each boot.

DEV is a disk, or what is on disks: a partition, a volume of LVM or LUKS, a RAID, a
directory. enable then takes the disks below, and says which.

--all is for every disk that can have a scheduler, but loop devices and disks of
memory. --configured is for those with a table, or for DEV if it has one: the
service isolio-disk@ calls it when a disk appears.

--follow is for machines where nothing calls enable then, such as nodes of a cluster that
attach volumes: enable stays until it is ended, looks for disks every five seconds, and
gives each its scheduler once. What is chosen for a disk after that stays until it goes.
A disk that could not be enabled is tried again every minute.

--error-file is for an init container, whose failure would keep the other containers of
its pod from running. If a disk is missing or gets no scheduler, enable writes the reason
to the file and exits 0. A mistake in the command line still has exit code 2.`,
		Example: `  isolio enable nvme0n1
  isolio enable /dev/disk/by-id/nvme-INTEL_SSDPE2KX020T8 --persist
  isolio enable serial:PHLJ0001 --scheduler bfq
  isolio enable /var/lib/docker
  isolio enable sda --dry-run
  isolio enable --all
  isolio enable --configured --dry-run`,
		Args:              cli.Between(0, 1),
		ValidArgsFunction: f.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.all && f.configured:
				return failure.Usagef("--all: cannot be combined with --configured; leave one out")
			case f.all && len(args) > 0:
				return failure.Usagef("--all: cannot be combined with %s; leave one out", args[0])
			case f.configured && (f.request.Scheduler != "" || f.request.Persist || f.request.Module != ""):
				return failure.Usagef("--configured: cannot be combined with --scheduler, --persist or --module; leave that out: the tables say what each disk has, at every boot")
			case f.follows && (!f.all && !f.configured || len(args) > 0):
				return failure.Usagef("--follow: is for --all, or --configured without DEV")
			case f.follows && f.dryRun:
				return failure.Usagef("--follow: cannot be combined with --dry-run, which changes nothing; leave one out")
			case f.errorFile != "" && f.dryRun:
				return failure.Usagef("--error-file: cannot be combined with --dry-run, which changes nothing; leave one out")
			case !f.all && !f.configured:
				if err := cli.Exactly(1)(cmd, args); err != nil {
					return err
				}
			}
			if err := f.module(); err != nil {
				return err
			}
			switch {
			case f.follows:
				if err := f.prepare(); err != nil {
					return err
				}
				return f.follow(cmd)
			case f.errorFile != "":
				return f.bestEffort(cmd, args)
			}
			return f.enable(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "every disk that can have a scheduler")
	flags.BoolVar(&f.configured, "configured", false, "every disk that has a [[disk]] table, or DEV if it has one")
	flags.StringVar(&f.request.Scheduler, "scheduler", "", "the `NAME` of the scheduler: "+strings.Join(enable.Schedulers, ", ")+"; left out, that of the disk's table, or "+enable.DefaultScheduler)
	flags.BoolVar(&f.request.Persist, "persist", false, "set the scheduler again at each boot, by a udev rule")
	flags.StringVar(&f.request.Module, "module", "", "load this module `FILE` instead of the installed one, or RELEASE/NAME.ko of a directory")
	flags.BoolVar(&f.follows, "follow", false, "stay, and enable disks that appear later")
	flags.StringVar(&f.errorFile, "error-file", "", "if a disk cannot be enabled, write the reason to `FILE` and exit 0; otherwise remove FILE")
	f.addFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("scheduler", cobra.FixedCompletions(enable.Schedulers, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// enable is the command, after its arguments were checked.
func (f *enableFlags) enable(cmd *cobra.Command, args []string) error {
	if f.all || f.configured {
		return f.enableSeveral(cmd, args)
	}
	return f.named(cmd, args[0], enable.Enable)
}

// prepare finds the mistakes in a command line whose failures are no error later.
func (f *enableFlags) prepare() (err error) {
	if err := oneOutput(f.dryRun, f.asJSON); err != nil {
		return err
	}
	if f.request.Root, err = cli.RootDir(f.request.Root); err != nil {
		return err
	}
	if name := f.request.Scheduler; name != "" && !f.disables && !slices.Contains(enable.Schedulers, name) {
		return failure.Usagef("scheduler %q: allowed: %s", name, strings.Join(enable.Schedulers, ", "))
	}
	f.errorFile, err = cli.Absolute(f.errorFile)
	return err
}

// module finds the file or directory of --module, before anything is changed. An image without
// modules has no directory; where the node has the module, none is needed.
func (f *enableFlags) module() (err error) {
	if f.request.Module == "" {
		return nil
	}
	if _, err = os.Stat(f.request.Module); err != nil && f.errorFile == "" {
		return failure.Usagef("--module: %w", err)
	}
	f.request.Module, err = cli.Absolute(f.request.Module)
	return err
}

// bestEffort is enable whose failure is written to a file, and is none for the caller.
func (f *enableFlags) bestEffort(cmd *cobra.Command, args []string) error {
	if err := f.prepare(); err != nil {
		return err
	}
	failed := f.enable(cmd, args)
	switch {
	case failed == nil:
		f.failed = nil
	case f.failed == nil:
		f.failed = []state.EnableError{{Device: strings.Join(args, " "), Why: failed.Error()}}
	}
	if failed != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "isolio: %s\n", failed)
	}
	if err := state.WriteEnableErrors(f.errorFile, f.failed); err != nil {
		return fmt.Errorf("--error-file: %w", err)
	}
	return nil
}

func newDisableCommand() *cobra.Command {
	f := enableFlags{disables: true}
	cmd := &cobra.Command{
		Use:   "disable DEV | --all",
		Short: "Take back what enable did to a disk",
		Long: `Give a disk back the scheduler that it had before 'isolio enable', with its number of
requests; remove the udev rule; unload the modules that enable loaded and no other disk
uses. No queued request is lost. A [[disk]] table of ` + rule.File + `
gives the scheduler back at the next boot.

--all is for every disk that enable gave a scheduler. It also removes the udev rules of
disks that are not there.

Weights in systemd's units and in the kernel's own files stay.`,
		Example: `  isolio disable nvme0n1
  isolio disable nvme0n1 --scheduler none
  isolio disable nvme0n1 --dry-run
  isolio disable --all`,
		Args:              cli.Between(0, 1),
		ValidArgsFunction: completeEnabled(&f.request.Root),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.all && len(args) > 0:
				return failure.Usagef("--all: cannot be combined with %s; leave one out", args[0])
			case f.all:
				return f.disableAll(cmd)
			}
			if err := cli.Exactly(1)(cmd, args); err != nil {
				return err
			}
			return f.named(cmd, args[0], enable.Disable)
		},
	}
	cmd.Flags().BoolVar(&f.all, "all", false, "every disk that enable gave a scheduler")
	cmd.Flags().StringVar(&f.request.Scheduler, "scheduler", "", "give the disk the scheduler `NAME`, not the one that it had before")
	f.addFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("scheduler", completeSchedulers(&f.request.Root)) // the flag is there
	return cmd
}

func (f *enableFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.dryRun, "dry-run", false, "print every change as a shell command; change nothing")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON document instead of a line")
	cli.RootFlag(cmd, &f.request.Root)
}

// named changes the disks that a name is on.
func (f *enableFlags) named(cmd *cobra.Command, name string, decide func(enable.Request) (*enable.Plan, error)) error {
	if err := f.prepare(); err != nil {
		return err
	}
	disks, err := choose(cmd, f.request.Root, name)
	switch {
	case err != nil:
		return err
	case len(disks) == 1:
		return f.run(cmd, disks[0], decide)
	}
	return f.each(cmd, disks, decide)
}

// choose finds the disks that a name is on, and says which where the name does not.
func choose(cmd *cobra.Command, root, name string) ([]string, error) {
	chosen, err := block.System{Root: root}.Resolve(name)
	if text := chosen.String(); err == nil && text != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "isolio: %s\n", text)
	}
	return chosen.Names(), err
}

func (f *enableFlags) run(cmd *cobra.Command, device string, decide func(enable.Request) (*enable.Plan, error)) (err error) {
	if err := oneOutput(f.dryRun, f.asJSON); err != nil {
		return err
	}
	f.request.Device = device
	if f.request.Root, err = cli.RootDir(f.request.Root); err != nil {
		return err
	}
	if err := f.table(); err != nil {
		return err
	}
	if f.request.Self, err = os.Executable(); err != nil {
		return err
	}
	release, err := f.lock(cmd)
	if err != nil {
		return fmt.Errorf("device %s: %w", device, err)
	}
	defer release()
	p, err := decide(f.request)
	if err != nil {
		return err
	}
	if err := f.carryOut(cmd, p, p.Verify); err != nil || f.dryRun {
		return err
	}
	if f.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(p.Report)
	}
	fmt.Fprintln(cmd.OutOrStdout(), p.Report)
	return nil
}

// lock keeps other processes from the schedulers of disks. Two that decide at a time would note
// each other's scheduler as that of before.
func (f *enableFlags) lock(cmd *cobra.Command) (release func(), err error) {
	if f.dryRun {
		return func() {}, nil
	}
	release, err = state.Lock(cmd.Context(), f.request.Root, state.DisksLock, lockWait)
	switch {
	case errors.Is(err, fs.ErrPermission): // the first step says what is needed
		return func() {}, nil
	case err != nil && cmd.Context().Err() != nil:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: another isolio changes a disk's scheduler", err)
	}
	return release, nil
}

// carryOut prints a plan, or applies it.
func (f *enableFlags) carryOut(cmd *cobra.Command, p *enable.Plan, verify func() error) error {
	for _, note := range p.Notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "isolio: %s\n", note)
	}
	if f.dryRun {
		return plan.Print(cmd.OutOrStdout(), p.Shown())
	}
	return apply(p.Steps, verify)
}

// table finds what the disk is to have by the rules. A mistake in them is no reason to
// keep a disk from going back to what it was.
func (f *enableFlags) table() error {
	if f.rules == nil {
		config, err := rule.Load(f.request.Root, "")
		if err != nil && !f.disables {
			return err
		}
		f.rules = &config
	}
	sys := block.System{Root: f.request.Root}
	d, err := sys.Find(f.request.Device)
	if err != nil {
		return err
	}
	f.request.Table, err = f.rules.DiskFor(sys, d.Name)
	return err
}

// lockWait is how long another change of a scheduler may take: the kernel waits
// for requests in flight.
const lockWait = time.Minute

// disableAll takes back what enable did to any disk. It goes on after an error.
func (f *enableFlags) disableAll(cmd *cobra.Command) (err error) {
	if f.request.Root, err = cli.RootDir(f.request.Root); err != nil {
		return err
	}
	if err := oneOutput(f.dryRun, f.asJSON); err != nil {
		return err
	}
	disks, err := enable.Enabled(block.System{Root: f.request.Root})
	if err != nil {
		return err
	}
	if len(disks) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "isolio: no disk has a scheduler that isolio enabled")
	}
	failed := f.each(cmd, disks, enable.Disable)
	if errors.Is(failed, context.Canceled) {
		return failed
	}
	return both(failed, f.forgetAbsent(cmd))
}

// forgetAbsent removes the udev rules of disks that are not there.
func (f *enableFlags) forgetAbsent(cmd *cobra.Command) error {
	if err := cmd.Context().Err(); err != nil {
		return fmt.Errorf("%w before the rules of disks that are not there: run the command again", err)
	}
	release, err := f.lock(cmd)
	if err != nil {
		return err
	}
	defer release()
	p, err := enable.ForgetAbsent(f.request.Root)
	if err != nil {
		return err
	}
	return f.carryOut(cmd, p, func() error { return nil })
}

// enableSeveral gives schedulers to all disks, or to those with a table. It goes on after
// an error.
func (f *enableFlags) enableSeveral(cmd *cobra.Command, only []string) error {
	root, err := cli.RootDir(f.request.Root)
	if err != nil {
		return err
	}
	if err := oneOutput(f.dryRun, f.asJSON); err != nil {
		return err
	}
	config, err := rule.Load(root, "")
	if err != nil {
		return err
	}
	f.rules = &config
	sys := block.System{Root: root}
	names, left, err := enable.Candidates(sys, config, f.configured)
	if err != nil {
		return err
	}
	if len(only) > 0 {
		chosen, err := sys.Resolve(only[0])
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(chosen.Names(), name) })
		left = nil
	}
	for _, why := range left {
		fmt.Fprintf(cmd.ErrOrStderr(), "isolio: %s\n", why)
	}
	if len(names) == 0 && f.all {
		return failure.Unsupportedf("--all: no disk of this machine can have a scheduler; `isolio status` says why")
	}
	return f.each(cmd, names, enable.Enable)
}

// each changes disks one by one, until it is interrupted. It goes on after an error, and names
// the disk of each.
func (f *enableFlags) each(cmd *cobra.Command, names []string, decide func(enable.Request) (*enable.Plan, error)) error {
	var failed error
	for i, name := range names {
		if err := cmd.Context().Err(); err != nil {
			for _, name := range names[i:] {
				f.failed = append(f.failed, state.EnableError{Device: name, Why: "interrupted before its turn"})
			}
			return both(failed, fmt.Errorf("%w before %s: run the command again", err, strings.Join(names[i:], ", ")))
		}
		one := *f
		err := one.run(cmd, name, decide)
		if err != nil && !strings.HasPrefix(err.Error(), "device "+name+":") {
			err = fmt.Errorf("device %s: %w", name, err)
		}
		if err != nil {
			f.failed = append(f.failed, state.EnableError{Device: name, Why: err.Error()})
		}
		failed = both(failed, err)
	}
	return failed
}

// both are two errors on one line, or the one that there is.
func both(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return fmt.Errorf("%w; %w", a, b)
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
