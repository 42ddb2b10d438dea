// SPDX-License-Identifier: MIT

// Package prose reads the sentences of documents and of programs' texts, and checks
// them against the project's rules of writing: terms of the field, the actor named, and
// sentences that a reader takes in at once.
package prose

import (
	"bytes"
	"cmp"
	"fmt"
	goast "go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// LongWords is the number of words from which on a sentence is long.
const LongWords = 25

// Sentence is one of a text.
type Sentence struct {
	Line int    // where its paragraph begins, from 1
	Text string // without markup; code is "code", a word
}

// Words is how many words the sentence has.
func (s Sentence) Words() int { return len(strings.Fields(s.Text)) }

// term is what is not to be written, and what is written instead. What is found is the
// pattern's first group.
type term struct {
	pattern *regexp.Regexp
	instead string
}

// word is a term in words: what a letter, figure or underscore touches is another word, and
// between two words of it there may be the end of a line, with what begins a comment's next.
func word(pattern, instead string) term {
	pattern = strings.ReplaceAll(pattern, " ", `[\s*#/]+`)
	return term{regexp.MustCompile(`(?i)\b(` + pattern + `)\b`), instead}
}

// terms are those of which each use is wrong, whatever it is about.
var terms = []term{
	word(`nobody|somebody|someone|anybody|anyone|whoever|everybody|everyone`, "the actor: the cgroup, the submitter, the scheduler, the caller"),
	word(`held back|holds back|hold back|holding back`, "throttled"),
	word(`overtak(?:e|es|en|ing)|overtook`, "bypassed; delay count"),
	word(`(?:earlier|former|older) code|was changed after|not run again|last session`, "nothing: history belongs in a commit's body"),
	word(`of thought`, "think time"),
	{regexp.MustCompile(`(?i)\b((?:requests?|commands?|reads?|writes?|one|those|is|are|be)[\s*#/]+inside)(?:[.,;:)]|\s*$)`), "in flight"},
	word(`times slower`, "slowed down by a factor of"),
	word(`document 00\d`, "the source by its name"),
	{regexp.MustCompile(`(?:^|[.:;]|[/*#])[\s*#/]*(Who)\s[^.?:;!]*[.:;!]`), "the actor; a question may begin so"},
	word(`utili[sz]e|leverage|in order to|please note`, "a plain word"),
}

// Finding is a term that is not to be used.
type Finding struct {
	Line    int
	Found   string
	Instead string
}

func (f Finding) String() string {
	return fmt.Sprintf("line %d: %q: write %s", f.Line, f.Found, f.Instead)
}

// codeSpan is a name in a comment that is not a word of it: that of a file, or of a member.
var codeSpan = regexp.MustCompile("`[^`\n]*`")

// Terms finds what is not to be written in text, of which line is the first line. What
// stands in backticks is a name, and no term.
func Terms(line int, text string) []Finding {
	text = codeSpan.ReplaceAllStringFunc(text, func(code string) string {
		return strings.Repeat("`", len(code))
	})
	var found []Finding
	for _, t := range terms {
		for _, at := range t.pattern.FindAllStringSubmatchIndex(text, -1) {
			found = append(found, Finding{line + strings.Count(text[:at[2]], "\n"), text[at[2]:at[3]], t.instead})
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	return found
}

// Markdown returns the sentences of a document: of paragraphs, list items, headings and
// table cells. Code blocks and HTML have none.
func Markdown(source []byte) []Sentence {
	var sentences []Sentence
	document := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n.(type) {
		case *ast.CodeBlock, *ast.FencedCodeBlock, *ast.HTMLBlock:
			return ast.WalkSkipChildren, nil
		case *ast.Paragraph, *ast.TextBlock, *ast.Heading, *extast.TableCell:
		default:
			return ast.WalkContinue, nil
		}
		line := 1
		if n.Lines().Len() > 0 {
			line += bytes.Count(source[:n.Lines().At(0).Start], []byte("\n"))
		}
		for _, s := range split(inline(n, source)) {
			sentences = append(sentences, Sentence{line, s})
		}
		return ast.WalkSkipChildren, nil
	})
	return sentences
}

// inline is the text of a node, with one word for each piece of code.
func inline(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.CodeSpan:
			b.WriteString("code")
			return ast.WalkSkipChildren, nil
		case *ast.AutoLink, *ast.RawHTML:
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// A sentence ends at a full stop, question or exclamation mark, colon or semicolon that a
// space follows: what stands after a colon can be read by itself.
var end = regexp.MustCompile(`[.?!:;]["')\]]*\s+`)

// notEnd are abbreviations that are not the end of a sentence.
var notEnd = regexp.MustCompile(`(?:e\.g|i\.e|cf|vs|etc|No)\.\s+$`)

func split(paragraph string) []string {
	var sentences []string
	from := 0
	for _, at := range end.FindAllStringIndex(paragraph, -1) {
		if notEnd.MatchString(paragraph[from:at[1]]) {
			continue
		}
		if s := strings.TrimSpace(paragraph[from:at[1]]); s != "" {
			sentences = append(sentences, s)
		}
		from = at[1]
	}
	if s := strings.TrimSpace(paragraph[from:]); s != "" {
		sentences = append(sentences, s)
	}
	return sentences
}

// cToken is what of C may hide where a comment begins: a string, a character, a comment.
var cToken = regexp.MustCompile(`(?s)"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*.*?(?:\*/|$)`)

// Comments returns the text of C comments in source, with newlines kept, so that line
// numbers are those of source.
func Comments(source string) string {
	var b strings.Builder
	from := 0
	for _, at := range cToken.FindAllStringIndex(source, -1) {
		b.WriteString(strings.Repeat("\n", strings.Count(source[from:at[0]], "\n")))
		from = at[1]
		token := source[at[0]:at[1]]
		if token[0] != '/' {
			token = strings.Repeat("\n", strings.Count(token, "\n"))
		}
		b.WriteString(token)
	}
	return b.String()
}

// GoComments returns the text of the comments of a Go file, with newlines kept, so that
// line numbers are those of source. The name that a comment begins with, because it is
// declared below, is left out.
func GoComments(name string, source []byte) (string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	declared := map[string]bool{}
	goast.Inspect(file, func(n goast.Node) bool {
		switch n := n.(type) {
		case *goast.FuncDecl:
			declared[n.Name.Name] = true
		case *goast.TypeSpec:
			declared[n.Name.Name] = true
		case *goast.ValueSpec:
			for _, name := range n.Names {
				declared[name.Name] = true
			}
		case *goast.Field:
			for _, name := range n.Names {
				declared[name.Name] = true
			}
		}
		return true
	})
	var b strings.Builder
	line := 1
	for _, group := range file.Comments {
		for i, c := range group.List {
			text := c.Text
			if i == 0 {
				if first, rest, _ := strings.Cut(strings.TrimPrefix(text, "// "), " "); declared[first] {
					text = "// " + rest
				}
			}
			from := files.PositionFor(c.Pos(), false).Line
			b.WriteString(strings.Repeat("\n", from-line))
			b.WriteString(text)
			line = from + strings.Count(c.Text, "\n")
		}
	}
	return b.String(), nil
}
