// SPDX-License-Identifier: MIT

package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/host/block"
	"isolio/internal/lab/experiment"
)

// completeExperiments lets a shell complete the names of experiments, and files.
func completeExperiments(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	if shelf := experiment.Shelf(); shelf != "" {
		all, _ := experiment.All(shelf) // one that cannot be read is not offered
		for _, x := range all {
			names = append(names, x.Name+"\t"+x.Question)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// completeOf completes a list of what the experiment on the command line has.
func completeOf(names func(x *experiment.Experiment) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		file, err := experiment.Find(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		x, err := experiment.Load(file)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeList(names(x), begin), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeList completes the last word of a list with commas, with those that are not in it.
func completeList(names []string, begin string) []string {
	before := begin[:strings.LastIndexByte(begin, ',')+1]
	var all []string
	for _, name := range names {
		if !slices.Contains(strings.Split(before, ","), name) {
			all = append(all, before+name)
		}
	}
	return all
}

func caseNames(x *experiment.Experiment) []string {
	var names []string
	for i := range x.Cases {
		names = append(names, x.Cases[i].Name)
	}
	return names
}

// completeKernels offers the kernels that make setup made.
func completeKernels(build *string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		files, _ := filepath.Glob(filepath.Join(*build, "kernel/*/vmlinuz")) // the pattern is good
		var names []string
		for _, file := range files {
			names = append(names, filepath.Base(filepath.Dir(file)))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFreeDisks offers the disks that nothing uses, as far as the caller may look.
func completeFreeDisks(dir *string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		root, err := cli.Absolute(*dir)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		sys := block.System{Root: root}
		all, _ := sys.All() // nothing to complete is no error
		var names []string
		for _, i := range all {
			// A caller that may not look is offered the disk: bench refuses one that is in use.
			if d, err := sys.Find(i.Name); err == nil && i.TakesScheduler && (os.Getuid() != 0 || d.CheckFree() == nil) {
				names = append(names, i.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// offer registers completions of flags. Those without one take files, or a number.
func offer(cmd *cobra.Command, of map[string]cobra.CompletionFunc) {
	for flag, complete := range of {
		_ = cmd.RegisterFlagCompletionFunc(flag, complete) // the flag is there
	}
}
