// SPDX-License-Identifier: MIT

package prose_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/html"

	host "isolio/internal/host/command"
	lab "isolio/internal/lab/command"
	"isolio/internal/must"
	"isolio/internal/prose"
)

// message is a text that a program prints, and where it is from: a command, a flag of
// it, or a source file.
type message struct{ from, text string }

// commandMessages are the texts of --help, of a command and those below it.
func commandMessages(cmd *cobra.Command) []message {
	name := cmd.CommandPath()
	var texts []message
	add := func(from, text string) {
		if text != "" {
			texts = append(texts, message{from, text})
		}
	}
	add(name+" (usage)", cmd.Use)
	add(name+" (short)", cmd.Short)
	add(name+" (long)", cmd.Long)
	add(name+" (example)", cmd.Example)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { add(name+" --"+f.Name, f.Usage) })
	for _, sub := range cmd.Commands() {
		texts = append(texts, commandMessages(sub)...)
	}
	return texts
}

// words are two words of a text, as no name, path or format has.
var words = regexp.MustCompile(`[A-Za-z]{2,},? [A-Za-z]{2,}`)

// literal is the text of a string literal or of the sum of some, with {} for an operand
// that is not one; false if e has no literal.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			x, isX := literal(e.X)
			y, isY := literal(e.Y)
			return x + y, isX || isY
		}
	case *ast.ParenExpr:
		return literal(e.X)
	}
	return "{}", false
}

// sourceMessages are the string literals of a Go file that are words: errors, log lines,
// findings, the heads of tables.
func sourceMessages(name string, source []byte) ([]message, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var texts []message
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.KeyValueExpr:
			// The commands have these.
			if key, ok := n.Key.(*ast.Ident); ok && slices.Contains([]string{"Use", "Short", "Long", "Example"}, key.Name) {
				return false
			}
		case *ast.Field:
			n.Tag = nil
		case ast.Expr:
			if text, ok := literal(n); ok {
				if words.MatchString(text) {
					texts = append(texts, message{name, text})
				}
				return false
			}
		}
		return true
	})
	return texts, nil
}

// cString is a string of C.
var cString = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"`)

// cNotText is what of C has quotes, and no text: comments, characters, includes.
var cNotText = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|'(?:[^'\\\n]|\\.)+'|#\s*include[^\n]*`)

// cMessages are the strings of a C file that are words: what a module writes to the kernel log
// and to its files. Strings that C joins are one.
func cMessages(name, source string) (texts []message) {
	for {
		text, skip := cString.FindStringIndex(source), cNotText.FindStringIndex(source)
		if skip != nil && (text == nil || skip[0] < text[0]) {
			source = source[skip[1]:]
			continue
		}
		if text == nil {
			return texts
		}
		var all strings.Builder
		source = source[text[0]:]
		for text = cString.FindStringIndex(source); text != nil && text[0] == 0; text = cString.FindStringIndex(source) {
			all.WriteString(source[1 : text[1]-1])
			source = strings.TrimLeft(source[text[1]:], " \t\n")
		}
		if joined := strings.ReplaceAll(all.String(), `\n`, "\n"); words.MatchString(joined) {
			texts = append(texts, message{name, joined})
		}
	}
}

// action is what a template replaces.
var action = regexp.MustCompile(`\{\{[^}]*\}\}`)

// pageMessages are the texts of a page's template that are words.
func pageMessages(name, source string) (texts []message) {
	hidden := false
	for z := html.NewTokenizer(strings.NewReader(source)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return texts
		case html.StartTagToken, html.EndTagToken:
			tag, _ := z.TagName()
			hidden = string(tag) == "style" || string(tag) == "script"
		case html.TextToken:
			text := strings.Join(strings.Fields(action.ReplaceAllString(string(z.Text()), "{}")), " ")
			if !hidden && words.MatchString(text) {
				texts = append(texts, message{name, text})
			}
		}
	}
}

