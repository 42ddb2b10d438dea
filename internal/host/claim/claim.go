// SPDX-License-Identifier: MIT

// Package claim is what a cluster gave the pods of a node: shares of disks, and weights
// for pods that say nothing themselves. The program that speaks to Kubernetes writes it,
// and the daemon reads it, so that the daemon needs no cluster, and weights stay while
// the other program is down. The file is gone after a boot, as pods are.
package claim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is where it is kept, below a machine's root.
const File = "run/isolio/claims.json"

const (
	// Whole is how many shares a disk has.
	Whole = 1000
	// Reserve is how many of them no claim gets: pods without one have them together, whatever
	// claims and rules give.
	Reserve = 100
	// ForSale are those that claims get.
	ForSale = Whole - Reserve
)

// schema is the version of the file.
const schema = 1

// Book is what pods were given.
type Book struct {
	Schema int `json:"schema"`
	// Incomplete is true after a file that was damaged, until the pods that the runtime knows are
	// looked up again.
	Incomplete bool  `json:"incomplete,omitempty"`
	Pods       []Pod `json:"pods"`
}

// Pod is what one pod was given.
type Pod struct {
	UID       string  `json:"uid"`
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Shares    []Share `json:"shares,omitempty"`
	// Default is the weight of a pod that says nothing, 0 for none, and Why is where it
	// comes from, such as "PriorityClass gold: 500".
	Default int    `json:"default,omitempty"`
	Why     string `json:"why,omitempty"`
	// Ended is true after all of its sandboxes stopped.
	Ended bool `json:"ended,omitempty"`
}

// Share is a part of a disk. A pod has one for each claim and disk.
type Share struct {
	// Claim is the ResourceClaim, in the namespace of the pod, and ClaimUID its number; both
	// are "" for an extended resource.
	Claim    string `json:"claim,omitempty"`
	ClaimUID string `json:"claim_uid,omitempty"`
	// Device is the disk's name in the cluster, Disk the kernel's and MajMin its number. All
	// are "" for a share of every disk. MajMin is "" while the node does not have the disk.
	Device string `json:"device,omitempty"`
	Disk   string `json:"disk,omitempty"`
	MajMin string `json:"maj_min,omitempty"`
	// Share is the pod's part, of Whole, and Claimed what the claim is on. Pods that have a
	// claim together have equal parts of it; 0 is none.
	Share   int `json:"share"`
	Claimed int `json:"claimed"`
}

// String is a share for a reader.
func (s Share) String() string {
	what, disk := "claim "+s.Claim, s.Disk
	if s.Claim == "" {
		what = "extended resource"
	}
	return fmt.Sprintf("%s: %d of %d shares of %s", what, s.Share, Whole, cmp.Or(disk, "each disk"))
}

// Find is what the pod with a UID was given, nil for nothing.
func (b *Book) Find(uid string) *Pod {
	i := slices.IndexFunc(b.Pods, func(p Pod) bool { return p.UID == uid })
	if i < 0 || uid == "" {
		return nil
	}
	return &b.Pods[i]
}

// Set keeps what a pod was given, in place of what it had. Nothing removes the pod. Its part of a
// claim is what it was until Split.
func (b *Book) Set(p Pod) {
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
	b.Pods = slices.DeleteFunc(b.Pods, func(other Pod) bool { return other.UID == p.UID })
	if len(p.Shares) > 0 || p.Default != 0 {
		b.Pods = append(b.Pods, p)
	}
	slices.SortFunc(b.Pods, func(a, b Pod) int { return strings.Compare(a.UID, b.UID) })
}

// Promised are the shares that pods have of a disk, by its name in the cluster.
func (b *Book) Promised(device string) int {
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
func (b *Book) Split() {
	type key struct{ claim, device string }
	running, all := map[key][]*Share{}, map[key][]*Share{}
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
		slices.SortStableFunc(among, func(a, b *Share) int { return min(b.Share, 1) - min(a.Share, 1) })
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

// Drop takes back what pods have of a claim.
func (b *Book) Drop(claimUID string) {
	for _, p := range slices.Clone(b.Pods) {
		p.Shares = slices.DeleteFunc(slices.Clone(p.Shares), func(s Share) bool { return s.ClaimUID == claimUID })
		b.Set(p)
	}
}

// ErrDamaged says that a file is none of this package's.
var ErrDamaged = errors.New("is damaged")

// Parse reads the text of the file.
func Parse(text []byte) (Book, error) {
	var b Book
	if err := json.Unmarshal(text, &b); err != nil {
		return Book{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if b.Schema > schema {
		return Book{}, fmt.Errorf("schema %d is not known; known: %d; update isolio", b.Schema, schema)
	}
	wrong := b.Schema != schema
	for _, p := range b.Pods {
		wrong = wrong || p.Default < 0 || slices.ContainsFunc(p.Shares, func(s Share) bool { return s.Share < 0 || s.Claimed < 0 })
	}
	if wrong {
		return Book{}, fmt.Errorf("%w: its schema or a number is out of range", ErrDamaged)
	}
	return b, nil
}

// ParseWhole is Parse, but refuses what tells of some pods alone.
func ParseWhole(text []byte) (Book, error) {
	b, err := Parse(text)
	if err == nil && b.Incomplete {
		err = errors.New("is made anew after damage, and is not complete; isolio-node asks the API server about pods")
	}
	if err != nil {
		return Book{}, fmt.Errorf("%w; pods keep the weights that they have", err)
	}
	return b, nil
}

// Read reads the file below root, "" for /. One that is not there says nothing.
func Read(root string) (Book, error) {
	name := filepath.Join("/", root, File)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Book{Schema: schema}, nil
	}
	if err != nil {
		return Book{}, err
	}
	b, err := Parse(text)
	if err != nil {
		return Book{}, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// Text is what the file holds.
func (b Book) Text() ([]byte, error) {
	b.Schema = schema
	if b.Pods == nil {
		b.Pods = []Pod{}
	}
	text, err := json.MarshalIndent(b, "", "\t")
	return append(text, '\n'), err
}

// Write keeps it below root. The file is replaced at once, and any user may read it:
// `isolio explain` does.
func (b Book) Write(root string) error {
	text, err := b.Text()
	if err != nil {
		return err
	}
	name := filepath.Join("/", root, File)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	half := name + ".new"
	if err := os.WriteFile(half, text, 0o644); err != nil {
		return err
	}
	if err := os.Chmod(half, 0o644); err != nil { // whatever the umask
		return err
	}
	return os.Rename(half, name)
}
