// SPDX-License-Identifier: MIT

package table

import (
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	var b strings.Builder
	err := Write(&b, []Column{{Head: "disk"}, {Head: "nothing"}, {Head: "%", Right: true}, {Head: "why"}},
		[][]string{{"nvme0n1", "", "5.41", "x"}, {"é", "", "54.05", ""}})
	want := "disk         %  why\nnvme0n1   5.41  x\né        54.05\n"
	if err != nil || b.String() != want {
		t.Errorf("got\n%s%v, want\n%s", b.String(), err, want)
	}
}

// Names act on no terminal, and are as wide as they look.
func TestWriteHostileNames(t *testing.T) {
	var b strings.Builder
	err := Write(&b, []Column{{Head: "of"}, {Head: "n", Right: true}}, [][]string{{"\x1b[2J", "1"}, {"web", "22"}})
	want := "of        n\n\\x1b[2J   1\nweb      22\n"
	if err != nil || b.String() != want {
		t.Errorf("got %q, %v, want %q", b.String(), err, want)
	}
}
