// SPDX-License-Identifier: MIT

package daemon

import (
	"reflect"

	"isolio/internal/host/target"
)

// scope is which cgroups are looked at. With hundreds of them, one that comes
// must not have all the others looked at.
type scope struct {
	all bool
	// moved is true if cgroups came or went.
	moved bool
	// groups are those where something happened.
	groups map[string]bool
}

func (s *scope) has(group string) bool { return s.all || s.groups[group] }

func (s *scope) add(group string) {
	if s.groups == nil {
		s.groups = map[string]bool{}
	}
	s.groups[group] = true
}

// addChanged adds the cgroups of containers, and of their pods, of which
// something else is known now than before.
func (s *scope) addChanged(before, now []target.Container) {
	known := make(map[string]*target.Container, len(before))
	for i := range before {
		known[before[i].Cgroup] = &before[i]
	}
	for i := range now {
		c := &now[i]
		if old := known[c.Cgroup]; old == nil || !reflect.DeepEqual(*old, *c) {
			s.addContainer(c)
		}
		delete(known, c.Cgroup)
	}
	for _, c := range known {
		s.addContainer(c)
	}
}

func (s *scope) addContainer(c *target.Container) {
	s.add(c.Cgroup)
	if pod := c.PodGroup(); pod != "" {
		s.add(pod)
	}
}

// addPods adds the cgroups of all pods.
func (s *scope) addPods(all []target.Container) {
	for i := range all {
		if pod := all[i].PodGroup(); pod != "" {
			s.add(pod)
		}
	}
}
