// SPDX-License-Identifier: MIT

// Package cli is what the programs isolio and isolio-lab have in common as
// command lines: how errors, flags and arguments are refused, and --root.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"isolio/internal/failure"
	"isolio/internal/printable"
)

// Version is what --version prints. The linker sets it to what scripts/version
// prints, except in what goes into VMs: that stays the same from commit to commit.
var Version = "devel"

// Run executes one command line below root and returns its exit code: 0 done, 1
// failed or not met, 2 usage or bad input, 3 not supported here. An error is one
// line on stderr.
//
// Whatever a command prints goes through printable.Writer: names that tenants and
// processes choose reach tables, JSON, errors and completions, and must not act on a
// terminal.
func Run(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	RefuseUnknown(root)
	if slices.Equal(args, []string{"version"}) { // as other programs have it
		args = []string{"--version"}
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	stdout, stderr = printable.Writer(stdout), printable.Writer(stderr)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return failure.OK
	}
	return Fail(stderr, err)
}

// Fail prints the error and returns its exit code. Both programs call themselves
// isolio: isolio-lab is called through `isolio lab` and `isolio bench`.
func Fail(stderr io.Writer, err error) int {
	fmt.Fprintf(printable.Writer(stderr), "isolio: %s\n", message(err))
	return failure.Code(err)
}

// Root completes a program's root command, which has nothing to do itself.
func Root(root *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	root.Version = Version
	root.Args = noCommand
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.SetFlagErrorFunc(FlagError)
	root.AddCommand(commands...)
	return root
}

// allowedOf says what a flag takes, by the type of its value.
var allowedOf = map[string]string{
	"duration": "a number with its unit, such as 500ms, 10s or 1m",
	"int":      "a whole number",
	"bool":     "true or false",
	"intSlice": "whole numbers with commas, such as 1,8,64",
}

// FlagError says in the programs' words what is wrong with a flag.
func FlagError(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if allowed := allowedOf[wrong.GetFlag().Value.Type()]; allowed != "" {
			return failure.Usagef("--%s: %q; allowed: %s", wrong.GetFlag().Name, wrong.GetValue(), allowed)
		}
	}
	return failure.Usagef("%w; see `%s --help`", err, cmd.CommandPath())
}

// RefuseUnknown has the commands that cobra brings refuse what they do not know,
// as the programs' own do.
func RefuseUnknown(root *cobra.Command) {
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
					return Subcommand(about, rest)
				}
				return nil
			}
		case "completion":
			c.Args = Subcommand
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
	meant := ""
	// Two letters that changed places are a distance of 2, and so is much of a short word.
	root.SuggestionsMinimumDistance = 1
	if len(args[0]) > 4 {
		root.SuggestionsMinimumDistance = 2
	}
	if like := root.SuggestionsFor(args[0]); len(like) > 0 {
		meant = "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return failure.Usagef("unknown command %q%s; allowed: %s", args[0], meant, strings.Join(names, ", "))
}

// Subcommand is for a command that only has subcommands: a word that names
// none of them is bad input.
func Subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return failure.Usagef("%s: %s: no such command; allowed: %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
}

// NoSubcommand refuses a command that only has subcommands, without one.
func NoSubcommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return failure.Usagef("%s: does nothing alone; allowed: %s; see `%s --help`", cmd.CommandPath(), strings.Join(names, ", "), cmd.CommandPath())
}

// count says how many arguments there are.
func count(args []string) string {
	if len(args) == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", len(args))
}

// Exactly is cobra.ExactArgs with the programs' exit code and wording.
func Exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return failure.Usagef("%s: got %s, want %d; usage: %s",
				cmd.CommandPath(), count(args), n, cmd.UseLine())
		}
		return nil
	}
}

// Between is Exactly for commands that take least to most arguments.
func Between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return failure.Usagef("%s: got %s, want %d to %d; usage: %s",
				cmd.CommandPath(), count(args), least, most, cmd.UseLine())
		}
		return nil
	}
}

// AtLeast is Exactly for commands that take n arguments or more.
func AtLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return failure.Usagef("%s: got %s, want %d or more; usage: %s",
				cmd.CommandPath(), count(args), n, cmd.UseLine())
		}
		return nil
	}
}

// RootFlag is for commands that can work on a tree of files.
func RootFlag(cmd *cobra.Command, root *string) {
	cmd.Flags().StringVar(root, "root", "", "work below `DIR` instead of /: sys, proc, dev, etc and var are looked for there")
}

// RootDir is what is meant by --root: "" stands for / itself.
func RootDir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", failure.Usagef("--root: %q is not a directory; allowed: a directory that has sys, as / does", dir)
	}
	return Absolute(dir)
}

// Absolute is path as it is from any directory; no path stays none.
func Absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

// lines is an error whose message has more than one line.
type lines struct{ error }

func (l lines) Unwrap() error { return l.error }

// Lines marks an error whose message is printed with all its lines: the end of a
// log, for example, is nothing to be put on one.
func Lines(err error) error { return lines{err} }

// message is an error's one line, unless Lines marked it.
func message(err error) string {
	if whole, ok := errors.AsType[lines](err); ok {
		return whole.Error()
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.ReplaceAll(text, context.Canceled.Error(), "interrupted")
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		text += "; it needs root: run it with sudo"
	}
	return text
}
