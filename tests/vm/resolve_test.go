// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"os"
	"slices"
	"strings"
	"testing"

	"isolio/internal/host/block"
)

// The name of each kind of stack leads to the disks where its requests wait, on a kernel's own sysfs.
func TestNameLeadsToDisks(t *testing.T) {
	wanted := strings.Split(os.Getenv("ISOLIO_DISKS"), ",")
	if wanted[0] == "" {
		t.Skip("takes real drivers' disks: make vm T=drivers")
	}
	disks := realDisks(t, wanted)
	for _, m := range makers {
		if slices.ContainsFunc(m.needs, func(kind string) bool { return !slices.Contains(wanted, kind) }) {
			continue
		}
		t.Run(m.kind, func(t *testing.T) {
			d := m.make(t, disks)
			var want []string
			for _, e := range d.elevators() {
				want = append(want, e.name)
			}
			if m.kind == "dm-multipath on virtio-scsi" {
				want = want[:1] // requests wait above the paths
			}
			for _, name := range []string{d.name, "/dev/" + d.name} {
				chosen, err := block.System{}.Resolve(name)
				if got := chosen.Names(); err != nil || !slices.Equal(got, want) {
					t.Errorf("%s is on %q, want %q: %v", name, got, want, err)
				}
			}
		})
	}
}
