// SPDX-License-Identifier: MIT

package policy

import (
	"fmt"

	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
)

// Sources of decisions that a cluster makes. They are stable: --json prints them.
const (
	// ByClaim is a share of a disk that a pod was given.
	ByClaim weight.By = "claim"
	// ByCluster is the default of a PriorityClass or a namespace.
	ByCluster weight.By = "cluster-default"
)

// givenTo is what the cluster gave the pod whose cgroup it is, nil for nothing. A
// container has no part of its own in that.
func (m *Policy) givenTo(group string) *state.PodClaims {
	if _, isContainer := m.containers[group]; isContainer {
		return nil
	}
	return m.pods[group].Given
}

// ofClaims are the weights of a pod on the disks of which it was given a share: as much
// as the share.
func (m *Policy) ofClaims(group string) map[string]Want {
	wants := map[string]Want{}
	given := m.givenTo(group)
	if given == nil {
		return wants
	}
	for _, s := range given.Shares {
		disk := s.MajMin
		if s.Device == "" {
			disk = EveryDisk
		}
		if disk == "" || s.Share == 0 {
			continue // the disk is gone, or other pods have all of the claim
		}
		want := wants[disk]
		if want.Why != "" {
			want.Why += "; "
		}
		wants[disk] = Want{Weight: want.Weight + weight.Value(s.Share), By: ByClaim, Why: want.Why + s.String(), given: true}
	}
	return wants
}

// ofCluster is what a pod has that says nothing, by its PriorityClass or its namespace.
func (m *Policy) ofCluster(group string) (Want, bool) {
	given := m.givenTo(group)
	if given == nil || given.Default == 0 {
		return Want{}, false
	}
	return m.limited(group, Want{Weight: weight.Value(given.Default), By: ByCluster, Why: given.Why}, weight.Max), true
}

// Given are the shares of a disk that pods have whatever others ask for.
type Given struct {
	// Claims are by claims, Rules by rules: of a pod that has both, Rules is what it has beyond its claim.
	Claims, Rules int
}

// Over is how many more there are than the disk has. Then each pod has less in proportion.
func (g Given) Over() int {
	if g.Claims == 0 {
		return 0 // weights alone are no promise
	}
	return max(g.Claims+g.Rules-state.WholeDisk, 0)
}

// Given are the shares of each disk that has the scheduler, by "MAJ:MIN".
func (m *Policy) Given(read Reader) map[string]Given {
	all := map[string]Given{}
	for _, numbers := range m.disks {
		for _, disk := range numbers {
			all[disk] = Given{}
		}
	}
	for group := range m.pods {
		wants, _, err := m.own(group, read)
		if err != nil {
			continue // the cgroup goes, or keeps what it has
		}
		claims := m.ofClaims(group)
		for disk, g := range all {
			claimed := int(claims[disk].Weight) + int(claims[EveryDisk].Weight)
			g.Claims += claimed
			if own := ownOn(wants, disk); own.given && own.By != ByClaim && own.Weight != weight.Sum {
				g.Rules += max(int(own.AskedFor())-claimed, 0)
			}
			all[disk] = g
		}
	}
	return all
}

// rest is what is left of a disk of which pods have claims.
type rest struct {
	// given are the shares of claims and the weights by rules, and asked the weights of all
	// other pods, together.
	given, asked int
}

// left are the shares for the other pods.
func (r rest) left() int { return max(state.WholeDisk-r.given, state.ReservedShares) }

// capToUnclaimed has a pod without a claim on a disk, and without a rule, share what those of other pods
// leave. A claim on 300 shares is a promise of 30 %, so all weights together may not exceed 1000.
// They exceed it where rules alone give more than claims and the reserve leave: then all have less
// in proportion. The pods that make up the rest keep their weights to each other. The least weight
// is 1, so the rest of very many pods has more than is left.
func (m *Policy) capToUnclaimed(wants map[string]Want, group string, read Reader) {
	if _, isPod := m.pods[group]; !isPod {
		return
	}
	if _, isContainer := m.containers[group]; isContainer {
		return
	}
	for disk, r := range m.restsOf(read) {
		own := ownOn(wants, disk)
		if own.By == ByClaim && r.given > state.WholeDisk {
			own.Why += fmt.Sprintf("; claims and rules give %d of %d shares: each has less in proportion", r.given, state.WholeDisk)
			wants[disk] = own
		}
		if own.given || own.Weight == weight.Sum || r.asked <= r.left() {
			continue
		}
		n := max(int(own.Weight)*r.left()/r.asked, weight.Min)
		want := own
		want.Weight = weight.Value(n)
		want.Why = fmt.Sprintf("%s; claims and rules of other pods leave %d of %d shares to weights of %d", own.Why, r.left(), state.WholeDisk, r.asked)
		want.Limit = n
		wants[disk] = want
	}
}

// ownOn is what a pod is to have on a disk without regard to others.
func ownOn(wants map[string]Want, disk string) Want {
	for _, key := range []string{disk, EveryDisk} {
		if want, ok := wants[key]; ok {
			return want
		}
	}
	return Want{Weight: weight.Default, By: ByCluster, Why: "no weight is asked for"}
}

// restsOf are by the disks of which some pod has a share. A pod whose weight cannot be
// read now counts as one that asks for none.
func (m *Policy) restsOf(read Reader) map[string]rest {
	m.once.Do(func() {
		m.rests = map[string]rest{}
		for group := range m.pods {
			for disk := range m.ofClaims(group) {
				m.rests[disk] = rest{}
			}
		}
		if len(m.rests) == 0 {
			return
		}
		for group := range m.pods {
			wants, _, _ := m.own(group, read)
			for disk, r := range m.rests {
				switch own := ownOn(wants, disk); {
				case own.Weight == weight.Sum:
				case own.given:
					r.given += int(own.Weight)
				default:
					r.asked += int(own.Weight)
				}
				m.rests[disk] = r
			}
		}
	})
	return m.rests
}

// Claims reports whether any of the containers' pods has a share of a disk: then what one
// pod has depends on the others.
func Claims(all []target.Container) bool {
	for i := range all {
		if given := all[i].Given; given != nil && len(given.Shares) > 0 {
			return true
		}
	}
	return false
}
