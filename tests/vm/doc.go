// SPDX-License-Identifier: MIT

// Package vm holds the tests of the kernel modules on a booted kernel. They are
// compiled with the build tag vm into one binary, which Command run takes into
// a lab VM; elsewhere the package is empty.
package vm
