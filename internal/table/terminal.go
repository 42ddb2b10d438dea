// SPDX-License-Identifier: MIT

package table

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"isolio/internal/printable"
)

// AnyWidth is w for lines of any width.
func AnyWidth(w io.Writer) io.Writer { return wide{w} }

type wide struct{ io.Writer }

// under is what writes to the terminal, if there is one.
func under(w io.Writer) io.Writer {
	if any, is := w.(wide); is {
		w = any.Writer
	}
	return printable.Under(w)
}

// Width is how wide lines may be, 0 for any: what COLUMNS says, else the terminal's width. What goes to
// a file or a pipe has a line for each row.
func Width(w io.Writer) int {
	if _, is := w.(wide); is {
		return 0
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if file, ok := printable.Under(w).(*os.File); ok {
		if n, _, err := term.GetSize(int(file.Fd())); err == nil {
			return n
		}
	}
	return 0
}

// indent is that of the lines after the first.
const indent = 4

// Lines writes a text in lines that fit, those after the first indented.
func Lines(w io.Writer, text string) error {
	width := Width(w)
	lines := []string{text}
	if width > indent && runes(text) > width {
		lines = Wrap(text, width-indent)
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n"+strings.Repeat(" ", indent))+"\n")
	return err
}

// Color is one of a terminal's own, 0 for none.
type Color int

// Colors, as SGR numbers them.
const (
	Red    Color = 31
	Green  Color = 32
	Yellow Color = 33
)

// paint colors a text.
type paint func(c Color, text string) string

func noColors(_ Color, text string) string { return text }

func colors(c Color, text string) string {
	if c == 0 {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

// painter colors for a terminal that has colors, where NO_COLOR does not forbid it. CLICOLOR_FORCE has colors
// anywhere else, such as for less -R.
func painter(w io.Writer) paint {
	if os.Getenv("NO_COLOR") != "" {
		return noColors
	}
	if force := os.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return colors
	}
	file, ok := under(w).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return noColors
	}
	return colors
}

// raw writes what was made printable before: colors are escapes.
func raw(w io.Writer, text string) error {
	_, err := io.WriteString(under(w), text)
	return err
}
