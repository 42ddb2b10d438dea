// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"isolio/internal/cli"
)

// pageDate is that of SOURCE_DATE_EPOCH, or today.
func pageDate() (string, error) {
	at := time.Now()
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "", fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		at = time.Unix(seconds, 0)
	}
	return at.UTC().Format(time.DateOnly), nil
}

// commandPages writes a page for a command, and for each below it.
func commandPages(cmd *cobra.Command, date, dir string) error {
	cmd.InitDefaultHelpFlag()
	for _, sub := range below(cmd) {
		if err := commandPages(sub, date, dir); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, pageName(cmd)+".1"), []byte(commandPage(cmd, date)), 0o644)
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// below are the commands with pages, in the order in which help lists them.
func below(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() || c.Name() == "help" || c.Name() == "completion"
	})
}

// files are what isolio keeps and reads.
const files = `.TP
.I /etc/isolio.toml\fR, \fI/etc/isolio.d/*.toml
rules: see
.BR isolio.toml (5)
.TP
.I /etc/udev/rules.d/95\-isolio\-*.rules
what 'isolio enable \-\-persist' wrote
.TP
.I /run/isolio
notes of what was changed since the boot: schedulers, weights, claims
.TP
.I /var/lib/isolio
profiles of disks, and accounts of promises
`

// commandPage is the page of a command: what its help says.
func commandPage(cmd *cobra.Command, date string) string {
	var b strings.Builder
	name := pageName(cmd)
	fmt.Fprintf(&b, ".TH %s 1 %s \"isolio %s\" isolio\n", strings.ToUpper(name), date, cli.Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", escaped(name), escaped(cmd.Short))
	fmt.Fprintf(&b, ".B %s\n", escaped(cmd.UseLine()))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, ".br\n.B %s COMMAND\n", escaped(cmd.CommandPath()))
	}
	b.WriteString(".SH DESCRIPTION\n")
	prose(&b, cmd.Long)
	subs := below(cmd)
	if len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
	}
	for _, sub := range subs {
		fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", escaped(pageName(sub)), escaped(sub.Short))
	}
	b.WriteString(".SH OPTIONS\n")
	cmd.NonInheritedFlags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			option(&b, flag)
		}
	})
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		code(&b, strings.Split(cmd.Example, "\n"))
	}
	if !cmd.HasParent() {
		b.WriteString(".SH FILES\n" + files)
	}
	also := []string{"isolio.toml (5)"}
	if cmd.HasParent() {
		also = append([]string{escaped(pageName(cmd.Parent())) + " (1)"}, also...)
	}
	b.WriteString(".SH SEE ALSO\n.BR " + strings.Join(also, " ,\n.BR ") + "\n")
	return wrapped(b.String())
}

// option is a flag with what it takes, what it does, and its value without one.
func option(b *strings.Builder, flag *pflag.Flag) {
	takes, does := pflag.UnquoteUsage(flag)
	names := "\\fB\\-\\-" + escaped(flag.Name) + "\\fR"
	if flag.Shorthand != "" {
		names = "\\fB\\-" + flag.Shorthand + "\\fR, " + names
	}
	if takes != "" {
		names += " \\fI" + escaped(takes) + "\\fR"
	}
	if d := flag.DefValue; d != "" && d != "false" && d != "0" && d != "[]" && !strings.Contains(does, "default") {
		does += " (default: " + d + ")"
	}
	fmt.Fprintf(b, ".TP\n%s\n%s\n", names, escaped(does))
}

// prose is text with empty lines between paragraphs, and indented lines of code.
func prose(b *strings.Builder, text string) {
	for i, part := range strings.Split(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(part, "\n")
		if i > 0 {
			b.WriteString(".PP\n")
		}
		for len(lines) > 0 {
			n := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "  ") })
			if n == 0 {
				if n = slices.IndexFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "  ") }); n < 0 {
					n = len(lines)
				}
				code(b, lines[:n])
			} else {
				if n < 0 {
					n = len(lines)
				}
				for _, line := range lines[:n] {
					b.WriteString(escaped(line) + "\n")
				}
			}
			lines = lines[n:]
		}
	}
}

// code is lines as they are.
func code(b *strings.Builder, lines []string) {
	b.WriteString(".nf\n")
	for _, line := range lines {
		b.WriteString(escaped(strings.TrimRight(line, " ")) + "\n")
	}
	b.WriteString(".fi\n")
}

// escaped is text that roff prints as it is.
func escaped(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// sourceWidth is how long a line of roff may be.
const sourceWidth = 80

// wrapped breaks lines of text that are too long, but not those of code.
func wrapped(page string) string {
	var b strings.Builder
	isCode := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, " \n")
		switch {
		case line == ".nf" || line == ".EX":
			isCode = true
		case line == ".fi" || line == ".EE":
			isCode = false
		}
		for !isCode && len(line) > sourceWidth && line[0] != '.' {
			at := strings.LastIndexByte(line[:sourceWidth], ' ')
			if at <= 0 {
				break
			}
			b.WriteString(line[:at] + "\n")
			if line = line[at+1:]; strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				line = `\&` + line
			}
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
