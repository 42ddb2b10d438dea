// SPDX-License-Identifier: MIT

package kmod

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cilium/ebpf/btf"

	"isolio/internal/failure"
)

// Kernel is what is known about a kernel that modules are built for.
type Kernel struct {
	Spec     *btf.Spec
	declared map[string]bool // "struct x": defined in a public header
	exported map[string]bool // nil: not known
}

// How types are defined in the kernel's headers.
var (
	definitionLine = regexp.MustCompile(`(?m)^(struct|union|enum)\s+(\w+)\s*\{`)
	typedefLine    = regexp.MustCompile(`(?m)^(typedef)\s[^;{}()]*\b(\w+);`)
)

// AddHeaders notes the types that the headers in dir/include/linux define:
// some private types of one kernel are public in another.
func (k *Kernel) AddHeaders(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "include", "linux", "*.h"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return failure.Usagef("%s: no headers in include/linux: not a kernel's headers", dir)
	}
	if k.declared == nil {
		k.declared = map[string]bool{}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, line := range []*regexp.Regexp{definitionLine, typedefLine} {
			for _, match := range line.FindAllSubmatch(text, -1) {
				k.declared[string(match[1])+" "+string(match[2])] = true
			}
		}
	}
	return nil
}

// AddSymvers notes the symbols that a Module.symvers lists: checksum, symbol,
// module, kind of export, separated by tabs.
func (k *Kernel) AddSymvers(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return failure.Usagef("%w", err)
	}
	defer file.Close()
	if k.exported == nil {
		k.exported = map[string]bool{}
	}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) < 4 {
			return failure.Usagef("%s:%d: not a line of a Module.symvers: want four fields separated by tabs", name, n)
		}
		k.exported[fields[1]] = true
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (k *Kernel) declares(d Decl) bool { return k.declared[d.Kind+" "+d.Name] }

func (k *Kernel) exports(symbol string) (bool, error) {
	if k.exported == nil {
		return false, errors.New("asks what the kernel exports, which its Module.symvers tells: name it with --symvers")
	}
	return k.exported[symbol], nil
}
