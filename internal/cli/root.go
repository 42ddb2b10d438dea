// SPDX-License-Identifier: MIT

// Package cli is the isolio command: it reads arguments, calls the packages
// that do the work, and prints what they return.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"isolio/internal/failure"
	"isolio/internal/lab"
)

// Version is what `isolio --version` prints; a release raises it.
const Version = "0.1.0"

// Run executes one command line and returns its exit code: 0 done, 1 failed
// or not met, 2 usage or bad input, 3 not supported here. An error is one
// line on stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := Command()
	refuseUnknown(root)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return failure.OK
	}
	fmt.Fprintf(stderr, "isolio: %s\n", message(err))
	return failure.Code(err)
}

// Command lists every subcommand, so that one place shows them all.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "isolio",
		Short: "Give every container its share of a disk",
		Long: `isolio gives every container its paid-for share of a disk, on stock Linux
kernels, without giving up the disk's speed.

Exit codes: 0 done, 1 failed or not met, 2 bad input, 3 not supported here.`,
		Version:       Version,
		Args:          noCommand,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.AddCommand(
		newStatusCommand(),
		newDoctorCommand(),
		newEnableCommand(),
		newDisableCommand(),
		newWeightCommand(),
		newTopCommand(),
		newDaemonCommand(),
		newBenchCommand(),
		newLabCommand(),
		newKmodCommand(),
	)
	root.SetFlagErrorFunc(flagError)
	return root
}

// allowedOf says what a flag takes, by the type of its value.
var allowedOf = map[string]string{
	"duration": "a number with its unit, such as 500ms, 10s or 1m",
	"int":      "a whole number",
	"bool":     "true or false",
}

// flagError says in this command's words what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if allowed := allowedOf[wrong.GetFlag().Value.Type()]; allowed != "" {
			return failure.Usagef("--%s: %q; allowed: %s", wrong.GetFlag().Name, wrong.GetValue(), allowed)
		}
	}
	return failure.Usagef("%w; see `%s --help`", err, cmd.CommandPath())
}

// refuseUnknown has the commands that cobra brings refuse what they do not know,
// as this one's do.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, topic []string) error {
				about, rest, _ := root.Find(topic) // what it does not find is the rest
				switch {
				case about == root:
					return noCommand(root, rest)
				case about.HasSubCommands():
					return subcommand(about, rest)
				}
				return nil
			}
		case "completion":
			c.Args = subcommand
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// noCommand refuses what is not the name of a subcommand.
func noCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return failure.Usagef("unknown command %q; allowed: %s", args[0], strings.Join(names, ", "))
}

// exactly is cobra.ExactArgs with this command's exit code and wording.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return failure.Usagef("%s: got %d arguments, want %d; usage: %s",
				cmd.CommandPath(), len(args), n, cmd.UseLine())
		}
		return nil
	}
}

// between is exactly for commands that take least to most arguments.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return failure.Usagef("%s: got %d arguments, want %d to %d; usage: %s",
				cmd.CommandPath(), len(args), least, most, cmd.UseLine())
		}
		return nil
	}
}

// message is an error's one line. Only a lab machine's failure has more: the
// end of its kernel's log and how to boot it again.
func message(err error) string {
	if _, ok := errors.AsType[*lab.Failure](err); ok {
		return err.Error()
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.ReplaceAll(text, context.Canceled.Error(), "interrupted")
	if errors.Is(err, fs.ErrPermission) {
		text += " (root may be needed)"
	}
	return text
}
