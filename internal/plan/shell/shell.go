// SPDX-License-Identifier: MIT

// Package shell writes commands that a user may paste into a POSIX shell. The
// names in them are chosen by tenants: a cgroup may be called "x;reboot;", and
// a name must stay one word, whatever is in it.
package shell

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain is a word that no shell makes anything else of.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// acts reports whether a character may act on a terminal: all but letters, and what
// ASCII prints.
func acts(r rune) bool { return !unicode.IsLetter(r) && (r < ' ' || r > '~') }

// Quote is a text as one word of a shell command. The word has no control
// character in it either: those would act on the terminal that shows it.
func Quote(text string) string {
	switch {
	case plain.MatchString(text):
		return text
	case utf8.ValidString(text) && !strings.ContainsFunc(text, acts):
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	// printf's octal escapes are POSIX'; $'...' is not in every shell.
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; plain.MatchString(string(rune(c))) && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	// Without the "--", a text that begins with "-" would be an option.
	return `"$(printf -- '` + b.String() + `')"`
}

// Join is a program and its arguments as one command.
func Join(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}

// Write is a command that makes a file with a text, line by line.
func Write(file, text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return Join(append([]string{"printf", `%s\n`}, lines...)...) + " > " + Quote(file)
}

// Echo is a command that writes a value to a file of the kernel's, which is there.
func Echo(value, file string) string {
	word := Quote(value)
	if word == value { // quoted all the same: a command is read more easily so
		word = "'" + value + "'"
	}
	return "echo " + word + " > " + Quote(file)
}
