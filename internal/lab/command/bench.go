// SPDX-License-Identifier: MIT

package command

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/lab/bench"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// benchFlags are the flags of `isolio bench` besides a measurement's.
type benchFlags struct {
	measurement
	device      string
	root        string
	dryRun      bool
	allowWrites bool
	engines     string
}

func newBenchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench EXPERIMENT --device DEV",
		Short: "Run an experiment on a disk of this machine",
		Long: `Run an experiment on a disk of this machine, under one scheduler after the
other, and print what each container got.

The disk must be free: not mounted, not swap, not part of another device. Its
scheduler is changed for each run and put back. Jobs that write destroy what is
on it, and need --allow-writes. The experiment's own [device] and cpus are not
used: those are for the lab.`,
		Example: `  isolio bench report-rand-read --device /dev/nvme1n1
  isolio bench report-rand-write --device nullb0 --allow-writes --json
  isolio bench report-rand-read --device nullb0 --schedulers none,bfq --dry-run`,
		Args:              cli.Exactly(1),
		ValidArgsFunction: completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	f.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.device, "device", "", "the disk `DEV` to measure, such as /dev/nvme1n1")
	flags.StringVar(&f.root, "root", "", "work below `DIR` instead of /: sys, proc and dev are looked for there")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print every change and every process as shell commands; change nothing")
	flags.BoolVar(&f.allowWrites, "allow-writes", false, "let jobs that write destroy what is on the disk")
	flags.StringVar(&f.engines, "engines", "", "`DIR` with libaps' engines for fio (fio-aps.so), for jobs that have them")
	return cmd
}

func (f *benchFlags) run(cmd *cobra.Command, file string) error {
	x, err := f.load(file)
	if err != nil {
		return err
	}
	if f.device == "" {
		return failure.Usagef("%s: --device is missing; give the disk to measure, such as --device /dev/nvme1n1", cmd.CommandPath())
	}
	root, err := cli.RootDir(f.root)
	if err != nil {
		return err
	}
	env := bench.NewEnv(root)
	env.Device = f.device
	if f.engines != "" {
		if env.Engines, err = filepath.Abs(f.engines); err != nil {
			return err
		}
	}
	// All plans come before the first run: what is wrong with the fifth
	// scheduler's shows before an hour of the first four.
	var plans []*bench.Plan
	for i := range x.Cases {
		for _, scheduler := range x.SchedulersIn(&x.Cases[i]) {
			p, err := bench.Decide(env, x, &x.Cases[i], scheduler)
			if err != nil {
				return err
			}
			plans = append(plans, p)
		}
	}
	if slices.ContainsFunc(x.Cases, func(k experiment.Case) bool { return k.CPUs > 1 }) {
		fmt.Fprintf(cmd.ErrOrStderr(), "isolio: %s: cpus is for the lab; this machine's %d are used\n", x.File, runtime.NumCPU())
	}
	if f.dryRun {
		for _, p := range plans {
			if err := p.Print(cmd.OutOrStdout()); err != nil {
				return err
			}
		}
		return nil
	}
	if x.Writes() && !f.allowWrites {
		return failure.Usagef("%s: its jobs write, and what is on %s would be lost; add --allow-writes if it may be",
			x.File, f.device)
	}
	doc, err := f.measure(cmd, env, x)
	if err != nil {
		return err
	}
	words := []string{"bench", file, "--device", f.device}
	if f.allowWrites {
		words = append(words, "--allow-writes")
	}
	return f.finish(cmd.OutOrStdout(), doc, f.command(words...))
}

func (f *benchFlags) measure(cmd *cobra.Command, env bench.Env, x *experiment.Experiment) (*result.Document, error) {
	line := newProgressLine(cmd.ErrOrStderr(), x)
	defer line.clear()
	var runs []result.Run
	for i := range x.Cases {
		for _, scheduler := range x.SchedulersIn(&x.Cases[i]) {
			run, err := bench.Run(cmd.Context(), env, x, &x.Cases[i], scheduler, line.show)
			if err != nil {
				return nil, fmt.Errorf("bench: %w", err)
			}
			runs = append(runs, run)
		}
	}
	return result.Merge(x, runs)
}

// completeExperiments offers names, and files.
func completeExperiments(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	if shelf := experiment.Shelf(); shelf != "" {
		all, _ := experiment.All(shelf) // one that cannot be read is not offered
		for _, x := range all {
			names = append(names, x.Name+"\t"+x.Question)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}
