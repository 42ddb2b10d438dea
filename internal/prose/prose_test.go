// SPDX-License-Identifier: MIT

package prose

import (
	"slices"
	"strings"
	"testing"

	"isolio/internal/must"
)

func texts(sentences []Sentence) []string {
	var all []string
	for _, s := range sentences {
		all = append(all, s.Text)
	}
	return all
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		paragraph string
		want      []string
	}{
		{"", nil},
		{" ", nil},
		{"One", []string{"One"}},
		{"One. Two", []string{"One.", "Two"}},
		{"One? Two! Three: four; five.", []string{"One?", "Two!", "Three:", "four;", "five."}},
		{"(One.) \"Two.\" Three", []string{"(One.)", "\"Two.\"", "Three"}},
		{"Linux 6.1 has io.weight in sys.fs.", []string{"Linux 6.1 has io.weight in sys.fs."}},
		{"At 12:30 a:b x;y", []string{"At 12:30 a:b x;y"}},
		{"Some, e.g. this, i.e. that, cf. page 3 vs. page 4. End.", []string{"Some, e.g. this, i.e. that, cf. page 3 vs. page 4.", "End."}},
		{"Wait... Go", []string{"Wait...", "Go"}},
	} {
		if got := split(tt.paragraph); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.paragraph, got, tt.want)
		}
	}
}

func TestWords(t *testing.T) {
	if got := (Sentence{Text: " two  words\n"}).Words(); got != 2 {
		t.Errorf("%d words, want 2", got)
	}
}

