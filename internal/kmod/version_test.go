// SPDX-License-Identifier: MIT

package kmod

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"isolio/internal/must"
	"isolio/internal/testtree"
)

// versioned is a file with a build ID, where there is one, and modinfo.
func versioned(t *testing.T, version, build string) string {
	t.Helper()
	dir := t.TempDir()
	source, ko := filepath.Join(dir, "x.c"), filepath.Join(dir, "x.ko")
	testtree.File(t, source, `char info[] __attribute__((section(".modinfo"))) = "license=GPL\0version=`+version+`\0srcversion=A";`)
	if said, err := exec.Command("gcc", "-r", "-nostdlib", "-Wl,--build-id="+build, "-o", ko, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return ko
}

// A loaded module is compared with a file by the build ID, and by the version where one has none.
func TestVersions(t *testing.T) {
	one := versioned(t, "0.1.0", "0x0102030405060708")
	again := versioned(t, "0.1.0", "0x0102030405060709")
	bare := versioned(t, "0.2.0", "none")
	loaded := func(of string) Version {
		t.Helper()
		root := t.TempDir()
		v, err := FileVersion(of)
		must.OK(t, err)
		testtree.File(t, filepath.Join(root, "sys/module/kyber_fairness_iosched/version"), v.Name+"\n")
		f, err := elf.Open(of)
		must.OK(t, err)
		defer f.Close()
		if section := f.Section(buildNote); section != nil {
			note, err := section.Data()
			must.OK(t, err)
			testtree.File(t, filepath.Join(root, "sys/module/kyber_fairness_iosched/notes/.note.gnu.build-id"), string(note))
		}
		got, there, err := LoadedVersion(root, "kyber-fairness-iosched")
		if err != nil || !there {
			t.Fatal(there, err)
		}
		return got
	}
	for _, tt := range []struct {
		loaded, file string
		same         bool
	}{{one, one, true}, {one, again, false}, {one, bare, false}, {bare, bare, true}, {bare, one, false}} {
		v, err := FileVersion(tt.file)
		must.OK(t, err)
		if l := loaded(tt.loaded); l.Same(v) != tt.same || v.Same(l) != tt.same {
			t.Errorf("%+v and %+v: want same %t", l, v, tt.same)
		}
	}
	if v, there, err := LoadedVersion(t.TempDir(), "kyber-fairness-iosched"); there || err != nil {
		t.Errorf("%+v, %t, %v of none", v, there, err)
	}
	text := filepath.Join(t.TempDir(), "text.ko")
	must.OK(t, os.WriteFile(text, []byte("this is no ELF, and has more than sixteen bytes\n"), 0o644))
	if _, err := FileVersion(text); err == nil {
		t.Error("a text has a version")
	}
}
