// SPDX-License-Identifier: MIT

package command

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/enable"
	"isolio/internal/plan"
)

func newUpgradeCommand() *cobra.Command {
	var f enableFlags
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Replace loaded modules by the installed ones",
		Long: `Replace each module of isolio that is loaded by the one that is installed, where that is
another build. A new package or 'make install' replaces files, and not what the kernel runs.

The disks of the module get the scheduler none, the module is unloaded and the new one
loaded, and the disks get their scheduler back, with its tunables, and all cgroups their
weights. Disks serve requests meanwhile, without weights for about a second. The new
module is compared with the kernel before anything is changed; if it cannot be loaded all
the same, what was done is undone.

--module loads another file, such as an older build: that is how to go back.`,
		Example: `  isolio upgrade --dry-run
  isolio upgrade
  isolio upgrade --module /root/old/kyber-fairness-iosched.ko`,
		Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.upgrade(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.request.Module, "module", "", "load this module `FILE` instead of the installed one, or RELEASE/NAME.ko of a directory")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print every change as a shell command; change nothing")
	cli.RootFlag(cmd, &f.request.Root)
	return cmd
}

func (f *enableFlags) upgrade(cmd *cobra.Command) (err error) {
	if f.request.Root, err = cli.RootDir(f.request.Root); err != nil {
		return err
	}
	if err = f.module(); err != nil {
		return err
	}
	if f.request.Self, err = os.Executable(); err != nil {
		return err
	}
	release, err := f.lock(cmd)
	if err != nil {
		return err
	}
	defer release()
	all, err := enable.Upgrades(f.request)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "isolio: each module of isolio that is loaded is the one to load")
	}
	for _, u := range all {
		if f.dryRun {
			err = plan.Print(cmd.OutOrStdout(), u.Shown())
		} else {
			err = replace(cmd, u)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replace carries an upgrade out. What had a value and is gone is no failure.
func replace(cmd *cobra.Command, u *enable.Upgrade) error {
	began := time.Now()
	if err := apply(u.Steps, u.Verify); err != nil {
		return fmt.Errorf("module %s: %w; isolio status shows what disks have", u.Module, err)
	}
	var failed error
	for _, s := range u.Restore {
		if err := plan.On(plan.OS{}).Apply([]plan.Step{s}); err != nil && !failure.IsGone(err) {
			failed = both(failed, err)
		}
	}
	on := "no disk"
	if len(u.Disks) > 0 {
		on = strings.Join(u.Disks, ", ")
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, was %s; on %s, after %s\n", u.Module, u.To, u.From, on, time.Since(began).Round(time.Millisecond))
	return failed
}
