// SPDX-License-Identifier: MIT

package cli_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	host "isolio/internal/host/command"
	lab "isolio/internal/lab/command"
	"isolio/internal/must"
)

// Every command says what it does in one line without a full stop, shows itself in an
// example, and describes each of its flags.
func TestHelp(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: Short is %q", cmd.CommandPath(), cmd.Short)
		}
		if !cmd.HasSubCommands() && !strings.Contains(cmd.Example, "  "+cmd.CommandPath()) {
			t.Errorf("%s: no example of it: %q", cmd.CommandPath(), cmd.Example)
		}
		for _, name := range []string{"json", "root"} {
			if flag := cmd.Flags().Lookup(name); flag != nil && flag.Usage == "" {
				t.Errorf("%s: --%s has no description", cmd.CommandPath(), name)
			}
		}
	}
	visit(host.Root())
	visit(lab.Root())
}

// No line of the help is wider than 80 columns, whatever the sources have.
func TestHelpIsNarrow(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		var b strings.Builder
		cmd.SetOut(&b)
		must.OK(t, cmd.Help())
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 && !strings.HasPrefix(line, "  isolio ") { // a usage or example is one line
				t.Errorf("%s --help: a line of %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
	}
	for _, root := range []*cobra.Command{host.Root(), lab.Root()} {
		cli.RefuseUnknown(root)
		visit(root)
	}
}

// The message tells a user without rights the command that works. Root was refused for another reason.
func TestNeedsRoot(t *testing.T) {
	refused := fmt.Errorf("write x: %w", fs.ErrPermission)
	if got := cli.NeedsRoot(refused, 1000, "isolio", []string{"enable", "etherd!e1.0"}).Error(); got != "needs root: sudo isolio enable 'etherd!e1.0' (write x: permission denied)" {
		t.Error(got)
	}
	if got := cli.NeedsRoot(refused, 0, "isolio", nil); got.Error() != refused.Error() {
		t.Error(got)
	}
	if got := cli.NeedsRoot(fs.ErrExist, 1000, "isolio", nil); got.Error() != fs.ErrExist.Error() {
		t.Error(got)
	}
}

// The table of exit codes has the codes that errors are given.
func TestExitCodes(t *testing.T) {
	var codes []string
	for _, match := range regexp.MustCompile(`(?m)^ +(\d+) `).FindAllStringSubmatch(cli.ExitCodes, -1) {
		codes = append(codes, match[1])
	}
	want := []string{}
	for _, code := range []int{failure.OK, failure.Failed, failure.Usage, failure.Unsupported, failure.Config} {
		want = append(want, strconv.Itoa(code))
	}
	if !slices.Equal(codes, want) {
		t.Errorf("the table has %v, errors have %v", codes, want)
	}
	for _, root := range []*cobra.Command{host.Root(), lab.Root()} {
		if !strings.HasSuffix(root.Long, cli.ExitCodes) {
			t.Errorf("%s --help has no table of exit codes", root.Name())
		}
	}
}

// The list of isolio's commands has those of isolio-lab, as they describe themselves.
func TestForwarded(t *testing.T) {
	root := host.Root()
	for _, cmd := range lab.Root().Commands() {
		if listed, _, err := root.Find([]string{cmd.Name()}); err != nil || listed.Short != cmd.Short {
			t.Errorf("isolio %s is %q, %v; want %q", cmd.Name(), listed.Short, err, cmd.Short)
		}
	}
}

// code is what a document has as a command: a span, or an indented line.
var code = regexp.MustCompile("(?m)`([^`\n]+)`|^(?: {4}|\t)(.+)$")

// printed is what a program printed to a transcript: a sentence there that begins with
// isolio is no call.
var printed = regexp.MustCompile(`(?s)(<!-- results step = "[a-z ]+" -->\n\n    \$ [^\n]*\n).*?<!-- end of results -->`)

// call is a call of this command in it, up to what a shell takes for its end.
var call = regexp.MustCompile(`(?:^|[ /])isolio ([a-z]+[^#|;&>]*)`)

// placeholder is a word for any.
var placeholder = regexp.MustCompile(`[A-Z]{2,}`)

// Documents call commands that there are, with flags and files that there are.
func TestDocuments(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	must.OK(t, err)
	results, err := filepath.Glob("../../docs/results/*.md")
	must.OK(t, err)
	calls := 0
	for _, file := range append(slices.Concat(files, results), "../../README.md", "../../README.ko.md", "../../CONTRIBUTING.md", "../../packaging/isolio.service") {
		text, err := os.ReadFile(file)
		must.OK(t, err)
		for _, span := range code.FindAllStringSubmatch(printed.ReplaceAllString(strings.ReplaceAll(string(text), "ExecReload=", "    ExecReload="), "$1"), -1) {
			for _, found := range call.FindAllStringSubmatch(span[1]+span[2], -1) {
				calls++
				if err := checkCall(strings.Fields(found[1])); err != nil {
					t.Errorf("%s: isolio %s: %v", filepath.Base(file), found[1], err)
				}
			}
		}
	}
	if calls < 30 {
		t.Errorf("%d calls found: the documents have more", calls)
	}
}

// checkCall checks the command, its flags, and that experiments are there.
func checkCall(words []string) error {
	root := host.Root()
	if words[0] == "bench" || words[0] == "lab" {
		root = lab.Root()
	}
	cli.RefuseUnknown(root)
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return cli.Subcommand(cmd, rest)
	}
	for _, word := range rest {
		name, long := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if long && name != "help" && cmd.Flags().Lookup(name) == nil {
			return fmt.Errorf("no flag --%s", name)
		}
		if strings.HasPrefix(word, "experiments/") {
			if files, err := filepath.Glob("../../" + placeholder.ReplaceAllString(word, "*")); err != nil || len(files) == 0 {
				return fmt.Errorf("there is no %s", word)
			}
		}
	}
	return nil
}
