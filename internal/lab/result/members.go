// SPDX-License-Identifier: MIT

package result

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Members are several containers of the same weight and job, of which the
// result has the sum. Each is entitled to an equal part of it.
type Members struct {
	Count int `json:"count"`
	// Least and Most are the rates of those with the least and the most, over
	// the mean of all; Jain is over all of them.
	Least float64 `json:"least_of_mean"`
	Most  float64 `json:"most_of_mean"`
	Jain  float64 `json:"jain"`
	// BytesPS is the rate of each, in their order.
	BytesPS []float64 `json:"bytes_per_s"`
}

// NewMembers is what the rates say.
func NewMembers(bytesPS []float64) *Members {
	var sum float64
	equal := make([]float64, len(bytesPS))
	for i, rate := range bytesPS {
		sum += rate
		equal[i] = 1
	}
	mean := ratio(sum, float64(len(bytesPS)))
	return &Members{
		Count: len(bytesPS), BytesPS: bytesPS, Jain: Jain(bytesPS, equal),
		Least: ratio(slices.Min(bytesPS), mean), Most: ratio(slices.Max(bytesPS), mean),
	}
}

// members is how many containers are in it.
func (c *Container) members() int {
	if c.Members == nil {
		return 1
	}
	return c.Members.Count
}

// weight is that of all the containers in it.
func (c *Container) weight() int { return c.Weight * c.members() }

// rounded is a copy of m, as WriteJSON shows it.
func (m *Members) rounded() *Members {
	if m == nil {
		return nil
	}
	c := *m
	c.BytesPS = slices.Clone(m.BytesPS)
	round(6, &c.Least, &c.Most, &c.Jain)
	for i := range c.BytesPS {
		round(1, &c.BytesPS[i])
	}
	return &c
}

// parts are what each container in it got of a sum, and what it was entitled
// to: of one that is just itself, the whole.
func (c *Container) parts(got float64) (each, entitled []float64) {
	if c.Members == nil {
		return []float64{got}, []float64{c.EntitledShare}
	}
	var sum float64
	for _, rate := range c.Members.BytesPS {
		sum += rate
	}
	for _, rate := range c.Members.BytesPS {
		each = append(each, got*ratio(rate, sum))
		entitled = append(entitled, c.EntitledShare/float64(c.Members.Count))
	}
	return each, entitled
}

// errorPct is how far the share is from what the container is entitled to, in
// percent of that; of several, the furthest.
func (c *Container) errorPct() float64 {
	furthest := 0.0
	shares, entitled := c.parts(c.Share)
	for i := range shares {
		furthest = max(furthest, 100*math.Abs(shares[i]/entitled[i]-1))
	}
	return furthest
}

// members writes a row for each contender and each sum of containers, if there
// are such.
func (s section) members(b *strings.Builder) {
	rows := [][]string{{"scheduler", "containers", "least", "most", "Jain"}}
	for _, r := range s.runs {
		for _, c := range r.Containers {
			if m := c.Members; m != nil {
				rows = append(rows, []string{
					r.Scheduler, fmt.Sprintf("%s x %d", c.Name, m.Count),
					fmt.Sprintf("%.3f", m.Least), fmt.Sprintf("%.3f", m.Most), fmt.Sprintf("%.4f", m.Jain),
				})
			}
		}
	}
	if len(rows) > 1 {
		writeBlock(b, "each, of the mean", rows, 2)
	}
}
