// SPDX-License-Identifier: MIT

package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/kmod"
	"isolio/internal/printable"
)

func newKmodCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kmod",
		Short: "Build, check and load kernel modules that fit their kernel",
		Args:  cli.Subcommand,
		RunE:  func(*cobra.Command, []string) error { return nil }, // its arguments are refused
	}
	cmd.AddCommand(newKmodHeaderCommand(), newKmodBTFCommand(), newKmodCheckCommand(),
		newKmodLoadCommand(), newKmodUnloadCommand())
	return cmd
}

// moduleName is what a kernel takes for one.
var moduleName = regexp.MustCompile(`^[0-9A-Za-z_-]+$`)

// versionForm is that of Debian's versions, without an epoch.
var versionForm = regexp.MustCompile(`^[0-9][0-9A-Za-z.+~-]*$`)

func newKmodHeaderCommand() *cobra.Command {
	var btfFile, symvers, moduleVersion, output string
	var headers []string
	cmd := &cobra.Command{
		Use:   "header LIST...",
		Short: "Write the C header with a kernel's private declarations",
		Long: `Write the C header with the private declarations, feature macros and layout
record that the lists ask for, as the kernel's BTF has them.`,
		Example: `  isolio kmod header --btf vmlinux.btf --symvers Module.symvers \
      --headers /lib/modules/$(uname -r)/source -o isolio_private.h \
      kernel/compat/private-types.txt kernel/compat/features.txt`,
		Args: cli.AtLeast(1),
		RunE: func(cmd *cobra.Command, lists []string) error {
			if moduleVersion != "" && !versionForm.MatchString(moduleVersion) {
				return failure.Usagef("--module-version: %q; allowed: digits, letters and . + ~ -, a digit first", moduleVersion)
			}
			wanted, err := kmod.ReadWanted(lists...)
			if err != nil {
				return err
			}
			wanted.ModuleVersion = moduleVersion
			spec, err := kmod.LoadSpec(btfFile)
			if err != nil {
				return err
			}
			kernel := &kmod.Kernel{Spec: spec}
			for _, dir := range headers {
				if err := kernel.AddHeaders(dir); err != nil {
					return err
				}
			}
			if symvers != "" {
				if err := kernel.AddSymvers(symvers); err != nil {
					return err
				}
			}
			return writeOutput(cmd, output, func(w io.Writer) error {
				return kmod.WriteHeader(w, kernel, wanted)
			})
		},
	}
	btfFlag(cmd, &btfFile)
	outputFlag(cmd, &output)
	cmd.Flags().StringVar(&moduleVersion, "module-version", "", "the `version` that modinfo shows of the modules")
	cmd.Flags().StringVar(&symvers, "symvers", "", "the kernel's Module.symvers")
	cmd.Flags().StringArrayVar(&headers, "headers", nil, "a `directory` with the kernel's include/linux: types found there are not declared")
	return cmd
}

func newKmodBTFCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "btf FILE",
		Short:   "Write the raw BTF in a kernel image or an ELF file",
		Example: `  isolio kmod btf /boot/vmlinuz-$(uname -r) -o vmlinux.btf`,
		Args:    cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := kmod.ReadBTF(args[0])
			if err != nil {
				return err
			}
			return writeOutput(cmd, output, func(w io.Writer) error {
				_, err := w.Write(raw)
				return err
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func newKmodCheckCommand() *cobra.Command {
	var btfFile string
	cmd := &cobra.Command{
		Use:   "check MODULE...",
		Short: "Check that modules fit a kernel",
		Long: `Compare the layout record in each module file with a kernel's BTF. A module
that does not fit makes this exit 3.`,
		Example: `  isolio kmod check build/modules/6.12/*.ko --btf build/kernel/6.12/vmlinux.btf`,
		Args:    cli.AtLeast(1),
		RunE: func(cmd *cobra.Command, modules []string) error {
			spec, err := kmod.LoadSpec(btfFile)
			if err != nil {
				return err
			}
			for _, ko := range modules {
				if err := kmod.CheckLayout(ko, spec); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: fits\n", ko)
			}
			return nil
		},
	}
	btfFlag(cmd, &btfFile)
	return cmd
}

func newKmodLoadCommand() *cobra.Command {
	var parameters string
	cmd := &cobra.Command{
		Use:     "load MODULE",
		Short:   "Load a module file if it fits the running kernel",
		Example: `  isolio kmod load build/modules/6.1/kyber-fairness-iosched.ko`,
		Args:    cli.Exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return kmod.Load(args[0], parameters)
		},
	}
	cmd.Flags().StringVar(&parameters, "parameters", "", "module parameters, as \"name=value name=value\"")
	return cmd
}

func newKmodUnloadCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "unload NAME",
		Short:   "Unload a module",
		Example: `  isolio kmod unload kyber-fairness-iosched`,
		Args:    cli.Exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !moduleName.MatchString(args[0]) {
				return failure.Usagef("kmod unload: %q; allowed: a module's name: letters, digits, - and _", args[0])
			}
			return kmod.Unload(args[0])
		},
	}
}

func btfFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "btf", kmod.RunningBTF, "the kernel's BTF: raw, an ELF `file` with it, or a kernel image")
}

func outputFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "output", "o", "", "write to this `file` instead of standard output")
}

// writeOutput writes a whole file or nothing of it; no name is standard output.
func writeOutput(cmd *cobra.Command, name string, write func(io.Writer) error) error {
	if name == "" {
		// It may be bytes for another program, such as BTF.
		return write(printable.Under(cmd.OutOrStdout()))
	}
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		return failure.Usagef("--output: %q is a directory; allowed: a file in it", name)
	}
	file, err := renameio.NewPendingFile(name, renameio.WithStaticPermissions(0o644), renameio.WithTempDir(filepath.Dir(name)))
	if err != nil {
		return failure.Usagef("--output: %q is no file to write; allowed: a file, new or old, in a directory that there is", name)
	}
	defer file.Cleanup()
	if err := write(file); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}
