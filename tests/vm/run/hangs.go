// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"isolio/internal/lab/vm"
)

// Ways to hang, of tests/vm's TestHang: in a task that the kernel's own detection
// sees, and in one that it does not. It names the task by its command.
var waysToHang = map[string]string{"kernel": "task vm.test:", "watch": "task fio:"}

// expectHangs boots a VM for each way to hang. Each must fail, and its kernel's
// log must say which task hangs.
func expectHangs(ctx context.Context, machine vm.VM, out io.Writer) error {
	machine.Payload.Argv = append(machine.Payload.Argv, "-test.run=^TestHang$")
	env := machine.Payload.Env
	for _, way := range []string{"kernel", "watch"} {
		machine.Payload.Env = append(slices.Clone(env), "ISOLIO_HANG="+way)
		var fail *vm.Failure
		_, err := vm.Boot(ctx, machine, nil)
		switch {
		case err == nil:
			return fmt.Errorf("hangs: %s: the VM did well", way)
		case !errors.As(err, &fail):
			return err
		}
		i := slices.IndexFunc(fail.Lines, func(line string) bool {
			return strings.Contains(line, "INFO: "+waysToHang[way]) && strings.Contains(line, " blocked for more than ")
		})
		if i < 0 {
			return fmt.Errorf("hangs: %s: the VM failed for something else: %w", way, err)
		}
		fmt.Fprintf(out, "=== kernel %s, a task hangs (%s): the VM fails: %s\n", machine.Kernel.Release, way, fail.Lines[i])
	}
	return nil
}
