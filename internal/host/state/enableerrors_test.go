// SPDX-License-Identifier: MIT

package state

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/must"
	"isolio/internal/testtree"
)

func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "enable", "all.json")
	if disks, err := ReadEnableErrors(file); err != nil || disks != nil {
		t.Fatalf("without a file: %v, %v", disks, err)
	}
	must.OK(t, WriteEnableErrors(file, nil))
	want := []EnableError{{"sda", "device sda: no module"}, {"", "no disk"}}
	must.OK(t, WriteEnableErrors(file, want))
	if disks, err := ReadEnableErrors(file); err != nil || !slices.Equal(disks, want) {
		t.Errorf("%v, %v; want %v", disks, err, want)
	}
	must.OK(t, WriteEnableErrors(file, nil))
	if _, err := os.Stat(file); err == nil {
		t.Error("the file is still there")
	}
	for text, want := range map[string]string{"{": "unexpected end", "{}": "schema 0"} {
		testtree.File(t, file, text)
		if _, err := ReadEnableErrors(file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
