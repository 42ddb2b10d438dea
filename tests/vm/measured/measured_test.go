// SPDX-License-Identifier: MIT

package measured

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type line struct{ N int }

var table = Table[line]{
	Name: "lines", Test: "TestLines", Target: "test-lines",
	Check: func(l *line) error {
		if l.N == 0 {
			return errors.New("no number")
		}
		return nil
	},
	Text: func(all []line) string { return strings.Repeat("x", len(all)) + "\n" },
}

func put(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// What is between the marks is replaced, and nothing else.
func TestWrite(t *testing.T) {
	begins, ends := table.Marks()
	document := put(t, "d.md", "before\n"+begins+"old\n"+ends+"after\n")
	if err := table.Write(document, []string{put(t, "a", "{\"N\":1}\n{\"N\":2}\n"), put(t, "b", `{"N":3}`)}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(document)
	if want := "before\n" + begins + "xxx\n" + ends + "after\n"; err != nil || string(text) != want {
		t.Errorf("%v: %q, want %q", err, text, want)
	}
}

// What cannot be written leaves the document as it is.
func TestWriteRefuses(t *testing.T) {
	begins, ends := table.Marks()
	for name, c := range map[string]struct{ document, data, want string }{
		"no marks":    {"x", `{"N":1}`, "has not both marks"},
		"half a mark": {begins, `{"N":1}`, "has not both marks"},
		"no data":     {begins + ends, "", "is empty: TestLines sent nothing"},
		"other data":  {begins + ends, `{"M":3}`, "is not what TestLines sends: no number"},
		"no JSON":     {begins + ends, `{`, "is not what TestLines sends"},
	} {
		document := put(t, "d.md", c.document)
		if err := table.Write(document, []string{put(t, "data", c.data)}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if text, err := os.ReadFile(document); err != nil || string(text) != c.document {
			t.Errorf("%s: the document is %q now, %v", name, text, err)
		}
	}
	if err := table.Write("absent", []string{"absent"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without files: %v", err)
	}
}
