// SPDX-License-Identifier: MIT

package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"isolio/internal/lab/result"
	"isolio/internal/lab/vm"
)

// cache keeps what VMs measured. A file's name is the sum of what the VM was made of: in
// virtual time the same VM gives the same result. Nothing else decides whether a VM is booted.
type cache struct {
	dir  string
	base []byte // the sum of what the VMs with one image have
}

// newCache sums up what the VMs with an image have in common.
func newCache(dir string, img *vm.Image, k *vm.Kernel) (*cache, error) {
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode(img.Modules); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	for _, file := range []string{img.File, k.Vmlinuz} {
		if err := sumFile(sum, file); err != nil {
			return nil, err
		}
	}
	return &cache{dir: dir, base: sum.Sum(nil)}, nil
}

func sumFile(sum io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer f.Close()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// file is where the result of a VM is that QEMU with the version line boots.
func (c *cache) file(m *vm.VM, qemu string) (string, error) {
	parts, err := json.Marshal(struct {
		Payload vm.Payload
		WorkMiB int
		CPUs    int
		Args    []string
		QEMU    string
	}{m.Payload, m.WorkMiB, m.CPUs, m.Args, qemu})
	if err != nil {
		return "", fmt.Errorf("lab: %w", err)
	}
	sum := sha256.Sum256(append(bytes.Clone(c.base), parts...))
	return filepath.Join(c.dir, hex.EncodeToString(sum[:16])+".json"), nil
}

// load is the result in a file; false if there is none.
func (c *cache) load(file string) (run result.Run, ok bool, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return run, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &run)
	}
	if err != nil {
		return run, false, fmt.Errorf("lab: the kept result of a VM: %w; remove %s", err, file)
	}
	return run, true, nil
}

// save keeps a result. A reader sees it whole or not at all.
func (c *cache) save(file string, run *result.Run) error {
	text, err := json.Marshal(run)
	if err == nil {
		err = os.MkdirAll(c.dir, 0o755)
	}
	if err == nil {
		err = renameio.WriteFile(file, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("lab: keep the result of a VM: %w", err)
	}
	return nil
}
