// SPDX-License-Identifier: MIT

package command

import (
	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/host/view"
)

func newDoctorCommand() *cobra.Command {
	var root string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out whether this machine can share its disks, with remedies",
		Long: `Check what sharing by weight needs: the kernel and its BTF, the module and whether it
fits, Secure Boot, cgroup v2 with the io controller down to containers, a free slot for
the policy, disks that take a scheduler, udev rules or tuned profiles that choose
another one, and the daemon and its rules. doctor changes nothing.

It exits 3 if a check fails, and 0 with warnings only.`,
		Example: `  isolio doctor
  isolio doctor --json | jq '.checks[] | select(.state != "ok")'`,
		Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if root, err = cli.RootDir(root); err != nil {
				return err
			}
			doc, err := view.Examine(root)
			if err != nil {
				return err
			}
			write := doc.WriteTable
			if asJSON {
				write = doc.WriteJSON
			}
			if err := write(cmd.OutOrStdout()); err != nil {
				return err
			}
			return doc.Err()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document instead of a table")
	cli.RootFlag(cmd, &root)
	return cmd
}
