// SPDX-License-Identifier: MIT

package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"isolio/internal/failure"
	"isolio/internal/plan"
)

// Cgroups is the cgroup v2 tree that a load runs in. Changes are steps of a plan.
type Cgroups struct {
	// Root is where it is mounted, such as /sys/fs/cgroup.
	Root string
}

// Has reports whether a file is in the root group, such as "io.cost.qos".
func (t Cgroups) Has(file string) bool {
	_, err := os.Stat(t.Path(file))
	return err == nil
}

// Path is where a group or file of the tree is.
func (t Cgroups) Path(elem ...string) string {
	return filepath.Join(append([]string{t.Root}, elem...)...)
}

// words reads a file of the root group that holds words.
func (t Cgroups) words(file string) ([]string, error) {
	text, err := os.ReadFile(t.Path(file))
	return strings.Fields(string(text)), err
}

// Set returns the step that writes value to a file of a group.
func (t Cgroups) Set(group, file, value string) plan.Step {
	return plan.Step{Path: t.Path(group, file), Value: value, Name: filepath.Join(filepath.Base(group), file)}
}

// counters are what a group, and those below it, submitted to one disk since the group was
// made. A request that the kernel splits counts once for each of its parts; those that a
// scheduler merges count one by one.
type counters struct {
	ReadBytes, WriteBytes, ReadIOs, WriteIOs uint64
}

// member is the one that has the kernel's name, nil for none.
func (s *counters) member(name string) *uint64 {
	switch name {
	case "rbytes":
		return &s.ReadBytes
	case "wbytes":
		return &s.WriteBytes
	case "rios":
		return &s.ReadIOs
	case "wios":
		return &s.WriteIOs
	}
	return nil
}

// Enable returns the steps that give the root group's children the controllers
// that they do not have.
func (t Cgroups) Enable(controllers []string) ([]plan.Step, error) {
	enabled, err := t.words("cgroup.subtree_control")
	if err != nil {
		return nil, err
	}
	var steps []plan.Step
	for _, name := range controllers {
		if !slices.Contains(enabled, name) {
			steps = append(steps, plan.Step{Path: t.Path("cgroup.subtree_control"), Value: "+" + name, Undo: "-" + name})
		}
	}
	return steps, nil
}

// Make returns the steps that make a group with children, and everything on
// the way to them. leaves are paths below group; all of them, and group itself,
// must not exist yet. Groups on the way pass the controllers on.
func (t Cgroups) Make(group string, leaves, controllers []string) []plan.Step {
	steps := t.inner(group, controllers)
	made := map[string]bool{}
	for _, leaf := range leaves {
		for i := range leaf {
			if dir := leaf[:i]; leaf[i] == '/' && !made[dir] {
				made[dir] = true
				steps = append(steps, t.inner(filepath.Join(group, dir), controllers)...)
			}
		}
		steps = append(steps, t.mkdir(filepath.Join(group, leaf)))
	}
	return steps
}

// inner makes a group that passes the controllers on.
func (t Cgroups) inner(group string, controllers []string) []plan.Step {
	steps := []plan.Step{t.mkdir(group)}
	for _, name := range controllers {
		steps = append(steps, plan.Step{Path: t.Path(group, "cgroup.subtree_control"), Value: "+" + name})
	}
	return steps
}

func (t Cgroups) mkdir(group string) plan.Step {
	return plan.Step{Mkdir: true, Path: t.Path(group), Explain: func(err error) error {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("cgroup %s is there already: is the same experiment running? If not, remove it with rmdir", t.Path(group))
		}
		return err
	}}
}

// Open opens a group's directory, to start a process in it.
func (t Cgroups) Open(group string) (*os.File, error) {
	return os.OpenFile(t.Path(group), os.O_RDONLY|syscall.O_DIRECTORY, 0)
}

// Kill kills every process in a group and below. Kernels before 5.14, which
// cannot do that, have the group's own processes killed one by one.
func (t Cgroups) Kill(group string) error {
	err := plan.OS{}.Write(t.Path(group, "cgroup.kill"), "1")
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	pids, err := t.Procs(group)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill %d of %s: %w", pid, t.Path(group), err)
		}
	}
	return nil
}

