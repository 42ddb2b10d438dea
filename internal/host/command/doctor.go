// SPDX-License-Identifier: MIT

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/bundle"
	"isolio/internal/host/view"
)

func newDoctorCommand() *cobra.Command {
	var root, record string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out whether this machine can share its disks, with remedies",
		Long: `Check what sharing by weight needs: the kernel and its BTF, the module and whether it
fits, Secure Boot, cgroup v2 with the io controller down to containers, a free slot for
the policy, disks that take a scheduler, udev rules or tuned profiles that choose
another one, and the daemon and its rules. doctor changes nothing.

It exits 3 if a check fails, and 0 with warnings only.

--bundle records the files that isolio reads, for a report: 'isolio status --root DIR'
works on what tar takes out of it. Names of hosts and containers, numbers of disks and
users' directories are replaced; names of units and your rules stay.`,
		Example: `  isolio doctor
  isolio doctor --bundle report.tar
  isolio doctor --json | jq '.checks[] | select(.state != "ok")'`,
		Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if root, err = cli.RootDir(root); err != nil {
				return err
			}
			if record != "" && asJSON {
				return failure.Usagef("--bundle: cannot be combined with --json, as it checks nothing; leave one out")
			}
			if record != "" {
				return writeBundle(cmd, root, record)
			}
			doc, err := view.Examine(root)
			if err != nil {
				return err
			}
			return writeDiagnosis(cmd, doc, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document instead of a table")
	cmd.Flags().StringVar(&record, "bundle", "", "record the files that isolio reads in a new tar `FILE`, and check nothing")
	cli.RootFlag(cmd, &root)
	cmd.AddCommand(newDoctorLibapsCommand())
	return cmd
}

func newDoctorLibapsCommand() *cobra.Command {
	var root string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "libaps",
		Short: "Find out what libaps can gain here, with remedies",
		Long: `Check what adaptive polling needs: io_uring, CPUs that wake up fast, system calls without
costly mitigations, and for each disk poll queues, file systems that poll, and no
scheduler that adds CPU time. How much a read can gain is what waking up takes: 2 us for
an interrupt and a switch of tasks, and what a CPU takes to leave its deepest idle state.

It exits 3 if a check fails, and 0 with warnings only.`,
		Example: `  isolio doctor libaps
  isolio doctor libaps --json | jq '.checks[] | select(.name == "disk nvme0n1")'`,
		Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if root, err = cli.RootDir(root); err != nil {
				return err
			}
			doc, err := view.ExamineForLibaps(root)
			if err != nil {
				return err
			}
			return writeDiagnosis(cmd, doc, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document instead of a table")
	cli.RootFlag(cmd, &root)
	return cmd
}

// writeDiagnosis prints it; an error if a check fails.
func writeDiagnosis(cmd *cobra.Command, doc *view.Diagnosis, asJSON bool) error {
	write := doc.WriteTable
	if asJSON {
		write = doc.WriteJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return err
	}
	return doc.Err()
}

// writeBundle records the machine in a file that is not there yet.
func writeBundle(cmd *cobra.Command, root, name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return failure.Usagef("--bundle: %w; allowed: a new file, in a directory that there is", err)
	}
	if err != nil {
		return fmt.Errorf("--bundle: %w", err)
	}
	n, err := bundle.Write(root, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("--bundle: %w", err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files; names of units and your rules are in it, so look before you send it\n", name, n)
	return err
}
