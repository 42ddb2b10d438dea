// SPDX-License-Identifier: MIT

package vm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/must"
	"isolio/internal/testtree"
)

func TestInGuest(t *testing.T) {
	guest := t.TempDir()
	manifest := filepath.Join(guest, guestManifest)
	testtree.File(t, manifest, "{}")
	other := t.TempDir()
	tests := []struct {
		what   string
		root   string
		pid    int
		name   string
		engine string
		want   bool
	}{
		{"init", guest, 1, "/init", "", true},
		{"the engine", guest, 77, "/init", "1", true},
		{"another program of init's", guest, 77, "/init", "", false},
		{"process 1 of a container", other, 1, "/usr/bin/isolio", "", false},
		{"process 1 of a container, at /init", other, 1, "/init", "", false},
		{"process 1 of a container that has the manifest", guest, 1, "isolio", "", false},
		{"the engine's environment on a host", other, 77, "/init", "1", false},
		{"a command on a host", other, 77, "isolio", "", false},
	}
	for _, tt := range tests {
		if got := inGuest(tt.root, tt.pid, tt.name, tt.engine); got != tt.want {
			t.Errorf("%s: inGuest = %v", tt.what, got)
		}
	}
}

// A distribution's archive follows the lab's own files, which add a unit to it.
func TestTree(t *testing.T) {
	vm, _ := fakeQemu(t, `: >"$console"; event '{"event":"exit"}'`)
	vm.Keep = t.TempDir()
	vm.Tree = filepath.Join(t.TempDir(), "tree.cpio")
	must.OK(t, os.WriteFile(vm.Tree, []byte("a distribution as it came"+"   "), 0o644))
	_, err := Boot(t.Context(), vm, nil)
	must.OK(t, err)
	text, err := os.ReadFile(filepath.Join(vm.Keep, "initramfs.cpio"))
	must.OK(t, err)
	at := 0
	for _, want := range []string{"ExecStart=/init", "tree/etc/systemd/system/multi-user.target.wants/isolio-lab.service", "../isolio-lab.service",
		"TRAILER!!!", "a distribution as it came", "070701", `"tree": true`} {
		next := bytes.Index(text[at:], []byte(want))
		if next < 0 {
			t.Fatalf("no %q in its place", want)
		}
		at += next
	}
	must.OK(t, os.WriteFile(vm.Tree, []byte("cut off"), 0o644))
	if _, err := Boot(t.Context(), vm, nil); err == nil || !strings.Contains(err.Error(), "7 bytes") {
		t.Errorf("an archive that is cut off: %v", err)
	}
}
