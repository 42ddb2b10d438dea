// SPDX-License-Identifier: MIT

package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/view"
	"isolio/internal/printable"
)

// statusFlags are the flags of `isolio status`.
type statusFlags struct {
	options       view.StatusOptions
	asJSON, watch bool
	output        string
}

// outputs are what -o takes. The first is the default.
var outputs = []string{"table", "wide", "json", "name"}

func newStatusCommand() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [TARGET...]",
		Short: "Show disks, weights, what comes of them, and why some do nothing",
		Long: `Show every disk and whether weights act on it, and every cgroup that has a weight
or is active. For a cgroup, status shows the file with its weight, the number in it and
its meaning, and its shares of each disk among the cgroups that are active now. For a
weight that does nothing, it shows the reason and the remedy. With TARGETs it shows only
these cgroups, even without a weight: paths, units, containers or pods, as for
'isolio weight'.

The entitled share follows from the weights of a cgroup and its active siblings; the
measured share is what it got. Containers are called by their names, other cgroups
by their systemd unit or path. Default weights are not shown.

For root, the last table shows what each cgroup has against a disk of its own, one as
fast as its share: whether it keeps too few requests outstanding, is owed because its
requests took longer than there, or gives way to a cgroup that is owed.

-o wide has world wide names, serial numbers and models of disks, and whole names
and paths of cgroups. -o name has a name a line, for other commands to read.`,
		Example: `  isolio status
  isolio status web nginx.service
  isolio status --interval 10s
  isolio status --watch
  isolio status --all -o name | xargs -d '\n' isolio weight
  isolio status --json | jq '.cgroups[] | select(.weights[].inert)'`,
		Args:              cli.AtLeast(0),
		ValidArgsFunction: completeTargets(&f.options.Root, 0),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			f.options.Only = args
			return f.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", outputs[0], "what to print, `FORMAT`: "+strings.Join(outputs, ", "))
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON document instead of tables: -o json")
	flags.BoolVar(&f.watch, "watch", false, "show it again after every interval, until it is interrupted")
	flags.StringVar(&f.options.Device, "device", "", "only what is about the disk `DEV`")
	flags.BoolVar(&f.options.All, "all", false, "show cgroups without a weight as well")
	flags.DurationVar(&f.options.Interval, "interval", time.Second, "how long to watch which cgroups are active; 0 for not at all")
	cli.RootFlag(cmd, &f.options.Root)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// shortestWatch is the shortest interval that --watch takes: each takes a look at all cgroups.
const shortestWatch = 100 * time.Millisecond

func (f *statusFlags) run(cmd *cobra.Command) (err error) {
	switch {
	case !slices.Contains(outputs, f.output):
		return failure.Usagef("--output: %q is not a format; allowed: %s", f.output, strings.Join(outputs, ", "))
	case f.asJSON && cmd.Flags().Changed("output") && f.output != "json":
		return failure.Usagef("--json: cannot be combined with --output %s; leave one out", f.output)
	case f.options.Interval < 0:
		return failure.Usagef("--interval: %s is negative; allowed: 0 and more", f.options.Interval)
	case f.watch && f.options.Interval < shortestWatch:
		return failure.Usagef("--interval: %s is too short for --watch; allowed: %s or more", f.options.Interval, shortestWatch)
	}
	if f.asJSON {
		f.output = "json"
	}
	if f.options.Root, err = cli.RootDir(f.options.Root); err != nil {
		return err
	}
	if f.options.Device != "" {
		if _, err := choose(cmd, f.options.Root, f.options.Device); err != nil {
			return err
		}
	}
	if !f.watch {
		return f.show(cmd, "")
	}
	between := "\n"
	if f.output == "json" {
		between = ""
	}
	if out := printable.Under(cmd.OutOrStdout()); f.output != "json" && isTerminal(out) {
		between = clearScreen
	}
	for before := ""; ; before = between {
		if between == clearScreen {
			before = between
		}
		if err := f.show(cmd, before); err != nil || cmd.Context().Err() != nil {
			if cmd.Context().Err() != nil {
				return nil // as it was asked to
			}
			return err
		}
	}
}

// clearScreen puts the cursor at the top of a terminal and clears what is below.
const clearScreen = "\x1b[H\x1b[J"

// show looks for an interval, and prints what it saw after before.
func (f *statusFlags) show(cmd *cobra.Command, before string) error {
	doc, err := view.ReadStatus(cmd.Context(), f.options)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	// An escape is not for the writer that makes names printable.
	if _, err := fmt.Fprint(printable.Under(out), before); err != nil {
		return err
	}
	write := doc.WriteTable
	switch f.output {
	case "json":
		write = doc.WriteJSON
	case "name":
		write = doc.WriteNames
	case "wide":
		write = doc.WriteWide
	}
	return errors.Join(write(out), doc.Err())
}
