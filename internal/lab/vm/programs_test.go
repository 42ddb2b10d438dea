// SPDX-License-Identifier: MIT

package vm

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/lab/vm/vmtest"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// programsRoot is a kernel whose programs' root has a database with its data, and tar.
func programsRoot(t *testing.T) (*Kernel, string) {
	t.Helper()
	build := t.TempDir()
	root := filepath.Join(build, "roots/6.1-programs")
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		testtree.File(t, name, text)
	}
	for _, name := range []string{"usr/lib/db/15/bin/server", "usr/lib/db/15/bin/client", "usr/bin/tar"} {
		write(name, "")
		vmtest.ELF{Needed: []string{}}.Write(t, filepath.Join(root, name))
	}
	write("usr/share/db/15/zones/a/UTC", "utc")
	write("usr/share/db/15/words.sql", "words")
	must.OK(t, os.Symlink("../words.sql", filepath.Join(root, "usr/share/db/15/zones/link")))
	write("isolio/programs/db", "/usr/lib/db/15/bin/server\n/usr/lib/db/15/bin/client\n/usr/share/db/15/zones\n")
	k := &Kernel{Line: "6.1"}
	must.OK(t, k.OpenPrograms(build))
	return k, root
}

func TestPrograms(t *testing.T) {
	k, root := programsRoot(t)
	got, err := k.programs.programs([]string{"client", "tar"})
	must.OK(t, err)
	want := map[string]string{
		"/usr/lib/db/15/bin/client":    filepath.Join(root, "usr/lib/db/15/bin/client"),
		"/usr/lib/db/15/bin/server":    filepath.Join(root, "usr/lib/db/15/bin/server"),
		"/bin/tar":                     filepath.Join(root, "usr/bin/tar"),
		"/usr/share/db/15/zones/a/UTC": filepath.Join(root, "usr/share/db/15/zones/a/UTC"),
		"/usr/share/db/15/zones/link":  filepath.Join(root, "usr/share/db/15/words.sql"),
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got, err = k.programs.programs([]string{"tar"}); err != nil || len(got) != 1 {
		t.Errorf("tar alone takes %v, %v", got, err)
	}
	if err := k.HasProgram("words.sql"); err == nil {
		t.Error("data is taken for a program")
	}
	if err := k.HasProgram("clint"); err == nil || !strings.Contains(err.Error(), "no clint in /usr/bin") {
		t.Errorf("a program that is missing: %v", err)
	}
}

// A list may name what a newer release of a package no longer has.
func TestProgramsOfAWrongList(t *testing.T) {
	k, root := programsRoot(t)
	must.OK(t, os.Remove(filepath.Join(root, "usr/lib/db/15/bin/server")))
	if err := k.HasProgram("client"); err == nil || !strings.Contains(err.Error(), "usr/lib/db/15/bin/server") {
		t.Errorf("a file of the list is missing: %v", err)
	}
}

func TestOpenProgramsMissing(t *testing.T) {
	k := &Kernel{Line: "6.12"}
	if err := k.OpenPrograms(t.TempDir()); err == nil || !strings.Contains(err.Error(), "`make setup WITH=programs KERNEL=6.12` makes it") {
		t.Errorf("OpenPrograms = %v", err)
	}
}

// Data beside programs has no libraries, and a program's are those of the same root.
func TestContentsOfPrograms(t *testing.T) {
	k, root := programsRoot(t)
	lib := filepath.Join(root, "usr/lib/x86_64-linux-gnu/libdb.so.1")
	must.OK(t, os.MkdirAll(filepath.Dir(lib), 0o755))
	vmtest.ELF{Needed: []string{}}.Write(t, lib)
	vmtest.ELF{Needed: []string{"libdb.so.1"}}.Write(t, filepath.Join(root, "usr/lib/db/15/bin/server"))
	k.root = rootFS(vmtest.Root(t))
	a := newArchive()
	must.OK(t, contents{kernel: k, root: k.programs, programs: []string{"client"}}.addPrograms(a))
	for _, name := range []string{"/bin/client", "/bin/server", "/usr/lib/db/15/bin/server", "/usr/share/db/15/zones/a/UTC", "/lib/x86_64-linux-gnu/libdb.so.1"} {
		if !a.has(name) {
			t.Errorf("the guest has no %s", name)
		}
	}
	if err := (contents{kernel: k, programs: []string{"client"}}).addPrograms(newArchive()); err == nil {
		t.Error("the kernel's root has the program")
	}
}
