// SPDX-License-Identifier: MIT

package script

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	host "isolio/internal/host/command"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

var (
	// pasted is a line of a guide that a reader pastes: isolio, below an indent or a prompt.
	pasted = regexp.MustCompile(`(?m)^    (?:\$ )?(?:sudo )?isolio ([a-z][^\n]*)$`)
	// quoted is a word of one.
	quoted = regexp.MustCompile(`'[^']*'|[^ ]+`)
	// tables is a block of a guide that a reader writes to /etc/isolio.toml.
	tables = regexp.MustCompile(`(?m)(?:^    (?:\[\[(?:rule|disk|promise)\]\]|\[class\.[a-z]+\]|\[sla\])\n)(?:^(?:    [^\n]*)?\n)*`)
)

// harmless is what keeps a command from changing anything, or from staying.
var harmless = map[string][]string{
	"enable": {"--dry-run"}, "disable": {"--dry-run"}, "weight": {"--dry-run"}, "upgrade": {"--dry-run"}, "measure": {"--dry-run"},
	"status": {"--interval", "0"}, "explain": {"--interval", "0"},
}

// promise is what a guide has a reader write before.
const promise = "[[promise]]\nname = \"web\"\ndevice = \"nvme0n1\"\nread = \"5000 IOPS\"\n"

// refusals are why a command that begins so fails on the tree: a reader has made what it takes before.
var refusals = map[string]string{"sla plan": "has no profile", "top --replay": "no such file", "top --filter": "no disk has the scheduler", "upgrade --module": "no such file"}

// refused tells whether a command failed for what the tree lacks alone.
func refused(line, out string) bool {
	for begins, why := range refusals {
		if strings.HasPrefix(line, begins) && strings.Contains(out, why) {
			return true
		}
	}
	return false
}

// What guides have a reader paste is taken: commands run on a machine that has what the guides name, dry where they
// would change it, and tables are rules.
func TestGuides(t *testing.T) {
	guides, err := filepath.Glob("../../docs/*.md")
	must.OK(t, err)
	ran, rules := 0, 0
	texts := map[string]string{}
	for _, guide := range append(guides, "../../README.md") {
		text, err := os.ReadFile(guide)
		must.OK(t, err)
		texts[filepath.Base(guide)] = string(text)
	}
	for guide, text := range texts {
		for _, found := range pasted.FindAllStringSubmatch(text, -1) {
			for _, line := range strings.Split(found[1], "; isolio ") {
				line, _, _ = strings.Cut(line, " #")
				a := load(t, "guide.tree")
				testtree.File(t, filepath.Join(a.root, "etc/isolio.toml"), promise)
				line = strings.ReplaceAll(strings.TrimSpace(line), "report.tar", filepath.Join(a.root, "report.tar"))
				out, code := runs(t, a.root, line)
				if code != 0 && !refused(line, out) {
					t.Errorf("%s: isolio %s: %d: %s", guide, line, code, out)
				}
				ran++
			}
		}
		for _, block := range tables.FindAllString(text, -1) {
			a := load(t, "guide.tree")
			testtree.File(t, filepath.Join(a.root, "etc/isolio.toml"), block)
			if out, code := runs(t, a.root, "daemon --check"); code != 0 {
				t.Errorf("%s:\n%s%s", guide, block, out)
			}
			rules++
		}
	}
	t.Logf("%d commands, %d tables", ran, rules)
	if ran < 25 || rules < 5 {
		t.Errorf("%d commands and %d tables found: the guides have more", ran, rules)
	}
}

// runs is what isolio prints on a machine, and its exit code.
func runs(t *testing.T, root, line string) (string, int) {
	t.Helper()
	var args []string
	for _, word := range quoted.FindAllString(line, -1) {
		args = append(args, strings.Trim(word, "'"))
	}
	args = append(args, harmless[args[0]]...)
	args = append(args, "--root", root)
	var out bytes.Buffer
	code := host.Run(context.Background(), args, strings.NewReader(""), &out, &out)
	return out.String(), code
}

var (
	// pastedMake is a call of make in a line that a reader pastes, with its target and what follows.
	pastedMake = regexp.MustCompile(`(?m)^    (?:[^\n]*&& |sudo )*make ([a-z]+)([^\n&#]*)`)
	// pastedDeb is a package that such a line takes from where make deb puts it.
	pastedDeb = regexp.MustCompile(`build/deb/([a-z][a-z0-9-]*)_`)
	// packaged is a package of debian/control, with what follows its name.
	packaged = regexp.MustCompile(`(?m)^Package: (\S+)\n((?:.+\n)*)`)
)

// Targets of make that guides name are there, and make deb, as they call it, makes the packages that they install.
func TestGuidesBuild(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile("../../" + file)
		must.OK(t, err)
		return string(text)
	}
	makefile := read("Makefile")
	libaps := map[string]bool{} // packages, and whether they take WITH=libaps
	for _, found := range packaged.FindAllStringSubmatch(read("debian/control"), -1) {
		libaps[found[1]] = strings.Contains(found[2], "<!pkg.isolio.nolibaps>")
	}
	guides, err := filepath.Glob("../../docs/*.md")
	must.OK(t, err)
	for _, guide := range append(guides, "../../README.md", "../../README.ko.md") {
		text := read(strings.TrimPrefix(guide, "../../"))
		for _, found := range pastedMake.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+found[1]+":") {
				t.Errorf("%s: make %s: there is no such target", guide, found[1])
			}
		}
		for line := range strings.Lines(text) {
			for _, found := range pastedDeb.FindAllStringSubmatch(line, -1) {
				takes, known := libaps[found[1]]
				if !known {
					t.Errorf("%s: %s: make deb makes no such package", guide, found[1])
				}
				if takes && !strings.Contains(line, "make deb WITH=libaps") {
					t.Errorf("%s: %s is made by make deb WITH=libaps", guide, found[1])
				}
			}
		}
	}
}
