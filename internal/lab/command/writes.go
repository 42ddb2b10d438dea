// SPDX-License-Identifier: MIT

package command

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/host/block"
)

// mayWrite returns nil if the jobs of an experiment may overwrite the disk. A disk on which
// something is found must have been named by what it is: names change with boots, and a
// line of yesterday's must not overwrite another disk today.
func mayWrite(ctx context.Context, sys block.System, d *block.Device, file, allowed string) error {
	id := identity(d)
	switch allowed {
	case "":
		return failure.Usagef("%s: its jobs write, and what is on %s would be lost; add --allow-writes if it may be", file, d.Name)
	case anyBlank:
	default:
		disks, err := sys.Match(allowed)
		if err != nil {
			return err
		}
		if len(disks) != 1 || disks[0].Name != d.Name || allowed == d.Name && id != d.Name {
			return failure.Usagef("--allow-writes=%s: is not the disk %s; allowed: %s", allowed, d.Name, id)
		}
		return nil
	}
	found, err := signatures(ctx, d)
	if err != nil {
		return failure.Usagef("device %s: what is on it is not known: %w; if that may be lost, say so with --allow-writes=%s", d.Name, err, id)
	}
	if len(found) > 0 {
		return failure.Usagef("device %s: has %s on it; if that may be lost, say so with --allow-writes=%s", d.Name, strings.Join(found, ", "), id)
	}
	return nil
}

// identity names a disk for good, or by its name where nothing else does.
func identity(d *block.Device) string {
	if all := d.Serials(); len(all) > 0 {
		return "serial:" + all[0]
	}
	if all := d.WWNs(); len(all) > 0 {
		return "wwn:" + all[0]
	}
	return d.Name
}

// prober is util-linux' program that finds them with libblkid. With --no-act it only reads.
const prober = "wipefs"

// signatures are the kinds of what is found on a disk: file systems, partition tables, LVM,
// RAID, LUKS, swap, ZFS.
func signatures(ctx context.Context, d *block.Device) (kinds []string, err error) {
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
