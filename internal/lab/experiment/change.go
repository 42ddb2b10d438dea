// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"maps"
	"slices"
)

// Change is something that happens to the disk while it is under load.
type Change struct {
	AtS float64 `json:"at_s,omitzero"` // seconds after the load's start
	// Device are files of the model disk's directory and what is written to them, such
	// as scale. Which can change while the disk is on, and their ranges, the module knows.
	Device map[string]int64 `json:"device,omitzero"`
}

type fileChange struct {
	AtS    *float64       `toml:"at_s"`
	Device map[string]any `toml:"device"`
}

// changes checks those of a case whose device is known.
func (c *checker) changes(f []fileChange, k *Case) {
	end := k.RampS + k.DurationS
	for i := range f {
		key := fmt.Sprintf("change[%d]", i)
		allowed := fmt.Sprintf("seconds after the load's start, above 0 and below ramp_s + duration_s = %g", end)
		change := Change{AtS: required(c, key+".at_s", f[i].AtS, allowed), Device: map[string]int64{}}
		c.number(key+".at_s", f[i].AtS != nil, change.AtS, change.AtS > 0 && change.AtS < end, allowed)
		if len(f[i].Device) == 0 {
			c.fail(key+".device", "is missing", "what is written to files of the model disk, such as { scale = 48 }")
		}
		if k.Device.Kind != ModelDisk {
			c.fail(key+".device", "is about a model disk", "kind = \""+ModelDisk+"\" in [device]")
		}
		for _, name := range slices.Sorted(maps.Keys(f[i].Device)) {
			n, integer := f[i].Device[name].(int64)
			switch {
			case !paramPattern.MatchString(name):
				c.fail(key+".device."+name, "is not a file's name", "a file of the model disk's directory in configfs")
			case !integer || n < 0:
				c.fail(key+".device."+name, fmt.Sprintf("%v is not allowed", f[i].Device[name]), "an integer 0 and up")
			}
			change.Device[name] = n
		}
		k.Changes = append(k.Changes, change)
	}
}
