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
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"isolio/internal/failure"
	"isolio/internal/plan/shell"
	"isolio/internal/printable"
	"isolio/internal/table"
)

// Version is what --version prints. The linker sets it to what scripts/version
// prints, except in what goes into VMs: that stays the same from commit to commit.
var Version = "devel"

// Main is a program's main: run with its arguments, until it ends or a signal ends it, one of more
// as well.
func Main(run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int, more ...os.Signal) {
	ctx, stop := signal.NotifyContext(context.Background(), append(more, os.Interrupt, syscall.SIGTERM)...)
	context.AfterFunc(ctx, stop) // a second one ends what does not end by itself
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run executes one command line below root and returns its exit code: 0 done, 1
// failed or not met, 2 usage or bad input, 3 not supported here. An error is one
// line on stderr, wrapped on a terminal.
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
	err := known(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return failure.OK
	}
	return Fail(stderr, NeedsRoot(err, os.Geteuid(), root.CommandPath(), args))
}

// Fail prints the error and returns its exit code. Both programs call themselves
// isolio: isolio-lab is called through `isolio lab` and `isolio bench`.
func Fail(stderr io.Writer, err error) int {
	text, stderr := "isolio: "+message(err), printable.Writer(stderr)
	if strings.Contains(text, "\n") {
		fmt.Fprintln(stderr, text)
	} else {
		_ = table.Lines(stderr, text)
	}
	return failure.Code(err)
}

// NeedsRoot is an error that names the command with sudo where a user that is not root was refused.
func NeedsRoot(err error, user int, program string, args []string) error {
	if user == 0 || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return failure.WithCode(fmt.Errorf("needs root: %s (%w)", shell.Join(append([]string{"sudo", program}, args...)...), err), failure.Code(err))
}

// Root completes a program's root command, which has nothing to do itself.
func Root(root *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	root.Version = Version
	root.Args = noCommand
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.SetFlagErrorFunc(FlagError)
	root.PersistentPreRunE = refuseEmpty
	root.AddCommand(commands...)
	cobra.EnableCommandSorting = false // what is used first comes first
	root.SetHelpFunc(help)
	root.SetUsageFunc(func(cmd *cobra.Command) error { return usage(cmd.OutOrStderr(), cmd) })
	return root
}

// ExitCodes are those of every command; constants of the package failure have them.
const ExitCodes = `Exit codes, of every command:

    0   done
    1   tried and failed, or an expectation is not met
    2   bad input: nothing was changed
    3   this machine or kernel cannot do it
    78  of the daemon: a mistake in the rules at its start`

// Group adds commands below a heading of the help.
func Group(root *cobra.Command, heading string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: heading, Title: heading})
	for _, c := range commands {
		c.GroupID = heading
		root.AddCommand(c)
	}
}

// allowedOf says what a flag takes, by the type of its value.
var allowedOf = map[string]string{
	"intSlice": "whole numbers, such as 1,8,64",
	"duration": "a number with its unit, such as 500ms, 10s or 1m",
	"int":      "a whole number",
	"bool":     "true or false",
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

// refuseEmpty refuses words that are empty, such as that of a shell's variable that is not set: a
// command would do what it does without the flag. A command that hands its words on sees to none.
func refuseEmpty(cmd *cobra.Command, args []string) (err error) {
	if slices.Contains(args, "") && !cmd.DisableFlagParsing {
		return failure.Usagef("%s: an argument is empty; usage: %s", called(cmd), cmd.UseLine())
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = failure.Usagef("--%s: is empty; leave it out, or name its value", f.Name)
		}
	})
	return err
}

// RefuseUnknown has the commands that cobra brings refuse what they do not know,
// as the programs' own do.
func RefuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, topic []string) error { return known(root, topic) }
		case "completion":
			c.Args = Subcommand
			c.RunE = func(*cobra.Command, []string) error { return nil } // its arguments are refused
			for _, shell := range c.Commands() {
				shell.Args = Exactly(0)
			}
		}
	}
}

// known refuses words that name no command, also with --help behind them.
func known(root *cobra.Command, words []string) error {
	about, rest, _ := root.Find(words) // what it does not find is the rest
	switch {
	case len(rest) == 0 || strings.HasPrefix(rest[0], "-") || strings.HasPrefix(rest[0], cobra.ShellCompRequestCmd):
		return nil
	case about == root:
		return noCommand(root, rest)
	case about.HasSubCommands():
		return Subcommand(about, rest)
	}
	return nil
}

// noCommand refuses what is not the name of a subcommand.
func noCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := "; allowed: " + commandsOf(root)
	// Two letters that changed places are a distance of 2, and so is much of a short word.
	root.SuggestionsMinimumDistance = 1
	if len(args[0]) > 4 {
		root.SuggestionsMinimumDistance = 2
	}
	if like := root.SuggestionsFor(args[0]); args[0] != "" && len(like) > 0 {
		meant = "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return failure.Usagef("unknown command %q%s", args[0], meant)
}

// Subcommand is for a command that only has subcommands: to name none of them is bad input.
func Subcommand(cmd *cobra.Command, args []string) error {
	what := "a command is missing"
	if len(args) > 0 {
		what = args[0] + ": no such command"
	}
	return failure.Usagef("%s: %s; allowed: %s", called(cmd), what, commandsOf(cmd))
}

// commandsOf lists the commands of a command for a message.
func commandsOf(cmd *cobra.Command) string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// called is a command without the program's name, with which each message begins.
func called(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()+" ")
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
				called(cmd), count(args), n, cmd.UseLine())
		}
		return nil
	}
}

// Between is Exactly for commands that take least to most arguments.
func Between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return failure.Usagef("%s: got %s, want %d to %d; usage: %s",
				called(cmd), count(args), least, most, cmd.UseLine())
		}
		return nil
	}
}

// AtLeast is Exactly for commands that take n arguments or more.
func AtLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return failure.Usagef("%s: got %s, want %d or more; usage: %s",
				called(cmd), count(args), n, cmd.UseLine())
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
	return strings.ReplaceAll(text, context.Canceled.Error(), "interrupted")
}
