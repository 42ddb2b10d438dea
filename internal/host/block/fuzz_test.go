// SPDX-License-Identifier: MIT

package block

import (
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// FuzzMounts reads a table of mounts, in which names are what users chose, and asks what a path lies on.
func FuzzMounts(f *testing.F) {
	f.Add([]byte("36 35 8:1 / / rw - ext4 /dev/sda1 rw\n37 36 8:2 /sub /var/lib rw shared:1 - btrfs /dev/sdb rw,subvol=/sub\n"), "/var/lib/docker")
	f.Add([]byte("36 35 0:5 / /a\\040b\\134 rw - tmpfs - rw\n"), "/a b\\")
	f.Add([]byte("1 1 8:1 / / rw - - -"), "")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		fuzzlimit.Run(t, uint64(1<<20+1000*len(text)), func() {
			all, err := ParseMounts(text)
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("%q is not one line", err)
				}
				return
			}
			at, found := all.At(name)
			if found && !Within(name, at.Point) {
				t.Errorf("%q lies on %+v", name, at)
			}
			for _, m := range all {
				if _, found := all.At(m.Point); !found {
					t.Errorf("%q lies on nothing", m.Point)
				}
				if Within(name, m.Point) && len(m.Point) > len(at.Point) {
					t.Errorf("%q lies on %+v, and on %+v", name, at, m)
				}
			}
		})
	})
}

// FuzzDisk reads the files of a disk: what sysfs says of it, and what udev has noted.
func FuzzDisk(f *testing.F) {
	f.Add("8:0", "mq-deadline [none]", "64", "E:ID_WWN=0x1\nE:ID_SERIAL=a b\n", "/dev/sda / ext4 rw 0 0\n")
	f.Add("", "[", "-1", "E:", "")
	f.Add("8:0\n", "[kyber-fairness] none", "99999999999999999999", "E:DM_UUID=\xff\n", "")
	f.Fuzz(func(t *testing.T, number, schedulers, tags, udev, mounts string) {
		if strings.ContainsAny(number, "/\x00") || len(number) > 20 {
			return
		}
		root := testtree.New(t, map[string]string{
			"sys/block/sda/dev": number, "sys/block/sda/size": tags, "sys/block/sda/queue/scheduler": schedulers,
			"sys/block/sda/queue/nr_requests": tags, "run/udev/data/b8:0": udev, "proc/1/mountinfo": mounts,
		})
		fuzzlimit.Run(t, uint64(4<<20+1000*(len(schedulers)+len(udev)+len(mounts))), func() {
			sys := System{Root: root}
			all, err := sys.All()
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("%q is not one line", err)
				}
				return
			}
			for _, info := range all {
				if info.Name != "sda" {
					t.Errorf("a disk has the name %q", info.Name)
				}
				properties, err := sys.Udev(info.MajMin)
				must.OK(t, err)
				for key := range properties {
					if strings.ContainsAny(key, "=\n") {
						t.Errorf("udev has the property %q", key)
					}
				}
			}
			for _, name := range []string{"sda", "/dev/sda", "serial:a b", "wwn:0x1", "/mnt"} {
				chosen, err := sys.Resolve(name)
				if err == nil && len(chosen.Names()) == 0 {
					t.Errorf("%s leads to nothing", name)
				}
			}
		})
	})
}
