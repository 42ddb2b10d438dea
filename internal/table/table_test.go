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
