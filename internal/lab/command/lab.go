// SPDX-License-Identifier: MIT

package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/run"
	"isolio/internal/lab/vm"
	"isolio/internal/table"
)

// labFlags are the flags of `isolio lab` besides a measurement's.
type labFlags struct {
	measurement
	options run.Options
	list    bool
}

func newLabCommand() *cobra.Command {
	var f labFlags
	cmd := &cobra.Command{
		Use:   "lab EXPERIMENT",
		Short: "Run an experiment in virtual machines with exact results",
		Long: `Run an experiment in virtual machines, one VM for each scheduler in each of its cases,
and print what each container got. A VM boots a stock kernel, and its clock is the
number of instructions it executed. So two runs print the same bytes, on any computer
and under any load. The lab needs neither root nor KVM.

The results of finished VMs are kept in build/lab, after Ctrl-C and a failure too: the same
command with --resume boots only the others.

An experiment is a file, or the name of one in experiments/ (--list has them).
Kernels and modules come from 'make setup KERNEL=6.1'.`,
		Example: `  isolio lab report-rand-read
  isolio lab report-rand-read --schedulers none,bfq --json
  isolio lab validate-hdd --cases depth-1,depth-31 --check
  isolio lab report-rand-read --kernel 6.1 --check --report page.html
  isolio lab report-rand-read --resume`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return cli.Exactly(0)(cmd, args)
			}
			return cli.Exactly(1)(cmd, args)
		},
		ValidArgsFunction: completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return listExperiments(cmd.OutOrStdout(), f.options, f.json)
			}
			return f.run(cmd, args[0])
		},
	}
	f.addFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.list, "list", false, "list the experiments: their names, about how long each takes, and their questions")
	flags.StringVar(&f.options.Line, "kernel", "", "the kernel `LINE` to boot, as given to make setup; by default the experiment's, which is "+experiment.DefaultKernel+" unless it says another")
	flags.StringVar(&f.options.Build, "build", "build", "the `DIR` that make setup filled")
	flags.IntVar(&f.options.Jobs, "jobs", 0, "how many VMs run at a time, 0 for one a CPU; it does not change the result")
	flags.DurationVar(&f.options.Timeout, "timeout", time.Hour, "give up after this long on the wall clock, 0 for never")
	flags.BoolVar(&f.options.Reuse, "resume", false, "take the results of VMs that an earlier run finished, where a VM would be the same")
	flags.StringVar(&f.options.Keep, "keep", "", "keep initramfs, kernel log and events of each VM in `DIR`")
	offer(cmd, map[string]cobra.CompletionFunc{
		"kernel": completeKernels(&f.options.Build), "jobs": cobra.NoFileCompletions, "timeout": cobra.NoFileCompletions,
	})
	return cmd
}

func (f *labFlags) run(cmd *cobra.Command, file string) error {
	x, err := f.load(file)
	if err != nil {
		return err
	}
	if f.options.Jobs < 0 {
		return failure.Usagef("--jobs: %d is out of range; allowed: 0 and up", f.options.Jobs)
	}
	if f.options.Timeout < 0 {
		return failure.Usagef("--timeout: %s is out of range; allowed: 0 and up", f.options.Timeout)
	}
	f.options.Line = cmp.Or(f.options.Line, x.Kernel)
	if err := checkKernel(f.options.Build, f.options.Line); err != nil {
		return err
	}
	f.options.Cache = filepath.Join(f.options.Build, "lab")
	line := newProgressLine(cmd.ErrOrStderr(), x)
	doc, err := run.Experiment(cmd.Context(), f.options, x, line.show)
	line.clear()
	// A VM's failure has the end of its kernel's log and how to boot it again.
	if _, failed := errors.AsType[*vm.Failure](err); failed {
		return cli.Lines(err)
	}
	if err != nil {
		return err
	}
	return f.finish(cmd.OutOrStdout(), doc, f.command("lab", file, "--kernel", f.options.Line))
}

// checkKernel makes sure that make setup made a kernel of that line.
func checkKernel(build, line string) error {
	dir := filepath.Join(build, "kernel")
	var lines []string
	entries, _ := os.ReadDir(dir) // one that is not there holds none
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name(), "release")); err == nil {
			lines = append(lines, e.Name())
		}
	}
	if slices.Contains(lines, line) {
		return nil
	}
	return failure.Usagef("--kernel: %s has no kernel %q; allowed: %s; `make setup KERNEL=LINE` makes one",
		dir, line, cmp.Or(strings.Join(lines, ", "), "none yet"))
}

// listed is an experiment as --list --json has it.
type listed struct {
	Name     string `json:"name"`
	VMs      int    `json:"vms"`
	AboutS   int    `json:"about_s"` // on this machine
	Question string `json:"question"`
}

// listExperiments prints those of the shelf.
func listExperiments(to io.Writer, opts run.Options, asJSON bool) error {
	shelf := experiment.Shelf()
	if shelf == "" {
		return failure.Usagef("--list: there are no experiments in %s", strings.Join(experiment.Shelves, " or "))
	}
	all, err := experiment.All(shelf)
	if err != nil {
		return err
	}
	list := []listed{}
	var rows [][]string
	for _, x := range all {
		about := opts.Estimate(x)
		list = append(list, listed{x.Name, x.Runs(), int(about.Round(time.Second) / time.Second), x.Question})
		rows = append(rows, []string{x.Name, fmt.Sprint(x.Runs()), fmt.Sprintf("%d min", max(1, about.Round(time.Minute)/time.Minute)), x.Question})
	}
	if asJSON {
		enc := json.NewEncoder(to)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string][]listed{"experiments": list})
	}
	columns := []table.Column{{Head: "experiment"}, {Head: "VMs", Right: true}, {Head: "about", Right: true}, {Head: "question"}}
	return table.Write(to, columns, rows)
}
