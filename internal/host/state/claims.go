// SPDX-License-Identifier: MIT

package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ClaimsFile is where it is kept, below a machine's root.
const ClaimsFile = "run/isolio/claims.json"

const (
	// WholeDisk is how many shares a disk has.
	WholeDisk = 1000
	// ReservedShares is how many of them no claim gets: pods without one have them together, whatever
	// claims and rules give.
	ReservedShares = 100
	// SharesForSale are those that claims get.
	SharesForSale = WholeDisk - ReservedShares
)

// claimsSchema is the version of the file.
const claimsSchema = 1

// Claims is what a cluster gave the pods of a node. isolio-node writes it and the daemon reads it: so
// the daemon needs no cluster, and weights stay while isolio-node is down.
type Claims struct {
	Schema int `json:"schema"`
	// Incomplete is true after a file that was damaged, until the pods that the runtime knows are
	// looked up again.
	Incomplete bool        `json:"incomplete,omitempty"`
	Pods       []PodClaims `json:"pods"`
}

// PodClaims is what one pod was given.
type PodClaims struct {
	UID       string         `json:"uid"`
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Shares    []ClaimedShare `json:"shares,omitempty"`
	// Default is the weight of a pod that says nothing, 0 for none, and Why is where it
	// comes from, such as "PriorityClass gold: 500".
	Default int    `json:"default,omitempty"`
	Why     string `json:"why,omitempty"`
	// Ended is true after all of its sandboxes stopped.
	Ended bool `json:"ended,omitempty"`
}

// ClaimedShare is a part of a disk. A pod has one for each claim and disk.
type ClaimedShare struct {
	// Claim is the ResourceClaim, in the namespace of the pod, and ClaimUID its number; both
	// are "" for an extended resource.
	Claim    string `json:"claim,omitempty"`
	ClaimUID string `json:"claim_uid,omitempty"`
	// Device is the disk's name in the cluster, Disk the kernel's and MajMin its number. All
	// are "" for a share of every disk. MajMin is "" while the node does not have the disk.
	Device string `json:"device,omitempty"`
	Disk   string `json:"disk,omitempty"`
	MajMin string `json:"maj_min,omitempty"`
	// ClaimedShare is the pod's part, of Whole, and Claimed what the claim is on. Pods that have a
	// claim together have equal parts of it; 0 is none.
	Share   int `json:"share"`
	Claimed int `json:"claimed"`
}

// String is a share for a reader.
func (s ClaimedShare) String() string {
	what, disk := "claim "+s.Claim, s.Disk
	if s.Claim == "" {
		what = "extended resource"
	}
	return fmt.Sprintf("%s: %d of %d shares of %s", what, s.Share, WholeDisk, cmp.Or(disk, "each disk"))
}

// Find is what the pod with a UID was given, nil for nothing.
func (b *Claims) Find(uid string) *PodClaims {
	i := slices.IndexFunc(b.Pods, func(p PodClaims) bool { return p.UID == uid })
	if i < 0 || uid == "" {
		return nil
	}
	return &b.Pods[i]
}

// Set keeps what a pod was given, in place of what it had. Nothing removes the pod. Its part of a
// claim is what it was until Split.
func (b *Claims) Set(p PodClaims) {
	if old := b.Find(p.UID); old != nil {
		p.Shares = slices.Clone(p.Shares)
		for i := range p.Shares {
			for _, s := range old.Shares {
				if n := &p.Shares[i]; n.Share == 0 && n.ClaimUID == s.ClaimUID && n.Device == s.Device {
					n.Share = s.Share
				}
			}
		}
	}
	b.Pods = slices.DeleteFunc(b.Pods, func(other PodClaims) bool { return other.UID == p.UID })
	if len(p.Shares) > 0 || p.Default != 0 {
		b.Pods = append(b.Pods, p)
	}
	slices.SortFunc(b.Pods, func(a, b PodClaims) int { return strings.Compare(a.UID, b.UID) })
}

// Promised are the shares that pods have of a disk, by its name in the cluster.
func (b *Claims) Promised(device string) int {
	sum := 0
	for _, p := range b.Pods {
		for _, s := range p.Shares {
			if s.Device == device || s.Device == "" {
				sum += s.Share
			}
		}
	}
	return sum
}

