// SPDX-License-Identifier: MIT

// Package printable makes names safe to show. Tenants choose names of cgroups,
// containers and pods: an escape sequence in one would act on the terminal of
// the operator, and a byte that is no UTF-8 would end a scrape of the metrics.
package printable

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// graphic reports whether a character only shows: it has no effect on what
// stands before or after it. Format characters, such as U+202E, reverse text.
func graphic(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Zs, r)
}

// Is reports whether a text can be shown as it is.
func Is(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return !graphic(r) })
}

// Text is a name that can be shown: what is not graphic is written as an
// escape, \n, \x1b, \u202e or \xff, and then a backslash as \\. A name without
// such characters stays as it is.
func Text(name string) string {
	if Is(name) {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, name[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\\':
			b.WriteString(`\\`)
		case graphic(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// Writer passes text on with everything escaped that acts on a terminal, except
// line ends and tabs. Escapes stand for what JSON would have them stand for. A writer that
// does so stays as it is.
func Writer(to io.Writer) io.Writer { return writer{Under(to)} }

// Under is what a Writer passes text on to, and any other writer itself: a
// program that draws on a terminal needs that.
func Under(w io.Writer) io.Writer {
	if safe, ok := w.(writer); ok {
		return safe.to
	}
	return w
}

type writer struct{ to io.Writer }

func (w writer) Write(text []byte) (int, error) {
	clean := true
	for i := 0; i < len(text) && clean; {
		r, size := utf8.DecodeRune(text[i:])
		clean = (r != utf8.RuneError || size > 1) && passes(r)
		i += size
	}
	if clean {
		return w.to.Write(text)
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\u%04x`, text[i])
		case passes(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	if _, err := io.WriteString(w.to, b.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}

func passes(r rune) bool { return r == '\n' || r == '\t' || graphic(r) || unicode.Is(unicode.Zs, r) }
