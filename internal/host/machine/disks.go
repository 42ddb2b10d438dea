// SPDX-License-Identifier: MIT

package machine

import (
	"isolio/internal/host/block"
	"isolio/internal/host/policy"
	"isolio/internal/host/rule"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
)

// SystemdTold is what systemd says that its units were given, by units; devices are numbers of disks.
// A systemd that does not answer says nothing of any.
func SystemdTold(sys block.System) map[string]target.Told {
	manager, there := target.SystemdOn(sys.Root)
	if !there {
		return nil
	}
	all, err := manager.Weights()
	if err != nil {
		return nil
	}
	for unit, told := range all {
		devices := map[string]int{}
		for node, n := range told.Devices {
			on, _ := sys.On(node) // one that is not there has no weight
			for _, d := range on {
				devices[d.MajMin] = n
			}
		}
		told.Devices = devices
		all[unit] = told
	}
	return all
}

// SharingDisks are the disks that have the scheduler, by their own names and those that rules have.
func SharingDisks(sys block.System, rules []rule.Rule) (policy.DiskNumbers, error) {
	names, err := sys.List()
	if err != nil {
		return nil, err
	}
	disks := policy.DiskNumbers{}
	for _, name := range names {
		d, err := sys.Find(name)
		if err != nil {
			continue // gone since it was listed
		}
		if active, _, err := d.Schedulers(); err == nil && active == string(weight.Kyber) {
			disks[name] = []string{d.MajMin}
		}
	}
	for i := range rules {
		text := rules[i].Device
		if text == "" || disks[text] != nil {
			continue
		}
		found, err := sys.On(text)
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			if disks[d.Name] != nil {
				disks[text] = append(disks[text], d.MajMin)
			}
		}
	}
	return disks, nil
}
