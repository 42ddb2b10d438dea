// SPDX-License-Identifier: MIT

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/guest"
	"isolio/internal/lab/recovery"
	"isolio/internal/lab/result"
	"isolio/internal/plan"
)

// benchFlags are the flags of `isolio bench` besides a measurement's.
type benchFlags struct {
	measurement
	device      string
	root        string
	dryRun      bool
	recover     bool
	attend      bool
	allowWrites string
	engines     string
}

func newBenchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench EXPERIMENT --device DEV",
		Short: "Run an experiment on a disk of this machine",
		Long: `Run an experiment on a disk of this machine, under one scheduler after the
other, and print what each container got.

The disk must be free: not mounted, not swap, not part of another device, not open in
another program. While load runs no other program can mount or format it. The disk's
scheduler is changed for each run and put back.

Jobs that write destroy what is on the disk, and need --allow-writes. If a file system,
a partition table or the like is found on it, the flag must name the disk:
--allow-writes=serial:NUMBER, as 'isolio status -o wide' shows it. Without the flag fio
can only read. The experiment's own [device] and cpus are not used: those are for the lab.

After Ctrl-C, and when the terminal goes away, all that was changed is taken back. A
second process waits meanwhile, and takes it back when the bench is killed: load that
still runs, cgroups, the scheduler with its tunables. Where both were killed --recover
does it.`,
		Example: `  isolio bench report-rand-read --device /dev/nvme1n1
  isolio bench report-rand-write --device nullb0 --allow-writes --json
  isolio bench report-rand-read --device nullb0 --schedulers none,bfq --dry-run
  isolio bench --recover`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.recover {
				return cli.Exactly(0)(cmd, args)
			}
			return cli.Exactly(1)(cmd, args)
		},
		ValidArgsFunction: completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.recover {
				return f.takeBack(cmd)
			}
			return f.run(cmd, args[0])
		},
	}
	f.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.device, "device", "", "the disk `DEV` to measure, such as /dev/nvme1n1")
	flags.StringVar(&f.root, "root", "", "work below `DIR` instead of /: sys, proc and dev are looked for there")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print every change and every process as shell commands; change nothing")
	flags.StringVar(&f.allowWrites, "allow-writes", "", "let jobs that write destroy what is on the disk; `=ID`, such as =serial:NUMBER, where something is on it")
	flags.Lookup("allow-writes").NoOptDefVal = anyBlank
	flags.BoolVar(&f.recover, "recover", false, "take back what benches that were killed have left, and measure nothing")
	flags.BoolVar(&f.attend, attendFlag, false, "")
	_ = flags.MarkHidden(attendFlag) // it is there
	flags.StringVar(&f.engines, "engines", "", "`DIR` with libaps' engines for fio (fio-aps.so), for jobs that have them")
	offer(cmd, map[string]cobra.CompletionFunc{"device": completeFreeDisks(&f.root), "allow-writes": cobra.NoFileCompletions})
	return cmd
}

// anyBlank is --allow-writes without a disk: one with nothing on it.
const anyBlank = "blank"

