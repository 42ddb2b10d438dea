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

var update = flag.Bool("update", false, "write the tables in README.md and README.ko.md")

// readme is one of the files that show the table.
type readme struct {
	file, head string
	states     map[string]string // by Row.Tests
	names      *strings.Replacer
}

var readmes = []readme{
	{
		file: "../../README.md", head: "| kernel | `KERNEL=` | state |",
		states: map[string]string{
			"whole":   "all tests pass; run with every change",
			"short":   "all tests pass; those that depend on the kernel run with every change, the others before a release",
			"check":   "all tests pass; run before a release",
			"compile": "compiles; not booted",
		},
		names: strings.NewReplacer(),
	},
	{
		file: "../../README.ko.md", head: "| 커널 | `KERNEL=` | 상태 |",
		states: map[string]string{
			"whole":   "모든 시험 통과; 변경마다 실행",
			"short":   "모든 시험 통과; 커널에 따라 달라지는 시험은 변경마다, 나머지는 릴리스 전에 실행",
			"check":   "모든 시험 통과; 릴리스 전에 실행",
			"compile": "컴파일됨; 부팅하지 않았다",
		},
		names: strings.NewReplacer("Debian", "데비안", " with ", " ", " for ", " "),
	},
}

// table is what stands between the marks.
func (r *readme) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n|---|---|---|\n", r.head)
	for _, row := range Table() {
		if row.Name != "-" {
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", r.names.Replace(row.Name), row.Line, r.states[row.Tests])
		}
	}
	return b.String()
}

var marked = regexp.MustCompile(`(?s)(<!-- kernels -->\n).*?(<!-- end of kernels -->)`)

// The tables in README are of kernels.txt: go test ./internal/kernels -update writes them.
func TestReadme(t *testing.T) {
	for _, r := range readmes {
		have, err := os.ReadFile(r.file)
		must.OK(t, err)
		if !marked.Match(have) {
			t.Fatalf("%s has no table between <!-- kernels --> and <!-- end of kernels -->", r.file)
		}
		want := marked.ReplaceAllString(string(have), "${1}"+r.table()+"${2}")
		switch {
		case want == string(have):
		case *update:
			testtree.File(t, r.file, want)
		default:
			t.Errorf("%s has other kernels than kernels.txt: go test ./internal/kernels -update writes them", r.file)
		}
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
			t.Errorf("%s: the package is %s, the name in README %q", row.Line, row.Package, row.Name)
		}
	}
	if row := Table()[0]; row.Tests != "whole" || Default() != row.Line || EveryChange()[0] != row.Line {
		t.Errorf("%+v is first, and not tested with every change", row)
	}
}
