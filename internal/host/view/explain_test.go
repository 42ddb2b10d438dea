// SPDX-License-Identifier: MIT

package view

import (
	"os"
	"regexp"
	"testing"

	"isolio/internal/must"
)

// docs/weights.md has each code of a reason, and none that there is not: programs
// compare them.
func TestCodesAreDocumented(t *testing.T) {
	source, err := os.ReadFile("explain.go")
	must.OK(t, err)
	codes := map[string]bool{}
	for _, found := range regexp.MustCompile(`Code += "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		codes[found[1]] = true
	}
	if len(codes) < 20 {
		t.Fatalf("%d codes found", len(codes))
	}
	text, err := os.ReadFile("../../../docs/weights.md")
	must.OK(t, err)
	for _, found := range regexp.MustCompile("(?m)^\\| ((?:`[a-z-]+`(?:, )?)+) \\|").FindAllStringSubmatch(string(text), -1) {
		for _, code := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(found[1], -1) {
			if !codes[code[1]] {
				t.Errorf("docs/weights.md has %s, which is no code", code[1])
			}
			delete(codes, code[1])
		}
	}
	if len(codes) > 0 {
		t.Errorf("not in docs/weights.md: %v", codes)
	}
}
