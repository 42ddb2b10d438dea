// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

const data = `{"kernel":"6.1","filesystem":"ext4","what":"data","own_kib":8192,"other_kib":0,"none_kib":12}
{"kernel":"6.1","filesystem":"xfs","what":"data","own_kib":8188,"other_kib":4,"none_kib":0}
{"kernel":"6.1","filesystem":"xfs","what":"files","own_kib":1,"other_kib":2,"none_kib":3}
`

func TestTables(t *testing.T) {
	var all []charge
	for in := json.NewDecoder(strings.NewReader(data)); in.More(); {
		var c charge
		if err := in.Decode(&c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	const want = `Kernel 6.1:

| what the container does | ext4 | xfs |
|---|--:|--:|
| data | 8192 / 0 / 12 | 8188 / 4 / 0 |
| files | - | 1 / 2 / 3 |
`
	if got := tables(all); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if charges.Check(&all[0]) != nil || charges.Check(&charge{Kernel: "6.1"}) == nil {
		t.Error("a line with all names is refused, or one without is taken")
	}
}