// Sentences are of paragraphs, headings, items and cells, without their markup; code blocks
// and HTML have none. A line is that where the paragraph begins.
func TestMarkdown(t *testing.T) {
	const source = "# A *heading* of `io.weight`\n" + // 1
		"\n" +
		"First\nsentence. See [a link](https://example.com/x.y) and <https://example.com>\n" + // 3
		"here: `a; b. c` is code.\n" +
		"\n" +
		"- an item\n" + // 7
		"  of two lines\n" +
		"- **another** one\n" + // 9
		"\n" +
		"    an indented block. of code\n" + // 11: belongs to the item
		"\n" +
		"```\nfenced. code\n```\n" + // 13
		"\n" +
		"<!-- a comment. of HTML -->\n" + // 17
		"\n" +
		"| head | two |\n" + // 19
		"|---|---|\n" +
		"| cell. more | `code` |\n" + // 21
		"\n" +
		"Last <b>one</b>!\n" // 23
	got := Markdown([]byte(source))
	want := []Sentence{
		{1, "A heading of code"},
		{3, "First sentence."},
		{3, "See a link and  here:"},
		{3, "code is code."},
		{7, "an item of two lines"},
		{9, "another one"},
		{11, "an indented block."},
		{11, "of code"},
		{19, "head"},
		{19, "two"},
		{21, "cell."},
		{21, "more"},
		{21, "code"},
		{23, "Last one!"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if got := texts(Markdown([]byte("Text:\n\n    code. of a block\n"))); !slices.Equal(got, []string{"Text:"}) {
		t.Errorf("an indented block: %q", got)
	}
	if got := Markdown(nil); got != nil {
		t.Errorf("an empty document: %+v", got)
	}
}

// Each term is found in any case, at the ends of a text and where a line ends in it; not
// where it is part of another word.
func TestTerms(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"nobody somebody someone anybody anyone whoever everybody everyone",
			[]string{"nobody", "somebody", "someone", "anybody", "anyone", "whoever", "everybody", "everyone"}},
		{"Nobody, WHOEVER", []string{"Nobody", "WHOEVER"}},
		{"nobody's", []string{"nobody"}},
		{"nobodys anyones SFQ_PICK_NOBODY nobody_at_all", nil},
		{"held back, holds back; hold back. Holding back", []string{"held back", "holds back", "hold back", "Holding back"}},
		{"withheld back, held backlog", nil},
		{"held\nback", []string{"held\nback"}},
		{"/*\n * requests held\n * back here\n */", []string{"held\n * back"}},
		{"// held\n// back", []string{"held\n// back"}},
		{"# times\n# slower", []string{"times\n# slower"}},
		{"overtake overtakes overtaken overtaking overtook", []string{"overtake", "overtakes", "overtaken", "overtaking", "overtook"}},
		{"overtaken_max md_overtaken undertaken", nil},
		{"earlier code, former code and older code", []string{"earlier code", "former code", "older code"}},
		{"earlier codes", nil},
		{"was changed after it was not run again in the last session", []string{"was changed after", "not run again", "last session"}},
		{"16 times slower, three times as slow, sometimes slower", []string{"times slower"}},
		{"20 ms of thought, a thoughtful one", []string{"of thought"}},
		{"59 requests inside. All are\n * inside; none is inside the disk", []string{"requests inside", "are\n * inside"}},
		{"document 004, document 0041, document 4, documents", []string{"document 004"}},
		{"utilise utilize leverage in order to please note", []string{"utilise", "utilize", "leverage", "in order to", "please note"}},
		{"utilisation, utilized, leveraged, in orders to", nil},
		{"Who sends waits.", []string{"Who"}},
		{"It waits. Who sends,\nwaits; who does not, too.", []string{"Who"}},
		{"/* Who sends waits. */", []string{"Who"}},
		{"/*\n * Who sends\n * waits; the rest\n */", []string{"Who"}},
		{"Who sends? The cgroup. Whole requests. the WHO says.", nil},
		{"// Who\n// sends?", nil},
		{"the file `overtaken`, run as `nobody`", nil},
		{"`nobody`'s anybody `x`", []string{"anybody"}},
		{"`a\nnobody` b", []string{"nobody"}},
		{"", nil},
	} {
		var got []string
		for _, f := range Terms(1, tt.text) {
			got = append(got, f.Found)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}

// Findings are in the order of their lines, and say what to write.
func TestTermsTellTheLine(t *testing.T) {
	got := Terms(10, "overtaken\nplain\nnobody `nobody`\nheld\nback")
	want := []string{
		`line 10: "overtaken": write bypassed; delay count`,
		`line 12: "nobody": write the actor: the cgroup, the submitter, the scheduler, the caller`,
		`line 13: "held\nback": write throttled`,
	}
	var lines []string
	for _, f := range got {
		lines = append(lines, f.String())
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// What of C is a comment, in the lines that it has in the source.
func TestComments(t *testing.T) {
	for _, tt := range []struct{ source, want string }{
		{"", ""},
		{"int nobody;", ""},
		{"int a; /* one */ int b;\n", "/* one */"},
		{"a\nb /* two\n * lines */\nc // three\n", "\n/* two\n * lines */\n// three"},
		{`s = "/* no \" comment */"; /* one */`, "/* one */"},
		{"s = \"// no\"; c = '\"'; /* one */ d = '\\''; // two", "/* one */// two"},
		{"s = \"a\\\nb\";\n/* one */", "\n\n/* one */"},
		{"// a /* b\nint c; /* d */", "// a /* b\n/* d */"},
		{"/* a // b */ c", "/* a // b */"},
		{"int a; /* no end\nof it", "/* no end\nof it"},
		{"a / b * c / d", ""},
	} {
		if got := Comments(tt.source); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.source, got, tt.want)
		}
	}
}

// Comments of Go, in the lines that they have; the name that is declared is no word of one.
func TestGoComments(t *testing.T) {
	const source = `// Package p is one.
package p

// nobody is the user.
const nobody = "// no comment"

/* Two
lines. */
type T struct {
	whoever int // whoever sends

	// anyone else is a word.
	b int
}

// overtake lets nobody overtake.
func (T) overtake() {}
`
	got, err := GoComments("p.go", []byte(source))
	must.OK(t, err)
	want := "// Package p is one.\n\n\n// is the user.\n\n\n/* Two\nlines. */\n\n// sends\n\n// anyone else is a word.\n\n\n\n// lets nobody overtake."
	if got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if _, err := GoComments("p.go", []byte("no Go")); err == nil {
		t.Error("no error of a file that is not Go")
	}
}
