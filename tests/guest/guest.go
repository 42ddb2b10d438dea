// SPDX-License-Identifier: MIT

// Package guest has what tests in the lab's VM share: writing the kernel's files
// and loading its modules.
package guest

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Put writes text with one write(2), as a kernel file wants it.
func Put(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Exists tells whether a file is there.
func Exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// LoadModule loads a module's file, which may be compressed.
func LoadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(file, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	return unix.FinitModule(int(f.Fd()), "", flags)
}