// scriptText is what a script says, and what it ends with.
var scriptText = regexp.MustCompile(`\b(?:die|say) "((?:[^"\\]|\\.)*)"`)

func scriptMessages(name, source string) (texts []message) {
	for _, found := range scriptText.FindAllStringSubmatch(source, -1) {
		if words.MatchString(found[1]) {
			texts = append(texts, message{name, found[1]})
		}
	}
	return texts
}

// allMessages are those of the commands, and then those of the source files, in the order
// of their names.
func allMessages(t *testing.T) []message {
	t.Helper()
	texts := append(commandMessages(host.Root()), commandMessages(lab.Root())...)
	ofCommands := map[string]bool{}
	for _, m := range texts {
		ofCommands[m.text] = true
	}
	for _, dir := range []string{"cmd", "deploy", "internal", "kernel", "libaps", "scripts"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			// prose names the terms, tests are no part of a program.
			if d.IsDir() && (path == "../../internal/prose" || d.Name() == "tests" || d.Name() == "test" || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			extension := filepath.Ext(path)
			ofScript := dir == "scripts" && (extension == "" || extension == ".sh")
			if d.IsDir() || !slices.Contains([]string{".go", ".c", ".h", ".html"}, extension) && !ofScript || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(path, "../../")
			var found []message
			switch {
			case ofScript:
				found = scriptMessages(name, string(source))
			case extension == ".go":
				found, err = sourceMessages(name, source)
			case extension == ".html":
				found = pageMessages(name, string(source))
			default:
				found = cMessages(name, string(source))
			}
			for _, m := range found {
				if !ofCommands[m.text] {
					texts = append(texts, m)
				}
			}
			return err
		})
		must.OK(t, err)
	}
	return texts
}

// Messages of programs, modules, pages and scripts name the actor.
func TestMessages(t *testing.T) {
	texts := allMessages(t)
	for _, m := range texts {
		for _, f := range prose.Terms(1, m.text) {
			t.Errorf("%s: %q: %s", m.from, m.text, f)
		}
	}
	if len(texts) < 500 {
		t.Errorf("%d messages: where are the others?", len(texts))
	}
}

func TestSourceMessages(t *testing.T) {
	const source = "package p\n\nimport \"some path/of words\"\n\n" +
		"type s struct {\n\tA int `json:\"a b\" toml:\"some name\"`\n}\n\n" +
		"// some comment of words\n" +
		"func f(n string) {\n\tfail(\"cannot read \"+n+\": \"+\"no such disk\", `two\nraw lines`)\n\tfail(\"io.weight\", c{Short: \"of a command\"})\n\tfail(\"%d:%s\")\n}\n"
	got, err := sourceMessages("p.go", []byte(source))
	must.OK(t, err)
	want := []message{{"p.go", "cannot read {}: no such disk"}, {"p.go", "two\nraw lines"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := sourceMessages("p.go", []byte("package")); err == nil {
		t.Error("no error of a file that is not Go")
	}
}

func TestOtherMessages(t *testing.T) {
	for _, c := range []struct {
		got  []message
		want []string
	}{
		{cMessages("a.c", "#include \"not this\"\n/* \"not this\" */ x = '\"'; // \"not this\"\n"+
			"pr_err(\"%s: the disk\\n\"\n\t\"is gone\", n); f(\"word\"); g(\"an \\\"other one\\\"\");"), []string{"%s: the disk\nis gone", `an \"other one\"`}},
		{cMessages("a.c", "int a;"), nil},
		{pageMessages("a.html", "<style>not this one</style><p class=\"not this\">The {{.N}} disks\n of <b>it all</b></p>"), []string{"The {} disks of", "it all"}},
		{scriptMessages("a", "# say \"not\"\nx || die \"there is no x\"\nsay \"$name: one\"\necho \"not this\""), []string{"there is no x"}},
	} {
		var texts []string
		for _, m := range c.got {
			texts = append(texts, m.text)
		}
		if !slices.Equal(texts, c.want) {
			t.Errorf("%q, want %q", texts, c.want)
		}
	}
}
