// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const data = `{"attribution":"a","kernel":"6.1","did":"everything as planned","want":"kept","promised_iops":100,"got_iops":104.4,"depth":3,"plan_depth":2,"found":{"kept":20}}
{"attribution":"a","kernel":"6.1","did":"half the depth","want":"depth","found":{"depth":12,"not demanded":6,"disk":2}}
{"attribution":"a","kernel":"6.1","did":"slow, held","want":"kept","held":true,"promised_iops":100,"got_iops":99,"found":{"kept":18,"disk":2}}
{"attribution":"b","kernel":"6.1","did":"half the depth","want":"depth","found":{"depth":20}}
`

func TestRun(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	document := file("d.md", "before\n"+begins+"stale\n"+ends+"after\n")
	if err := run(document, []string{file("x.jsonl", data)}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n<!-- attribution", ends + "after\n", "over all disks (a, b)",
		"| everything as planned | 20 | 0 | 0 | 0 | 0 | 0 | 0 | 100.0 % |",
		"| `depth` | 0 | 6 | 0 | 2 | 0 | 32 | 0 | 95.0 % |",
		"| half the depth | a | 0 | 0 | 0 of 0 | 0 | 6 | 0 | 2 | 0 | 12 | 0 | 90.0 % |\n| half the depth | b |",
		"| slow, held | a | 100 | 99 | 18 | 2 |", "| 104 | 3 of 2 |", "kernel 6.1.\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "stale") {
		t.Errorf("the old table is there still:\n%s", text)
	}
	for name, c := range map[string]struct{ document, data, want string }{
		"no marks":   {"x", data, "has not both marks"},
		"no data":    {begins + ends, "", "is empty"},
		"other data": {begins + ends, `{"Containers": 3}`, "is not what TestViolationsAreAttributed sends: no disk"},
		"no JSON":    {begins + ends, `{`, "is not what"},
	} {
		if err := run(file("e.md", c.document), []string{file("e.jsonl", c.data)}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
