// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Parent is a cgroup with a weight that holds containers' cgroups and no
// process: what its containers get together is by its weight among its siblings.
type Parent struct {
	// Cgroup is the path below the experiment's own cgroup.
	Cgroup string `json:"cgroup,omitzero"`
	Weight int    `json:"weight,omitzero"` // 1..10000, as in io.weight
}

// defaultWeight is that of a cgroup that was not given one.
const defaultWeight = 100

type fileParent struct {
	Cgroup *string `toml:"cgroup"`
	Weight *int64  `toml:"weight"`
}

// parents checks the [[parent]] tables of a case whose containers are known;
// parents is their key.
func (c *checker) parents(key string, f []fileParent, k *Case) {
	for i := range f {
		key := fmt.Sprintf("%s[%d]", key, i)
		p := Parent{
			Cgroup: required(c, key+".cgroup", f[i].Cgroup, "the cgroup that holds containers'"),
			Weight: c.integer(key+".weight", f[i].Weight, nil, 1, maxWeight),
		}
		if f[i].Cgroup != nil && !slices.ContainsFunc(k.Containers, func(t Container) bool { return strings.HasPrefix(t.Cgroup, p.Cgroup+"/") }) {
			c.fail(key+".cgroup", fmt.Sprintf("%q holds no container's cgroup", p.Cgroup), "a container with cgroup = \"PARENT/NAME\"")
		}
		if slices.ContainsFunc(k.Parents, func(earlier Parent) bool { return earlier.Cgroup == p.Cgroup }) {
			c.fail(key+".cgroup", fmt.Sprintf("%q is the cgroup of an earlier parent", p.Cgroup), "each once")
		}
		k.Parents = append(k.Parents, p)
	}
}

// Entitled are the shares that the weights entitle the containers to, in their
// order: at each level of the tree by weight among siblings.
func (k *Case) Entitled() []float64 {
	weights := map[string]int{}
	children := map[string][]string{} // by their parent's path
	for _, p := range k.Parents {
		weights[p.Cgroup] = p.Weight
	}
	for _, t := range k.Containers {
		weights[t.Cgroup] = t.Weight * t.Members()
		for at := t.Cgroup; at != "."; at = path.Dir(at) {
			if _, known := weights[at]; !known {
				weights[at] = defaultWeight
			}
			if above := path.Dir(at); !slices.Contains(children[above], at) {
				children[above] = append(children[above], at)
			}
		}
	}
	shares := make([]float64, len(k.Containers))
	for i, t := range k.Containers {
		shares[i] = 1
		for at := t.Cgroup; at != "."; at = path.Dir(at) {
			sum := 0
			for _, sibling := range children[path.Dir(at)] {
				sum += weights[sibling]
			}
			shares[i] *= float64(weights[at]) / float64(sum)
		}
	}
	return shares
}
