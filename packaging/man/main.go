// SPDX-License-Identifier: MIT

// Command man writes the manual pages of isolio, one for each subcommand, into
// a directory: what `isolio COMMAND --help` says.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra/doc"

	"isolio/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man DIRECTORY")
		os.Exit(2)
	}
	root := cli.Command()
	root.DisableAutoGenTag = true
	// The same pages on any day.
	date := time.Unix(0, 0)
	header := &doc.GenManHeader{Title: "ISOLIO", Section: "1", Source: "isolio " + cli.Version, Manual: "isolio", Date: &date}
	if err := doc.GenManTree(root, header, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}
