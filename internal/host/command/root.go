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
			Long: `isolio shares a disk among containers by weight: each gets its share while it keeps
requests waiting, and what it does not use goes to the others.

` + cli.ExitCodes,
		},
	)
	cli.Group(root, "Start:", newDoctorCommand(), newDemoCommand(), newEnableCommand(), newDisableCommand(), newUpgradeCommand())
	cli.Group(root, "Operate:", newStatusCommand(), newTopCommand(), newExplainCommand(), newWeightCommand(), newLogCommand(), newDaemonCommand())
	cli.Group(root, "Promise:", newMeasureCommand(), newSLACommand())
	cli.Group(root, "Laboratory:",
		newForwarder("lab", "Run an experiment in virtual machines with exact results"),
		newForwarder("bench", "Run an experiment on a disk of this machine"),
		newForwarder("report", "Show a result that was kept, as a table or a page"),
	)
	const others = "Modules and shells:"
	cli.Group(root, others, newKmodCommand())
	root.SetHelpCommandGroupID(others)
	root.SetCompletionCommandGroupID(others)
	offerNoFiles(root)
	return root
}
