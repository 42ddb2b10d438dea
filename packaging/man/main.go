// SPDX-License-Identifier: MIT

// Command man writes the manual pages of isolio and isolio-lab into directories man1 and
// man5: one for each subcommand, with what `isolio COMMAND --help` says, and that of
// /etc/isolio.toml, with what the documents say. It is run where docs/ is. The pages have the date of SOURCE_DATE_EPOCH, if that is set.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"

	"isolio/internal/cli"
	host "isolio/internal/host/command"
	lab "isolio/internal/lab/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man DIRECTORY")
		os.Exit(2)
	}
	if err := write("docs", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// write writes all pages below dir, with what the documents in docs say.
func write(docs, dir string) error {
	for _, section := range []string{"man1", "man5"} {
		if err := os.MkdirAll(filepath.Join(dir, section), 0o755); err != nil {
			return err
		}
	}
	date, err := pageDate()
	if err != nil {
		return err
	}
	for _, cmd := range pages() {
		if err := commandPages(cmd, date, filepath.Join(dir, "man1")); err != nil {
			return err
		}
	}
	page, err := rulesPage(os.DirFS(docs), date)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "man5", "isolio.toml.5"), page, 0o644)
}

// pages are the commands that have pages, with those below them: isolio, and then those of
// isolio-lab, over the pages of what forwards to them. isolio-lab.1, of `isolio lab`, is
// also the page of the program of that name.
func pages() []*cobra.Command {
	return append([]*cobra.Command{host.Root()}, lab.Root().Commands()...)
}

// rulesPage makes a page of those parts of the documents that are about /etc/isolio.toml.
func rulesPage(docs fs.FS, date string) ([]byte, error) {
	var page strings.Builder
	fmt.Fprintf(&page, "%% \"ISOLIO.TOML\" \"5\" %q \"isolio %s\" \"isolio\"\n# NAME\nisolio.toml \\- weights of containers and units, and promises to them\n\n", date, cli.Version)
	for _, part := range []struct{ document, heading, title string }{ // without a heading all of it
		{"rules.md", "", "DESCRIPTION"}, {"promises.md", "How do I write a promise?", "PROMISES"},
		{"daemon.md", "What wins", "WHAT WINS"}, {"metrics.md", "", "METRICS"},
	} {
		text, err := fs.ReadFile(docs, part.document)
		if err != nil {
			return nil, err
		}
		_, body, there := strings.Cut(string(text), "\n")
		if part.heading != "" {
			_, body, there = strings.Cut(body, "\n## "+part.heading+"\n")
			body, _, _ = strings.Cut(body, "\n## ")
		}
		if !there {
			return nil, fmt.Errorf("docs/%s: there is no part %q", part.document, part.heading)
		}
		body = strings.ReplaceAll(body, "\n## ", "\n### ")
		fmt.Fprintf(&page, "# %s\n%s\n", part.title, listed(unlinked(body)))
	}
	page.WriteString("# SEE ALSO\n**isolio-daemon(1)**, **isolio-sla-plan(1)**\n")
	return []byte(wrapped(string(md2man.Render([]byte(page.String()))))), nil
}

// unlinked has what links are called, in place of links; a document of the source is said
// to be one.
func unlinked(text string) string {
	return document.ReplaceAllString(link.ReplaceAllString(text, "$1"), "docs/$1 of the source")
}

// link is one of a document, which leads nowhere in a manual.
var (
	link     = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)
	document = regexp.MustCompile(`\b([a-z]+\.md)\b`)
)

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
