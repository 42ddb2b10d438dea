// SPDX-License-Identifier: MIT

// Package recovery knows what `isolio bench` may leave on a machine when it is killed:
// processes, cgroups, a mounted file system, a disk's scheduler and tunables. It is
// written down before anything is changed, and compared with the machine afterwards.
package recovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/lab/guest"
	"isolio/internal/plan"
)

// Command takes back what a bench that was killed has left.
const Command = "isolio bench --recover"

// Record is what is written down, as JSON, in a file for each disk.
type Record struct {
	Schema     int    `json:"schema"`
	PID        int    `json:"pid"`
	Experiment string `json:"experiment"`
	// Disk is its name. Its number and the kernel's count of disks tell it from
	// another one that has the name later.
	Disk    string `json:"disk"`
	MajMin  string `json:"majmin"`
	Diskseq string `json:"diskseq,omitempty"`
	// Queue is what files of the disk's queue held, in the order in which they are
	// written back.
	Queue []Setting `json:"queue"`
	// Groups are the cgroups that the bench makes, parents first.
	Groups []string `json:"groups"`
	// Mounts are where it mounts file systems.
	Mounts []string `json:"mounts,omitempty"`
	// Files are other files that it writes.
	Files []Written `json:"files,omitempty"`
	// Dir has all of its other files.
	Dir string `json:"dir"`
}

// Setting is a file below the disk's directory in /sys/block, and its value.
type Setting struct {
	File  string `json:"file"`
	Value string `json:"value"`
}

// Written is a file that is written, with what it held, and what to write to have that
// again.
type Written struct {
	Path string `json:"path"`
	Held string `json:"held"`
	Undo string `json:"undo"`
}

// Kept is a record as long as its bench runs. Its file is locked meanwhile.
type Kept struct {
	Record
	root string
	file *os.File
}

// dirOf is where records of the machine below root are. A boot empties it.
func dirOf(root string) string { return filepath.Join("/", root, "run/isolio/bench") }

// attributes are files of a queue that a change of scheduler may change as well. The
// scheduler comes first, and nr_requests after it.
var attributes = []string{"scheduler", "nr_requests", "read_ahead_kb", "wbt_lat_usec", "rq_affinity", "nomerges", "iostats"}

// tunables is the directory of the scheduler's own.
const tunables = "queue/iosched"

// Keep writes down what the steps are about to change. Nothing was changed yet. dir is
// where the bench has its temporary files.
func Keep(root string, d *block.Device, experiment string, steps []plan.Step, dir string) (*Kept, error) {
	if err := os.MkdirAll(dirOf(root), 0o755); err != nil {
		return nil, fmt.Errorf("note what %s is to have again: %w", d.Name, err)
	}
	file, err := os.OpenFile(filepath.Join(dirOf(root), d.Name+".json"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("note what %s is to have again: %w", d.Name, err)
	}
	k := &Kept{root: root, file: file}
	if err := k.begin(d, experiment, steps, dir); err != nil {
		file.Close()
		return nil, err
	}
	return k, nil
}

func (k *Kept) begin(d *block.Device, experiment string, steps []plan.Step, dir string) error {
	before, err := claim(k.file)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return failure.Usagef("device %s: another `isolio bench` uses it%s; wait for its end", d.Name, byProcess(before))
	}
	if err != nil {
		return err
	}
	if before != nil {
		return failure.Usagef("device %s: a bench of %s was killed%s, and what it changed is there still; `%s` takes it back",
			before.Disk, before.Experiment, byProcess(before), Command)
	}
	k.Record = Record{Schema: 1, PID: os.Getpid(), Experiment: experiment, Disk: d.Name, MajMin: d.MajMin, Dir: dir}
	sys := block.System{Root: k.root}
	k.Diskseq = text(sys.Path("sys/block", d.Name, "diskseq"))
	for _, name := range attributes {
		if value := valueOf(sys, d.Name, filepath.Join("queue", name)); value != "" {
			k.Queue = append(k.Queue, Setting{filepath.Join("queue", name), value})
		}
	}
	own, _ := os.ReadDir(sys.Path("sys/block", d.Name, tunables)) // a disk without a scheduler has none
	for _, entry := range own {
		info, err := entry.Info()
		if err != nil || info.Mode().Perm()&0o200 == 0 {
			continue
		}
		if value := valueOf(sys, d.Name, filepath.Join(tunables, entry.Name())); value != "" {
			k.Queue = append(k.Queue, Setting{filepath.Join(tunables, entry.Name()), value})
		}
	}
	k.add(sys.Path("sys/fs/cgroup"), sys.Path("sys/block"), steps)
	written, err := json.MarshalIndent(k.Record, "", "\t")
	if err != nil {
		return err
	}
	if _, err := k.file.WriteAt(append(written, '\n'), 0); err != nil {
		return fmt.Errorf("note what %s is to have again: %w", d.Name, err)
	}
	return nil
}

