// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"slices"
	"strings"
)

// A containerSet are the tables of containers, and for each the key that messages name.
type containerSet struct {
	tables []fileContainer
	keys   []string
}

// index is where the container of that name is, -1 if it is not in the set.
func (s *containerSet) index(name *string) int {
	return slices.IndexFunc(s.tables, func(t fileContainer) bool { return name != nil && t.Name != nil && *t.Name == *name })
}

func (s *containerSet) names() (all []string) {
	for _, t := range s.tables {
		all = append(all, value(t.Name, ""))
	}
	return all
}

func (s *containerSet) add(t fileContainer, key string) {
	s.tables, s.keys = append(s.tables, t), append(s.keys, key)
}

// containers are those that weights and own say, at the top or, if c.within is a case, there.
// A table without a weight is the container of its name in weights or at the top, with the
// table's keys in place of its own.
func (c *checker) containers(top containerSet, weights []int64, own []fileContainer) (set containerSet) {
	changed := map[int]bool{} // of those of weights
	for i, weight := range weights {
		key := fmt.Sprintf("%sweights[%d]", c.within, i)
		if weight < 1 || weight > maxWeight {
			c.fail(key, fmt.Sprintf("%d is out of range", weight), fmt.Sprintf("integers 1..%d", maxWeight))
		}
		if slices.Contains(weights[:i], weight) {
			c.fail(key, fmt.Sprintf("%d is listed twice", weight), "each weight once: the container's name is made of it")
		}
		set.add(fileContainer{Name: new(fmt.Sprintf("w%d", weight)), Weight: &weight}, key)
	}
	for i, t := range own {
		key := fmt.Sprintf("%scontainer[%d]", c.within, i)
		inSet, atTop := set.index(t.Name), top.index(t.Name)
		switch {
		case t.Weight != nil:
			set.add(t, key)
		case inSet >= 0 && inSet < len(weights) && !changed[inSet]:
			set.tables[inSet], set.keys[inSet] = overlaid(set.tables[inSet], t), key
			changed[inSet] = true
		case inSet >= 0: // a second table of that name, which is refused later
			set.add(overlaid(set.tables[inSet], t), key)
		case atTop >= 0:
			set.add(overlaid(top.tables[atTop], t), key)
		default:
			if names := slices.Concat(set.names()[:len(weights)], top.names()); len(names) > 0 {
				c.fail(key+".weight", "is missing", fmt.Sprintf("an integer 1..%d; or the name of %s", maxWeight, strings.Join(names, ", ")))
			}
			set.add(t, key)
		}
	}
	return set
}
