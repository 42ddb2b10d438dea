// SPDX-License-Identifier: MIT

package state

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// DefaultBoost is the most that a weight is multiplied by where a promise does not say. Then no other
	// cgroup is entitled to less than a quarter of its share. A tenant with 20 % of the disk is
	// held down to 0.4 of the disk's speed, one with a third down to half.
	DefaultBoost = 4
	// MaxBoost is the most that a promise may say: kyber-fairness' weights are 1 to 10000.
	MaxBoost = 100
)

// Boost is a weight that is raised. The weight itself is not kept: rules may give the cgroup
// another one meanwhile.
type Boost struct {
	Cgroup string `json:"cgroup"`
	// Disk is "MAJ:MIN".
	Disk    string `json:"disk"`
	Promise string `json:"promise"`
	// Factor is what the weight is multiplied by, Max the most that the promise allows.
	Factor float64 `json:"factor"`
	Max    float64 `json:"most"`
	// Cause is why it was raised last, as the account has it.
	Cause string `json:"cause"`
	// Since is when it was raised from 1.
	Since time.Time `json:"since"`
}

// boostsFile is where raised weights are.
const boostsFile = "run/isolio/held.json"

// boostsSchema is the version of that file. One without a schema is a bare list of weights.
const boostsSchema = 1

type boosts struct {
	Schema  int     `json:"schema"`
	Weights []Boost `json:"weights"`
}

// LoadBoosts reads which weights the daemon has raised; none where it raised none.
func LoadBoosts(root string) ([]Boost, error) {
	name := pathOf(root, boostsFile)
	text, there, err := read(name)
	if err != nil || !there {
		return nil, err
	}
	var found boosts
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		err = unmarshal(text, &found.Weights)
	} else if err = unmarshal(text, &found); err == nil && found.Schema != boostsSchema {
		err = errSchema(found.Schema, boostsSchema)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; the daemon writes it anew when it raises a weight", name, err)
	}
	for _, h := range found.Weights {
		if !(h.Factor >= 1 && h.Factor <= h.Max && h.Max <= MaxBoost) {
			return nil, fmt.Errorf("read %s: factor %g of %s, at most %g, is out of range; the daemon writes it anew when it raises a weight", name, h.Factor, h.Cgroup, h.Max)
		}
	}
	return found.Weights, nil
}

// SetAsideBoosts moves a file that cannot be read out of the way, and returns its new name.
func SetAsideBoosts(root string) (kept string, err error) {
	kept, err = SetAside(root, boostsFile)
	return kept, errors.Join(err, SaveBoosts(root, nil))
}

// SaveBoosts keeps which weights are raised, before they are written: programs that show weights, and a
// daemon that comes after one that was killed, read it.
func SaveBoosts(root string, all []Boost) error {
	name := pathOf(root, boostsFile)
	if len(all) == 0 {
		return remove(name)
	}
	return writeJSON(name, boosts{boostsSchema, all}, 0o644)
}

// Boosted is what comes of a weight: a whole number, not below it, and not above most times it
// or what the scheduler takes.
func Boosted(base int, factor, most float64, limit int) int {
	w := int(math.Ceil(float64(base)*factor - 1e-9))
	return max(base, min(w, int(float64(base)*most+1e-9), limit))
}
