// SPDX-License-Identifier: MIT

package cli

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/failure"
	"isolio/internal/host/status"
)

func newStatusCommand() *cobra.Command {
	var o status.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show disks, weights, what comes of them, and why some do nothing",
		Long: `Show every disk and whether weights act on it, and every cgroup that has a
weight or is active: the file and the number in it, what was meant by it, its
share of each disk among the cgroups that are active now, and of a weight that
does nothing, why, and what to do.

A share is what a cgroup is entitled to by its weight and those of its active
siblings, and what it got. Containers are called by their names, other cgroups
by their systemd unit or path. Weights that are the default are not shown.`,
		Example: `  isolio status
  isolio status --interval 10s
  isolio status --json | jq '.cgroups[] | select(.weights[].inert)'`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Interval < 0 {
				return failure.Usagef("--interval: %s is negative; allowed: 0 and more", o.Interval)
			}
			if o.Root, err = rootDir(o.Root); err != nil {
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
	flags.DurationVar(&o.Interval, "interval", time.Second, "how long to look who is active; 0 for not at all")
	rootFlag(cmd, &o.Root)
	return cmd
}

// rootFlag is for commands that can work on a tree of files.
func rootFlag(cmd *cobra.Command, root *string) {
	cmd.Flags().StringVar(root, "root", "", "work below `DIR` instead of /: sys, proc, dev, etc and var are looked for there")
}

// rootDir is what is meant by --root: "" stands for / itself.
func rootDir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", failure.Usagef("--root: %q is no directory; allowed: one that has sys and the like", dir)
	}
	return absolute(dir)
}
