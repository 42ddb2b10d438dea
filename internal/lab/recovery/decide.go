// SPDX-License-Identifier: MIT

package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"isolio/internal/host/block"
	"isolio/internal/lab/guest"
	"isolio/internal/plan"
	"isolio/internal/plan/shell"
)

// Action takes one thing back.
type Action struct {
	// Says is what it does, in a line. Shell is that as a command.
	Says, Shell string
	// Do does it.
	Do func() error
}

// Decide compares the record with the machine below root, and says what is to be done in
// order. Of what is as it was there is nothing. It changes nothing.
func (r *Record) Decide(root string) []Action {
	var all []Action
	tree := groupsOf(root)
	for _, group := range slices.Backward(r.Groups) {
		if processes, err := tree.Procs(nameOf(tree, group)); err == nil && len(processes) > 0 {
			all = append(all, kill(tree, group))
		}
	}
	for _, at := range slices.Backward(r.Mounts) {
		if isMounted(root, at) {
			all = append(all, Action{"unmounted " + at, shell.Join("umount", at), func() error { return plan.OS{}.Unmount(at) }})
		}
	}
	for _, group := range slices.Backward(r.Groups) {
		if _, err := os.Stat(group); err == nil {
			all = append(all, Action{"removed the cgroup " + group, shell.Join("rmdir", group), func() error { return plan.OS{}.Rmdir(group) }})
		}
	}
	for _, w := range slices.Backward(r.Files) {
		if now := text(w.Path); now != w.Held {
			all = append(all, Action{
				fmt.Sprintf("%s: wrote %q, as it was %q", w.Path, w.Undo, w.Held), shell.Echo(w.Undo, w.Path),
				func() error { return write(w.Path, w.Undo) },
			})
		}
	}
	all = append(all, r.queue(block.System{Root: root})...)
	if r.Dir != "" {
		if _, err := os.Stat(r.Dir); err == nil {
			all = append(all, Action{"removed " + r.Dir, shell.Join("rm", "-r", r.Dir), func() error { return r.removeDir(root) }})
		}
	}
	return all
}

// queue is about the disk, if that is there and the same. A scheduler's tunables are
// compared once the scheduler is back.
func (r *Record) queue(sys block.System) []Action {
	dir := sys.Path("sys/block", r.Disk)
	if text(filepath.Join(dir, "dev")) != r.MajMin || text(filepath.Join(dir, "diskseq")) != r.Diskseq {
		return nil
	}
	back := false // the scheduler is another one, which has other tunables
	var all []Action
	for _, s := range r.Queue {
		now := valueOf(sys, r.Disk, s.File)
		own := strings.HasPrefix(s.File, tunables+"/")
		// With the scheduler its defaults come, of nr_requests as well.
		reset := back && (own || s.File == "queue/nr_requests")
		if now == s.Value && !reset {
			continue
		}
		back = back || s.File == "queue/scheduler"
		path := filepath.Join(dir, s.File)
		says := fmt.Sprintf("%s: %s %s", r.Disk, strings.TrimPrefix(s.File, "queue/"), s.Value)
		if now != s.Value && !own {
			says += ", was " + now
		}
		all = append(all, Action{says, shell.Echo(s.Value, path), func() error {
			if valueOf(sys, r.Disk, s.File) == s.Value {
				return nil
			}
			return write(path, s.Value)
		}})
	}
	return all
}

// write writes to a kernel file. One that is not there any more has nothing to take back.
func write(path, value string) error {
	err := plan.OS{}.Write(path, value)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", value, path, err)
	}
	return nil
}

// How long killed processes may take to be gone, and the time between two looks.
const (
	killTime = 10 * time.Second
	killLook = 20 * time.Millisecond
)

// nameOf is a cgroup's path below the tree's root.
func nameOf(tree guest.Cgroups, group string) string { return strings.TrimPrefix(group, tree.Root+"/") }

// kill ends what is in a cgroup.
func kill(tree guest.Cgroups, group string) Action {
	name := nameOf(tree, group)
	return Action{"ended the processes in " + group, shell.Echo("1", filepath.Join(group, "cgroup.kill")), func() error {
		for end := time.Now().Add(killTime); ; time.Sleep(killLook) {
			processes, err := tree.Procs(name)
			if err != nil || len(processes) == 0 {
				return err
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s: processes %v are there %s after they were killed: their disk may hang", group, processes, killTime)
			}
			if err := tree.Kill(name); err != nil {
				return err
			}
		}
	}}
}

// isMounted reports whether something is mounted at a path.
func isMounted(root, at string) bool {
	for line := range strings.Lines(text(block.System{Root: root}.Path("proc/self/mountinfo"))) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == at {
			return true
		}
	}
	return false
}

// removeDir removes the temporary files, and never what is mounted below them.
func (r *Record) removeDir(root string) error {
	for _, at := range r.Mounts {
		if isMounted(root, at) {
			return fmt.Errorf("%s is still mounted", at)
		}
	}
	return os.RemoveAll(r.Dir)
}
