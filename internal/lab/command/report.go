// SPDX-License-Identifier: MIT

package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/lab/archive"
	"isolio/internal/lab/report"
	"isolio/internal/lab/result"
)

func newReportCommand() *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use:   "report RESULT",
		Short: "Show a result that was kept, as a table or a page",
		Long: `Show the stored result of an experiment: print its table, or write the page that
'isolio lab --report' writes.

A result is a file that --json made, - for standard input, or the name of one in
results/.`,
		Example: `  isolio report kf-nested
  isolio report kf-nested --output page.html
  isolio lab null-blk --json | isolio report - --output page.html`,
		Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if page != "" {
				if err := report.CheckPath(page); err != nil {
					return err
				}
			}
			doc, err := readResult(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			if page == "" {
				return doc.WriteTable(cmd.OutOrStdout())
			}
			return report.Write(page, doc)
		},
	}
	cmd.Flags().StringVarP(&page, "output", "o", "", "write the page to `FILE`, and print nothing")
	return cmd
}

// readResult reads a file, standard input, or a result of the tree by its name.
func readResult(stdin io.Reader, name string) (*result.Document, error) {
	if name == "-" {
		text, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		return archive.Decode("of standard input", text)
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && filepath.Base(name) == name {
		doc, err := archive.Tree(".").Read(name)
		if err != nil || doc != nil {
			return doc, err
		}
	}
	if err != nil {
		return nil, failure.Usagef("report: %w; allowed: "+archive.Allowed, err)
	}
	return archive.Decode(name, text)
}
