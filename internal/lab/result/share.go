// SPDX-License-Identifier: MIT

package result

import (
	"isolio/internal/lab/experiment"
)

// shares puts the containers' shares, and the Jain index, into the
// experiment's unit.
func (d *Document) shares(unit string) {
	for i := range d.Runs {
		switch unit {
		case experiment.UnitIOPS:
			d.Runs[i].share(func(c *Container) float64 { return c.IOPS })
		case experiment.UnitOperations:
			d.Runs[i].share(func(c *Container) float64 {
				if c.Operations == nil {
					return 0
				}
				return c.Operations.IOPS
			})
		case experiment.UnitDeviceTime:
			d.Runs[i].share(func(c *Container) float64 { return ratio(c.BytesPS, d.soloBytesPS(c.Name)) })
		default:
			d.Runs[i].share(func(c *Container) float64 { return c.BytesPS })
		}
	}
}

// soloBytesPS is what the container gets alone, without a scheduler.
func (d *Document) soloBytesPS(container string) float64 {
	if r := d.run(experiment.SoloCase(container), "none"); r != nil {
		return r.TotalBytesPS
	}
	return 0
}

// share fills in each container's share of what all get, and the Jain index.
func (r *Run) share(service func(*Container) float64) {
	var got, entitled []float64
	var total float64
	for i := range r.Containers {
		c := &r.Containers[i]
		each, due := c.parts(service(c))
		got, entitled = append(got, each...), append(entitled, due...)
		total += service(c)
	}
	for i := range r.Containers {
		r.Containers[i].Share = ratio(service(&r.Containers[i]), total)
	}
	r.JainWeighted = Jain(got, entitled)
}

// Jain is the weighted Jain index of what containers got, against what they
// are entitled to: with y = got / entitled, (sum y)^2 / (n sum y^2). 1 means
// that all get exactly by weight, 1/n that one gets everything; 0 stands for no
// I/O at all.
func Jain(got, entitled []float64) float64 {
	var sum, squares float64
	for i := range got {
		y := ratio(got[i], entitled[i])
		sum += y
		squares += y * y
	}
	return ratio(sum*sum, float64(len(got))*squares)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
