// SPDX-License-Identifier: MIT

package archive

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// What lab.Run removes when an experiment is complete stays for the next run, the newest of each
// contender; what an interrupted run of another version left is taken over.
func TestContenders(t *testing.T) {
	build := t.TempDir()
	finished := filepath.Join(build, "lab")
	c := contendersOf(build, finished, "x")
	seen := filepath.Join(finished, "x")
	must(t, os.MkdirAll(seen, 0o755))
	must(t, os.WriteFile(filepath.Join(seen, "depth-1.none.0123.json"), nil, 0o644))

	must(t, c.open())
	if names := namesIn(t, seen); !slices.Equal(names, []string{"depth-1.none.0123.json"}) {
		t.Fatalf("taken over: %v", names)
	}
	for i, name := range []string{"depth-1.kf.aaaa.json", "depth-1.kf.bbbb.json", "depth-1.kf-a.cccc.json"} {
		file := filepath.Join(seen, name)
		must(t, os.WriteFile(file, nil, 0o644))
		must(t, os.Chtimes(file, time.Time{}, time.Unix(int64(1000-i*10), 0)))
	}
	must(t, c.open()) // again, as after an interruption
	must(t, os.RemoveAll(seen))
	must(t, c.prune())
	want := []string{"depth-1.kf-a.cccc.json", "depth-1.kf.aaaa.json", "depth-1.none.0123.json"}
	if names := namesIn(t, c.dir); !slices.Equal(names, want) {
		t.Errorf("kept: %v, want %v", names, want)
	}
	must(t, c.open())
	if names := namesIn(t, seen); !slices.Equal(names, want) {
		t.Errorf("in the next run: %v, want %v", names, want)
	}
}

// A tree that was copied keeps its own files, and leaves the other's alone.
func TestContendersOfAnotherTree(t *testing.T) {
	root := t.TempDir()
	theirs, ours := filepath.Join(root, "theirs"), filepath.Join(root, "ours")
	c := contendersOf(theirs, filepath.Join(theirs, "lab"), "x")
	must(t, c.open())
	must(t, os.WriteFile(filepath.Join(c.link, "depth-1.none.0123.json"), nil, 0o644))

	// As `cp -a` has it, and as a link of an absolute path would have it.
	must(t, os.Rename(theirs, ours))
	c = contendersOf(ours, filepath.Join(ours, "lab"), "x")
	want := []string{"depth-1.none.0123.json"}
	if names := namesIn(t, c.link); !slices.Equal(names, want) {
		t.Fatalf("in a tree that moved: %v, want %v", names, want)
	}
	foreign := filepath.Join(root, "foreign")
	must(t, os.MkdirAll(foreign, 0o755))
	must(t, os.WriteFile(filepath.Join(foreign, "depth-1.bfq.4567.json"), nil, 0o644))
	must(t, os.Remove(c.link))
	must(t, os.Symlink(foreign, c.link))
	must(t, c.open())
	if names := namesIn(t, c.link); !slices.Equal(names, want) {
		t.Errorf("after another tree's link: %v, want %v", names, want)
	}
	if names := namesIn(t, foreign); len(names) != 1 {
		t.Errorf("the other tree has %v", names)
	}
}
