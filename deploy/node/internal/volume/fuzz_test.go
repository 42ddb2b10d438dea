// SPDX-License-Identifier: MIT

package volume

import (
	"testing"

	"isolio/internal/host/block"
)

// FuzzReal finds the path of the node for any two tables of mounts. What it finds lies on the same file system.
func FuzzReal(f *testing.F) {
	f.Add([]byte("1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /var rw - ext4 /dev/sdb rw\n"), []byte("3 1 8:2 /lib/kubelet /pods rw - ext4 /dev/sdb rw\n"), "/pods")
	f.Add([]byte("1 1 8:1 /.. /.. rw - a b rw\n"), []byte("1 1 8:1 / . rw - a b rw\n"), ".")
	f.Fuzz(func(t *testing.T, node, own []byte, name string) {
		all, err := Parse(node)
		if err != nil {
			return
		}
		mine, err := Parse(own)
		if err != nil {
			return
		}
		real, found := all.Real(mine, name)
		if !found {
			return
		}
		at, there := all.At(real)
		number := ""
		for _, m := range mine.Mounts {
			if m.Point == name {
				number = m.MajMin
			}
		}
		if !there || at.MajMin != number || !block.Within(real, at.Point) {
			t.Errorf("%q is %q on %+v, and not on %q", name, real, at, number)
		}
	})
}
