// SPDX-License-Identifier: MIT

package printable

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"isolio/internal/must"
)

func TestText(t *testing.T) {
	for name, want := range map[string]string{
		"web":                          "web",
		"Büro 12":                      "Büro 12",
		`dev-disk-by\x2duuid.swap`:     `dev-disk-by\x2duuid.swap`,
		"\x1b]0;owned\a":               `\x1b]0;owned\x07`,
		"a\u009b31m":                   `a\u009b31m`,
		"a\nb\tc":                      `a\nb\tc`,
		"\xff\\":                       `\xff\\`,
		"user\u202egpj":                `user\u202egpj`,
		"zero\u200bwidth":              `zero\u200bwidth`,
		"\U000e0001":                   `\U000e0001`,
		"\u00a0":                       `\u00a0`,
		"ends in half a rune \xe2\x82": `ends in half a rune \xe2\x82`,
	} {
		got := Text(name)
		if got != want {
			t.Errorf("Text(%q) = %s, want %s", name, got, want)
		}
		if !Is(got) || Text(got) != got {
			t.Errorf("Text(%q) = %q, which is not printable, or not the same when shown again", name, got)
		}
	}
}

// JSON stays JSON, and says the same.
func TestWriter(t *testing.T) {
	for _, name := range []string{"web", "a\u009b31m", "user\u202egpj", "\U000e0001", "\x1b[2J", "a\nb"} {
		var b strings.Builder
		encoder := json.NewEncoder(Writer(&b))
		encoder.SetEscapeHTML(false)
		must.OK(t, encoder.Encode(map[string]string{"name": name}))
		var got map[string]string
		if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got["name"] != name {
			t.Errorf("%q became %q, %v", name, b.String(), err)
		}
		if !Is(strings.TrimSuffix(b.String(), "\n")) {
			t.Errorf("%q acts on a terminal", b.String())
		}
	}
	var b strings.Builder
	const raw = "a\tb\n\x1b[31m\xff\r"
	if n, err := Writer(&b).Write([]byte(raw)); n != len(raw) || err != nil {
		t.Errorf("Write = %d, %v", n, err)
	}
	if want := "a\tb\n\\u001b[31m\\u00ff\\u000d"; b.String() != want {
		t.Errorf("wrote %q, want %q", b.String(), want)
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b]52;c;\a\xff")
	f.Fuzz(func(t *testing.T, name string) {
		got := Text(name)
		if !utf8.ValidString(got) || !Is(got) || Text(got) != got {
			t.Errorf("Text(%q) = %q", name, got)
		}
	})
}
