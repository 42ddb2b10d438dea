// SPDX-License-Identifier: MIT

package table

import (
	"os"
	"strings"
	"testing"

	"isolio/internal/must"
	"isolio/internal/printable"
)

// On a terminal spare columns go first, then text is wrapped, and a name that has no room has a line of its own.
func TestNarrow(t *testing.T) {
	columns := []Column{{Head: "disk"}, {Head: "number", Spare: 1}, {Head: "n", Right: true, Spare: 2}, {Head: "why"}}
	rows := [][]string{{"sda", "8:0", "64", "the scheduler none knows no weights; remedy: isolio enable sda"}, {"a-disk-of-a-long-name-that-has-no-room", "9:9", "1", "fits"}}
	for _, tt := range []struct{ columns, want string }{
		{"", "disk                                    number   n  why\n" +
			"sda                                     8:0     64  the scheduler none knows no weights; remedy: isolio enable sda\n" +
			"a-disk-of-a-long-name-that-has-no-room  9:9      1  fits\n"},
		{"50", "disk                      why\n" +
			"sda                       the scheduler none knows\n" +
			"                          no weights;\n" +
			"                          remedy: isolio enable\n" +
			"                          sda\n" +
			"a-disk-of-a-long-name-that-has-no-room\n" +
			"                          fits\n"},
	} {
		t.Setenv("COLUMNS", tt.columns)
		var b strings.Builder
		if err := Write(&b, columns, rows); err != nil || b.String() != tt.want {
			t.Errorf("%s columns: %v\n%s, want\n%s", tt.columns, err, b.String(), tt.want)
		}
		b.Reset()
		must.OK(t, Write(AnyWidth(&b), columns, rows))
		if got := strings.Count(b.String(), "\n"); got != 3 {
			t.Errorf("%s columns, any width: %d lines", tt.columns, got)
		}
	}
	t.Setenv("COLUMNS", "30")
	var b strings.Builder
	must.OK(t, Lines(&b, "inert[1] web: io.weight: no disk shares by it; remedy: isolio enable /a/very/long/path/that/is/broken"))
	if got := b.String(); got != "inert[1] web: io.weight:\n    no disk shares by it;\n    remedy: isolio enable\n    /a/very/long/path/that/is/\n    broken\n" {
		t.Errorf("lines:\n%s", got)
	}
}

// A message has its advice on a line of its own, and a command in backquotes is not broken.
func TestMessage(t *testing.T) {
	t.Setenv("COLUMNS", "44")
	var b strings.Builder
	must.OK(t, Lines(&b, "isolio: device sdx: is not there, nor was it; allowed: what `isolio status --all --output wide --interval 0` has"))
	if got := b.String(); got != "isolio: device sdx: is not there, nor\n    was it;\n    allowed: what\n    `isolio status --all --output wide --interval 0`\n    has\n" {
		t.Errorf("lines:\n%s", got)
	}
}

// Colors are for terminals alone, and for none where NO_COLOR is set; no width follows from them.
func TestColors(t *testing.T) {
	columns := []Column{{Head: "state", Paint: func(cell string) Color { return map[string]Color{"fails": Red}[cell] }}, {Head: "why"}}
	rows := [][]string{{"fails", "\x1b[2J"}, {"ok", "b"}}
	plain, red := "state  why\nfails  \\x1b[2J\nok     b\n", "state  why\n\x1b[31mfails\x1b[0m  \\x1b[2J\nok     b\n"
	for _, tt := range []struct{ force, no, want string }{{"", "", plain}, {"1", "", red}, {"0", "", plain}, {"1", "1", plain}} {
		t.Setenv("CLICOLOR_FORCE", tt.force)
		t.Setenv("NO_COLOR", tt.no)
		var b strings.Builder
		if err := Write(printable.Writer(&b), columns, rows); err != nil || b.String() != tt.want {
			t.Errorf("%+v: %v, %q", tt, err, b.String())
		}
	}
	file, err := os.Create(t.TempDir() + "/x")
	must.OK(t, err)
	if painter(file)(Red, "x") != "x" || Width(file) != 0 {
		t.Error("a file is taken for a terminal")
	}
}