// add sorts the steps by what takes them back.
func (k *Kept) add(groups, disks string, steps []plan.Step) {
	for _, s := range steps {
		switch {
		case s.Mkdir && below(groups, s.Path):
			if !slices.Contains(k.Groups, s.Path) {
				k.Groups = append(k.Groups, s.Path)
			}
		case s.Mount != "":
			if !slices.Contains(k.Mounts, s.Path) {
				k.Mounts = append(k.Mounts, s.Path)
			}
		case s.Mkdir, s.Undo == "", below(disks, s.Path): // in Dir, or nothing, or among Queue
		case !slices.ContainsFunc(k.Files, func(w Written) bool { return w.Path == s.Path && w.Undo == s.Undo }):
			k.Files = append(k.Files, Written{s.Path, text(s.Path), s.Undo})
		}
	}
}

func below(dir, path string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }

// byProcess names the process of a record.
func byProcess(r *Record) string {
	if r == nil || r.PID == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", r.PID)
}

// claim locks a record's file, and reads what a bench before has left there, nil for
// nothing. With EWOULDBLOCK its bench runs.
func claim(file *os.File) (*Record, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	content, readErr := os.ReadFile(file.Name())
	if readErr != nil {
		return nil, errors.Join(err, readErr)
	}
	var r Record
	// All of it is written before anything is changed: half of one tells of nothing.
	if json.Unmarshal(content, &r) != nil || r.Disk == "" {
		return nil, err
	}
	return &r, err
}

// End takes back what is there still, and forgets the record. With an error, the record
// stays.
func (k *Kept) End() error {
	defer k.file.Close()
	for _, a := range k.Decide(k.root) {
		if err := a.Do(); err != nil {
			return fmt.Errorf("%w; `%s` tries again", err, Command)
		}
	}
	return os.Remove(k.file.Name())
}

// Release leaves the record, and what there is to take back, to another process.
func (k *Kept) Release() { k.file.Close() }

// Find returns the records of benches that were killed, and the names of disks whose
// bench runs.
func Find(root string) (killed []*Kept, running []string, err error) {
	names, err := filepath.Glob(filepath.Join(dirOf(root), "*.json"))
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		r, err := claim(file)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			file.Close()
			running = append(running, strings.TrimSuffix(filepath.Base(name), ".json"))
		case err != nil:
			file.Close()
			return nil, nil, err
		case r == nil:
			err := os.Remove(name)
			file.Close()
			if err != nil {
				return nil, nil, err
			}
		default:
			killed = append(killed, &Kept{Record: *r, root: root, file: file})
		}
	}
	return killed, running, nil
}

// text is what a file holds, without the space around it; "" for one that cannot be read.
func text(path string) string {
	content, _ := os.ReadFile(path)
	return strings.TrimSpace(string(content))
}

// valueOf is what to write to a file of a disk's queue to have what it has now.
func valueOf(sys block.System, disk, file string) string {
	now := text(sys.Path("sys/block", disk, file))
	if file == "queue/scheduler" {
		active := "none" // a disk without queues of its own shows just "none"
		for word := range strings.FieldsSeq(now) {
			if bare := strings.Trim(word, "[]"); bare != word {
				active = bare
			}
		}
		return active
	}
	return block.TunableNow(filepath.Base(file), now)
}

// groupsOf is the cgroup tree of the machine below root.
func groupsOf(root string) guest.Cgroups {
	return guest.Cgroups{Root: block.System{Root: root}.Path("sys/fs/cgroup")}
}
