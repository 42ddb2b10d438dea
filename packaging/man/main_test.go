// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	host "isolio/internal/host/command"
	"isolio/internal/host/rule"
	lab "isolio/internal/lab/command"
	"isolio/internal/must"
)

// Each command has a page of its name, and that of the rules has all their keys.
func TestPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	must.OK(t, write("../../docs", dir))
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		must.OK(t, err)
		return string(text)
	}
	for _, cmd := range append(host.Root().Commands(), lab.Root().Commands()...) {
		page := read("man1/isolio-" + cmd.Name() + ".1")
		for _, want := range []string{`.TH ISOLIO-` + strings.ToUpper(cmd.Name()) + ` 1 2023-11-14 `, escaped(cmd.Short)} {
			if !strings.Contains(strings.Join(strings.Fields(page), " "), want) {
				t.Errorf("isolio-%s.1: no %q", cmd.Name(), want)
			}
		}
	}
	if page := read("man1/isolio-bench.1"); !strings.Contains(page, `\-\-allow\-writes`) {
		t.Errorf("isolio-bench.1 is not that of isolio-lab's command:\n%s", page)
	}
	page := read("man5/isolio.toml.5")
	for table, shown := range map[string]string{"": "%s", "[[rule]]\n": `\fB%s\fR`, "[[promise]]\n": `\fB%s\fR`, "[sla]\n": `\fB%s\fR`, "[class.x]\n": `\fB%s\fR`, "[[disk]]\ndevice = \"x\"\n": `\fB%s\fR`} {
		_, err := rule.Parse("", []byte(table+"unheard = 1\n"))
		_, keys, there := strings.Cut(err.Error(), "; allowed: ")
		if !there {
			t.Fatal(err)
		}
		for key := range strings.SplitSeq(keys, ", ") {
			if want := fmt.Sprintf(shown, key); !strings.Contains(page, want) {
				t.Errorf("isolio.toml.5: no key %s", want)
			}
		}
	}
	if strings.Contains(page, ".TS") || !strings.Contains(page, "HOST:PORT") {
		t.Errorf("isolio.toml.5 has a table, or has lost its text:\n%s", page)
	}
	text := &fstest.MapFile{Data: []byte("# Rules\n")}
	docs := fstest.MapFS{"rules.md": text, "promises.md": text, "daemon.md": text, "metrics.md": text}
	if _, err := rulesPage(docs, "2023-11-14"); err == nil || !strings.Contains(err.Error(), `docs/promises.md: there is no part "How do I write a promise?"`) {
		t.Errorf("documents without the parts make a page: %v", err)
	}
}

// mandoc finds nothing to say of any page, and none has what a generator leaves.
func TestLint(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, write("../../docs", dir))
	pages, err := filepath.Glob(filepath.Join(dir, "man?/*"))
	must.OK(t, err)
	libaps, err := filepath.Glob("../../libaps/man/*.[0-9]")
	must.OK(t, err)
	libaps = slices.DeleteFunc(libaps, func(page string) bool { // other names of pages
		text, err := os.ReadFile(page)
		must.OK(t, err)
		return strings.Contains(string(text), "\n.so ")
	})
	if len(pages) < 20 || len(libaps) < 5 {
		t.Fatalf("%d and %d pages", len(pages), len(libaps))
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		for _, odd := range []string{"[=", `=""`, "]("} {
			if strings.Contains(string(text), odd) {
				t.Errorf("%s has %q", filepath.Base(page), odd)
			}
		}
	}
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("no mandoc here")
	}
	if said, err := exec.Command(mandoc, append([]string{"-T", "lint", "-W", "style"}, append(pages, libaps...)...)...).CombinedOutput(); err != nil {
		t.Errorf("mandoc: %v\n%s", err, said)
	}
}

// The packages have the pages of all commands.
func TestPagesArePackaged(t *testing.T) {
	var listed strings.Builder
	for _, name := range []string{"isolio", "isolio-lab"} {
		text, err := os.ReadFile("../../debian/" + name + ".manpages")
		must.OK(t, err)
		listed.Write(text)
	}
	for _, cmd := range host.Root().Commands() {
		if name := cmd.Name(); !strings.Contains(listed.String(), ","+name+",") && !strings.Contains(listed.String(), "{"+name+",") &&
			!strings.Contains(listed.String(), ","+name+"}") && !strings.Contains(listed.String(), ","+name+"*") {
			t.Errorf("isolio-%s.1 is in no package", name)
		}
	}
}
