// SPDX-License-Identifier: MIT

package top

import (
	"path"
	"slices"

	"isolio/internal/meter"
)

// node is a cgroup in one disk's tree.
type node struct {
	row      Row
	children []*node
}

// tree puts each row below its parents', which are sums of all below them, and
// orders siblings. all has the parents' own rows, which a filter may have left out.
func tree(shown, all []Row, compare func(a, b *Row) int) []Row {
	own := map[source]Row{}
	for _, r := range all {
		own[source{r.Cgroup, r.Disk}] = r
	}
	nodes := map[source]*node{}
	var roots []*node
	var place func(k source) *node
	place = func(k source) *node {
		if n := nodes[k]; n != nil {
			return n
		}
		n := &node{row: Row{Cgroup: k.cgroup, Disk: k.disk, Weight: own[k].Weight, Name: own[k].Name}}
		nodes[k] = n
		if k.cgroup == "/" {
			roots = append(roots, n)
			return n
		}
		parent := place(source{path.Dir(k.cgroup), k.disk})
		n.row.depth = parent.row.depth + 1
		parent.children = append(parent.children, n)
		return n
	}
	for _, r := range shown {
		n := place(source{r.Cgroup, r.Disk})
		depth := n.row.depth
		n.row = r
		n.row.depth = depth
	}
	var rows []Row
	var list func(siblings []*node)
	list = func(siblings []*node) {
		slices.SortStableFunc(siblings, func(a, b *node) int { return compare(&a.row, &b.row) })
		for _, n := range siblings {
			rows = append(rows, n.row)
			list(n.children)
		}
	}
	for _, n := range roots {
		n.sum()
	}
	list(roots)
	return rows
}

// sum makes a node with children the sum of all below it and of itself. Latencies
// cannot be added.
func (n *node) sum() {
	if len(n.children) == 0 {
		return
	}
	r := &n.row
	r.Read.Latency, r.Write.Latency = meter.Latency{}, meter.Latency{}
	r.History = slices.Clone(r.History)
	for _, child := range n.children {
		child.sum()
		c := &child.row
		r.Entitled += c.Entitled
		r.Actual += c.Actual
		r.ThrottledPct += c.ThrottledPct
		r.Read.add(c.Read)
		r.Write.add(c.Write)
		r.History = addHistory(r.History, c.History)
	}
}

func (t *Traffic) add(other Traffic) {
	t.BytesPS += other.BytesPS
	t.IOPS += other.IOPS
}

// addHistory adds two histories that end at the same sample.
func addHistory(a, b []float64) []float64 {
	if len(a) < len(b) {
		a, b = slices.Clone(b), a
	}
	for i := range b {
		a[len(a)-len(b)+i] += b[i]
	}
	return a
}
