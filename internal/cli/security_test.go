// SPDX-License-Identifier: MIT

package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"isolio/internal/must"
)

// docs/security.md names tests that there are, at least one in each line of its tables of
// attacks and faults.
func TestSecurityNamesTests(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	must.OK(t, err)
	var sources strings.Builder
	for _, dir := range []string{"../../internal", "../../packaging", "../../tests/vm", "../../deploy", "../../tests/kubernetes"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			sources.Write(source)
			return err
		})
		must.OK(t, err)
	}
	tested := regexp.MustCompile("`(Test[A-Za-z]+|[a-z-]+[.]txtar)`")
	names := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(text), -1)
	for _, name := range names {
		if !strings.Contains(sources.String(), "func "+name[1]+"(t *testing.T)") {
			t.Errorf("there is no %s", name[1])
		}
	}
	scripts := regexp.MustCompile("`([a-z-]+[.]txtar)`").FindAllStringSubmatch(string(text), -1)
	for _, script := range scripts {
		if _, err := os.Stat("../../tests/script/" + script[1]); err != nil {
			t.Error(err)
		}
	}
	of := ""
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "## "):
			of = strings.TrimSpace(line)
		case strings.HasPrefix(line, "| ") && of != "## Trust" && !strings.HasSuffix(line, "| test |\n") && !tested.MatchString(line):
			t.Errorf("%s: no test in %q", of, line)
		}
	}
	if len(names) < 20 || len(scripts) < 3 {
		t.Errorf("%d tests and %d scripts are named: the page has more", len(names), len(scripts))
	}
}
