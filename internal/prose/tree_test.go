// SPDX-License-Identifier: MIT

package prose

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/must"
)

// longPart is one part of so many of a document's sentences that may be long.
const longPart = 20

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	must.OK(t, err)
	return string(b)
}

// files are those of the tree with one of these extensions, below these directories.
func files(t *testing.T, extensions []string, dirs ...string) []string {
	t.Helper()
	var found []string
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && slices.Contains(extensions, filepath.Ext(path)) {
				found = append(found, path)
			}
			return err
		})
		must.OK(t, err)
	}
	return found
}

func documents(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("../../*.md")
	must.OK(t, err)
	// Its words are not English.
	found = slices.DeleteFunc(found, func(file string) bool { return strings.HasSuffix(file, ".ko.md") })
	found = append(found, files(t, []string{".md"}, "docs", "experiments")...)
	if len(found) < 20 {
		t.Fatalf("%d documents: where are the others?", len(found))
	}
	return found
}

// Documents of this tree name the actor, and a reader takes their sentences in at once.
func TestDocumentsOfThisTree(t *testing.T) {
	for _, file := range documents(t) {
		sentences := Markdown([]byte(read(t, file)))
		var long []Sentence
		for _, s := range sentences {
			for _, f := range Terms(s.Line, s.Text) {
				t.Errorf("%s: %s", file, f)
			}
			if s.Words() >= LongWords {
				long = append(long, s)
			}
		}
		if len(long)*longPart > len(sentences) {
			for _, s := range long {
				t.Logf("%s:%d: %d words: %s", file, s.Line, s.Words(), s.Text)
			}
			t.Errorf("%s: %d of %d sentences have %d words or more, one in %d may", file, len(long), len(sentences), LongWords, longPart)
		}
	}
}

// Comments of what people read the source of.
func TestCommentsOfThisTree(t *testing.T) {
	found := files(t, []string{".c", ".h"}, "kernel", "libaps")
	if len(found) < 100 {
		t.Fatalf("%d files: where are the others?", len(found))
	}
	for _, file := range found {
		for _, f := range Terms(1, Comments(read(t, file))) {
			t.Errorf("%s: %s", file, f)
		}
	}
}

func TestCommentsOfGoInThisTree(t *testing.T) {
	found := files(t, []string{".go"}, "internal", "cmd", "tests", "packaging")
	if len(found) < 200 {
		t.Fatalf("%d files: where are the others?", len(found))
	}
	for _, file := range found {
		// These name the terms.
		if filepath.Base(filepath.Dir(file)) == "prose" {
			continue
		}
		comments, err := GoComments(file, []byte(read(t, file)))
		if err != nil {
			t.Error(err)
		}
		for _, f := range Terms(1, comments) {
			t.Errorf("%s: %s", file, f)
		}
	}
}

// Comments of scripts are lines that begin with #.
func TestCommentsOfScripts(t *testing.T) {
	found := append(files(t, []string{"", ".sh"}, "scripts"), files(t, []string{".txtar"}, "tests")...)
	if len(found) < 40 {
		t.Fatalf("%d files: where are the others?", len(found))
	}
	for _, file := range append(found, "../../Makefile") {
		lines := strings.Split(read(t, file), "\n")
		for i, line := range lines {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				lines[i] = ""
			}
		}
		for _, f := range Terms(1, strings.Join(lines, "\n")) {
			t.Errorf("%s: %s", file, f)
		}
	}
}

// What programs print, and experiments say.
func TestTextsOfThisTree(t *testing.T) {
	found := append(files(t, []string{".toml"}, "experiments", "packaging"), files(t, []string{".golden"}, "cmd", "internal")...)
	for _, file := range found {
		for _, f := range Terms(1, read(t, file)) {
			t.Errorf("%s: %s", file, f)
		}
	}
}
