// SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"isolio/internal/table"
)

// helpWidth is how wide lines of the help are.
const helpWidth = 80

// help is that of a command. Cobra's templates would have the linker keep all methods of all types: a quarter of
// the program.
func help(cmd *cobra.Command, _ []string) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n", paragraphs(text))
	_ = usage(cmd.OutOrStdout(), cmd) // a terminal that is gone is told nothing
}

// usage is what follows the text.
func usage(w io.Writer, cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		listed := func(heading, group string) {
			head := "\n" + heading + "\n"
			for _, c := range cmd.Commands() {
				if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
					fmt.Fprintf(&b, "%s  %-*s %s\n", head, c.NamePadding(), c.Name(), c.Short)
					head = ""
				}
			}
		}
		for _, g := range cmd.Groups() {
			listed(g.Title, g.ID)
		}
		listed("Commands:", "")
	}
	flags(&b, "Flags", cmd.LocalFlags())
	flags(&b, "Global flags", cmd.InheritedFlags())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s [command] --help\" for more information about a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// flags lists flags. pflag's own list has [=true|false] behind each that is on or off.
func flags(b *strings.Builder, heading string, set *pflag.FlagSet) {
	var rows [][2]string
	width := 0
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "    --" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", --" + f.Name
		}
		value, text := pflag.UnquoteUsage(f)
		if value != "" {
			name += " " + strings.ToUpper(value)
		}
		switch f.DefValue {
		case "", "0", "0s", "false", "[]":
		default:
			text += " (default " + strings.Trim(f.DefValue, "[]") + ")"
		}
		rows = append(rows, [2]string{name, text})
		width = max(width, len(name))
	})
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n%s:\n", heading)
	}
	for _, row := range rows {
		lines := table.Wrap(row[1], helpWidth-width-5)
		fmt.Fprintf(b, "  %-*s   %s\n", width, row[0], strings.Join(lines, "\n"+strings.Repeat(" ", width+5)))
	}
}

// paragraphs wraps a text anew; lines that begin with a space stay as they are.
func paragraphs(text string) string {
	var all []string
	for block := range strings.SplitSeq(text, "\n\n") {
		if strings.Contains(block, "\n ") {
			all = append(all, block)
			continue
		}
		all = append(all, strings.Join(table.Wrap(strings.Join(strings.Fields(block), " "), helpWidth), "\n"))
	}
	return strings.Join(all, "\n\n")
}
