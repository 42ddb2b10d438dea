// SPDX-License-Identifier: MIT

package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"isolio/internal/host/block"
)

// diskKey is the disk of a table among what may be there once.
type diskKey string

// disks reads the tables of disks. Which keys there are depends on the scheduler.
func (c *checker) disks() []Disk {
	if !c.isList("disk", len(c.file.Disk)) {
		return nil
	}
	var disks []Disk
	for i, keys := range c.file.Disk {
		disks = append(disks, c.disk(fmt.Sprintf("disk[%d]", i), i+1, keys))
	}
	return disks
}

func (c *checker) disk(table string, nr int, keys map[string]any) Disk {
	d := Disk{Scheduler: block.Schedulers[0], At: c.at}
	d.At.Nr, d.At.Line = nr, c.lines[table]
	switch device, isText := keys["device"].(string); {
	case keys["device"] == nil:
		c.fail(table, "device", "is missing", allowedDevice)
	case !isText:
		c.fail(table, "device", "has the wrong type", "a string")
	default:
		d.Device = c.device(table, device)
		if before := c.once(diskKey(d.Device), d.At.Line); before != "" {
			c.fail(table, "", "matches the same as that in "+before+", which wins", "one table for each")
		}
	}
	if v, there := keys["scheduler"]; there {
		name, _ := v.(string)
		if d.Scheduler = name; name != Keep && !slices.Contains(block.Schedulers, name) {
			c.fail(table, "scheduler", fmt.Sprintf("%q is not a scheduler", fmt.Sprint(v)), strings.Join(block.Schedulers, ", ")+", "+Keep)
			return d
		}
	}
	d.Tunables = c.tunables(table, d.Scheduler, keys)
	return d
}

// tunables are those of the disk's scheduler, in the order of its list.
func (c *checker) tunables(table, scheduler string, keys map[string]any) []Tunable {
	of := block.TunablesOf(scheduler)
	allowed := []string{"device", "scheduler"}
	for _, t := range of {
		allowed = append(allowed, t.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(allowed, key) {
			what := "unknown key"
			if block.KnownTunable(key) {
				what = "is not a tunable of " + scheduler
			}
			c.fail(table, key, what, strings.Join(allowed, ", "))
		}
	}
	var all []Tunable
	for _, t := range of {
		v, there := keys[t.Name]
		if !there {
			continue
		}
		value, wrong := t.Value(v)
		if wrong != "" {
			c.fail(table, t.Name, wrong, t.Allowed())
		}
		all = append(all, Tunable{t.Name, value})
	}
	if keys["age_th"] != nil && keys["max_wait_ms"] != nil {
		c.fail(table, "max_wait_ms", "cannot be combined with age_th, which is found from it", "one of them")
	}
	return all
}

// DiskFor is the first table that is for a disk, nil for none.
func (c Config) DiskFor(sys block.System, name string) (*Disk, error) {
	for i := range c.Disks {
		found, err := sys.On(c.Disks[i].Device)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(found, func(d *block.Device) bool { return d.Name == name }) {
			return &c.Disks[i], nil
		}
	}
	return nil, nil
}
