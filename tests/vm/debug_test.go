// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onDebugKernel tells whether this is a kernel that looks for mistakes, by the
// end of its release that tests/debug.config or tests/kcsan.config gives it.
func onDebugKernel(t *testing.T) bool {
	t.Helper()
	release := kernelRelease(t)
	return strings.HasSuffix(release, "-debug") || strings.HasSuffix(release, "-kcsan")
}

// comparesRates skips a test of rates and shares where they mean nothing: a
// kernel that checks every access to memory is slower than its disks.
func comparesRates(t *testing.T) {
	t.Helper()
	if onDebugKernel(t) {
		t.Skip("rates are the CPU's on a debugging kernel")
	}
}

func kernelRelease(t *testing.T) string {
	t.Helper()
	var name unix.Utsname
	must(t, unix.Uname(&name))
	return unix.ByteSliceToString(name.Release[:])
}
