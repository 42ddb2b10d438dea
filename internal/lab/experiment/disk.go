// SPDX-License-Identifier: MIT

package experiment

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"isolio/internal/tomlfile"
)

//go:embed disks.toml
var disksText []byte

// disks are what device.disk can name. They are part of the program, so a file anywhere can
// name one.
var disks = sync.OnceValue(func() map[string]fileDevice {
	all := map[string]fileDevice{}
	if err := tomlfile.Decode("disks.toml", disksText, &all); err != nil {
		panic(err)
	}
	return all
})

func diskNames() []string { return slices.Sorted(maps.Keys(disks())) }

// onDisk is a [device] with its own keys over those of the disk that it names; f itself if
// it names none.
func (c *checker) onDisk(f *fileDevice) *fileDevice {
	if f == nil || f.Disk == nil {
		return f
	}
	disk, known := disks()[*f.Disk]
	if !known {
		c.fail("device.disk", fmt.Sprintf("unknown disk %q", *f.Disk), strings.Join(diskNames(), ", ")+"; or kind with that kind's keys")
		disk = disks()[diskNames()[0]] // any: this problem is to be the only one
	}
	own := *f
	for _, key := range []struct {
		name  string
		value **string
	}{{"kind", &own.Kind}, {"model", &own.Model}, {"preset", &own.Preset}} {
		if *key.value != nil {
			c.fail("device."+key.name, "does not go with disk, which has it", "one or the other")
		}
		*key.value = nil
	}
	own.Disk = nil
	return new(overlaid(disk, own))
}
