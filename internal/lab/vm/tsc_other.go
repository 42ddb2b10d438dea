// SPDX-License-Identifier: MIT

//go:build !amd64

package vm

// tscKHz is 0: such a machine has no time stamp counter that a guest could use.
func tscKHz() uint64 { return 0 }
