// SPDX-License-Identifier: MIT

package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// A disk of its own: what a container is sold with a share of a disk is what it would have
// alone on a disk of that part of the speed. Each container of a case that asks for it has a
// reference: a case with that container alone, on the case's disk slowed down by 1 / share,
// with the scheduler none. A reference is not among the experiment's cases, as there is
// nothing to compare in it; what the containers have is divided by it. A container that is
// alone in a case has the disk, and no reference.

// ownDiskPrefix begins the name of a reference. The rest of it says what the reference is,
// so that those that are the same have one name, and one result.
const ownDiskPrefix = "own-disk-"

// maxSlowdown is by how much a model disk may be slowed down.
const maxSlowdown = 100_000

// Slowdown is the factor by which the disk is slower than the real one, in thousandths.
func (d *Device) Slowdown() int64 { return d.slower(1000 * int64(d.Model.Scale)) }

// CompletionNS is how long a null_blk takes for a request.
func (d *Device) CompletionNS() int64 { return d.slower(1000 * int64(d.CompletionUS)) }

// slower is what becomes of a time, or a factor, on the part of the disk.
func (d *Device) slower(n int64) int64 {
	if d.Share == 0 {
		return n
	}
	return int64(float64(n)/d.Share + 0.5)
}

// OwnDisks are the references of the containers, in their order; nil for a case without.
// Of a container that stands for several it is that of the first of them.
func (k *Case) OwnDisks() []Case {
	if !k.OwnDisk {
		return nil
	}
	var all []Case
	shares := k.Entitled()
	for i, t := range k.Containers {
		ref := *k
		ref.Name, ref.ReferenceCase, ref.OwnDisk, ref.Schedulers, ref.Parents, ref.SampleMS = "", "", false, nil, nil, 0
		ref.Device.Share, ref.Device.Model.Iocost = shares[i]/float64(t.Members()), nil
		ref.Part, ref.Parts = i*t.Members(), len(k.Containers)*t.Members()
		if size := t.Job.Bytes("size", 0); size > 0 && t.Count > 0 {
			t.Job = t.Job.overlaid(Job{"size": strconv.FormatInt(size/int64(t.Count), 10)})
		}
		t.Count = 0
		ref.Containers = []Container{t}
		ref.Name = ownDiskPrefix + t.Name + "-" + ref.sum()
		all = append(all, ref)
	}
	return all
}

// sum is a short one of all that the case is.
func (k *Case) sum() string {
	text, err := json.Marshal(k)
	if err != nil {
		panic(err) // it has nothing that JSON cannot have
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// OwnDisks are the references of all cases, each once.
func (e *Experiment) OwnDisks() (all []Case) {
	for i := range e.Cases {
		for _, ref := range e.Cases[i].OwnDisks() {
			if !slices.ContainsFunc(all, func(k Case) bool { return k.Name == ref.Name }) {
				all = append(all, ref)
			}
		}
	}
	return all
}

// ownDisk checks that the references of a case can be made.
func (c *checker) ownDisk(k *Case) {
	const key, allowed = "own_disk", "true for a disk that can be slowed down, or leave it out"
	for _, ref := range k.OwnDisks() {
		switch d := &ref.Device; {
		case d.Kind == NullBlk && d.CompletionUS == 0:
			c.fail(key, "needs a disk that takes time: null_blk with completion_us 0 takes none", allowed)
			return
		case d.Kind == ModelDisk && d.Slowdown() > 1000*maxSlowdown:
			c.fail(key, fmt.Sprintf("container %s has too small a share: its disk would be slowed down by %d", ref.Containers[0].Name, d.Slowdown()/1000),
				fmt.Sprintf("scale / share up to %d", maxSlowdown))
			return
		}
	}
}

// noOwnDisk says that a case has no references.
func (k *Case) noOwnDisk() string {
	return inCase(k.Name) + " does not compare containers with disks of their own"
}
