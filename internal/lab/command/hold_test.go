// SPDX-License-Identifier: MIT

package command

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"isolio/internal/lab/guest"
	"isolio/internal/must"
)

// The disk is held while load runs, and let go where a run looks whether it is free, or
// makes a file system. That the kernel keeps others out is TestBenchIsTakenBack's, on a
// booted one.
func TestHold(t *testing.T) {
	node := filepath.Join(t.TempDir(), "disk")
	must.OK(t, os.WriteFile(node, nil, 0o600))
	ctx, end := context.WithCancelCause(context.Background())
	h := hold{node: node}
	defer h.release()
	for _, tt := range []struct {
		phase      string
		filesystem bool
		held       bool
	}{
		{guest.PhaseSetup, false, false}, {guest.PhaseStart, false, true}, {guest.PhaseRamp, false, true}, {guest.PhaseMeasure, false, true},
		{guest.PhaseDone, false, true}, // until the next one
		{guest.PhaseSetup, true, false}, {guest.PhaseStart, true, false}, {guest.PhaseMeasure, true, false},
	} {
		if h.during(guest.Progress{Phase: tt.phase}, tt.filesystem, end); (h.file != nil) != tt.held {
			t.Errorf("in %s, with a file system %t: held %t", tt.phase, tt.filesystem, h.file != nil)
		}
	}
	if ctx.Err() != nil {
		t.Errorf("ended: %v", context.Cause(ctx))
	}
	h.node = node + "-gone"
	h.during(guest.Progress{Phase: guest.PhaseStart}, false, end)
	if !errors.Is(context.Cause(ctx), fs.ErrNotExist) {
		t.Errorf("a disk that cannot be held: %v", context.Cause(ctx))
	}
}
