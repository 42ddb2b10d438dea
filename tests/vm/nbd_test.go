// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"os"
	"testing"

	"isolio/tests/guest"
)

// nbdDisk is a file in memory behind a network block device, whose server is this
// program.
func nbdDisk(t *testing.T) *disk {
	t.Helper()
	back, err := os.CreateTemp("", "nbd")
	must(t, err)
	must(t, errors.Join(os.Remove(back.Name()), back.Truncate(drives)))
	nbd, err := guest.ConnectNBD("nbd0", back, 1)
	must(t, err)
	d := existing(t, "nbd0")
	t.Cleanup(func() { must(t, errors.Join(nbd.Disconnect(), back.Close())) })
	return d
}
