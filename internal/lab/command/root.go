// SPDX-License-Identifier: MIT

// Package command is the program isolio-lab: it reads arguments, runs an
// experiment, and prints what came of it.
package command

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
)

// Run executes one command line and returns its exit code, as cli.Run does.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := Root()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") { // about itself
		delete(root.Annotations, cobra.CommandDisplayNameAnnotation)
	}
	return cli.Run(ctx, root, args, stdin, stdout, stderr)
}

// Root lists every subcommand. Help calls them as users do, `isolio lab`.
func Root() *cobra.Command {
	root := cli.Root(
		&cobra.Command{
			Use:         "isolio-lab",
			Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "isolio"},
			Short:       "Measure how schedulers share a disk",
			Long: `isolio-lab is the program behind 'isolio lab', 'isolio bench' and 'isolio report',
which measure how schedulers share a disk, and show what came of it.

` + cli.ExitCodes,
		},
		newBenchCommand(),
		newLabCommand(),
		newReportCommand(),
	)
	root.SetVersionTemplate("isolio-lab version {{.Version}}\n")
	return root
}
