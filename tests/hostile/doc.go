// SPDX-License-Identifier: MIT

// Package hostile lets everything that can happen to a disk and its scheduler
// happen at once, in the lab's VM, and checks that no data is lost, that every
// request is done in bounded time, that the kernel's log is clean and that all
// memory comes back. `make vm T=hostile` runs it; run/ is its host side.
package hostile
