// SPDX-License-Identifier: MIT

package guest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"isolio/internal/failure"
	"isolio/internal/plan"
)

// System is where the kernel's file systems are.
type System struct {
	// Root is the directory that holds sys, proc and dev; "" stands for /.
	Root string
}

// Path is a path below the root.
func (s System) Path(elem ...string) string {
	return filepath.Join(append([]string{cmp.Or(s.Root, "/")}, elem...)...)
}

// Disk is the disk under load.
type Disk struct {
	Name      string // as in /sys/block, such as "nvme0n1"
	Node      string // path of its device node
	MajMin    string // "259:0"
	SizeBytes int64
	About     string // in one line
	// Check makes sure, before a run, that the node is that disk; nil for one that the run made.
	Check func() error

	sys System
}

// sectorBytes is the unit of sysfs, whatever the disk's own sectors are.
const sectorBytes = 512

// disk is one that was made.
func (s System) disk(name string) (*Disk, error) {
	d := &Disk{Name: name, Node: s.Path("dev", name), sys: s}
	var err error
	if d.MajMin, err = d.read("dev"); err != nil {
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	sectors, err := d.readInt("size")
	d.SizeBytes = int64(sectors) * sectorBytes
	return d, err
}

// path is a file of the disk in sysfs.
func (d *Disk) path(elem ...string) string {
	return d.sys.Path(append([]string{"sys/block", d.Name}, elem...)...)
}

func (d *Disk) read(elem ...string) (string, error) {
	text, err := os.ReadFile(d.path(elem...))
	return strings.TrimSpace(string(text)), err
}

func (d *Disk) readInt(elem ...string) (int, error) {
	text, err := d.read(elem...)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number", d.path(elem...), text)
	}
	return n, nil
}

// nrRequests is how many requests a hardware queue's scheduler holds at once.
const nrRequests = "queue/nr_requests"

// setNrRequests returns the step that gives the active scheduler room for n requests.
// Without a scheduler the device's own tags are the limit, and more is refused.
func (d *Disk) setNrRequests(n int) plan.Step {
	return plan.Step{Path: d.path(nrRequests), Value: strconv.Itoa(n), Name: nrRequests}
}

// keepNrRequests returns a step that changes nothing, and whose undoing brings back today's
// nr_requests: a change of scheduler resets it. It comes before such a change, and so is
// undone after it.
func (d *Disk) keepNrRequests() (plan.Step, error) {
	n, err := d.readInt(nrRequests)
	if err != nil {
		return plan.Step{}, err
	}
	s := d.setNrRequests(n)
	s.Name, s.Undo = "", s.Value
	return s, nil
}

// schedulers reads the active scheduler and all that are loaded.
func (d *Disk) schedulers() (active string, loaded []string, err error) {
	text, err := d.read("queue/scheduler")
	if err != nil {
		return "", nil, err
	}
	loaded = strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("[] ", r) })
	// A disk without queues of its own shows just "none".
	return cmp.Or(bracketed(text), "none"), loaded, nil
}

// bracketed is the word in brackets of a file that shows what it takes, "" if there is none.
func bracketed(text string) string {
	for word := range strings.FieldsSeq(text) {
		if bare := strings.Trim(word, "[]"); bare != word {
			return bare
		}
	}
	return ""
}

// setScheduler returns the steps that make a scheduler active; none if it is. Writing a name
// loads the module of that name, where there is a modprobe.
func (d *Disk) setScheduler(name string) ([]plan.Step, error) {
	active, loaded, err := d.schedulers()
	if err != nil || active == name {
		return nil, err
	}
	return []plan.Step{{
		Path: d.path("queue/scheduler"), Value: name, Undo: active, Name: "queue/scheduler",
		Explain: func(cause error) error {
			if slices.Contains(loaded, name) {
				return cause
			}
			return failure.Unsupportedf("device %s: scheduler %s is not there (available: %s); load it with `modprobe %s-iosched`, "+
				"or `modprobe bfq` for bfq: %w", d.Name, name, strings.Join(loaded, ", "), name, cause)
		},
	}}, nil
}

// tunables is the directory of the active scheduler's tunables.
const tunables = "queue/iosched"

// setTunable returns the step that sets a tunable of a scheduler, which is or will be active
// then. Another scheduler's coming takes the value with it; only where the scheduler is
// active already is there one to bring back.
func (d *Disk) setTunable(scheduler, name, value string) (plan.Step, error) {
	file := filepath.Join(tunables, name)
	explain := func(cause error) error { return d.explainTunable(scheduler, name, value, cause) }
	s := plan.Step{Path: d.path(file), Value: value, Name: file, Explain: explain}
	active, _, err := d.schedulers()
	if err != nil {
		return plan.Step{}, err
	}
	if active == scheduler {
		now, err := d.read(file)
		if err != nil {
			return s, explain(err)
		}
		s.Undo = inForce(now)
	}
	return s, nil
}

// inForce is what to write to a tunable that shows a text to have that again: the word in
// brackets, the figures of a model of costs that the user gave, or "auto" for other models.
func inForce(shown string) string {
	if figures, ok := strings.CutPrefix(shown, "user "); ok {
		return figures
	}
	if strings.HasPrefix(shown, "auto ") {
		return "auto"
	}
	return cmp.Or(bracketed(shown), shown)
}

// explainTunable says why a tunable could not be set.
func (d *Disk) explainTunable(scheduler, name, value string, cause error) error {
	switch {
	case errors.Is(cause, syscall.EINVAL), errors.Is(cause, syscall.ERANGE):
		return failure.Usagef("scheduler %s refuses %q for its tunable %s: %w", scheduler, value, name, cause)
	case !errors.Is(cause, fs.ErrNotExist):
		return cause
	}
	var names []string
	entries, _ := os.ReadDir(d.path(tunables)) // one that is not there holds none
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return failure.Usagef("scheduler %s has no tunable %s; allowed: %s", scheduler, name, cmp.Or(strings.Join(names, ", "), "none, it has no tunables"))
}

// movedBytes reads how much was read from the disk and written to it since it is there,
// whatever asked for it.
func (d *Disk) movedBytes() (uint64, error) {
	text, err := d.read("stat")
	if err != nil {
		return 0, err
	}
	// Reads, merged ones, sectors, milliseconds; writes, merged ones, sectors, ...
	words := strings.Fields(text)
	if len(words) < 7 {
		return 0, fmt.Errorf("%s: %d numbers, want 7 or more", d.path("stat"), len(words))
	}
	var sectors uint64
	for _, word := range []string{words[2], words[6]} {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %q is not a number", d.path("stat"), word)
		}
		sectors += n
	}
	return sectors * sectorBytes, nil
}
