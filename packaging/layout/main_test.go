// SPDX-License-Identifier: MIT

package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/testtree"
)

// The picture in the documents is that of the imports as they are.
func TestPictureIsCurrent(t *testing.T) {
	want, err := picture("../..")
	if err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(strings.NewReader(string(want))); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{">isolio<", ">daemon<", ">guest<", ">plan/shell<", "var(--host)", "prefers-color-scheme: dark"} {
		if !strings.Contains(string(want), name) {
			t.Errorf("the picture has no %s", name)
		}
	}
	got, err := os.ReadFile("../../docs/plots/layout.svg")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("docs/plots/layout.svg is not of these imports: `make doc` draws it")
	}
}

// An import that follows from others is not drawn; one of a test, and a package that no
// program needs, are not read.
func TestRead(t *testing.T) {
	root := t.TempDir()
	for file, imports := range map[string]string{
		"cmd/x/main.go":           `import ("fmt"; "isolio/internal/a"; "isolio/internal/b"; "isolio/internal/c")`,
		"internal/a/a.go":         `import "isolio/internal/b"`,
		"internal/b/b.go":         `import "isolio/internal/c"`,
		"internal/b/b_test.go":    `import "isolio/internal/help"`,
		"internal/c/c.go":         ``,
		"internal/help/help.go":   `import "isolio/internal/c"`,
		"internal/c/testdata/x.c": ``,
	} {
		file = filepath.Join(root, file)
		testtree.File(t, file, "package p\n"+imports+"\n")
	}
	all, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	want := graph{
		"cmd/x": {"internal/a": true}, "internal/a": {"internal/b": true}, "internal/b": {"internal/c": true}, "internal/c": {},
	}
	if got := reduced(all); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	testtree.File(t, filepath.Join(root, "cmd/x/main.go"), "import")
	if _, err := read(root); err == nil {
		t.Error("no error of a file that is not Go")
	}
}

func TestWings(t *testing.T) {
	for name, want := range map[string]string{
		"cmd/isolio": "isolio", "internal/host/block": "block", "internal/lab": "lab", "internal/lab/vm": "vm", "internal/plan/shell": "plan/shell",
	} {
		i := wingOf(name)
		if i < 0 {
			t.Errorf("%s is in no wing", name)
			continue
		}
		if got := label(name, wings[i]); got != want {
			t.Errorf("%s is called %q, want %q", name, got, want)
		}
	}
}
