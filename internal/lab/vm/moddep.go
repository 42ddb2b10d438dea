// SPDX-License-Identifier: MIT

package vm

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// moduleIndex knows a kernel's stock modules: where each is and what has to be
// loaded before it.
type moduleIndex struct {
	dir     string              // host path of lib/modules/<release>
	file    map[string]string   // module name to path below dir
	needs   map[string][]string // path to the paths it depends on, all levels
	builtin map[string]bool
}

// moduleName is a module's name as the kernel has it: no directory, no suffix,
// "_" for "-".
func moduleName(file string) string {
	name := path.Base(file)
	name, _, _ = strings.Cut(name, ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// readModules reads modules.dep and modules.builtin of one kernel release.
func readModules(root rootFS, release string) (*moduleIndex, error) {
	dir, err := root.resolve("/lib/modules/" + release)
	if err != nil {
		return nil, fmt.Errorf("kernel root: %w", err)
	}
	m := &moduleIndex{dir: dir, file: map[string]string{}, needs: map[string][]string{}, builtin: map[string]bool{}}
	dep, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, fmt.Errorf("%w; `depmod -b ROOT %s` makes it", err, release)
	}
	for lines := bufio.NewScanner(bytes.NewReader(dep)); lines.Scan(); {
		file, deps, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			return nil, fmt.Errorf("%s: modules.dep: line without a colon: %q", dir, lines.Text())
		}
		m.file[moduleName(file)] = file
		m.needs[file] = strings.Fields(deps)
	}
	built, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	for file := range strings.FieldsSeq(string(built)) {
		m.builtin[moduleName(file)] = true
	}
	return m, nil
}

// has reports whether the kernel has the module, in a file or built in.
func (m *moduleIndex) has(name string) bool {
	return m.builtin[moduleName(name)] || m.file[moduleName(name)] != ""
}

// order returns the host paths of the named modules and of all they depend on,
// each once, every module after those it needs. Modules that the kernel has
// built in are left out.
func (m *moduleIndex) order(names ...string) ([]string, error) {
	var list []string
	put := func(file string) {
		if host := filepath.Join(m.dir, file); !slices.Contains(list, host) {
			list = append(list, host)
		}
	}
	for _, name := range names {
		file, ok := m.file[moduleName(name)]
		if !ok {
			if m.builtin[moduleName(name)] {
				continue
			}
			return nil, fmt.Errorf("%s: no module %s", m.dir, name)
		}
		for _, need := range slices.Backward(m.needs[file]) { // modules.dep names the nearest first
			put(need)
		}
		put(file)
	}
	return list, nil
}

// moduleDepends reads what a module file says it depends on (modinfo's
// "depends" line).
func moduleDepends(ko string) ([]string, error) {
	f, err := elf.Open(ko)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w; `make setup` builds it", err)
		}
		return nil, fmt.Errorf("%s: %w", ko, err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("%s: not a kernel module: no .modinfo section", ko)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: .modinfo: %w", ko, err)
	}
	for line := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(line), "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
