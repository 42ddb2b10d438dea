// SPDX-License-Identifier: MIT

package state

import (
	"fmt"
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
	text, there, err := read(file)
	if err != nil || !there {
		return nil, err
	}
	var r enableErrors
	err = unmarshal(text, &r)
	if err == nil && r.Schema != enableErrorsSchema {
		err = errSchema(r.Schema, enableErrorsSchema)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r.Disks, nil
}

// WriteEnableErrors replaces a file at once, and removes it where there are no disks.
func WriteEnableErrors(file string, disks []EnableError) error {
	if len(disks) == 0 {
		return remove(file)
	}
	return writeJSON(file, enableErrors{enableErrorsSchema, disks}, 0o644)
}
