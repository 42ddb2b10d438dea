// SPDX-License-Identifier: MIT

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"isolio/internal/plan"
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
	// Factor is what the weight is multiplied by, Most the most that the promise allows.
	Factor float64 `json:"factor"`
	Most   float64 `json:"most"`
	// Cause is why it was raised last, as the account has it.
	Cause string `json:"cause"`
	// Since is when it was raised from 1.
	Since time.Time `json:"since"`
}

// boostsFile is where raised weights are, of the machine below root: in a directory that only root can write, and
// that a boot empties, as it resets weights.
func boostsFile(root string) string { return filepath.Join("/", root, "run/isolio/held.json") }

// maxBoostsBytes is far more than thousands of them take.
const maxBoostsBytes = 16 << 20

// LoadBoosts reads which weights the daemon has raised; none where it raised none.
func LoadBoosts(root string) ([]Boost, error) {
	f, err := os.Open(boostsFile(root))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Boost
	if err := json.NewDecoder(io.LimitReader(f, maxBoostsBytes)).Decode(&all); err != nil {
		return nil, fmt.Errorf("read %s: %w; the daemon writes it anew when it raises a weight", boostsFile(root), err)
	}
	for _, h := range all {
		if !(h.Factor >= 1 && h.Factor <= h.Most && h.Most <= MaxBoost) {
			return nil, fmt.Errorf("read %s: factor %g of %s, at most %g, is out of range; the daemon writes it anew when it raises a weight", boostsFile(root), h.Factor, h.Cgroup, h.Most)
		}
	}
	return all, nil
}

// SetAsideBoosts moves a file that cannot be read out of the way, and returns its new name.
func SetAsideBoosts(root string) (kept string, err error) {
	kept, err = plan.KeepAside(boostsFile(root))
	return kept, errors.Join(err, SaveBoosts(root, nil))
}

// SaveBoosts keeps which weights are raised, before they are written: programs that show weights, and a
// daemon that comes after one that was killed, read it.
func SaveBoosts(root string, all []Boost) error {
	name := boostsFile(root)
	if len(all) == 0 {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	half := name + ".new"
	// Any user may read it, whatever the daemon's umask: `isolio explain` does.
	if err := errors.Join(os.WriteFile(half, append(text, '\n'), 0o644), os.Chmod(half, 0o644)); err != nil {
		return err
	}
	return os.Rename(half, name)
}

// Boosted is what comes of a weight: a whole number, not below it, and not above most times it
// or what the scheduler takes.
func Boosted(base int, factor, most float64, limit int) int {
	w := int(math.Ceil(float64(base)*factor - 1e-9))
	return max(base, min(w, int(float64(base)*most+1e-9), limit))
}
