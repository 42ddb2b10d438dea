// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTables(t *testing.T) {
	dir := t.TempDir()
	document, data := filepath.Join(dir, "x.md"), filepath.Join(dir, "x.jsonl")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(document, "before\n"+begins+"old\n"+ends+"after\n")
	write(data, `{"kernel":"6.1","filesystem":"ext4","what":"data","own_kib":8192,"other_kib":0,"none_kib":12}
{"kernel":"6.1","filesystem":"xfs","what":"data","own_kib":8188,"other_kib":4,"none_kib":0}
{"kernel":"6.1","filesystem":"xfs","what":"files","own_kib":1,"other_kib":2,"none_kib":3}
`)
	if err := run(document, []string{data}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(document)
	want := "before\n" + begins + `Kernel 6.1:

| what the container does | ext4 | xfs |
|---|--:|--:|
| data | 8192 / 0 / 12 | 8188 / 4 / 0 |
| files | - | 1 / 2 / 3 |
` + ends + "after\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	for _, tt := range []struct{ document, data, want string }{
		{want, "", "the data is empty"}, {want, `{"kernel":"6.1"}`, "a name is missing"}, {"no marks", `{"kernel":"6.1","filesystem":"a","what":"b"}`, "has not both marks"},
	} {
		write(document, tt.document)
		write(data, tt.data)
		if err := run(document, []string{data}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.data, err, tt.want)
		}
	}
}
