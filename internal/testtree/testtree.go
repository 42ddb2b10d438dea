// SPDX-License-Identifier: MIT

// Package testtree makes the directories of files that tests read in place of /sys, /proc and /etc.
package testtree

import (
	"os"
	"path/filepath"
	"testing"
)

// New returns a directory of its own that has these files.
func New(t testing.TB, files ...map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	Write(t, root, files...)
	return root
}

// Write writes files, by their paths below root. Of two with one path the later one counts.
func Write(t testing.TB, root string, files ...map[string]string) {
	t.Helper()
	for _, some := range files {
		for name, text := range some {
			File(t, filepath.Join(root, name), text)
		}
	}
}

// File writes a file, and makes the directories that it lies in.
func File(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
