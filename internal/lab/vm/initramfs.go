// SPDX-License-Identifier: MIT

package vm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// tailBytes is the fixed length of the initramfs's second part, which holds
// what differs between contenders: with one length for all, the memory layout
// of the guests is the same.
const tailBytes = 64 << 10

// Kernel is a stock kernel as `make setup` lays it out: vmlinuz, release, and
// root, the distribution's tree with the modules and fio of that kernel.
type Kernel struct {
	// Line is the kernel's line, such as "6.1".
	Line string
	// Release is what uname -r says in the guest.
	Release string
	// Vmlinuz is the path of the kernel image.
	Vmlinuz string
	// Clock is the library that gives QEMU its time of day; "" is the host's.
	Clock string
	// QEMU is one for several CPUs where the host's is too old; it need not be there.
	QEMU string
	root rootFS
	// programs is the tree of OpenPrograms.
	programs rootFS
}

// OpenKernel finds the kernel of the given line below the build directory.
func OpenKernel(build, line string) (*Kernel, error) {
	dir := filepath.Join(build, "kernel", line)
	release, err := os.ReadFile(filepath.Join(dir, "release"))
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w; `make setup KERNEL=%s` makes it", line, err, line)
	}
	k := &Kernel{Line: line, Release: strings.TrimSpace(string(release)), Vmlinuz: filepath.Join(dir, "vmlinuz")}
	if _, err := os.Stat(k.Vmlinuz); err != nil {
		return nil, fmt.Errorf("kernel %s: %w; `make setup KERNEL=%s` makes it", line, err, line)
	}
	root, err := filepath.EvalSymlinks(filepath.Join(dir, "root"))
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w; `make setup KERNEL=%s` makes it", line, err, line)
	}
	k.root = rootFS(root)
	if k.Clock, err = filepath.Abs(filepath.Join(build, ClockLibrary)); err == nil {
		_, err = os.Stat(k.Clock)
	}
	if err != nil {
		return nil, fmt.Errorf("lab: %w; `make build` makes it", err)
	}
	k.QEMU = filepath.Join(filepath.Dir(k.Clock), newerQEMU)
	return k, nil
}

// Modules are those of the names that the kernel has, as a module or built in:
// some are in all kernels but a few.
func (k *Kernel) Modules(names ...string) ([]string, error) {
	index, err := readModules(k.root, k.Release)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !index.has(name) }), nil
}

// Libaps returns the host paths of files of libaps that `make setup WITH=libaps` built in the kernel
// root, such as "fio-aps.so".
func (k *Kernel) Libaps(names ...string) ([]string, error) {
	var files []string
	for _, name := range names {
		file, err := k.root.resolve("/isolio/libaps/out/" + name)
		if err != nil {
			return nil, fmt.Errorf("libaps: %w; `make setup WITH=libaps KERNEL=%s` makes it", err, k.Line)
		}
		files = append(files, file)
	}
	return files, nil
}

// contents says what the first part of an initramfs holds. It is the same for
// all contenders of an experiment with the same modules.
type contents struct {
	kernel   *Kernel
	init     string            // host path of the isolio binary
	programs []string          // names of programs of the root
	root     rootFS            // of the programs; "" is the kernel's
	built    map[string]string // what was built in the kernel root, guest path to host path
	stock    []string          // stock modules: name, and parameters after a space
	extra    []string          // host paths of isolio's modules, loaded after the stock ones
	carry    []string          // host paths of modules that are not loaded
	files    map[string]string // guest path to host path
	tree     string            // archive of a distribution, "" for none
}

