// SPDX-License-Identifier: MIT

package block

import "golang.org/x/sys/unix"

// IOClass is an I/O class that a process was given.
type IOClass string

// The classes that ionice(1) gives; another process has none.
const (
	RealTime IOClass = "realtime"
	Idle     IOClass = "idle"
)

// As linux/ioprio.h has them.
const (
	ioprioWhoProcess = 1
	ioprioShift      = 13
	ioprioRealTime   = 1
	ioprioIdle       = 3
)

// IOClassOf is the class of a process's first thread, "" for none, or one that has ended.
func IOClassOf(pid int) IOClass {
	priority, _, failed := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, uintptr(pid), 0)
	switch {
	case failed != 0:
	case priority>>ioprioShift == ioprioRealTime:
		return RealTime
	case priority>>ioprioShift == ioprioIdle:
		return Idle
	}
	return ""
}
