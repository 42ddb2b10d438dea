// SPDX-License-Identifier: MIT

// Package machine reads a machine once for a command: its rules, cgroups and containers, and what
// follows from them.
package machine

import (
	"sync"

	"isolio/internal/host/block"
	"isolio/internal/host/policy"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
)

// Snapshot is what one look at a machine found. Files of weights and counters are not part of it: a
// command reads them when it needs them, before a change and after it.
type Snapshot struct {
	target.World
	System block.System
	Rules  rule.Config
	// BadRules is why the rules could not be read, nil where they were.
	BadRules error
	// Applied is what the daemon wrote last.
	Applied *state.AppliedStore

	// policy is made when it is asked for: a disk that shares by io.cost alone needs none.
	policy func() (*policy.Policy, error)
}

// Read looks at the machine below root, "" for /. Bad rules are no error: weights act without them.
// The error is of the cgroup tree, and the rest of the snapshot is there.
func Read(root string) (*Snapshot, error) {
	s := &Snapshot{System: block.System{Root: root}}
	s.Rules, s.BadRules = rule.Load(root, "")
	var err error
	s.World, err = target.ReadWorld(root, s.Rules.Keeps)
	s.Applied = state.OpenApplied(root, s.Tree)
	s.policy = sync.OnceValues(func() (*policy.Policy, error) { return policyOf(s.System, s.Rules, s.Containers) })
	return s, err
}

// policyOf is what rules say of the machine's cgroups, with the weights that are raised.
func policyOf(sys block.System, rules rule.Config, containers []target.Container) (*policy.Policy, error) {
	disks, err := SharingDisks(sys, rules.Rules)
	if err != nil {
		return nil, err
	}
	boosts, err := state.LoadBoosts(sys.Root)
	if err != nil {
		return nil, err
	}
	told := sync.OnceValue(func() map[string]target.Told { return SystemdTold(sys) })
	return policy.New(rules, disks, containers).Hold(boosts).Ask(func(bool) map[string]target.Told { return told() }), nil
}

// Policy is what the rules say of the machine's cgroups.
func (s *Snapshot) Policy() (*policy.Policy, error) { return s.policy() }
