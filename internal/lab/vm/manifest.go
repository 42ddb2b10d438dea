// SPDX-License-Identifier: MIT

package vm

import (
	"encoding/json"
	"time"
)

// Guest paths that host and guest agree on.
const (
	guestInit     = "/init"
	guestManifest = "/isolio/manifest.json"
	guestModules  = "/isolio/modules"
	guestTree     = "/tree"
)

// manifest tells the guest's init what to do. It is the only thing besides the
// files themselves that differs between two VMs.
type manifest struct {
	// Modules are the kernel modules, in load order.
	Modules []Module `json:"modules"`
	// Argv is the payload: a program and its arguments.
	Argv []string `json:"argv"`
	// Env is the payload's environment, NAME=value.
	Env []string `json:"env"`
	// LimitMS is how long the payload may take on the guest's clock.
	LimitMS int64 `json:"limit_ms"`
	// BeatMS is the time between heartbeats on the guest's clock.
	BeatMS int64 `json:"beat_ms"`
	// Tree is true if a distribution in guestTree is to be booted.
	Tree bool `json:"tree,omitempty"`
}

// Module is one module to load in the guest.
type Module struct {
	Path   string `json:"path"`
	Params string `json:"params,omitempty"` // NAME=VALUE, separated by spaces
}

// Kinds of events, in the order in which they can appear.
const (
	// EventBoot: init runs; Line is the kernel's release.
	EventBoot = "boot"
	// EventStart: devices and modules are there, the payload is started.
	EventStart = "start"
	// EventBeat: the guest is alive; it has no contents.
	EventBeat = "beat"
	// EventOutput: Line is a line that the payload printed.
	EventOutput = "output"
	// EventData: Data is a JSON value that the payload wrote to file 3.
	EventData = "data"
	// EventError: Line says why the guest gave up.
	EventError = "error"
	// EventExit: the payload ended with exit status Code; last.
	EventExit = "exit"
)

// Event is one line that the guest writes to its second serial port.
type Event struct {
	Kind string          `json:"event"`
	Line string          `json:"line,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
	Code int             `json:"code,omitempty"`
	// UptimeMS is the guest's clock, milliseconds since its kernel started.
	UptimeMS int64 `json:"uptime_ms"`
}

// Defaults of a VM, and why.
const (
	// defaultWorkMiB is for the kernel (about 60 MiB) and a few small programs.
	defaultWorkMiB = 192
	// memoryStepMiB: memory is rounded up to it, so that a binary that grows by
	// a few bytes does not change the machine.
	memoryStepMiB = 64
	// defaultLimit is far above any experiment's length on the guest's clock;
	// an idle guest, one with a deadlock for example, gets there in seconds.
	defaultLimit = 300 * time.Second
	// defaultStall: a busy guest beats every 0.1 s of its clock, which took
	// 1.3 s of wall time where this was written; this leaves room for a machine
	// that is 60 times as slow or as loaded.
	defaultStall = 90 * time.Second
	// beat costs about 30 us of the guest's time each.
	beat = 100 * time.Millisecond
)
