// SPDX-License-Identifier: MIT

package weight

import "strconv"

// What containers ask for (`--blkio-weight`, blockIO.weight of an OCI
// specification) has a scale of its own, and reaches the kernel's files in
// three ways, two of which change what weights are to each other.
const (
	OCIMin = 10
	OCIMax = 1000
)

// IOFromOCI is what runc, youki, and crun without systemd write to io.weight
// where there is no io.bfq.weight: 100 becomes 910.
func IOFromOCI(x int) int {
	return 1 + (x-OCIMin)*9999/990
}

// OCIFromIO is what was asked for where IOFromOCI made io.
func OCIFromIO(io int) int {
	return OCIMin + ((io-1)*990+9998)/9999
}

// BFQFromSystemd is what systemd writes to io.bfq.weight for IOWeight=io, which
// itself goes to io.weight: 200 becomes 109.
func BFQFromSystemd(io int) int {
	if io <= Default {
		return io
	}
	return Default + (io-Default)*900/9900
}

// SystemdFromBFQ is the IOWeight= for which systemd writes bfq to
// io.bfq.weight; so crun asks systemd for a container's weight.
func SystemdFromBFQ(bfq int) int {
	if bfq <= Default {
		return bfq
	}
	return Default + (bfq-Default)*9900/900
}

// IOFromBlockIO is what systemd makes of BlockIOWeight=x, whose default is 500.
func IOFromBlockIO(x int) int {
	return max(1, x*Default/500)
}

// Evidence is what there is to tell from what was asked for.
type Evidence struct {
	// BFQ and IO are what io.bfq.weight and io.weight hold; 0 where there is
	// no such file.
	BFQ, IO int
	// InnerBFQ and InnerIO are what they hold in the cgroup that crun makes inside
	// of the container's; 0 where there is none.
	InnerBFQ, InnerIO int
	// Container is true for the cgroup that a container runtime made.
	Container bool
	// ByCrun is true if the runtime leaves weights to systemd, as crun does.
	ByCrun bool
	// SpecRead is true if the container's OCI specification was read, and OCI is
	// the weight in it, 0 for none.
	SpecRead bool
	OCI      int
	// SystemdAsked is true if systemd said what the unit was given: ToldIO as IOWeight=, ToldBlockIO as
	// BlockIOWeight=, 0 for nothing.
	SystemdAsked        bool
	ToldIO, ToldBlockIO int
}

// By is who asked for a weight, or decided it.
type By string

// Sources of requests and decisions. They are stable: --json prints them.
const (
	ByRule By = "rule"
	// ByDefault is a rule for those that ask for no weight.
	ByDefault By = "rule-default"
	// ByClass is a class that a label or a pod's annotation names.
	ByClass By = "class"
	// ByPod is a pod's annotation.
	ByPod     By = "pod-annotation"
	ByRuntime By = "container-runtime"
	// BySpec is a runtime that was asked, of which the cgroup's files tell no more.
	BySpec    By = "container-specification"
	BySystemd By = "systemd"
	// ByFile is a program or user that wrote to a file of the cgroup.
	ByFile By = "cgroup-file"
)

// OfSystemd stands for a file where systemd itself said what it was asked for.
const OfSystemd = "systemd"

// Asked is a weight that was asked for.
type Asked struct {
	// Weight is on isolio's scale: what weights are to each other is what was asked.
	Weight int `json:"weight"`
	// File is where it was read, "" if none was asked for.
	File string `json:"file,omitempty"`
	// Raw is what the file holds.
	Raw int `json:"raw,omitempty"`
	// By is what asked, "" if nothing did.
	By By `json:"by,omitempty"`
	// How is in whose words it was asked: "--blkio-weight 200".
	How string `json:"how,omitempty"`
}

