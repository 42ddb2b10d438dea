// SPDX-License-Identifier: MIT

package prose

import (
	"regexp"
	"strings"
	"testing"
)

// essayLines is how long an essay may be: a reader takes it in at one sitting.
const essayLines = 120

// firstComment is what a C file opens with, after the line of its licence.
var firstComment = regexp.MustCompile(`(?s)\A(?:/\*[^\n]*\*/\n|//[^\n]*\n)?\n?(/\*.*?\*/)`)

// Essays at the head of C files are short. Their history is in docs/design/history.md.
func TestEssaysAreShort(t *testing.T) {
	essays := 0
	for _, file := range files(t, []string{".c", ".h"}, "kernel", "libaps") {
		found := firstComment.FindStringSubmatch(read(t, file))
		if found == nil {
			continue
		}
		lines := strings.Count(found[1], "\n") + 1
		if lines > essayLines {
			t.Errorf("%s: the essay has %d lines, at most %d: move its history to docs/design/history.md", file, lines, essayLines)
		}
		if lines > 30 {
			essays++
		}
	}
	if essays < 10 {
		t.Errorf("%d essays: where are the others?", essays)
	}
}
