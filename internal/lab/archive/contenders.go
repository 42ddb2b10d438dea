// SPDX-License-Identifier: MIT

package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// contenders keeps what the contenders of an experiment's last run had, for the next run: one whose
// VM would be the same need not be measured again. A change of one module so measures what loads it,
// and not the others.
//
// lab.Options.Finished is a directory of such files until an experiment is complete; then lab.Run
// removes the experiment's. Here that is a link, so what goes is the link.
type contenders struct{ dir, link string }

func contendersOf(build, finished, experiment string) contenders {
	return contenders{dir: filepath.Join(build, "contenders", experiment), link: filepath.Join(finished, experiment)}
}

// open makes the link. What an interrupted run left in its place is taken over.
func (c contenders) open() error {
	left, err := os.ReadDir(c.link)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("results: %w", err)
	}
	for _, dir := range []string{c.dir, filepath.Dir(c.link)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("results: %w", err)
		}
	}
	target, err := filepath.Abs(c.dir)
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if has, err := os.Readlink(c.link); err == nil && has == target {
		return nil
	}
	for _, e := range left {
		if err := os.Rename(filepath.Join(c.link, e.Name()), filepath.Join(c.dir, e.Name())); err != nil {
			return fmt.Errorf("results: %w", err)
		}
	}
	if err := os.RemoveAll(c.link); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if err := os.Symlink(target, c.link); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}

// prune removes what contenders had in VMs before the last. Of each contender the newest file stays.
func (c contenders) prune() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	newest := map[string]fs.FileInfo{} // by case and scheduler
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("results: %w", err)
		}
		old := info
		contender := withoutSum(e.Name())
		if have := newest[contender]; have == nil || info.ModTime().After(have.ModTime()) {
			newest[contender], old = info, have
		}
		if old == nil {
			continue
		}
		if err := os.Remove(filepath.Join(c.dir, old.Name())); err != nil {
			return fmt.Errorf("results: %w", err)
		}
	}
	return nil
}

// withoutSum is a file's name without the sum of the VM, CASE.SCHEDULER of CASE.SCHEDULER.SUM.json.
func withoutSum(name string) string {
	name = strings.TrimSuffix(name, ".json")
	return strings.TrimSuffix(name, filepath.Ext(name))
}
