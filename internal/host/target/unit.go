// SPDX-License-Identifier: MIT

package target

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/plan"
)

// Suffixes of units that have a cgroup.
var unitSuffixes = []string{".service", ".scope", ".slice", ".mount", ".socket", ".swap"}

// IsUnitName reports whether a word is a unit's name, such as "nginx.service".
func IsUnitName(word string) bool {
	for _, suffix := range unitSuffixes {
		if strings.HasSuffix(word, suffix) && len(word) > len(suffix) && !strings.Contains(word, "/") {
			return true
		}
	}
	return false
}

// UnitOf is the unit that a cgroup belongs to as a whole, "" if it is not the system
// manager's: what lies below a service or a scope is left to that one, or to
// another manager.
func UnitOf(group string) string {
	dir, name := filepath.Split(group)
	for parent := range strings.FieldsFuncSeq(dir, func(r rune) bool { return r == '/' }) {
		if !strings.HasSuffix(parent, ".slice") {
			return ""
		}
	}
	if !IsUnitName(name) {
		return ""
	}
	return unescaped(name)
}

// unescaped is a unit's name of a cgroup's: one that could be taken for a file
// of the kernel's has a "_" before it.
func unescaped(name string) string {
	return strings.TrimPrefix(name, "_")
}

// Systemd is the systemd of a machine. A weight written to a unit's files behind its back is lost
// when systemd reads its units again.
type Systemd struct{ root string }

// SystemdOn returns the manager of the machine below root, "" for /; there is false
// where systemd does not run.
func SystemdOn(root string) (m Systemd, there bool) {
	_, err := os.Stat(filepath.Join("/", root, "run/systemd/system"))
	return Systemd{root}, err == nil
}

// systemctl is the program, below root in a tree for tests.
func (m Systemd) systemctl() string {
	if m.root == "" {
		return "systemctl"
	}
	return filepath.Join(m.root, "usr/bin/systemctl")
}

// UnitWeight is what a unit is told.
type UnitWeight struct {
	Unit string
	// Device is a disk's node, "" for all disks.
	Device string
	// N is the new IOWeight, 0 to take back what was said.
	N int
	// JustController leaves weights alone: the unit gets the io controller.
	JustController bool
	// Runtime has it last until the next boot only. A scope's always does.
	Runtime bool
}

// SetWeight returns the step that tells systemd, and that can be taken back where systemd says
// what the unit has now. It also enables the io controller down to the unit.
func (m Systemd) SetWeight(w UnitWeight) (plan.Step, error) {
	if !safeName.MatchString(w.Unit) {
		return plan.Step{}, failure.Usagef("unit %q: not a name that systemctl takes", w.Unit)
	}
	property := "IOWeight="
	if w.Device != "" {
		property = "IODeviceWeight=" + w.Device + " "
	}
	switch {
	case w.JustController:
		property = "IOAccounting=yes"
	case w.N != 0:
		property += strconv.Itoa(w.N)
	case w.Device != "":
		// systemd has no word for one disk's; an empty list takes back all.
		property = "IODeviceWeight="
	}
	command := []string{m.systemctl(), "set-property"}
	if w.Runtime || strings.HasSuffix(w.Unit, ".scope") {
		command = append(command, "--runtime")
	}
	command = append(command, w.Unit)
	step := plan.Step{Command: append(slices.Clone(command), property)}
	if w.JustController {
		return step, nil
	}
	if before := m.told(w); before != nil {
		step.UndoCommand = append(command, before...)
	}
	return step, nil
}

// told are the assignments with which a unit has what it was told before, of all disks or of
// single ones; nil where systemd does not say.
func (m Systemd) told(w UnitWeight) []string {
	all, err := m.Weights(w.Unit)
	before, there := all[w.Unit]
	switch {
	case err != nil || !there:
		return nil
	case w.Device == "" && before.IO == 0:
		return []string{"IOWeight="}
	case w.Device == "":
		return []string{"IOWeight=" + strconv.Itoa(before.IO)}
	}
	// An empty assignment begins the list anew.
	list := []string{"IODeviceWeight="}
	for _, node := range slices.Sorted(maps.Keys(before.Devices)) {
		list = append(list, fmt.Sprintf("IODeviceWeight=%s %d", node, before.Devices[node]))
	}
	return list
}

// safeName is what unit names are made of, as systemd.unit(5) has it.
var safeName = regexp.MustCompile(`^[A-Za-z0-9:_.@\\-]+$`)
