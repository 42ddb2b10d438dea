// SPDX-License-Identifier: MIT

// Package kmod makes kernel modules fit the kernel they are loaded into.
//
// The block layer's private structures are in no headers package, and their
// layout changes inside stable releases. A kernel's BTF has it exactly. So:
//
//   - [WriteHeader] turns BTF into a C header with the private declarations,
//     macros that tell how this kernel's interfaces look, and a record of every
//     offset that goes into the module;
//   - [CheckLayout] compares the record in a module with a kernel's BTF;
//   - [Load] loads a module only after that comparison.
package kmod
