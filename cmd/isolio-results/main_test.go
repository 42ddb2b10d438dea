// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/must"
)

// A page is filled with data; what is kept of it comes and goes with the file in results/, and --check changes nothing.
func TestDoc(t *testing.T) {
	tree := t.TempDir()
	put := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(tree, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	const page = "<!-- results\ndata = \"a\"\ncolumns = [{ head = \"n\", cell = \"n\" }]\n-->\n"
	put("docs/page.md", page+"old\n<!-- end of results -->\n", 0o644)
	put("scripts/version", "#!/bin/sh\necho v1\n", 0o755)
	put("experiments/.keep", "", 0o644)
	short := put("short.jsonl", `{"table":"a","n":1,"kernel":"6.1"}`+"\n", 0o644)
	long := put("long.jsonl", strings.Repeat(`{"table":"a","n":2}`+"\n", 201), 0o644)
	has := func(name, want string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(tree, name))
		if want == "" && os.IsNotExist(err) {
			return
		}
		if err != nil || want == "" || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v\n%s", name, want, err, text)
		}
	}
	const kept = "results/data/page.jsonl"
	for _, c := range []struct {
		args            string
		code            int
		out, page, kept string
	}{
		{"doc page", 0, "", "old", ""},
		{"doc --check page " + short, 1, "docs/page.md\n" + kept + "\n", "old", ""},
		{"doc page " + short, 0, "docs/page.md\n" + kept + "\n", "| 1 |\n\nMeasured on kernel 6.1, at version v1", `"version":"v1`},
		{"doc --check", 0, "", "| 1 |", `"n":1`},
		{"doc page " + long, 0, "docs/page.md\n" + kept + "\n", "| 2 |", ""},
		{"doc --check page " + long, 0, "", "| 2 |", ""},
		{"doc other " + long, 2, "", "| 2 |", ""},
	} {
		var out, errs strings.Builder
		code := runMain(t.Context(), append([]string{"--tree", tree}, strings.Fields(c.args)...), &out, &errs)
		if code != c.code || out.String() != c.out {
			t.Errorf("%s: exit status %d, want %d: %q, %s", c.args, code, c.code, out.String(), errs.String())
		}
		has("docs/page.md", c.page)
		has(kept, c.kept)
	}
}
