// SPDX-License-Identifier: MIT

package block

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"isolio/internal/failure"
	"isolio/internal/plan"
)

// ModelDisk describes a disk of the module modeldisk.
type ModelDisk struct {
	Name   string // of the disk, not yet in use
	Model  string // such as "nvme"
	Preset string // "" for the model's first
	// Params are parameters of the model that differ from the preset's.
	Params     map[string]int64
	SizeMiB    int // 0 for the preset's
	Scale      int
	Seed       int64
	Queues     int // hardware queues
	PollQueues int // hardware queues that are polled
	Tags       int // requests a hardware queue holds

	MemoryBacked, WriteCache, Discard bool
}

// modelDiskTop is where modeldisk's disks are in configfs.
const modelDiskTop = "sys/kernel/config/modeldisk"

// CreateModelDisk returns the steps that make the disk, through configfs;
// their undoing removes it. The model comes first, as it brings its parameters
// along, then the preset, which sets them.
func (s System) CreateModelDisk(m ModelDisk) ([]plan.Step, error) {
	top := s.Path(modelDiskTop)
	if _, err := os.Stat(top); errors.Is(err, fs.ErrNotExist) {
		return nil, failure.Unsupportedf("%s is not there: load modeldisk.ko (`make setup` builds it, `isolio kmod load` loads it), and mount configfs", top)
	} else if err != nil {
		return nil, err
	}
	dir := filepath.Join(top, m.Name)
	steps := []plan.Step{makeConfig(dir)}
	set := func(attribute, value string) {
		path := filepath.Join(dir, attribute)
		steps = append(steps, plan.Step{
			Path: path, Value: value, Name: "modeldisk/" + attribute,
			Explain: func(err error) error { return explainAttribute(top, path, err) },
		})
	}
	set("model", m.Model)
	if m.Preset != "" {
		set("preset", m.Preset)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Params)) {
		set(filepath.Join(m.Model, name), strconv.FormatInt(m.Params[name], 10))
	}
	if m.SizeMiB > 0 {
		set("size_mib", strconv.Itoa(m.SizeMiB))
	}
	set("scale", strconv.Itoa(m.Scale))
	set("seed", strconv.FormatInt(m.Seed, 10))
	set("queues", strconv.Itoa(m.Queues))
	set("poll_queues", strconv.Itoa(m.PollQueues))
	set("tags", strconv.Itoa(m.Tags))
	set("memory_backed", flag(m.MemoryBacked))
	set("write_cache", flag(m.WriteCache))
	set("discard", flag(m.Discard))
	set("power", "1")
	steps[len(steps)-1].Undo = "0"
	return steps, nil
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// makeConfig is the step that makes a disk's directory in configfs.
func makeConfig(dir string) plan.Step {
	return plan.Step{Mkdir: true, Path: dir, Explain: func(err error) error {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already: is another experiment running? If not, remove it with rmdir", dir)
		}
		return err
	}}
}

// explainAttribute says why an attribute did not take a value: it is not
// there, and others are, or it refuses the value.
func explainAttribute(top, path string, err error) error {
	dir, name := filepath.Split(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failure.Usagef("%w; allowed in %s: %s", err, dir, attributes(dir))
	case !errors.Is(err, syscall.EINVAL):
		return err
	case name == "model" || name == "preset":
		if models, readErr := os.ReadFile(filepath.Join(top, "models")); readErr == nil {
			return failure.Usagef("%w; allowed: %s", err, strings.Join(strings.FieldsFunc(string(models), isNewline), "; "))
		}
	}
	return failure.Usagef("%w; the kernel log says what is allowed", err)
}

func isNewline(r rune) bool { return r == '\n' }

// attributes lists the files of a directory, for a message.
func attributes(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "nothing: " + err.Error()
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, ", ")
}

// ModelDiskPreset is the preset that a modeldisk has, or had before parameters
// were changed.
func (s System) ModelDiskPreset(name string) (string, error) {
	text, err := os.ReadFile(s.Path(modelDiskTop, name, "preset"))
	preset, _, _ := strings.Cut(string(text), " ") // "NAME (changed)"
	return strings.TrimSpace(preset), err
}

// Stat reads what a modeldisk counts about itself, nil for another kind of
// disk. A line is a name and a number.
func (d *Device) Stat() (map[string]uint64, error) {
	return figures(d.sys.Path(modelDiskTop, d.Name, "stat"))
}

// Overtaken reads the delay counts of the requests that a modeldisk completed; nil
// for another kind of disk. A line is the lowest delay count of a bucket, and the
// number of requests in it.
func (d *Device) Overtaken() (map[string]uint64, error) {
	return figures(d.sys.Path(modelDiskTop, d.Name, "overtaken"))
}

// GuardStat reads what the starvation guard of the disk's scheduler counts,
// nil for a scheduler without one. Its counts by delay are left out: a
// modeldisk has them for any scheduler.
func (d *Device) GuardStat() (map[string]uint64, error) {
	return figures(d.path(tunables, "guard_stat"), "delay")
}

// figures reads a file of names and numbers, without those of some names; nil
// if there is no such file.
func figures(file string, without ...string) (map[string]uint64, error) {
	text, err := os.ReadFile(file)
	if failure.IsGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	stat := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.Contains(without, name) {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a name and a number", file, strings.TrimSpace(line))
		}
		stat[name] = n
	}
	return stat, nil
}
