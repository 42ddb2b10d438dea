// SPDX-License-Identifier: MIT

// Package command is the program isolio: it reads arguments, calls the packages
// that do the work, and prints what they return.
package command

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
)

// Run executes one command line and returns its exit code, as cli.Run does. A line
// for the laboratory becomes isolio-lab, and Run does not return.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if forLab(args) {
		return cli.Fail(stderr, becomeLab(args))
	}
	return cli.Run(ctx, Root(), args, stdin, stdout, stderr)
}

// Root lists every subcommand, so that one place shows them all.
func Root() *cobra.Command {
	root := cli.Root(
		&cobra.Command{
			Use:   "isolio",
			Short: "Give every container its share of a disk",
			Long: `isolio shares a disk among containers by weight, at the disk's full speed, on
stock Linux kernels.

Exit codes: 0 done, 1 failed or not met, 2 bad input, 3 not supported here.`,
		},
		newStatusCommand(),
		newDoctorCommand(),
		newEnableCommand(),
		newDisableCommand(),
		newWeightCommand(),
		newExplainCommand(),
		newTopCommand(),
		newDaemonCommand(),
		newLogCommand(),
		newMeasureCommand(),
		newSLACommand(),
		newKmodCommand(),
		newForwarder("bench", "Run an experiment on a disk of this machine"),
		newForwarder("lab", "Run an experiment in virtual machines with exact results"),
		newForwarder("report", "Show a result that was kept, as a table or a page"),
	)
	offerNoFiles(root)
	return root
}
