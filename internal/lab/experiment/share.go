// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// The units that containers can share a disk in.
const (
	UnitBytes = "bytes"
	UnitIOPS  = "iops"
	// UnitDeviceTime counts what a container gets in parts of what it gets alone
	// on the disk with the scheduler none, in the case of SoloCase. It is how
	// requests of different cost are compared: a container that gets half of its
	// own solo rate has had half of the disk's time, whatever its requests are.
	UnitDeviceTime = "device_time"
	// UnitOperations counts what programs say that they did, such as commits.
	UnitOperations = "operations"
)

// ShareUnits lists the units.
func ShareUnits() []string { return []string{UnitBytes, UnitIOPS, UnitDeviceTime, UnitOperations} }

const soloPrefix = "solo-"

// SoloCase is the name of the case in which a container is alone.
func SoloCase(container string) string { return soloPrefix + container }

// HasSolos reports whether the experiment measures each container of a case alone.
func (e *Experiment) HasSolos(k *Case) bool {
	return !slices.ContainsFunc(k.Containers, func(t Container) bool { return !e.measures(SoloCase(t.Name), "none") })
}

// shareUnit checks the unit, and that there is what it is computed from.
func (c *checker) shareUnit(f *file, e *Experiment) {
	e.ShareUnit = value(f.ShareUnit, UnitBytes)
	if !slices.Contains(ShareUnits(), e.ShareUnit) {
		c.fail("share_unit", fmt.Sprintf("unknown unit %q", e.ShareUnit), strings.Join(ShareUnits(), ", "))
	}
	if e.ShareUnit == UnitOperations {
		c.operations(e)
	}
	if e.ShareUnit != UnitDeviceTime {
		return
	}
	if !slices.Contains(e.Schedulers, "none") {
		c.fail("share_unit", "device_time needs none among the schedulers", "another unit, or add none")
	}
	for i := range e.Cases {
		k := &e.Cases[i]
		for _, t := range k.Containers {
			if !strings.HasPrefix(k.Name, soloPrefix) {
				c.solo(e, k, t)
			}
		}
	}
}

// operations checks that every container's program says how many operations it did.
func (c *checker) operations(e *Experiment) {
	for i := range e.Cases {
		for _, t := range e.Cases[i].Containers {
			if t.Program == nil || !t.Program.Output.Counts() {
				c.fail("share_unit", fmt.Sprintf("container %s does not say how many operations it did", t.Name),
					"for operations: containers with a command, and output.per_s or output.latency")
				return
			}
		}
	}
}

// solo checks the case in which a case's container is alone.
func (c *checker) solo(e *Experiment, k *Case, t Container) {
	name := SoloCase(t.Name)
	solo := e.CaseNamed(name)
	if solo == nil {
		c.fail("share_unit", fmt.Sprintf("device_time needs a case %s", name), "a case with that container alone, or another unit")
		return
	}
	if !e.measures(name, "none") {
		c.fail("share_unit", fmt.Sprintf("device_time needs none in case %s", name), "that scheduler there, or another unit")
	}
	if len(solo.Containers) != 1 || solo.Containers[0].Name != t.Name {
		c.fail("share_unit", fmt.Sprintf("case %s is not of container %s alone", name, t.Name), "one container, of that name")
		return
	}
	if !maps.Equal(solo.Containers[0].Job, t.Job) || !reflect.DeepEqual(solo.Containers[0].Program, t.Program) || !reflect.DeepEqual(solo.Device, k.Device) {
		c.fail("share_unit", strings.TrimSpace(fmt.Sprintf("container %s has another job or device in case %s than in case %s", t.Name, name, k.Name)),
			"the same, so that the rates compare")
	}
}

// reference checks a reference_case, if there is one.
func (c *checker) reference(name *string, e *Experiment) {
	if name == nil {
		return
	}
	if problem, allowed := e.checkCaseArgument(*name + "/none"); problem != "" {
		c.fail("reference_case", problem, allowed)
	}
}

// plots checks what is said for the report's plots.
func (c *checker) plots(f *file, e *Experiment) {
	e.Critical = value(f.Critical, "")
	c.reference(f.ReferenceCase, e)
	for i := range f.Case {
		c.within = fmt.Sprintf("case[%d].", i)
		c.reference(f.Case[i].ReferenceCase, e)
	}
	c.within = ""
	var containers []string
	for i := range e.Cases {
		containers = append(containers, e.Cases[i].containerNames()...)
	}
	if f.Critical != nil {
		if problem, _ := oneOf(e.Critical, containers, "containers"); problem != "" {
			slices.Sort(containers)
			c.fail("critical", problem, strings.Join(slices.Compact(containers), ", "))
		}
	}
}
