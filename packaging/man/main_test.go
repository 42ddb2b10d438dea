// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		for _, want := range []string{`.TH "ISOLIO-` + strings.ToUpper(cmd.Name()) + `" "1" "Nov 2023"`, cmd.Short} {
			if !strings.Contains(page, want) {
				t.Errorf("isolio-%s.1: no %q", cmd.Name(), want)
			}
		}
	}
	if page := read("man1/isolio-bench.1"); !strings.Contains(page, "--allow-writes") {
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
	if _, err := rulesPage("## Rules\n", ""); err == nil {
		t.Error("a document without the parts makes a page")
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
