// SPDX-License-Identifier: MIT

package command

import (
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/view"
)

func newExplainCommand() *cobra.Command {
	var o view.StatusOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain TARGET",
		Short: "Show why a container, unit, pod or cgroup has its weight",
		Long: `Show the chain from the request for a weight to its effect: where the weight was
requested, in which words and on which scale; which rule decided; what
io.kyber.weight holds, and whether the daemon or another program wrote it; on which
disks it acts; the target's entitled and measured share; what it has against a disk
of its own, one as fast as its share, for root; and what limits it.

Each reason has a code that stays the same from version to version. --json has them
as .reasons[].code, and what 'isolio status' tells of the target as .status.`,
		Example: `  isolio explain web
  isolio explain nginx.service --device nvme0n1
  isolio explain web --json | jq -r '.reasons[].code'`,
		Args:              cli.Exactly(1),
		ValidArgsFunction: completeTargets(&o.Root, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Interval < 0 {
				return failure.Usagef("--interval: %s is negative; allowed: 0 and more", o.Interval)
			}
			if o.Root, err = cli.RootDir(o.Root); err != nil {
				return err
			}
			if o.Device != "" {
				if _, err := choose(cmd, o.Root, o.Device); err != nil {
					return err
				}
			}
			o.Only = args
			why, err := view.Explain(cmd.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return why.WriteJSON(cmd.OutOrStdout())
			}
			return why.WriteTable(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print one JSON document instead of a table")
	flags.StringVar(&o.Device, "device", "", "only what is about the disk `DEV`")
	flags.DurationVar(&o.Interval, "interval", time.Second, "how long to watch which cgroups are active; 0 for not at all")
	cli.RootFlag(cmd, &o.Root)
	_ = cmd.RegisterFlagCompletionFunc("device", completeDisks(&o.Root)) // the flag is there
	return cmd
}
