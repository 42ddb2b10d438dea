// SPDX-License-Identifier: MIT

// Package weight knows the scales on which the kernel, systemd and container
// tools write one and the same thing: a container's part of a disk against its
// siblings'. A weight without a word more is isolio's own, 1 to 10000, where
// 200 is twice 100 and 100 is who said nothing.
package weight

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"isolio/internal/failure"
)

// Default is the weight of who said nothing, in every file of the kernel. Min and
// Max bound isolio's own scale.
const (
	Default = 100
	Min     = 1
	Max     = 10000
)

// Mechanism is what makes weights act on a disk.
type Mechanism string

// The mechanisms of stock kernels, and ours.
const (
	Kyber  Mechanism = "kyber-fairness"
	BFQ    Mechanism = "bfq"
	IOCost Mechanism = "io.cost"
)

// Mechanisms lists them all.
func Mechanisms() []Mechanism {
	return []Mechanism{Kyber, BFQ, IOCost}
}

// File is the cgroup v2 file that the mechanism takes weights from.
func (m Mechanism) File() string {
	switch m {
	case Kyber:
		return "io.kyber.weight"
	case BFQ:
		return "io.bfq.weight"
	}
	return "io.weight"
}

// Max is the most that the mechanism's file takes; the least is 1.
func (m Mechanism) Max() int {
	if m == BFQ {
		return 1000
	}
	return 10000
}

// Check refuses a weight that the mechanism cannot have.
func (m Mechanism) Check(n Value) error {
	switch {
	case n == Sum && m == Kyber:
	case n == Sum:
		return failure.Usagef("weight %s: %s, which %s reads, takes numbers only; allowed: 1..%d", n, m.File(), m, m.Max())
	case n < 1 || int(n) > m.Max():
		return failure.Usagef("weight %s: out of range of %s, which %s reads; allowed: 1..%d", n, m.File(), m, m.Max())
	}
	return nil
}

// Of is the mechanism that reads a file, "" for none.
func Of(file string) Mechanism {
	for _, m := range Mechanisms() {
		if m.File() == file {
			return m
		}
	}
	return ""
}

// Acting lists what makes weights act on a disk: its scheduler may, and io.cost
// does where it is enabled, whatever the scheduler.
func Acting(scheduler string, iocost bool) []Mechanism {
	var acting []Mechanism
	if scheduler == string(Kyber) || scheduler == string(BFQ) {
		acting = append(acting, Mechanism(scheduler))
	}
	if iocost {
		acting = append(acting, IOCost)
	}
	return acting
}

// Values is what a weight file holds.
type Values struct {
	Default Value
	// Devices are the weights on disks that have one of their own, by "MAJ:MIN".
	Devices map[string]Value
}

// On is the weight on a disk.
func (v Values) On(majMin string) Value {
	if n, ok := v.Devices[majMin]; ok {
		return n
	}
	return v.Default
}

// Said reports whether a weight was set.
func (v Values) Said() bool {
	return v.Default != Default || len(v.Devices) > 0
}

// Sums reports whether the weight is the sum on any disk.
func (v Values) Sums() bool {
	return v.Default == Sum || slices.Contains(slices.Collect(maps.Values(v.Devices)), Sum)
}

// String is the values on one line: "200, 259:0 500".
func (v Values) String() string {
	words := []string{v.Default.String()}
	for _, majMin := range slices.Sorted(maps.Keys(v.Devices)) {
		words = append(words, majMin+" "+v.Devices[majMin].String())
	}
	return strings.Join(words, ", ")
}

// disk is how the kernel calls one.
var disk = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

// Parse reads a weight file's text: "default N" or a bare "N", and "MAJ:MIN N". N is
// a number or "sum".
func Parse(text string) (Values, error) {
	v := Values{Default: Default}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 1 {
			words = []string{"default", words[0]}
		}
		if len(words) != 2 {
			return v, fmt.Errorf("%q is not a weight", strings.TrimSpace(line))
		}
		n, err := ParseValue(words[1])
		switch {
		case err != nil:
			return v, fmt.Errorf("%q is not a weight", strings.TrimSpace(line))
		case words[0] == "default":
			v.Default = n
		case !disk.MatchString(words[0]):
			return v, fmt.Errorf("%q is not a weight", strings.TrimSpace(line))
		default:
			if v.Devices == nil {
				v.Devices = map[string]Value{}
			}
			v.Devices[words[0]] = n
		}
	}
	return v, nil
}
