// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A SCSI host has tags for all of its LUNs: sfq counts with those that the LUN takes,
// also when that changes. Takes a machine with SCSI disks: vm-run --disks virtio-scsi.
func TestSFQDepthIsTheLUNs(t *testing.T) {
	withSFQ(t)
	disks, err := filepath.Glob("/sys/block/sd*")
	must(t, err)
	if len(disks) == 0 {
		t.Skip("no SCSI disk: vm-run --kernel 6.1-generic --disks virtio-scsi")
	}
	for _, dir := range disks {
		d := &disk{name: filepath.Base(dir)}
		t.Run(d.name, func(t *testing.T) {
			depth := filepath.Join(dir, "device/queue_depth")
			before := strings.TrimSpace(read(t, depth))
			depths := []string{before, "4", "2", before}
			info, err := os.Stat(depth)
			must(t, err)
			if info.Mode().Perm()&0o200 == 0 {
				depths = nil // as that of USB storage, which takes one request
			}
			t.Cleanup(func() { d.use(t, "none") })
			d.use(t, "sfq")
			for i, want := range append([]string{before}, depths...) {
				if i > 0 {
					write(t, depth, want)
				}
				text := read(t, filepath.Join("/sys/kernel/debug/block", d.name, "sched/queues"))
				var waiting, inside, got int
				if _, err := fmt.Sscanf(text, "waiting=%d inside=%d depth=%d", &waiting, &inside, &got); err != nil {
					t.Fatalf("sched/queues: %q: %v", text, err)
				}
				if fmt.Sprint(got) != want {
					t.Errorf("sfq counts with %d requests, and the LUN takes %s", got, want)
				}
			}
		})
	}
}
