// SPDX-License-Identifier: MIT

package daemon

import (
	"sync"
	"time"
)

// health is what the daemon tells of itself. It is written by the daemon and read
// by scrapes.
type health struct {
	mu sync.Mutex
	healthNow
}

// healthNow is health at one moment.
type healthNow struct {
	reconciles, writes, writeErrors              uint64
	disks, groups, containers, problems, refused int
	over                                         int // shares
	turned, lastPass, lastReload                 time.Time
	reloadOK, hearing                            bool
}

func (h *health) now() healthNow {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.healthNow
}

func (h *health) wrote() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes++
}

func (h *health) wroteNot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writeErrors++
}

// turns is a turn of the daemon's loop.
func (h *health) turns() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turned = time.Now()
}

// looked is the end of a look that was a success.
func (h *health) looked(disks, groups, containers, problems, refused int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reconciles++
	h.disks, h.groups, h.containers, h.problems, h.refused, h.lastPass = disks, groups, containers, problems, refused, time.Now()
}

func (h *health) gives(over int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = over
}

func (h *health) hears(pods bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hearing = pods
}

func (h *health) reloaded(ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reloadOK = ok; ok {
		h.lastReload = time.Now()
	}
}
