// SPDX-License-Identifier: MIT

package vm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Most experiments need fio and a shell, which each kernel root has. The programs that
// containers of others run are in a tree of their own, which scripts/programs makes: of the
// same release of Debian, with fio and the shell, so that all have the same libraries.

// listsDir is the directory in that tree with lists of files, one a program. A guest
// that has one of a list's programs has all files of the list. A program without a list
// is a file.
const listsDir = "isolio/programs"

// OpenPrograms finds the tree with the programs of the kernel's line below the build directory.
func (k *Kernel) OpenPrograms(build string) error {
	if err := k.OpenTree(build, "programs"); err != nil {
		return fmt.Errorf("programs: %w; `make setup WITH=programs KERNEL=%s` makes it", err, k.Line)
	}
	return nil
}

// OpenTree finds the tree LINE-NAME below the build directory, and takes programs from it.
func (k *Kernel) OpenTree(build, name string) error {
	root, err := filepath.Abs(filepath.Join(build, "roots", k.Line+"-"+name))
	if err == nil {
		_, err = os.Stat(filepath.Join(root, listsDir))
	}
	k.programs = rootFS(root)
	return err
}

// HasProgram says why there is no such program in the tree of OpenPrograms, nil if there is.
func (k *Kernel) HasProgram(name string) error {
	_, err := k.programs.programs([]string{name})
	return err
}

// programs are the host paths of the named programs, by guest path, and of all that the
// root's lists have with them. A program of no list is in /bin; others, and their data, are
// where the root has them, as some find their files from where they are. See link.
func (r rootFS) programs(names []string) (map[string]string, error) {
	lists, err := r.lists()
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, name := range names {
		list := slices.IndexFunc(lists, func(list []string) bool {
			return slices.ContainsFunc(list, func(file string) bool { return isProgram(file) && path.Base(file) == name })
		})
		if list >= 0 {
			for _, file := range lists[list] {
				if err := r.addTree(file, files); err != nil {
					return nil, err
				}
			}
			continue
		}
		if files[path.Join("/bin", name)], err = r.find(binDirs, name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// lists are the root's lists of files; none for a root of a kernel.
func (r rootFS) lists() (all [][]string, err error) {
	names, err := filepath.Glob(filepath.Join(string(r), listsDir, "*"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, strings.Fields(string(text)))
	}
	return all, nil
}

// link is where in /bin a program is found, if it is elsewhere.
func link(file string) (at string, needed bool) {
	return path.Join("/bin", path.Base(file)), isProgram(file) && path.Dir(file) != "/bin"
}

// isProgram reports whether a file of the root is in a directory of programs.
func isProgram(file string) bool {
	return slices.Contains([]string{"bin", "sbin"}, path.Base(path.Dir(file)))
}

// addTree adds a file of the root, or all files below a directory, by guest path.
func (r rootFS) addTree(file string, to map[string]string) error {
	host, err := r.resolve(file)
	if err != nil {
		return err
	}
	info, err := os.Stat(host)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		to[file] = host
		return nil
	}
	below := map[string]bool{}
	err = fs.WalkDir(os.DirFS(host), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			below[path.Join(file, name)] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(below)) {
		// A link out of the directory is what it stands for in the root.
		if to[name], err = r.resolve(name); err != nil {
			return err
		}
	}
	return nil
}

// isELF reports whether a file is a program or a library, and not a script or data.
func isELF(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	const magic = "\x7fELF"
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(f, start); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return string(start) == magic, nil
}
