// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/must"
)

// Each file of a release is in the statement with its checksum, as is the commit; and the same
// files have the same statement.
func TestProvenance(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "a.deb"), []byte("abc"), 0o644))
	must.OK(t, os.WriteFile(filepath.Join(dir, "b.rpm"), nil, 0o644))
	var b, again bytes.Buffer
	must.OK(t, write(&b, "../..", dir))
	must.OK(t, write(&again, "../..", dir))
	if b.String() != again.String() {
		t.Error("two statements of the same files differ")
	}
	var s statement
	must.OK(t, json.Unmarshal(b.Bytes(), &s))
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2
	if len(s.Subject) != 2 || s.Subject[0].Name != "a.deb" || s.Subject[0].Digest["sha256"] != abc {
		t.Errorf("the subject is %v", s.Subject)
	}
	head, err := exec.Command("git", "-C", "../..", "rev-parse", "HEAD").Output()
	must.OK(t, err)
	if got := s.Predicate.Definition.Dependencies[0].Digest["gitCommit"]; got != strings.TrimSpace(string(head)) {
		t.Errorf("the commit is %q, want %s", got, head)
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "a.deb"), []byte("abd"), 0o644))
	again.Reset()
	must.OK(t, write(&again, "../..", dir))
	if b.String() == again.String() {
		t.Error("another file has the same statement")
	}
	must.OK(t, os.Mkdir(filepath.Join(dir, "c"), 0o755))
	if err := write(&again, "../..", dir); err == nil || !strings.Contains(err.Error(), "c") {
		t.Errorf("a directory: %v", err)
	}
}
