// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
	"isolio/internal/lab/vm"
)

// Versions are those of the programs that a result of the experiment would depend on: the
// release of the kernel that is booted, and QEMU's and the compiler's own words.
func Versions(ctx context.Context, opts Options, x *experiment.Experiment) (release string, p result.Provenance, err error) {
	kernel, err := vm.OpenKernel(opts.Build, opts.Line)
	if err != nil {
		return "", p, err
	}
	modules, err := opts.modules(x.Modules())
	if err != nil {
		return "", p, err
	}
	var qemus []string
	for i := range x.Cases {
		line, err := kernel.QEMUVersion(ctx, x.Cases[i].CPUs)
		if err != nil {
			return "", p, err
		}
		if !slices.Contains(qemus, line) {
			qemus = append(qemus, line)
		}
	}
	compilers := map[string]bool{}
	for _, file := range modules {
		if err := compilersOf(file, compilers); err != nil {
			return "", p, err
		}
	}
	var all []string
	for name := range compilers {
		all = append(all, name)
	}
	slices.Sort(all)
	return kernel.Release, result.Provenance{QEMU: strings.Join(qemus, "; "), Compiler: strings.Join(all, "; ")}, nil
}

// compilersOf adds those that left their names in a module.
func compilersOf(file string, all map[string]bool) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("lab: %s: %w", filepath.Base(file), err)
	}
	defer f.Close()
	section := f.Section(".comment")
	if section == nil {
		return nil
	}
	text, err := section.Data()
	if err != nil {
		return fmt.Errorf("lab: %s: %w", filepath.Base(file), err)
	}
	for name := range bytes.SplitSeq(text, []byte{0}) {
		if len(name) > 0 {
			all[string(name)] = true
		}
	}
	return nil
}
