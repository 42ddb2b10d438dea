// SPDX-License-Identifier: MIT

// Command isolio-results keeps results/ and the documents made of it up to date. It is for
// people who change the tree, and is not installed: see `make results` and `make doc`.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"isolio/internal/failure"
	"isolio/internal/lab/archive"
	"isolio/internal/lab/doc"
	"isolio/internal/lab/run"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runMain(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func runMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var tree string
	root := &cobra.Command{
		Use: "isolio-results", Short: "Keep results/ and the documents made of it up to date",
		SilenceErrors: true, SilenceUsage: true,
	}
	root.PersistentFlags().StringVar(&tree, "tree", ".", "the source tree's `DIR`")
	root.AddCommand(runCommand(&tree), listCommand(&tree), verifyCommand(&tree), docCommand(&tree))
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return failure.OK
	}
	text := err.Error()
	if errors.Is(err, context.Canceled) {
		text = strings.ReplaceAll(text, context.Canceled.Error(), "interrupted")
	}
	fmt.Fprintln(stderr, "isolio-results:", text)
	return failure.Code(err)
}

func runCommand(tree *string) *cobra.Command {
	r := run.Renewal{}
	cmd := &cobra.Command{
		Use: "run", Short: "Measure anew what is older than the code", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.Tree, r.Out = archive.Tree(*tree), cmd.OutOrStdout()
			var err error
			if r.Version, err = version(cmd.Context(), *tree); err != nil {
				return err
			}
			if r.Series, err = doc.Sampled(r.Tree); err != nil {
				return err
			}
			return r.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&r.Only, "only", "", "only experiments whose names match the shell `PATTERN`")
	cmd.Flags().StringVar(&r.Kernel, "kernel", "", "measure those on kernel `LINE` in place of their own, into results/NAME@LINE.jsonl")
	cmd.Flags().BoolVar(&r.All, "all", false, "measure those that are not older as well")
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "print what would be measured; measure nothing")
	cmd.Flags().StringVar(&r.Lab.Build, "build", "build", "the `DIR` that make setup filled")
	cmd.Flags().IntVar(&r.Lab.Jobs, "jobs", 0, "how many VMs run at a time, 0 for one a CPU")
	return cmd
}

// version is the tree's, as scripts/version has it, with a mark only if what is measured
// was changed.
func version(ctx context.Context, tree string) (string, error) {
	text, err := exec.CommandContext(ctx, filepath.Join(tree, "scripts", "version")).Output()
	if err != nil {
		return "", fmt.Errorf("scripts/version: %w; results name the version that was measured, so this takes a git tree", err)
	}
	const mark = ".dirty"
	name := strings.TrimSuffix(strings.TrimSpace(string(text)), mark)
	err = exec.CommandContext(ctx, "git", "-C", tree, "diff", "--quiet", "HEAD", "--", "kernel", "libaps", "internal", "experiments").Run()
	if _, changed := errors.AsType[*exec.ExitError](err); changed {
		return name + mark, nil
	}
	return name, err
}

func listCommand(tree *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List results that are older than the code, and why", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := archive.Tree(*tree)
			all, err := t.Measured()
			if err != nil {
				return err
			}
			for _, x := range all {
				doc, err := t.Read(x.Name)
				if err != nil {
					return err
				}
				why, err := t.Old(x, doc)
				if err != nil {
					return err
				}
				if len(why) > 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", x.Name, strings.Join(why, ", "))
				}
			}
			return nil
		},
	}
}

func verifyCommand(tree *string) *cobra.Command {
	var opts run.Options
	cmd := &cobra.Command{
		Use: "verify EXPERIMENT [CASE]", Short: "Measure a case again, and compare it with its result figure by figure", Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return run.Verify(cmd.Context(), archive.Tree(*tree), opts, args[0], append(args, "")[1], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&opts.Build, "build", "build", "the `DIR` that make setup filled")
	return cmd
}

func docCommand(tree *string) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "doc [PAGE [DATA...]]", Short: "Fill tables, plots and transcripts of all pages, or of one",
		Long: `Fill the tables and plots of all pages, or of PAGE of docs/, with results/.

DATA are files of JSON lines that tests in VMs, scripts/law and scripts/fuzz print. They replace
what the page has of the same tables. Short tables are kept in results/data/PAGE.jsonl.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var files map[string][]byte
			var err error
			switch t := archive.Tree(*tree); {
			case len(args) == 0:
				files, err = doc.All(t)
			case len(args) == 1:
				files, err = doc.One(t, args[0], "", nil)
			default:
				var name string
				if name, err = version(cmd.Context(), *tree); err == nil {
					files, err = doc.One(t, args[0], name, args[1:])
				}
			}
			if err != nil {
				return err
			}
			changed, err := put(*tree, files, !check)
			for _, file := range changed {
				fmt.Fprintln(cmd.OutOrStdout(), file)
			}
			if err == nil && check && len(changed) > 0 {
				return errors.New("these differ from what was measured; `make doc` fills them, or `isolio-results doc PAGE DATA...`")
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; exit 1 if a page differs from what was measured")
	return cmd
}

// put returns the files that are other than they should be, and writes them, or removes those of no text.
func put(tree string, files map[string][]byte, write bool) (changed []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path, want := filepath.Join(tree, name), files[name]
		if have, err := os.ReadFile(path); err == nil && (bytes.Equal(have, want) || !write && doc.Same(have, want)) || errors.Is(err, fs.ErrNotExist) && len(want) == 0 {
			continue
		}
		changed = append(changed, name)
		if !write {
			continue
		}
		if len(want) == 0 {
			err = os.Remove(path)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, want, 0o644)
		}
		if err != nil {
			return nil, err
		}
	}
	return changed, nil
}
