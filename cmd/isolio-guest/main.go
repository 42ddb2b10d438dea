// SPDX-License-Identifier: MIT

// Command isolio-guest is the init of the lab's VMs, and in them the engine that runs an
// experiment. It is a program of its own so that a VM, and with it a result, depends on
// nothing but what measures.
package main

import (
	"fmt"
	"os"

	"isolio/internal/failure"
	"isolio/internal/lab/guest"
	"isolio/internal/lab/vm"
)

func main() {
	if !vm.InGuest() {
		fmt.Fprintln(os.Stderr, "isolio-guest: runs in the lab's VMs only: see `isolio lab --help`")
		os.Exit(failure.Usage)
	}
	os.Exit(vm.GuestMain(guest.Engine))
}
