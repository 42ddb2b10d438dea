// SPDX-License-Identifier: MIT

// Command man writes the manual pages of isolio and isolio-lab into directories man1 and
// man5: one for each subcommand, with what `isolio COMMAND --help` says, and that of
// /etc/isolio.toml, with what docs/daemon.md says. It is run where docs/ is. The
// pages have the date of SOURCE_DATE_EPOCH, if that is set.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"isolio/internal/cli"
	host "isolio/internal/host/command"
	lab "isolio/internal/lab/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man DIRECTORY")
		os.Exit(2)
	}
	if err := write("docs/daemon.md", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// write writes all pages below dir.
func write(daemon, dir string) error {
	for _, section := range []string{"man1", "man5"} {
		if err := os.MkdirAll(filepath.Join(dir, section), 0o755); err != nil {
			return err
		}
	}
	for _, cmd := range pages() {
		cmd.DisableAutoGenTag = true
		header := &doc.GenManHeader{Section: "1", Source: "isolio " + cli.Version, Manual: "isolio"}
		if err := doc.GenManTree(cmd, header, filepath.Join(dir, "man1")); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(daemon)
	if err != nil {
		return err
	}
	page, err := rulesPage(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", daemon, err)
	}
	return os.WriteFile(filepath.Join(dir, "man5", "isolio.toml.5"), page, 0o644)
}

// pages are the commands that have pages, with those below them: isolio, and then those of
// isolio-lab, over the pages of what forwards to them. isolio-lab.1, of `isolio lab`, is
// also the page of the program of that name.
func pages() []*cobra.Command {
	return append([]*cobra.Command{host.Root()}, lab.Root().Commands()...)
}

// rulesPage makes a page of those parts of a document that are about the rules.
func rulesPage(text string) ([]byte, error) {
	var page strings.Builder
	fmt.Fprintf(&page, "%% \"ISOLIO.TOML\" \"5\" \"\" \"isolio %s\" \"isolio\"\n# NAME\nisolio.toml \\- weights of containers and units, for isolio daemon\n\n", cli.Version)
	for _, part := range []struct{ heading, title string }{
		{"Rules: /etc/isolio.toml", "DESCRIPTION"}, {"What wins", "WHAT WINS"}, {"Metrics", "METRICS"},
	} {
		_, rest, there := strings.Cut(text, "\n## "+part.heading+"\n")
		if !there {
			return nil, fmt.Errorf("there is no part %q", part.heading)
		}
		body, _, _ := strings.Cut(rest, "\n## ")
		fmt.Fprintf(&page, "# %s\n%s\n", part.title, listed(body))
	}
	page.WriteString("# SEE ALSO\n**isolio-daemon(1)**\n")
	return md2man.Render([]byte(page.String())), nil
}

// listed makes tables of two columns lists, which a narrow terminal has room for.
func listed(text string) string {
	var b strings.Builder
	inTable := false
	for line := range strings.Lines(text) {
		cells := strings.Split(line, " | ")
		isRow := strings.HasPrefix(line, "| ") && len(cells) == 2
		switch {
		case isRow && inTable:
			fmt.Fprintf(&b, "%s\n: %s\n\n", strings.TrimPrefix(cells[0], "| "), strings.TrimSuffix(strings.TrimSpace(cells[1]), " |"))
		case !isRow && !strings.HasPrefix(line, "|--"):
			b.WriteString(line)
		}
		inTable = strings.HasPrefix(line, "|") // its first line is the heads
	}
	return b.String()
}
