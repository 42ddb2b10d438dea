// SPDX-License-Identifier: MIT

package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
)

// kernelDir has a directory for each module.
const kernelDir = "kernel"

// sharedDirs are where kernel/Kbuild has the compiler look for headers besides the
// module's own directory.
var sharedDirs = []string{kernelDir + "/compat", kernelDir + "/common"}

// builtWith are files that every module is built with and none includes: what the
// generated header is made of, and how modules are compiled.
var builtWith = []string{
	kernelDir + "/Kbuild", kernelDir + "/compat/private-types.txt", kernelDir + "/compat/features.txt",
}

// include is a line that has the compiler read another file.
var include = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]`)

// moduleFiles are the sources of a module, by their names in the tree: all C files in its
// directory, what they include from kernel/, and what every module is built with. A file
// that nothing includes, such as a unit test, is not among them.
func (t Tree) moduleFiles(module string) ([]string, error) {
	dir := path.Join(kernelDir, module)
	sources, err := filepath.Glob(t.path(dir + "/*.c"))
	if err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("%s has no C file: a module's sources are in the directory of its name", t.path(dir))
	}
	files := append(slices.Clone(builtWith), dir+"/Kbuild")
	for _, file := range sources {
		files = append(files, path.Join(dir, filepath.Base(file)))
	}
	for i := 0; i < len(files); i++ { // grows
		if ext := path.Ext(files[i]); ext != ".c" && ext != ".h" {
			continue
		}
		text, err := os.ReadFile(t.path(files[i]))
		if err != nil {
			return nil, err
		}
		for _, m := range include.FindAllSubmatch(text, -1) {
			file, err := t.included(string(m[1]), append([]string{path.Dir(files[i]), dir}, sharedDirs...))
			if err != nil {
				return nil, err
			}
			if file != "" && !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files, nil
}

// included is the file that a name in an #include means, "" for one that is not the
// tree's: the kernel's, or the generated header.
func (t Tree) included(name string, dirs []string) (string, error) {
	for _, dir := range dirs {
		file := path.Join(dir, name)
		switch _, err := os.Stat(t.path(file)); {
		case err == nil:
			return file, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return "", nil
}
