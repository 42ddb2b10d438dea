// SPDX-License-Identifier: MIT

package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/plan"
)

// filesystem is where a case's file system is mounted, and the steps that make
// and mount it; "" if it has none.
func (e Env) filesystem(x *experiment.Experiment, k *experiment.Case, d *Disk) (at string, steps []plan.Step, err error) {
	if k.Device.Filesystem == "" {
		return "", nil, nil
	}
	kind := experiment.FilesystemNamed(k.Device.Filesystem)
	mkfs, err := exec.LookPath("mkfs." + kind.Name)
	if err != nil {
		return "", nil, failure.Unsupportedf("the experiment's filesystem: %w; install %s", err, kind.Package)
	}
	at = filepath.Join(os.TempDir(), "isolio-"+x.Name)
	steps = []plan.Step{
		{Command: slices.Concat([]string{mkfs}, kind.Mkfs, []string{d.Node})},
		{Mkdir: true, Path: at},
		{Mount: d.Node, Path: at, Value: kind.Name},
	}
	swap, err := swapSteps(at, k.Device.SwapMiB)
	return at, append(steps, swap...), err
}

// swapFile is the file's name, which is no container's.
const swapFile = ".swap"

// swapSteps make a file for swap on the file system that is mounted at a directory. The
// kernel reads and writes its blocks on the disk, beneath the file system.
func swapSteps(at string, mib int) ([]plan.Step, error) {
	if mib == 0 {
		return nil, nil
	}
	for _, name := range experiment.SwapPrograms() {
		if _, err := exec.LookPath(name); err != nil {
			return nil, failure.Unsupportedf("the experiment's swap_mib: %w; install util-linux and mount", err)
		}
	}
	file := filepath.Join(at, swapFile)
	return []plan.Step{
		{Command: []string{"fallocate", "-l", fmt.Sprintf("%dMiB", mib), file}},
		{Command: []string{"chmod", "600", file}},
		{Command: []string{"mkswap", "-q", "-U", experiment.SwapUUID, file}},
		{Command: []string{"swapon", file}, UndoCommand: []string{"swapoff", file}},
	}, nil
}

// limitMemory returns the steps that limit containers' memory.
func (e Env) limitMemory(k *experiment.Case, group string) (steps []plan.Step) {
	for i := range k.Containers {
		t := &k.Containers[i]
		if t.MemoryMiB == 0 {
			continue
		}
		for _, cgroup := range t.MemberCgroups() {
			set := e.Cgroups.Set(filepath.Join(group, cgroup), "memory.max", strconv.FormatInt(int64(t.MemoryMiB)<<20, 10))
			set.Name = "" // it is the case's, and not the contender's
			steps = append(steps, set)
		}
	}
	return steps
}

// controllers are what containers' cgroups need: buffered writes are charged to
// the one that owns the page.
func controllers(k *experiment.Case) []string {
	limited := slices.ContainsFunc(k.Containers, func(t experiment.Container) bool { return t.MemoryMiB > 0 })
	if limited || k.Device.Filesystem != "" {
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
