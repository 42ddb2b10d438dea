// SPDX-License-Identifier: MIT

package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/must"
)

// FuzzParse reads an experiment. What is taken can be run: it has cases, and
// names that are fit for cgroups. An error is one line that begins with the file.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../../experiments/*/*.toml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no experiments: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		must.OK(f, err)
		if len(text) < 3000 {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzlimit.Run(t, uint64(256<<20+10000*len(text)), func() {
			e, err := Parse("file.toml", text)
			if err != nil {
				if s := err.Error(); !strings.HasPrefix(s, "file.toml") || strings.Contains(s, "\n") {
					t.Errorf("%q is not one line about the file", s)
				}
				return
			}
			check(t, e)
		})
	})
}

func check(t *testing.T, e *Experiment) {
	if len(e.Cases) == 0 || len(e.Schedulers) == 0 || !namePattern.MatchString(e.Name) {
		t.Errorf("%q: %d cases, %d schedulers", e.Name, len(e.Cases), len(e.Schedulers))
	}
	if e.NrRequests != 0 && (e.NrRequests < 4 || e.NrRequests > 2048) {
		t.Errorf("nr_requests is %d", e.NrRequests)
	}
	for i := range e.Cases {
		if len(e.Cases[i].Containers) == 0 {
			t.Errorf("case %q has no container", e.Cases[i].Name)
		}
		for _, c := range e.Cases[i].Containers {
			if c.Weight < 1 || c.Weight > 10000 || !namePattern.MatchString(c.Name) {
				t.Errorf("container %q has weight %d", c.Name, c.Weight)
			}
		}
	}
	if _, err := e.Select(e.Schedulers, nil); err != nil {
		t.Errorf("all of its schedulers: %v", err)
	}
}
