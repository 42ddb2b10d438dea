// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/lab/vm"
)

// beside is another of the VM; what --keep keeps of it lies in a directory of its own.
func beside(machine vm.VM) vm.VM {
	if machine.Keep != "" {
		machine.Keep = filepath.Join(machine.Keep, "second")
	}
	machine.Payload.Argv = slices.Clone(machine.Payload.Argv)
	return machine
}

// halves are two VMs for half of the tests each: those of the names, or all of the binary's. Of
// four neighbours, which are of one file and much alike, one has the outer two: the halves take
// about as long.
func halves(ctx context.Context, machine vm.VM, binary string, names []string) ([]vm.VM, error) {
	if len(names) == 0 {
		path, err := filepath.Abs(binary)
		if err != nil {
			return nil, err
		}
		list, err := exec.CommandContext(ctx, path, "-test.list=.").Output()
		if err != nil {
			return nil, fmt.Errorf("%s -test.list=.: %w", binary, err)
		}
		names = strings.Fields(string(list))
	}
	var half [2][]string
	for i, name := range names {
		of := (i + 1) / 2 % 2
		half[of] = append(half[of], name)
	}
	machines := []vm.VM{machine, beside(machine)}
	for i := range machines {
		argv := &machines[i].Payload.Argv
		*argv = append(slices.Clone(*argv), "-test.run="+exactly(half[i]))
	}
	return machines, nil
}