func (f *benchFlags) run(cmd *cobra.Command, file string) error {
	x, err := f.load(file)
	if err != nil {
		return err
	}
	if f.device == "" {
		return failure.Usagef("bench: --device is missing; give the disk to measure, such as /dev/nvme1n1")
	}
	root, err := cli.RootDir(f.root)
	if err != nil {
		return err
	}
	env := guest.NewEnv(root)
	sys := block.System{Root: root}
	env.Find = func() (*guest.Disk, error) { return freeDisk(sys, f.device) }
	if f.engines != "" {
		if env.Engines, err = filepath.Abs(f.engines); err != nil {
			return err
		}
	}
	plans, err := decideAll(env, x)
	if err != nil {
		return err
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
	d, err := sys.Find(f.device)
	if err != nil {
		return err
	}
	if write(plans) {
		if err := mayWrite(cmd.Context(), sys, d, x.File, f.allowWrites); err != nil {
			return err
		}
	}
	doc, err := f.kept(cmd, env, d, x)
	if err != nil {
		return err
	}
	words := []string{"bench", file, "--device", f.device}
	switch f.allowWrites {
	case "":
	case anyBlank:
		words = append(words, "--allow-writes")
	default:
		words = append(words, "--allow-writes="+f.allowWrites)
	}
	return f.finish(cmd.OutOrStdout(), doc, f.command(words...))
}

// freeDisk finds a disk that nothing uses, on a machine that can share it.
func freeDisk(sys block.System, name string) (*guest.Disk, error) {
	d, err := sys.Find(name)
	if err != nil {
		return nil, err
	}
	if err := d.CheckFree(); err != nil {
		return nil, err
	}
	if err := (cgroup.Tree{Root: sys.Path("sys/fs/cgroup")}).Check(); err != nil {
		return nil, err
	}
	return &guest.Disk{Name: d.Name, Node: d.Node, MajMin: d.MajMin, SizeBytes: d.SizeBytes, About: d.String(), Check: d.CheckNode}, nil
}

// decideAll plans all runs before the first one: what is wrong with the fifth
// scheduler's shows before an hour of the first four.
func decideAll(env guest.Env, x *experiment.Experiment) (plans []*guest.Plan, err error) {
	for i := range x.Cases {
		for _, scheduler := range x.SchedulersIn(&x.Cases[i]) {
			p, err := guest.Decide(env, x, &x.Cases[i], scheduler)
			if err != nil {
				return nil, err
			}
			plans = append(plans, p)
		}
	}
	return plans, nil
}

// write reports whether any job of the plans may write to the disk. A contender's own
// options are in them: the experiment's [job] may only read where a contender's writes.
func write(plans []*guest.Plan) bool {
	return slices.ContainsFunc(plans, func(p *guest.Plan) bool {
		return slices.ContainsFunc(p.Jobs, func(j guest.Job) bool { return j.Files || j.Container.Program != nil || j.Options.Writes() })
	})
}

// kept measures with all that is changed written down before, so that it can be taken
// back even if this process is killed.
func (f *benchFlags) kept(cmd *cobra.Command, env guest.Env, d *block.Device, x *experiment.Experiment) (doc *result.Document, err error) {
	dir, err := os.MkdirTemp("", "isolio-bench-")
	if err != nil {
		return nil, err
	}
	// The containers' commands run as another user, and have their directories in it.
	if err = errors.Join(os.Chmod(dir, 0o711), os.Setenv("TMPDIR", dir)); err != nil { //nolint:gosec // as /tmp, without its names
		return nil, err
	}
	plans, err := decideAll(env, x) // with directories in that one
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	var steps []plan.Step
	for _, p := range plans {
		steps = append(steps, p.Setup...)
	}
	kept, err := recovery.Keep(env.System.Root, d, x.Name, steps, dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	// It is dismissed when there is nothing left that it could take back.
	dismiss, err := f.attended(d)
	if err != nil {
		return nil, errors.Join(err, kept.End())
	}
	defer func() { err = errors.Join(err, kept.End(), dismiss()) }()
	outliveReaders()
	return f.measure(cmd, env, d, x)
}

func (f *benchFlags) measure(cmd *cobra.Command, env guest.Env, d *block.Device, x *experiment.Experiment) (*result.Document, error) {
	line := newProgressLine(cmd.ErrOrStderr(), x)
	defer line.clear()
	held := hold{node: d.Node}
	defer held.release()
	ctx, end := context.WithCancelCause(cmd.Context())
	defer end(nil)
	var runs []result.Run
	for i := range x.Cases {
		k := &x.Cases[i]
		for _, scheduler := range x.SchedulersIn(k) {
			run, err := guest.Run(ctx, env, x, k, scheduler, func(p guest.Progress) {
				held.during(p, k.Device.Filesystem != "", end)
				line.show(p)
			})
			if cause := context.Cause(ctx); err != nil && cause != nil && cmd.Context().Err() == nil {
				err = cause
			}
			if err != nil {
				return nil, fmt.Errorf("bench: %w", err)
			}
			runs = append(runs, run)
		}
	}
	return result.Merge(x, runs)
}
