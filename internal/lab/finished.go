// SPDX-License-Identifier: MIT

package lab

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
	"strings"

	"isolio/internal/lab/result"
	"isolio/internal/lab/vm"
)

// finished keeps the results of an experiment's finished contenders, so that a run that
// was interrupted need not measure them again. Each has a file in dir, whose name has the
// sum of what the VM was made of: in virtual time the same VM gives the same result, and
// another's is not taken for it.
type finished struct {
	dir  string
	base []byte // the sum of what the VMs with one image have
}

// newFinished sums up what the VMs with an image have in common.
func newFinished(dir string, img *vm.Image, k *vm.Kernel) (*finished, error) {
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode(img.Modules); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	for _, file := range []string{img.File, k.Vmlinuz} {
		if err := sumFile(sum, file); err != nil {
			return nil, err
		}
	}
	return &finished{dir: dir, base: sum.Sum(nil)}, nil
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

// file is where the result of a contender is, measured in a VM that QEMU with the
// version line boots.
func (f *finished) file(c contender, m *vm.VM, qemu string) (string, error) {
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
	sum := sha256.Sum256(append(bytes.Clone(f.base), parts...))
	return filepath.Join(f.dir, strings.Join([]string{c.of.Name, c.scheduler, hex.EncodeToString(sum[:12]), "json"}, ".")), nil
}

// loadRun is the result in a file; false if there is none.
func loadRun(file string) (run result.Run, ok bool, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return run, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &run)
	}
	if err != nil {
		return run, false, fmt.Errorf("lab: the result of a finished contender: %w; remove %s", err, file)
	}
	return run, true, nil
}

// save keeps a result. A reader sees it whole or not at all.
func (f *finished) save(file string, run *result.Run) error {
	text, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// clearFinished removes what was kept in dir.
func clearFinished(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}
