// SPDX-License-Identifier: MIT

package hold

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"isolio/internal/plan"
)

// Held is a weight that is raised. The weight itself is not kept: rules may give the cgroup
// another one meanwhile.
type Held struct {
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

// file is where raised weights are, of the machine below root: in a directory that only root can write, and
// that a boot empties, as it resets weights.
func file(root string) string { return filepath.Join("/", root, "run/isolio/held.json") }

// mostBytes is far more than thousands of them take.
const mostBytes = 16 << 20

// Load reads which weights the daemon has raised; none where it raised none.
func Load(root string) ([]Held, error) {
	f, err := os.Open(file(root))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Held
	if err := json.NewDecoder(io.LimitReader(f, mostBytes)).Decode(&all); err != nil {
		return nil, fmt.Errorf("read %s: %w; the daemon writes it anew when it raises a weight", file(root), err)
	}
	for _, h := range all {
		if !(h.Factor >= 1 && h.Factor <= h.Most && h.Most <= MostMost) {
			return nil, fmt.Errorf("read %s: factor %g of %s, at most %g, is out of range; the daemon writes it anew when it raises a weight", file(root), h.Factor, h.Cgroup, h.Most)
		}
	}
	return all, nil
}

// SetAside moves a file that cannot be read out of the way, and returns its new name.
func SetAside(root string) (kept string, err error) {
	kept, err = plan.KeepAside(file(root))
	return kept, errors.Join(err, Save(root, nil))
}

// Save keeps which weights are raised, before they are written: programs that show weights, and a
// daemon that comes after one that was killed, read it.
func Save(root string, all []Held) error {
	name := file(root)
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
