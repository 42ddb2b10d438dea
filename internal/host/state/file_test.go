// SPDX-License-Identifier: MIT

package state

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"isolio/internal/must"
)

// A file is replaced as a whole and leaves nothing beside it. Any user may read it, whatever the umask.
func TestWrite(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	name := filepath.Join(t.TempDir(), "isolio", "a.json")
	for _, text := range []string{"first, which is longer", "second"} {
		must.OK(t, write(name, []byte(text), 0o644))
		got, there, err := read(name)
		if err != nil || !there || string(got) != text {
			t.Errorf("%q, %t, %v after %q", got, there, err, text)
		}
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(name)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A file without an end does not fill the memory.
func TestReadIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "claims.json")
	must.OK(t, os.WriteFile(name, nil, 0o644))
	must.OK(t, os.Truncate(name, maxBytes+1))
	if _, _, err := read(name); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
	if _, there, err := read(name + "-none"); there || err != nil {
		t.Errorf("%t, %v of a file that is not there", there, err)
	}
}
