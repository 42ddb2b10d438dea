// SPDX-License-Identifier: MIT

package vm

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// libDirs is where the loader of a Debian amd64 libc looks when it has no
// cache, in its order. Nothing else is searched, but for a file's own RUNPATH.
var libDirs = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib",
}

// binDirs is where programs of a kernel root are looked for.
var binDirs = []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"}

// rootFS is an unpacked distribution below a directory. Paths inside it start
// with "/", and its symbolic links, absolute ones too, stay inside.
type rootFS string

// resolve returns the host path of the file that name stands for in the root,
// all symbolic links followed.
func (r rootFS) resolve(name string) (string, error) {
	todo := strings.Split(strings.Trim(path.Clean(name), "/"), "/")
	at := "/"
	for links := 0; len(todo) > 0; {
		next := path.Join(at, todo[0]) // ".." at the top stays at the top
		todo = todo[1:]
		host := filepath.Join(string(r), next)
		st, err := os.Lstat(host)
		if err != nil {
			return "", err
		}
		if st.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > 40 {
			return "", fmt.Errorf("%s: too many symbolic links", filepath.Join(string(r), name))
		}
		target, err := os.Readlink(host)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			at = "/"
		}
		todo = append(strings.Split(strings.Trim(path.Clean(target), "/"), "/"), todo...)
	}
	return filepath.Join(string(r), at), nil
}

// find returns the host path of the first of dirs that holds name.
func (r rootFS) find(dirs []string, name string) (string, error) {
	for _, dir := range dirs {
		host, err := r.resolve(path.Join(dir, name))
		switch {
		case err == nil:
			return host, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return "", fmt.Errorf("%s: no %s in %s", r, name, strings.Join(dirs, " "))
}

// closure maps guest path to host path for the loader and every shared library
// that the program at the host path needs, directly or not. All libraries land
// in libDirs[0], so that the guest's loader finds each at its first try.
func (r rootFS) closure(program string, into map[string]string) error {
	interp, needed, dirs, err := elfNeeds(program)
	if err != nil {
		return err
	}
	if interp != "" {
		host, err := r.resolve(interp)
		if err != nil {
			return fmt.Errorf("%s: its loader: %w", program, err)
		}
		into[interp] = host
	}
	search := libDirs
	for _, dir := range dirs {
		origin := path.Dir("/" + strings.TrimPrefix(strings.TrimPrefix(program, string(r)), "/"))
		search = append([]string{strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(dir)}, search...)
	}
	for _, name := range needed {
		guest := path.Join(libDirs[0], name)
		if _, ok := into[guest]; ok {
			continue
		}
		host, err := r.find(search, name)
		if err != nil {
			return fmt.Errorf("%s needs a library: %w", program, err)
		}
		into[guest] = host
		if err := r.closure(host, into); err != nil {
			return err
		}
	}
	return nil
}

// elfNeeds reads an ELF file's loader ("" if none), the names of the libraries
// it needs, and the directories it wants searched, last first.
func elfNeeds(file string) (interp string, needed, dirs []string, err error) {
	f, err := elf.Open(file)
	if err != nil {
		return "", nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			return "", nil, nil, fmt.Errorf("%s: loader name: %w", file, err)
		}
		interp = strings.TrimRight(string(b), "\x00")
	}
	if f.Section(".dynamic") == nil { // static
		return interp, nil, nil, nil
	}
	needed, err = f.DynString(elf.DT_NEEDED)
	if err != nil {
		return "", nil, nil, fmt.Errorf("%s: needed libraries: %w", file, err)
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		list, err := f.DynString(tag)
		if err != nil {
			return "", nil, nil, fmt.Errorf("%s: library path: %w", file, err)
		}
		for _, l := range list {
			for dir := range strings.SplitSeq(l, ":") {
				dirs = append([]string{dir}, dirs...)
			}
		}
	}
	return interp, needed, dirs, nil
}
