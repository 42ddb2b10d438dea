// SPDX-License-Identifier: MIT

package command

import (
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/status"
)

func newStatusCommand() *cobra.Command {
	var o status.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show disks, weights, what comes of them, and why some do nothing",
		Long: `Show every disk and whether weights act on it, and every cgroup that has a weight
or is active. For a cgroup that is the file with its weight, the number in it and
what was meant by it, and its shares of each disk among the cgroups that are active
now. For a weight that does nothing it is the reason, and what to do.

The entitled share follows from the weights of a cgroup and its active siblings; the
measured share is what it got. Containers are called by their names, other cgroups
by their systemd unit or path. Default weights are not shown.`,
		Example: `  isolio status
  isolio status --interval 10s
  isolio status --json | jq '.cgroups[] | select(.weights[].inert)'`,
		Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Interval < 0 {
				return failure.Usagef("--interval: %s is negative; allowed: 0 and more", o.Interval)
			}
			if o.Root, err = cli.RootDir(o.Root); err != nil {
				return err
			}
			doc, err := status.Read(cmd.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return doc.WriteJSON(cmd.OutOrStdout())
			}
			return doc.WriteTable(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print one JSON document instead of tables")
	flags.BoolVar(&o.All, "all", false, "show cgroups without a weight as well")
	flags.DurationVar(&o.Interval, "interval", time.Second, "how long to watch which cgroups are active; 0 for not at all")
	cli.RootFlag(cmd, &o.Root)
	return cmd
}
