// SPDX-License-Identifier: MIT

package top

import (
	"path"
	"slices"

	"isolio/internal/host/usage"
)

// source is a cgroup and a disk.
type source struct{ cgroup, disk string }

// node is a cgroup in one disk's tree.
type node struct {
	row      Row
	children []*node
}

// usageTree puts each row below its parents', which are sums of all below them, and
// orders siblings. all has the parents' own rows, which a filter may have left out.
func usageTree(shown []Row, all []usage.Row, compare func(a, b *Row) int) []Row {
	own := map[source]usage.Row{}
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
		o := own[k]
		n := &node{row: Row{Row: usage.Row{Cgroup: k.cgroup, Disk: k.disk, Weight: o.Weight, Reasons: o.Reasons, Name: o.Name, Within: o.Within}}}
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
	for _, child := range n.children {
		child.sum()
		n.row.Add(&child.row.Row)
	}
	n.row.Read.Latency, n.row.Write.Latency = usage.Latency{}, usage.Latency{}
}
