// SPDX-License-Identifier: MIT

// Package signature finds what is on a disk: file systems, partition tables, LVM, RAID,
// LUKS, swap, ZFS.
package signature

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"

	"isolio/internal/host/block"
)

// prober is util-linux' program that finds them with libblkid. With --no-act it only reads.
const prober = "wipefs"

// On returns the kinds of what is found on a disk.
func On(ctx context.Context, d *block.Device) (kinds []string, err error) {
	out, err := exec.CommandContext(ctx, prober, "--no-act", "--parsable", d.Node).Output()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		return nil, errors.New(prober + " says: " + strings.Join(strings.Fields(string(exit.Stderr)), " "))
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		// # offset,uuid,label,type
		fields := strings.Split(strings.TrimSpace(line), ",")
		if kind := fields[len(fields)-1]; !strings.HasPrefix(line, "#") && kind != "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}
