// SPDX-License-Identifier: MIT

package guest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/plan"
)

// Change is what is written at a time after the load's start.
type Change struct {
	At    time.Duration
	Steps []plan.Step
}

// changes are a case's. They are to the disk that is made for the run, and end with it:
// nothing is to be taken back.
func (e Env) changes(x *experiment.Experiment, k *experiment.Case, disk string) ([]Change, error) {
	if len(k.Changes) > 0 && e.Find != nil {
		return nil, failure.Usagef("%s: case %q changes its model disk under load, and %s is none; allowed: `isolio lab`, or other cases with --cases",
			x.File, k.Name, disk)
	}
	var all []Change
	set := func(at float64, name string, value int64) {
		if i := len(all) - 1; i < 0 || all[i].At != seconds(at) {
			all = append(all, Change{At: seconds(at)})
		}
		steps := &all[len(all)-1].Steps
		*steps = append(*steps, plan.Step{
			Path: filepath.Join(e.System.Path(modelDisks), ownDevice, name), Value: strconv.FormatInt(value, 10), Name: "modeldisk/" + name,
		})
	}
	// What is set up before the load has the whole disk, as it has where the load is of all.
	d := k.Device
	if d.Share > 0 && d.Kind == experiment.ModelDisk {
		set(0, "scale_milli", d.Slowdown())
	}
	for _, c := range k.Changes {
		for _, name := range slices.Sorted(maps.Keys(c.Device)) {
			if d.Share > 0 && name == "scale" {
				d.Model.Scale = int(c.Device[name])
				set(c.AtS, "scale_milli", d.Slowdown())
			} else {
				set(c.AtS, name, c.Device[name])
			}
		}
	}
	return all, nil
}

// apply makes the change.
func (c Change) apply(e Env) error {
	if err := plan.On(e.machine).Apply(c.Steps); err != nil {
		return failure.WithCode(fmt.Errorf("the change at %s: %w", c.At, err), failure.Usage)
	}
	return nil
}

// settings lists what the plan writes for its contender and during the load, for the
// result.
func (p *Plan) settings() []string {
	lines := settings(p.Setup)
	for _, c := range p.Changes {
		for _, line := range settings(c.Steps) {
			lines = append(lines, "after "+c.At.String()+": "+line)
		}
	}
	return lines
}
