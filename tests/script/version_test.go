// SPDX-License-Identifier: MIT

package script

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"isolio/internal/must"
)

// Versions have Debian's form, and each commit's sorts above the last one's.
func TestVersion(t *testing.T) {
	for _, tool := range []string{"git", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	run := func(program string, args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost")
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v: %s", program, args, err, text)
		}
		return strings.TrimSpace(string(text))
	}
	for _, name := range []string{"scripts/version", "scripts/lib.sh", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o755)
		}
		must.OK(t, err)
	}
	commit := func() { run("git", "commit", "--quiet", "--allow-empty", "--message", "one more") }

	last := "0"
	for _, step := range []struct {
		name string
		do   func()
		want string // BASE stands for that of CHANGELOG.md
	}{
		{"outside of git", func() {}, `BASE`},
		{"a commit", func() { run("git", "init", "--quiet"); run("git", "add", "."); commit() }, `BASE\+git1\.g[0-9a-f]{7}`},
		{"a changed file", func() { change(t, filepath.Join(dir, "CHANGELOG.md")) }, `BASE\+git1\.g[0-9a-f]{7}\.dirty`},
		{"another commit", func() { run("git", "add", "."); commit() }, `BASE\+git2\.g[0-9a-f]{7}`},
		{"the tenth commit", func() {
			for range 8 {
				commit()
			}
		}, `BASE\+git10\.g[0-9a-f]{7}`},
		{"a release", func() { run("git", "tag", "v9.2.0") }, `9\.2\.0`},
		{"a commit after it", commit, `9\.2\.0\+git11\.g[0-9a-f]{7}`},
	} {
		step.do()
		base := run("scripts/version", "base")
		got := run("scripts/version")
		if want := strings.ReplaceAll(step.want, "BASE", regexp.QuoteMeta(base)); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("%s: %s, want %s", step.name, got, want)
		}
		if !regexp.MustCompile(`^[0-9]+(\.[0-9]+)+$`).MatchString(base) || !strings.HasPrefix(got, base) {
			t.Errorf("%s: %s begins with %q", step.name, got, base)
		}
		if err := exec.Command("dpkg", "--compare-versions", got, "gt", last).Run(); err != nil {
			t.Errorf("%s: %s does not sort above %s", step.name, got, last)
		}
		last = got
	}
}

// change appends to a file.
func change(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, append(text, "\nAnd more.\n"...), 0o755)
	}
	must.OK(t, err)
}