// Freeze stops a group's processes where they are, and no longer with on
// false. What they have sent to a disk completes.
func (t Cgroups) Freeze(group string, on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	err := plan.OS{}.Write(t.Path(group, "cgroup.freeze"), value)
	if errors.Is(err, fs.ErrNotExist) {
		return failure.Unsupportedf("pause: %w; Linux 5.2 or newer is needed", err)
	}
	return err
}

// Procs are the processes in a group, without those that are dead but not yet
// waited for.
func (t Cgroups) Procs(group string) ([]int, error) {
	file := t.Path(group, "cgroup.procs")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil || pid <= 1 { // 0 is a process outside this PID namespace
			return nil, fmt.Errorf("%s: %q is not a process of this machine", file, word)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Counters reads a group's counters for the disk "MAJ:MIN". They are all 0
// until the group's first request.
func (t Cgroups) Counters(group, majMin string) (counters, error) {
	r, err := t.OpenCounters(group, majMin)
	if err != nil {
		return counters{}, err
	}
	defer r.Close()
	return r.Read()
}

// counterReader reads a group's counters for one disk again and again, with one
// system call each time.
type counterReader struct {
	file   string
	fd     int
	majMin []byte
	text   []byte // room for the file
}

// OpenCounters opens a group's counters for the disk "MAJ:MIN".
func (t Cgroups) OpenCounters(group, majMin string) (*counterReader, error) {
	file := t.Path(group, "io.stat")
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: file, Err: err}
	}
	return &counterReader{file: file, fd: fd, majMin: []byte(majMin), text: make([]byte, 4096)}, nil
}

// Close closes the file.
func (r *counterReader) Close() {
	_ = unix.Close(r.fd) // nothing was written
}

// Read reads the counters as they are.
func (r *counterReader) Read() (counters, error) {
	for {
		n, err := unix.Pread(r.fd, r.text, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return counters{}, &fs.PathError{Op: "read", Path: r.file, Err: err}
		case n == len(r.text): // many disks
			r.text = make([]byte, 2*len(r.text))
		default:
			return r.parse(r.text[:n])
		}
	}
}

func (r *counterReader) parse(text []byte) (s counters, err error) {
	for line := range bytes.Lines(text) {
		disk, rest, _ := bytes.Cut(bytes.TrimSpace(line), []byte{' '})
		if !bytes.Equal(disk, r.majMin) {
			continue
		}
		for word := range bytes.FieldsSeq(rest) {
			name, value, _ := bytes.Cut(word, []byte{'='})
			to := s.member(string(name))
			if to == nil { // discards, and what schedulers and controllers add
				continue
			}
			if *to, err = strconv.ParseUint(string(value), 10, 64); err != nil {
				return counters{}, fmt.Errorf("%s: %s: %q is not a number", r.file, r.majMin, word)
			}
		}
	}
	return s, nil
}

// Writeback is how many bytes of a group's part of the page cache, and of those below it,
// are on their way to disks: submitted, or about to be, and not completed. 0 without
// the memory controller, which counts them.
func (t Cgroups) Writeback(group string) (uint64, error) {
	text, err := os.ReadFile(t.Path(group, "memory.stat"))
	if failure.IsGone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "file_writeback" {
			n, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: file_writeback: %q is not a number", t.Path(group, "memory.stat"), value)
			}
			return n, nil
		}
	}
	return 0, nil
}

// CPUTime is how long a group's processes, and those below it, have computed, in user and
// in kernel space. Every group has it, whatever controllers it has; 0 where there is no group.
func (t Cgroups) CPUTime(group string) (user, system time.Duration, err error) {
	text, err := os.ReadFile(t.Path(group, "cpu.stat"))
	if failure.IsGone(err) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		to, known := map[string]*time.Duration{"user_usec": &user, "system_usec": &system}[name]
		if !known {
			continue
		}
		us, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %s: %q is not a number", t.Path(group, "cpu.stat"), name, value)
		}
		*to = time.Duration(us) * time.Microsecond
	}
	return user, system, nil
}
