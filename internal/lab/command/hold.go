// SPDX-License-Identifier: MIT

package command

import (
	"context"
	"errors"
	"os"
	"syscall"

	"isolio/internal/failure"
	"isolio/internal/lab/guest"
)

// hold keeps a disk from being mounted, formatted or made part of another device while
// load runs on it. fio opens the disk without O_EXCL, so this descriptor keeps only those
// out that want the disk for themselves.
type hold struct {
	node string
	file *os.File
}

func (h *hold) take() error {
	if h.file != nil {
		return nil
	}
	file, err := os.OpenFile(h.node, os.O_RDONLY|syscall.O_EXCL, 0)
	if errors.Is(err, syscall.EBUSY) {
		return failure.Usagef("device %s: another program took it, or mounted it, while the run was set up; allowed: a disk that nothing uses", h.node)
	}
	h.file = file
	return err
}

func (h *hold) release() {
	if h.file != nil {
		h.file.Close()
		h.file = nil
	}
}

// during holds the disk from the end of a run's setup to the next one's: at its start
// a run itself looks whether the disk is free, and with a file system mkfs and mount take it. end is
// called if it cannot be held.
func (h *hold) during(p guest.Progress, filesystem bool, end context.CancelCauseFunc) {
	switch p.Phase {
	case guest.PhaseSetup:
		h.release()
	case guest.PhaseStart:
		if filesystem {
			return // which holds it
		}
		if err := h.take(); err != nil {
			end(err)
		}
	}
}
