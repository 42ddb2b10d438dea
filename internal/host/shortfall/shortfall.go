// SPDX-License-Identifier: MIT

// Package shortfall is a file with the disks that `isolio enable` could not give a scheduler.
// In a cluster enable runs before the program that offers disks, which reads the file and tells
// of the failure.
package shortfall

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// schema is the version of the file.
const schema = 1

// Disk is a disk without the scheduler that it was to get.
type Disk struct {
	// Device is the disk as the command line named it, "" where all disks were meant and the
	// machine has none.
	Device string `json:"device,omitempty"`
	Why    string `json:"why"`
}

type report struct {
	Schema int    `json:"schema"`
	Disks  []Disk `json:"disks"`
}

// Read reads a file. One that is not there has no disks.
func Read(file string) ([]Disk, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Schema != schema {
		return nil, fmt.Errorf("%s: schema %d is not known; known: %d", file, r.Schema, schema)
	}
	return r.Disks, nil
}

// Write replaces a file at once, and removes it where there are no disks.
func Write(file string, disks []Disk) error {
	if len(disks) == 0 {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.Marshal(report{schema, disks})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	half := file + ".new"
	if err := os.WriteFile(half, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(half, file)
}
