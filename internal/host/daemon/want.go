// SPDX-License-Identifier: MIT

package daemon

import (
	"fmt"
	"path"
	"strconv"

	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/container"
	"isolio/internal/host/meter"
	"isolio/internal/host/rule"
	"isolio/internal/host/weight"
)

// everyDisk is the key of the weight on all disks that have none of their own;
// others are "MAJ:MIN".
const everyDisk = "default"

// Want is the weights that a cgroup should have in io.kyber.weight, by disk, and
// why, for the log.
type Want struct {
	Weights map[string]int
	Why     string
}

// machine is what is known of the machine besides its cgroups.
type machine struct {
	rules []rule.Rule
	// disks are those that have the scheduler, by name: "MAJ:MIN".
	disks map[string]string
	// containers are by the cgroup that competes for them; pods by theirs.
	containers, pods map[string]container.Container
}

func newMachine(rules []rule.Rule, disks map[string]string, all []container.Container) *machine {
	m := &machine{rules: rules, disks: disks, containers: map[string]container.Container{}, pods: map[string]container.Container{}}
	for _, c := range all {
		m.containers[c.Cgroup] = c
		if group := c.PodGroup(); group != "" {
			m.pods[group] = c
		}
	}
	return m
}

// Want decides for one cgroup: a rule's weight, or what was asked for in the
// files that runtimes and systemd write. No weights: nobody asked.
func (m *machine) want(tree cgroup.Tree, group string) (Want, error) {
	if m.isInner(group) {
		return Want{}, nil
	}
	asked, err := m.asked(tree, group)
	if err != nil {
		return Want{}, err
	}
	w := Want{Weights: map[string]int{}}
	if asked.File != "" {
		w.Weights[everyDisk] = asked.Weight
		w.Why = asked.How
	}
	// The first rule for a disk wins; so it is the last one that is set.
	for i := len(m.rules) - 1; i >= 0; i-- {
		r := &m.rules[i]
		disk := everyDisk
		if r.Device != "" {
			if disk = m.disks[r.Device]; disk == "" {
				continue
			}
		}
		if m.isFor(r, group) {
			w.Weights[disk] = r.Weight
			w.Why = "rule " + strconv.Itoa(i+1)
		}
	}
	return w, nil
}

// isInner reports whether a group is the one that crun makes inside a container's
// scope, alone there, and writes the weight to as well, on runc's scale.
func (m *machine) isInner(group string) bool {
	scope := container.ScopeOf(group)
	return scope != "" && m.containers[scope].ByCrun
}

func (m *machine) isFor(r *rule.Rule, group string) bool {
	if c, ok := m.containers[group]; ok {
		return r.ForContainer(c)
	}
	if c, ok := m.pods[group]; ok && r.ForPod(c) {
		return true
	}
	return r.ForUnit(path.Base(group))
}

// asked is what runtimes or systemd were asked for.
func (m *machine) asked(tree cgroup.Tree, group string) (weight.Asked, error) {
	c, isContainer := m.containers[group]
	e := weight.Evidence{Container: isContainer, ByCrun: c.ByCrun, SpecRead: c.SpecRead, OCI: c.Weight}
	inner := c.InnerGroup()
	for _, from := range []struct {
		group, file string
		to          *int
	}{
		{group, weight.BFQ.File(), &e.BFQ}, {group, weight.IOCost.File(), &e.IO},
		{inner, weight.BFQ.File(), &e.InnerBFQ}, {inner, weight.IOCost.File(), &e.InnerIO},
	} {
		if from.group == "" {
			continue
		}
		v, there, err := tree.Weights(from.group, from.file)
		if err != nil {
			return weight.Asked{}, err
		}
		if there {
			*from.to = v.Default
		}
	}
	asked := e.Decode()
	if asked.File == "" && c.SpecRead && c.Weight > 0 {
		// systemd has taken back what a runtime wrote behind its back, as it does
		// when it is reloaded. The user asked all the same.
		asked = weight.Asked{Weight: c.Weight, File: "config.json", How: fmt.Sprintf("--blkio-weight %d, which is in its specification alone", c.Weight)}
	}
	return asked, nil
}

// kyberDisks are the disks that have the scheduler.
func kyberDisks(sys block.System) (map[string]string, error) {
	names, err := sys.List()
	if err != nil {
		return nil, err
	}
	disks := map[string]string{}
	for _, name := range names {
		d, err := sys.Find(name)
		if err != nil {
			continue // gone since it was listed
		}
		if active, _, err := d.Schedulers(); err == nil && active == meter.Scheduler {
			disks[name] = d.MajMin
		}
	}
	return disks, nil
}

// number is the disk's weight in a file's values; there is false for one that
// has none of its own.
func number(v weight.Values, disk string) (n int, there bool) {
	if disk == everyDisk {
		return v.Default, true
	}
	n, there = v.Devices[disk]
	return n, there
}
