// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/kmod"
	"isolio/internal/lab"
)

// A module whose layout record differs from the running kernel's BTF is not
// loaded; the one that fits is, once.
func TestLayoutIsCheckedBeforeLoading(t *testing.T) {
	watchLog(t)
	if moduleLoaded(t) {
		must(t, unloadModule())
	}
	fits := filepath.Join(lab.ModuleDir, moduleFile)
	differs := filepath.Join(t.TempDir(), moduleFile)
	data, err := os.ReadFile(fits)
	must(t, err)
	const structure, member = "elevator_mq_ops", "dispatch_request"
	// An entry of the record: two names of 48 bytes, offset and size.
	entry := make([]byte, 96)
	copy(entry, structure)
	copy(entry[48:], member)
	at := bytes.Index(data, entry)
	if at < 0 {
		t.Fatalf("%s has no record of %s.%s", fits, structure, member)
	}
	offset := data[at+len(entry):]
	binary.LittleEndian.PutUint32(offset, binary.LittleEndian.Uint32(offset)+16)
	must(t, os.WriteFile(differs, data, 0o644))

	expectError(t, "loading what does not fit", kmod.Load(differs, ""), "struct "+structure+": member "+member)
	if moduleLoaded(t) {
		t.Fatal("a module that does not fit was loaded")
	}
	must(t, kmod.Load(fits, ""))
	if !moduleLoaded(t) {
		t.Fatal("the module was not loaded")
	}
	expectError(t, "loading it again", kmod.Load(fits, ""), "loaded already")
	must(t, kmod.Unload(moduleName))
	expectError(t, "unloading it again", kmod.Unload(moduleName), "it is not loaded")
}

func expectError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got error %v, want %q", what, err, want)
	}
}
