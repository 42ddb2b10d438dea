// SPDX-License-Identifier: MIT

package machine

import (
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/policy"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
)

// Explainer tells for what reasons cgroups have their weights, at each of many looks.
type Explainer struct {
	system  block.System
	tree    cgroup.Tree
	applied *state.AppliedStore
	finder  *target.Finder
	// rules are those of the last listing of containers, and bad what is wrong with them.
	rules rule.Config
	bad   error
}

// NewExplainer is one of the machine below root, "" for /, and its cgroups.
func NewExplainer(root string, tree cgroup.Tree) *Explainer {
	return &Explainer{system: block.System{Root: root}, tree: tree, applied: state.OpenApplied(root, tree), finder: &target.Finder{Root: root}}
}

// Containers lists those that run, with the labels and annotations that the rules name.
func (e *Explainer) Containers(groups []string) ([]target.Container, error) {
	if e.rules, e.bad = rule.Load(e.system.Root, ""); e.bad == nil {
		e.finder.Keep(e.rules.Keeps)
	}
	return e.finder.List(groups)
}

// For returns what tells of a cgroup's weight on a disk, nil where nothing is known.
// all are the containers that were listed.
func (e *Explainer) For(all []target.Container) (func(group, majMin string) *policy.Reasons, error) {
	if e.bad != nil {
		return nil, e.bad
	}
	m, err := policyOf(e.system, e.rules, all)
	if err != nil {
		return nil, err
	}
	return func(group, majMin string) *policy.Reasons {
		last, err := e.applied.Get(group)
		if err != nil {
			return nil
		}
		of, err := m.ReasonsOn(majMin, group, e.tree.Weights, last)
		if err != nil { // the cgroup is gone
			return nil
		}
		return of
	}, nil
}
