// SPDX-License-Identifier: MIT

package kernels

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"isolio/internal/must"
	"isolio/internal/testtree"
)

var update = flag.Bool("update", false, "write the table in docs/install.md")

// page shows the table.
const page = "../../docs/install.md"

// states are what the table says, by Row.Tests.
var states = map[string]string{
	"whole":   "all tests pass; run with every change",
	"short":   "all tests pass; those that depend on the kernel run with every change, the others before a release",
	"check":   "all tests pass; run before a release",
	"compile": "compiles; not booted",
}

// table is what stands between the marks.
func table() string {
	var b strings.Builder
	b.WriteString("| kernel | `KERNEL=` | state |\n|---|---|---|\n")
	for _, row := range Table() {
		if row.Name != "-" {
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", row.Name, row.Line, states[row.Tests])
		}
	}
	return b.String()
}

var marked = regexp.MustCompile(`(?s)(<!-- kernels -->\n).*?(<!-- end of kernels -->)`)

// The table in docs/install.md is of kernels.txt: go test ./internal/kernels -update writes them.
func TestPage(t *testing.T) {
	have, err := os.ReadFile(page)
	must.OK(t, err)
	if !marked.Match(have) {
		t.Fatalf("%s has no table between <!-- kernels --> and <!-- end of kernels -->", page)
	}
	want := marked.ReplaceAllString(string(have), "${1}"+table()+"${2}")
	switch {
	case want == string(have):
	case *update:
		testtree.File(t, page, want)
	default:
		t.Errorf("%s has other kernels than kernels.txt: go test ./internal/kernels -update writes them", page)
	}
}

// What a row may say. Scripts go by the same words.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Table() {
		if seen[row.Line] {
			t.Errorf("%s is there twice", row.Line)
		}
		seen[row.Line] = true
		if !slices.Contains([]string{"whole", "short", "check", "compile", "debug", "races"}, row.Tests) {
			t.Errorf("%s: %q is no choice of tests", row.Line, row.Tests)
		}
		if isShown, isBuilt := row.Name != "-", strings.HasPrefix(row.Package, "source-"); isShown == isBuilt {
			t.Errorf("%s: the package is %s, the name %q", row.Line, row.Package, row.Name)
		}
	}
	if row := Table()[0]; row.Tests != "whole" || Default() != row.Line || EveryChange()[0] != row.Line {
		t.Errorf("%+v is first, and not tested with every change", row)
	}
}