// base puts the archive together and returns it with the guest paths of the
// modules in load order.
func (c contents) base() (*archive, []Module, error) {
	a := newArchive()
	if err := a.addFile(guestInit, 0o755, c.init); err != nil {
		return nil, nil, err
	}
	for _, dir := range []string{"/dev", "/proc", "/sys", "/tmp", "/run", "/etc"} {
		if err := a.addDir(dir); err != nil {
			return nil, nil, err
		}
	}
	if err := c.addPrograms(a); err != nil {
		return nil, nil, err
	}
	for guest, host := range c.files {
		if err := a.addFile(guest, 0o755, host); err != nil {
			return nil, nil, err
		}
	}
	if c.tree != "" {
		if err := addTreeUnit(a); err != nil {
			return nil, nil, err
		}
	}
	if len(c.stock)+len(c.extra)+len(c.carry) == 0 {
		return a, nil, nil
	}
	modules, err := c.addModules(a)
	return a, modules, err
}

func (c contents) addPrograms(a *archive) error {
	libs := map[string]string{}
	root := cmp.Or(c.root, c.kernel.root)
	files, err := root.programs(c.programs)
	if err != nil {
		return fmt.Errorf("kernel root: %w", err)
	}
	for guest, host := range files {
		if err := a.addFile(guest, 0o755, host); err != nil {
			return err
		}
		if at, needed := link(guest); needed {
			if err := a.addSymlink(at, guest); err != nil {
				return err
			}
		}
		if elf, err := isELF(host); err != nil {
			return err
		} else if !elf {
			continue
		}
		if err := root.closure(host, libs); err != nil {
			return err
		}
	}
	for guest, host := range c.built {
		if err := a.addFile(guest, 0o755, host); err != nil {
			return err
		}
		if err := c.kernel.root.closure(host, libs); err != nil {
			return err
		}
	}
	for guest, host := range libs {
		if err := a.addFile(guest, 0o755, host); err != nil {
			return err
		}
	}
	return nil
}

func (c contents) addModules(a *archive) ([]Module, error) {
	index, err := readModules(c.kernel.root, c.kernel.Release)
	if err != nil {
		return nil, err
	}
	var names []string
	params := map[string]string{}
	for _, stock := range c.stock {
		name, param, _ := strings.Cut(stock, " ")
		names = append(names, name)
		params[moduleName(name)] = param
	}
	for _, ko := range c.extra {
		needs, err := moduleDepends(ko)
		if err != nil {
			return nil, err
		}
		names = append(names, needs...)
	}
	list, err := index.order(names...)
	if err != nil {
		return nil, err
	}
	var load []Module
	for _, host := range append(list, c.extra...) {
		m := Module{Path: path.Join(guestModules, filepath.Base(host)), Params: params[moduleName(host)]}
		if err := a.addFile(m.Path, 0o644, host); err != nil {
			return nil, err
		}
		load = append(load, m)
	}
	for _, host := range c.carry {
		if err := a.addFile(path.Join(guestModules, filepath.Base(host)), 0o644, host); err != nil {
			return nil, err
		}
	}
	return load, nil
}

// tail is the second part: the manifest, and small files of the payload.
func tail(m manifest, files map[string][]byte) (*archive, error) {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	a := newArchive()
	if err := a.addBytes(guestManifest, 0o644, text); err != nil {
		return nil, err
	}
	for name, data := range files {
		if err := a.addBytes(name, 0o644, data); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// appendFile appends a file of the host's, which the next archive may follow.
func appendFile(to *os.File, name string) error {
	from, err := os.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	n, err := io.Copy(to, from)
	if err == nil && n%4 != 0 {
		err = fmt.Errorf("%s: has %d bytes, which is no archive: a multiple of 4", name, n)
	}
	return err
}

// writeInitramfs writes base and tail to a file and returns its length.
func writeInitramfs(file string, base io.Reader, m manifest, files map[string][]byte) (size int64, err error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, fmt.Errorf("initramfs: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("initramfs: %w", e)
		}
	}()
	first, err := io.Copy(f, base)
	if err != nil {
		return 0, fmt.Errorf("initramfs: %w", err)
	}
	a, err := tail(m, files)
	if err != nil {
		return 0, err
	}
	second, err := a.writeTo(f, tailBytes)
	return first + second, err
}
