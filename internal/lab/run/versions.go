// SPDX-License-Identifier: MIT

package run

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/vm"
)

// Versions are QEMU's and the compiler's own words, of those that a result of the experiment
// depends on.
func Versions(ctx context.Context, opts Options, x *experiment.Experiment) (qemu, compiler string, err error) {
	kernel, err := vm.OpenKernel(opts.Build, opts.Line)
	if err != nil {
		return "", "", err
	}
	modules, err := opts.modules(x.Modules())
	if err != nil {
		return "", "", err
	}
	var qemus []string
	for i := range x.Cases {
		line, err := kernel.QEMUVersion(ctx, x.Cases[i].CPUs)
		if err != nil {
			return "", "", err
		}
		if !slices.Contains(qemus, line) {
			qemus = append(qemus, line)
		}
	}
	compilers := map[string]bool{}
	for _, file := range modules {
		if err := compilersOf(file, compilers); err != nil {
			return "", "", err
		}
	}
	return strings.Join(qemus, "; "), strings.Join(slices.Sorted(maps.Keys(compilers)), "; "), nil
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
