// SPDX-License-Identifier: MIT

package command

import (
	"strings"
	"testing"

	"isolio/internal/failure"
)

func TestForLab(t *testing.T) {
	for line, want := range map[string]bool{
		"":                    false,
		"lab":                 true,
		"lab --help":          true,
		"bench a --device b":  true,
		"help lab":            true,
		"help":                false,
		"help weight":         false,
		"weight lab 5":        false,
		"__complete lab x":    true,
		"__complete lab":      false,
		"__completeNoDesc la": false,
	} {
		if got := forLab(strings.Fields(line)); got != want {
			t.Errorf("isolio %s: for isolio-lab: %t, want %t", line, got, want)
		}
	}
}

// Without isolio-lab its commands are listed, and say in one line what is missing.
func TestWithoutLab(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, line := range []string{"lab kf-nested", "bench --help", "help lab"} {
		code, stdout, stderr := runCommand(t, strings.Fields(line)...)
		if code != failure.Unsupported || stdout != "" || strings.Count(stderr, "\n") != 1 ||
			!strings.Contains(stderr, "install the package isolio-lab, or run `make build`") {
			t.Errorf("isolio %s: code %d, stdout %q, stderr %q", line, code, stdout, stderr)
		}
	}
	if _, stdout, _ := runCommand(t, "--help"); !strings.Contains(stdout, "  lab  ") || !strings.Contains(stdout, "  bench  ") {
		t.Errorf("isolio --help does not list lab and bench: %s", stdout)
	}
}
