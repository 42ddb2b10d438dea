// SPDX-License-Identifier: MIT

package command

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"isolio/internal/cli"
	"isolio/internal/host/block"
	"isolio/internal/host/enable"
)

// takeFiles are flags and commands whose words are files, which a shell completes by itself.
var takeFiles = []string{
	"--root", "--config", "--module", "--file", "--btf", "--headers", "--symvers",
	"isolio bench", "isolio lab", "isolio report", "isolio kmod header", "isolio kmod btf", "isolio kmod check", "isolio kmod load",
	"isolio kmod header --output", "isolio kmod btf --output",
}

// offerNoFiles has a shell offer no files where a command takes none.
func offerNoFiles(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		offerNoFiles(sub)
	}
	if cmd.HasSubCommands() {
		return
	}
	if cmd.ValidArgsFunction == nil && !slices.Contains(takeFiles, cmd.CommandPath()) {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		_, offers := cmd.GetFlagCompletionFunc(flag.Name)
		name := "--" + flag.Name
		if flag.Value.Type() == "bool" || offers || slices.Contains(takeFiles, name) || slices.Contains(takeFiles, cmd.CommandPath()+" "+name) {
			return
		}
		_ = cmd.RegisterFlagCompletionFunc(flag.Name, cobra.NoFileCompletions) // the flag is there
	})
}

// completeSchedulers offers every scheduler that a disk of the machine can have, and those
// whose modules isolio loads.
func completeSchedulers(dir *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		names := slices.Clone(enable.Schedulers)
		if root, err := cli.Absolute(*dir); err == nil {
			all, _ := block.System{Root: root}.All() // nothing to complete is no error
			for _, i := range all {
				names = append(names, i.Available...)
			}
		}
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeEnabled offers the disks that enable gave a scheduler.
func completeEnabled(dir *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		root, err := cli.Absolute(*dir)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := enable.Enabled(block.System{Root: root}) // as above
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