// Decode tells what was asked for from what runtimes and systemd made of it.
func (e Evidence) Decode() Asked {
	asked := e.outer()
	// An older crun gives a weight that is changed later to the inner cgroup alone. So
	// that tells of it as long as the container's own says what it was started with.
	if inner := e.inner(); inner.File != "" && e.SpecRead && inner.Weight != e.OCI && (asked.File == "" || asked.Weight == e.OCI) {
		return inner
	}
	return asked
}

// inner is what the inner cgroup was given, on the scale of runc, as crun does
// not ask systemd for it.
func (e Evidence) inner() Asked {
	switch {
	case said(e.InnerBFQ):
		return e.container(inside(BFQ), e.InnerBFQ, e.InnerBFQ)
	case said(e.InnerIO):
		return e.container(inside(IOCost), e.InnerIO, OCIFromIO(e.InnerIO))
	}
	return Asked{}
}

// inside is where the file of the inner cgroup is, seen from the container's.
func inside(m Mechanism) string {
	return "container/" + m.File()
}

// outer is what the cgroup itself tells.
func (e Evidence) outer() Asked {
	bfq, io := said(e.BFQ), said(e.IO)
	switch {
	case e.ToldIO > 0 && !e.Container:
		return e.told(e.ToldIO, "IOWeight="+itoa(e.ToldIO))
	case e.ToldBlockIO > 0 && !e.Container:
		return e.told(IOFromBlockIO(e.ToldBlockIO), "BlockIOWeight="+itoa(e.ToldBlockIO))
	case !bfq && !io:
		return Asked{Weight: Default}
	case !e.Container:
		return e.unit()
	case e.SpecRead && e.OCI > 0 && e.BFQ == e.OCI:
		return e.container(BFQ.File(), e.BFQ, e.OCI)
	case e.SpecRead && e.OCI > 0 && !bfq && (e.IO == IOFromOCI(e.OCI) || e.IO == SystemdFromBFQ(e.OCI)):
		return e.container(IOCost.File(), e.IO, e.OCI)
	case bfq && io && e.BFQ == BFQFromSystemd(e.IO) && (e.SpecRead || !e.ByCrun):
		// The runtime is not known to have asked for this: systemctl was.
		return e.unit()
	case bfq:
		return e.container(BFQ.File(), e.BFQ, e.BFQ)
	case e.ByCrun && (!e.SpecRead || e.IO == SystemdFromBFQ(BFQFromSystemd(e.IO))):
		// A later change of a container's weight does not change its specification. A
		// round number, as people give to systemctl, is never one of crun's.
		return e.container(IOCost.File(), e.IO, BFQFromSystemd(e.IO))
	case e.ByCrun:
		return e.unit()
	}
	return e.container(IOCost.File(), e.IO, OCIFromIO(e.IO))
}

// told is what systemd said itself, and wrote to io.weight where there is that.
func (e Evidence) told(n int, how string) Asked {
	if e.IO == n {
		return Asked{Weight: n, File: IOCost.File(), Raw: n, By: BySystemd, How: how}
	}
	return Asked{Weight: n, File: OfSystemd, By: BySystemd, How: how}
}

// unit is what was asked of systemd, or written by hand.
func (e Evidence) unit() Asked {
	switch {
	case said(e.IO) && e.SystemdAsked && !e.Container:
		return Asked{Weight: e.IO, File: IOCost.File(), Raw: e.IO, By: ByFile, How: "written to " + IOCost.File()}
	case said(e.IO):
		return Asked{Weight: e.IO, File: IOCost.File(), Raw: e.IO, By: BySystemd, How: "IOWeight=" + itoa(e.IO)}
	}
	return Asked{Weight: e.BFQ, File: BFQ.File(), Raw: e.BFQ, By: ByFile, How: "written to " + BFQ.File()}
}

func (e Evidence) container(file string, raw, oci int) Asked {
	return Asked{Weight: oci, File: file, Raw: raw, By: ByRuntime, How: "--blkio-weight " + itoa(oci)}
}

// said reports whether a file is there and holds what was written there.
func said(n int) bool {
	return n != 0 && n != Default
}

func itoa(n int) string {
	return strconv.Itoa(n)
}
