// SPDX-License-Identifier: MIT

package experiment

import "fmt"

// Pause is a time in which a container's processes are frozen: what they have
// sent completes, and they send nothing. Both ends are seconds after the load's
// start.
type Pause struct {
	FromS float64 `json:"from_s,omitzero"`
	ToS   float64 `json:"to_s,omitzero"`
}

// pauses checks a container's pauses against its time and one another.
func (c *checker) pauses(key string, pairs [][]float64, t *Container) []Pause {
	var all []Pause
	at := t.StartS
	for i, pair := range pairs {
		if len(pair) != 2 {
			c.fail(key, fmt.Sprintf("a pause has %d numbers", len(pair)), "[from, to] in seconds after the load's start")
			return nil
		}
		from, to := pair[0], pair[1]
		if from < at || from >= to || to > t.EndS {
			c.fail(fmt.Sprintf("%s[%d]", key, i), fmt.Sprintf("[%g, %g] is out of place", from, to),
				fmt.Sprintf("from below to, in order, between start_s %g and end_s %g, without overlap", t.StartS, t.EndS))
		}
		all = append(all, Pause{from, to})
		at = to
	}
	return all
}
