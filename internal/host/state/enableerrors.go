// SPDX-License-Identifier: MIT

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// enableErrorsSchema is the version of the file.
const enableErrorsSchema = 1

// EnableError is a disk that `isolio enable` could not give a scheduler. In a cluster, isolio-node
// reads and reports them.
type EnableError struct {
	// Device is the disk as the command line named it, "" where all disks were meant and the
	// machine has none.
	Device string `json:"device,omitempty"`
	Why    string `json:"why"`
}

type enableErrors struct {
	Schema int           `json:"schema"`
	Disks  []EnableError `json:"disks"`
}

// ReadEnableErrors reads a file. One that is not there has no disks.
func ReadEnableErrors(file string) ([]EnableError, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r enableErrors
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Schema != enableErrorsSchema {
		return nil, fmt.Errorf("%s: schema %d is not known; known: %d", file, r.Schema, enableErrorsSchema)
	}
	return r.Disks, nil
}

// WriteEnableErrors replaces a file at once, and removes it where there are no disks.
func WriteEnableErrors(file string, disks []EnableError) error {
	if len(disks) == 0 {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.Marshal(enableErrors{enableErrorsSchema, disks})
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
