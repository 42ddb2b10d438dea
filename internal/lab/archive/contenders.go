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
// removes the experiment's. Here that is a link, so what goes is the link. It is relative, so a copy
// of the tree has files of its own. An option of lab.Run that leaves them would say it better; but
// lab is part of the engine's sum, and each result would be old for it.
type contenders struct{ dir, link string }

func contendersOf(build, finished, experiment string) contenders {
	return contenders{dir: filepath.Join(build, "contenders", experiment), link: filepath.Join(finished, experiment)}
}

// open makes the link. What an interrupted run left in its place is taken over; what another link
// points to stays where it is.
func (c contenders) open() error {
	for _, dir := range []string{c.dir, filepath.Dir(c.link)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("results: %w", err)
		}
	}
	target, err := relative(filepath.Dir(c.link), c.dir)
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if has, err := os.Readlink(c.link); err == nil && has == target {
		return nil
	}
	if err := c.takeOver(); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if err := os.Symlink(target, c.link); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}

// relative is the path from one directory to another, by their real places: ".." leaves the place
// that a link leads to, not the link.
func relative(from, to string) (string, error) {
	var places [2]string
	for i, dir := range []string{from, to} {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		if places[i], err = filepath.EvalSymlinks(abs); err != nil {
			return "", err
		}
	}
	return filepath.Rel(places[0], places[1])
}

// takeOver leaves nothing in the link's place: files of a directory go to c.dir, a link is removed.
func (c contenders) takeOver() error {
	there, err := os.Lstat(c.link)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if there.IsDir() {
		left, err := os.ReadDir(c.link)
		if err != nil {
			return err
		}
		for _, e := range left {
			if err := os.Rename(filepath.Join(c.link, e.Name()), filepath.Join(c.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(c.link)
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
