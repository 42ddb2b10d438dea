// SPDX-License-Identifier: MIT

package state

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/weight"
)

// Applied is what the daemon last wrote to a cgroup's io.kyber.weight, and what
// stood there before, by disk. A value that is neither was written by another program.
type Applied map[string]Written

// Written is one weight.
type Written struct {
	Weight weight.Value `json:"weight"` // 0: taken back
	Before weight.Value `json:"before"` // 0: there was none
	// Asked is what was asked for where the weight was raised from that; else 0.
	Asked weight.Value `json:"asked,omitempty"`
}

// AskedFor is the weight that was asked for when it was written.
func (w Written) AskedFor() weight.Value {
	if w.Asked != 0 {
		return w.Asked
	}
	return w.Weight
}

// AppliedStore is where marks are: a file for each cgroup, in a directory that only root
// can write. The owner of a cgroup can write its extended attributes, so a mark is
// not kept there. The kernel gives a cgroup's number to no other one until the
// next boot, and that empties the directory.
type AppliedStore struct {
	dir  string
	tree cgroup.Tree

	mu sync.Mutex
	// memory has the marks that could not be written.
	memory map[string]Applied
	// read has those that were read, as long as their files are the same. Each is
	// replaced by another file, so its number changes.
	read map[string]knownApplied
}

// knownApplied is a mark that was read from a file.
type knownApplied struct {
	inode    uint64
	modified syscall.Timespec
	mark     Applied
}

// OpenApplied is the store of the machine below root, "" for /.
func OpenApplied(root string, tree cgroup.Tree) *AppliedStore {
	return &AppliedStore{dir: pathOf(root, "run/isolio/marks"), tree: tree, memory: map[string]Applied{}, read: map[string]knownApplied{}}
}

// appliedSchema is the version of these files.
const appliedSchema = 1

// appliedFile is what is kept of a cgroup.
type appliedFile struct {
	// Schema is 0 in files of versions before it.
	Schema  int     `json:"schema"`
	Cgroup  string  `json:"cgroup"`
	Weights Applied `json:"weights"`
}

// path is the file of a cgroup.
func (s *AppliedStore) path(group string) (string, error) {
	number, err := s.number(group)
	return filepath.Join(s.dir, number+".json"), err
}

func (s *AppliedStore) number(group string) (string, error) {
	id, err := s.tree.ID(group)
	return strconv.FormatUint(id, 10), err
}

// Get is a cgroup's mark, nil for none. The error is of a mark that is there and cannot be read.
func (s *AppliedStore) Get(group string) (Applied, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mark, ok := s.memory[group]; ok {
		return maps.Clone(mark), nil
	}
	name, err := s.path(group)
	if err != nil {
		return nil, nil // it is gone, and its mark with it
	}
	var stat syscall.Stat_t
	if syscall.Stat(name, &stat) != nil {
		delete(s.read, group)
		return nil, nil
	}
	if k := s.read[group]; k.inode == stat.Ino && k.modified == stat.Mtim {
		return maps.Clone(k.mark), nil
	}
	text, there, err := read(name)
	if err != nil || !there {
		return nil, err
	}
	var found appliedFile
	if err = unmarshal(text, &found); err == nil && found.Schema > appliedSchema {
		err = errSchema(found.Schema, appliedSchema)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; the cgroup keeps its weight; remove the file to have the weight count as an operator's", name, err)
	}
	if found.Cgroup != group {
		return nil, nil // of a file system that gives a number twice
	}
	s.read[group] = knownApplied{stat.Ino, stat.Mtim, maps.Clone(found.Weights)}
	return found.Weights, nil
}

// Set keeps a mark, before what it tells of is done. With an error, it is kept for
// as long as this process runs.
func (s *AppliedStore) Set(group string, to Applied) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, err := s.path(group)
	if err != nil {
		return err
	}
	if len(to) == 0 {
		delete(s.memory, group)
		return remove(name)
	}
	if err := s.write(name, appliedFile{appliedSchema, group, to}); err != nil {
		s.memory[group] = maps.Clone(to)
		return fmt.Errorf("%w; only this process remembers the weights that it writes", err)
	}
	delete(s.memory, group)
	return nil
}

// write replaces a file. Any user may list the directory.
func (s *AppliedStore) write(name string, what appliedFile) error {
	if err := writeJSON(name, what, 0o644); err != nil {
		return err
	}
	return os.Chmod(s.dir, 0o755)
}

// Sweep removes the marks of all but these cgroups: the others are gone.
func (s *AppliedStore) Sweep(groups []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(s.dir)
	if err != nil && len(s.memory) == 0 {
		return // there are none
	}
	there, numbers := map[string]bool{}, map[string]bool{}
	for _, group := range groups {
		there[group] = true
		if number, err := s.number(group); err == nil {
			numbers[number+".json"] = true
		}
	}
	maps.DeleteFunc(s.memory, func(group string, _ Applied) bool { return !there[group] })
	maps.DeleteFunc(s.read, func(group string, _ knownApplied) bool { return !there[group] })
	for _, entry := range entries {
		if !numbers[entry.Name()] {
			_ = os.Remove(filepath.Join(s.dir, entry.Name())) // the next sweep tries again
		}
	}
}
