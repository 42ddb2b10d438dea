// SPDX-License-Identifier: MIT

package view

import (
	"fmt"
	"io"
	"strings"

	"isolio/internal/host/policy"
	"isolio/internal/host/usage"
	"isolio/internal/host/weight"
	"isolio/internal/table"
)

// OwnDisk is what a cgroup has of a disk against a disk of its own: one as fast as its share.
type OwnDisk struct {
	// Situation is OwnDepth, Owed, GivesWay, WaitsTurn, HasShare or Idle.
	Situation Code `json:"situation"`
	// Depth is how many requests it keeps outstanding on average.
	Depth float64 `json:"depth,omitempty"`
	// OwedMS is how much longer its requests took, together, where it is owed.
	OwedMS float64 `json:"owed_ms,omitempty"`
	// GivesWayTo are the cgroups that are owed, where it gives way.
	GivesWayTo []string `json:"gives_way_to,omitempty"`
}

// clock is a disk's clock, and the paths of its cgroups in the order of their turns.
type clock struct {
	*usage.Clock
	groups []string
}

// turnOf is a group's place among the turns, -1 for none. A group without requests of its own,
// such as a container with all its tasks in a cgroup inside, has the turn of the one below it.
// Of several below, each tells of itself: then known is false.
func (c clock) turnOf(group string) (at int, known bool) {
	at, below := -1, 0
	for i, other := range c.groups {
		if other == group {
			return i, true
		}
		if strings.HasPrefix(other, group+"/") {
			at = i
			below++
		}
	}
	return at, below <= 1
}

// ownDisk decides a group's situation, nil where it has none of its own. isActive tells whether
// it sent requests while it was watched: the clock keeps the cgroups of a disk that became idle.
func ownDisk(c clock, group string, isActive bool) *OwnDisk {
	at, known := c.turnOf(group)
	if !known {
		return nil
	}
	if at < 0 || c.Turns[at].Outstanding == 0 && !isActive {
		return &OwnDisk{Situation: Idle}
	}
	t := c.Turns[at]
	own := &OwnDisk{Situation: HasShare, Depth: float64(t.DepthMilli) / 1000}
	for i := range c.Turns {
		if c.isOwed(i) && i != at {
			own.GivesWayTo = append(own.GivesWayTo, c.groups[i])
		}
	}
	switch {
	case c.isOwed(at):
		own.Situation, own.OwedMS, own.GivesWayTo = Owed, float64(t.OwedUS)/1000, nil
	case !t.Awaited:
		// It has few requests: its own depth limits it, not that another is owed.
		own.Situation, own.GivesWayTo = OwnDepth, nil
	case len(own.GivesWayTo) > 0:
		own.Situation = GivesWay
	case !c.IsOpen && t.AheadBytes >= c.LeadBytes:
		own.Situation = WaitsTurn
	}
	return own
}

// isOwed reports whether others give way to a cgroup. One that is alone has no others.
func (c clock) isOwed(at int) bool {
	return len(c.Turns) > 1 && !c.Turns[at].Awaited && c.Turns[at].OwedUS > 0
}

// words are the situation in plain words. name is what a cgroup is called.
func (o *OwnDisk) words(name func(group string) string) string {
	switch o.Situation {
	case OwnDepth:
		return fmt.Sprintf("limited by its own depth: keeps %.1f outstanding", o.Depth)
	case Owed:
		return fmt.Sprintf("owed %.1f ms: others give way to it", o.OwedMS)
	case GivesWay:
		text := "gives way to " + name(o.GivesWayTo[0])
		if more := len(o.GivesWayTo) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return text
	case WaitsTurn:
		return "waits its turn"
	case HasShare:
		return "has its share"
	}
	return "idle now"
}

// readClocks reads the clocks of the disks that have one, and why others' cannot be read.
func (m *statusReader) readClocks() {
	m.clocks, m.noClock = map[string]clock{}, map[string]string{}
	var paths map[uint64]string
	for _, d := range m.disks {
		if d.Scheduler != string(weight.Kyber) {
			continue
		}
		read, err := usage.ReadClock(m.sys, d.Name)
		if err != nil {
			m.noClock[d.Name] = err.Error()
		}
		if read == nil {
			continue
		}
		if paths == nil {
			paths = m.paths()
		}
		c := clock{Clock: read}
		for _, t := range read.Turns {
			path, ok := paths[t.ID]
			if !ok { // removed, with requests that are still in flight
				path = fmt.Sprintf("cgroup %d", t.ID)
			}
			c.groups = append(c.groups, path)
		}
		m.clocks[d.Name] = c
	}
}

// paths are the cgroups by the kernel's numbers.
func (m *statusReader) paths() map[uint64]string {
	paths := map[uint64]string{}
	for _, group := range m.after.Groups {
		if id, err := m.world.Tree.ID(group); err == nil { // else it is gone
			paths[id] = group
		}
	}
	return paths
}

// called is what a reader calls a cgroup.
func (m *statusReader) called(group string) string {
	if group == policy.RootGroup {
		return "/"
	}
	return m.world.Of(group).Name
}

// writeOwnDisks writes what each cgroup has against a disk of its own.
func (d *Status) writeOwnDisks(w io.Writer) error {
	var rows [][]string
	for _, g := range d.Groups {
		for _, s := range g.Shares {
			if s.OwnDisk != nil {
				rows = append(rows, []string{d.shown(g.Name), s.Disk, s.OwnDisk.words(func(group string) string { return d.shown(d.machine.called(group)) })})
			}
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(w)
		if err := table.Write(w, []table.Column{{Head: "cgroup"}, {Head: "on"}, {Head: "against a disk of its own"}}, rows); err != nil {
			return err
		}
	}
	if d.NoOwnDisks == "" {
		return nil
	}
	fmt.Fprintln(w)
	return table.Lines(w, "own disks are not known: "+d.NoOwnDisks)
}
