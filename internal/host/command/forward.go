// SPDX-License-Identifier: MIT

package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"isolio/internal/failure"
)

// labProgram has the commands of the laboratory: with plots and VMs they are
// larger than all else, and a host that shares disks does without.
const labProgram = "isolio-lab"

// newForwarder is a command of labProgram, for the list of commands. Its arguments
// are for labProgram to read.
func newForwarder(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              short,
		Long:               short + ".\n\nIt is a command of the program " + labProgram + ", which has its help.",
		Example:            "  isolio " + name + " --help",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return becomeLab(append([]string{name}, args...))
		},
	}
}

// forLab reports whether a command line is about one of labProgram's commands: calls
// it, asks for its help, or has a shell complete its arguments.
func forLab(args []string) bool {
	least := 1
	if len(args) > 0 {
		switch args[0] {
		case "help":
			args = args[1:]
		case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
			args, least = args[1:], 2 // of one word, the command's name is completed
		}
	}
	return len(args) >= least && slices.Contains([]string{"bench", "lab", "report"}, args[0])
}

// becomeLab executes labProgram in place of this one. It returns only when that
// cannot be.
func becomeLab(args []string) error {
	file, err := findLab()
	if err != nil {
		return failure.Unsupportedf("%s, which has the commands bench, lab and report, is neither beside isolio nor in PATH; "+
			"install the package %s, or run `make build` in the source tree", labProgram, labProgram)
	}
	return &os.PathError{Op: "exec", Path: file, Err: syscall.Exec(file, append([]string{labProgram}, args...), os.Environ())}
}

// findLab prefers the one that was built or installed with this program.
func findLab() (string, error) {
	if self, err := os.Executable(); err == nil {
		if file, err := exec.LookPath(filepath.Join(filepath.Dir(self), labProgram)); err == nil {
			return file, nil
		}
	}
	return exec.LookPath(labProgram)
}