// Split gives the pods that have a claim together equal parts of it. A pod that ended while others
// run has none. A claim on fewer shares than it has pods gives as many of them 1, first those that
// have a part already.
func (b *Claims) Split() {
	type key struct{ claim, device string }
	running, all := map[key][]*ClaimedShare{}, map[key][]*ClaimedShare{}
	for i := range b.Pods {
		for j := range b.Pods[i].Shares {
			s := &b.Pods[i].Shares[j]
			k := key{s.ClaimUID, s.Device}
			if s.ClaimUID == "" {
				s.Share = s.Claimed
				continue
			}
			all[k] = append(all[k], s)
			if !b.Pods[i].Ended {
				running[k] = append(running[k], s)
			}
		}
	}
	for k, those := range all {
		among := those
		if len(running[k]) > 0 {
			among = running[k]
		}
		slices.SortStableFunc(among, func(a, b *ClaimedShare) int { return min(b.Share, 1) - min(a.Share, 1) })
		for _, s := range those {
			s.Share = 0
		}
		for i, s := range among {
			s.Share = s.Claimed / len(among)
			if i < s.Claimed {
				s.Share = max(s.Share, 1)
			}
		}
	}
}

// Correct has a claim be on n shares of a device, 0 for none, whatever pods were given of it.
func (b *Claims) Correct(claimUID, device string, n int) {
	for _, p := range slices.Clone(b.Pods) {
		var shares []ClaimedShare
		for _, s := range p.Shares {
			if s.ClaimUID == claimUID && s.Device == device {
				s.Claimed = n
			}
			if s.Claimed > 0 {
				shares = append(shares, s)
			}
		}
		p.Shares = shares
		b.Set(p)
	}
}

// Drop takes back what pods have of a claim.
func (b *Claims) Drop(claimUID string) {
	for _, p := range slices.Clone(b.Pods) {
		p.Shares = slices.DeleteFunc(slices.Clone(p.Shares), func(s ClaimedShare) bool { return s.ClaimUID == claimUID })
		b.Set(p)
	}
}

// ParseClaims reads the text of the file.
func ParseClaims(text []byte) (Claims, error) {
	var b Claims
	if err := unmarshal(text, &b); err != nil {
		return Claims{}, err
	}
	if b.Schema > claimsSchema {
		return Claims{}, errSchema(b.Schema, claimsSchema)
	}
	wrong := b.Schema != claimsSchema
	for _, p := range b.Pods {
		wrong = wrong || p.Default < 0 || slices.ContainsFunc(p.Shares, func(s ClaimedShare) bool { return s.Share < 0 || s.Claimed < 0 })
	}
	if wrong {
		return Claims{}, fmt.Errorf("%w: its schema or a number is out of range", ErrDamaged)
	}
	return b, nil
}

// ParseWholeClaims is Parse, but refuses what tells of some pods alone.
func ParseWholeClaims(text []byte) (Claims, error) {
	b, err := ParseClaims(text)
	if err == nil && b.Incomplete {
		err = errors.New("is made anew after damage, and is not complete; isolio-node asks the API server about pods")
	}
	if err != nil {
		return Claims{}, fmt.Errorf("%w; pods keep the weights that they have", err)
	}
	return b, nil
}

// ReadClaims reads the file below root, "" for /. One that is not there says nothing.
func ReadClaims(root string) (Claims, error) {
	name := pathOf(root, ClaimsFile)
	text, there, err := read(name)
	if err != nil {
		return Claims{}, err
	}
	if !there {
		return Claims{Schema: claimsSchema}, nil
	}
	b, err := ParseClaims(text)
	if err != nil {
		return Claims{}, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// Text is what the file holds.
func (b Claims) Text() ([]byte, error) {
	b.Schema = claimsSchema
	if b.Pods == nil {
		b.Pods = []PodClaims{}
	}
	text, err := json.MarshalIndent(b, "", "\t")
	return append(text, '\n'), err
}

// Write keeps it below root. The file is replaced at once, and any user may read it:
// `isolio explain` does.
func (b Claims) Write(root string) error {
	text, err := b.Text()
	if err != nil {
		return err
	}
	return write(pathOf(root, ClaimsFile), seal(text), 0o644)
}
