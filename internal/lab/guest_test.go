// SPDX-License-Identifier: MIT

package lab

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInGuest(t *testing.T) {
	guest := t.TempDir()
	manifest := filepath.Join(guest, guestManifest)
	if err := os.MkdirAll(filepath.Dir(manifest), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifest, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
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
