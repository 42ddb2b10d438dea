// SPDX-License-Identifier: MIT

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/lab/experiment"
	"isolio/internal/plan"
)

// filesystemUUID is that of the file systems that are made, so that two are the same.
const filesystemUUID = "6f10a3c2-5b1e-4d0a-9a57-1a0b2c3d4e5f"

// filesystem is where a case's file system is mounted, and the steps that make
// and mount it; "" if it has none.
func (e Env) filesystem(x *experiment.Experiment, k *experiment.Case, d *block.Device) (at string, steps []plan.Step, err error) {
	kind := k.Device.Filesystem
	if kind == "" {
		return "", nil, nil
	}
	mkfs, err := exec.LookPath("mkfs." + kind)
	if err != nil {
		return "", nil, failure.Unsupportedf("the experiment's filesystem: %w; install e2fsprogs", err)
	}
	at = filepath.Join(os.TempDir(), "isolio-"+x.Name)
	return at, []plan.Step{
		// All of its tables now and not by the kernel during the load.
		{Command: []string{mkfs, "-q", "-F", "-U", filesystemUUID,
			"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard,hash_seed=" + filesystemUUID, d.Node}},
		{Mkdir: true, Path: at},
		{Mount: d.Node, Path: at, Value: kind},
	}, nil
}

// controllers are what containers' cgroups need: buffered writes are charged to
// the one that owns the page.
func controllers(k *experiment.Case) []string {
	if k.Device.Filesystem != "" {
		return []string{"io", "memory"}
	}
	return []string{"io"}
}

// fileShare is the part of a container's part of a disk that its file takes:
// the file system needs some for itself.
const fileShare = 0.8

// fileBytes is how large a container's file is by default.
func fileBytes(part int64) int64 {
	return int64(float64(part)*fileShare) / partAlign * partAlign
}

// settleFiles writes out what fio wrote when it made its files, so that the
// load begins with nothing to be written.
func (p *Plan) settleFiles() error {
	if p.mounted == "" {
		return nil
	}
	dir, err := os.Open(p.mounted)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", p.mounted, err)
	}
	return nil
}
