// SPDX-License-Identifier: MIT

package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/must"
	"isolio/internal/plan"
	"isolio/internal/testtree"
)

// A terminal that goes away while changes are made leaves none of them half done.
func TestApplyOutlivesItsTerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "value")
	testtree.File(t, file, "before\n")
	holds := func() string {
		text, err := os.ReadFile(file)
		must.OK(t, err)
		return strings.TrimSpace(string(text))
	}
	steps := []plan.Step{
		{Path: file, Value: "after", Undo: "before"},
		{Command: []string{"sh", "-c", "kill -HUP $PPID"}},
	}
	verified := false
	if err := apply(steps, func() error { verified = true; return nil }); err != nil || !verified || holds() != "after" {
		t.Errorf("%v, verified %v, the file holds %s", err, verified, holds())
	}
	if err := apply(steps, func() error { return errors.New("it is not so") }); err == nil || holds() != "before" {
		t.Errorf("%v, the file holds %s", err, holds())
	}
}
