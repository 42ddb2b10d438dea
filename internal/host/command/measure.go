// SPDX-License-Identifier: MIT

package command

import (
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/profile"
	"isolio/internal/host/state"
	"isolio/internal/plan"
)

// measureFlags are the flags of `isolio measure`.
type measureFlags struct {
	options              profile.Options
	asJSON, dryRun, show bool
}

func newMeasureCommand() *cobra.Command {
	var f measureFlags
	cmd := &cobra.Command{
		Use:   "measure DEV",
		Short: "Measure the sustained rates of a disk, and keep them as a profile",
		Long: `Measure the sustained rates of a disk: random and sequential requests of several
sizes at growing depth. Each measurement lasts until its rate is steady, and all of them
are made twice. So the first burst, from a cache or erased blocks, does not count. The
knee of a load is the depth above which more requests only wait longer.

Without --allow-writes measure writes nothing to the disk. With it measure overwrites
the disk, and refuses a disk in use. Reads are measured on a disk in use too; the
profile then says how much other programs moved meanwhile.

measure keeps the profile in /var/lib/isolio/profiles, by the disk's own number and not
by its name. 'isolio sla plan' promises no more than the profile has. The current
scheduler affects the figures: --scheduler none measures the disk alone.`,
		Example: `  isolio measure nvme0n1 --scheduler none
  isolio measure nvme0n1 --show
  isolio measure nvme0n1 --show --json > nvme0n1.json
  isolio measure sdb --allow-writes --time 5s
  isolio measure sdb --loads randread-4k,read-128k --dry-run`,
		Args:              cli.Exactly(1),
		ValidArgsFunction: f.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.options.Device = args[0]
			return f.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.options.AllowWrites, "allow-writes", false, "measure writes as well: everything on the disk is lost")
	flags.StringSliceVar(&f.options.Loads, "loads", nil, "measure only these (`LIST`: a,b,c): "+strings.Join(profile.Names(), ", "))
	flags.IntSliceVar(&f.options.Depths, "depths", nil, "measure at these numbers of requests outstanding (`LIST`: 1,8,64)")
	flags.DurationVar(&f.options.Time, "time", time.Second, "how long a rate must be steady; an unsteady one is measured for up to ten times as long, and for at least 10 s")
	flags.StringVar(&f.options.Scheduler, "scheduler", "", "give the disk the scheduler `NAME` meanwhile")
	flags.BoolVar(&f.show, "show", false, "measure nothing, and show the profile that is kept")
	flags.BoolVar(&f.asJSON, "json", false, "print the profile as JSON, not as a table")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be done; send no request")
	cli.RootFlag(cmd, &f.options.Root)
	_ = cmd.RegisterFlagCompletionFunc("scheduler", completeSchedulers(&f.options.Root))                                     // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("loads", cobra.FixedCompletions(profile.Names(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (f *measureFlags) run(cmd *cobra.Command) (err error) {
	if f.options.Root, err = cli.RootDir(f.options.Root); err != nil {
		return err
	}
	if f.show {
		for _, other := range []string{"allow-writes", "loads", "depths", "time", "scheduler", "dry-run"} {
			if cmd.Flags().Changed(other) {
				return failure.Usagef("--show: measures nothing; leave out --%s", other)
			}
		}
		return f.showKept(cmd)
	}
	if f.dryRun && f.asJSON {
		return failure.Usagef("--dry-run: prints what would be done, and --json a profile; leave one out")
	}
	f.options.Version = cli.Version
	s, err := profile.Decide(f.options)
	if err != nil {
		return err
	}
	if f.dryRun {
		return s.Describe(cmd.OutOrStdout())
	}
	ctx := cmd.Context()
	if len(s.Steps) > 0 {
		release, err := state.Lock(ctx, f.options.Root, state.DisksLock, lockWait)
		if err != nil {
			return fmt.Errorf("device %s: %w: another isolio changes a disk's scheduler", f.options.Device, err)
		}
		defer release()
	}
	// A terminal that goes away must not leave the disk with another scheduler.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	p, err := s.Run(ctx, func(line string) { fmt.Fprintf(cmd.ErrOrStderr(), "isolio: %s\n", line) })
	if err != nil {
		return err
	}
	keep, err := p.Keep(block.System{Root: f.options.Root})
	if err != nil {
		return err
	}
	// Minutes of measuring are shown even where they cannot be kept.
	return errors.Join(f.print(cmd.OutOrStdout(), p), plan.On(plan.OS{}).Apply([]plan.Step{keep}))
}

func (f *measureFlags) showKept(cmd *cobra.Command) error {
	sys := block.System{Root: f.options.Root}
	d, err := sys.Find(f.options.Device) // as it was measured: a volume has a profile of its own
	if err != nil {
		return err
	}
	p, err := profile.Read(sys, d)
	if err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), p)
}

func (f *measureFlags) print(w io.Writer, p *profile.Profile) error {
	if !f.asJSON {
		return p.WriteTable(w)
	}
	text, err := p.Encode()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// complete lets a shell complete the disk.
func (f *measureFlags) complete(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeDisks(&f.options.Root)(cmd, args, begin)
}
