// SPDX-License-Identifier: MIT

package guest

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
	"isolio/internal/lab/experiment"
	"isolio/internal/plan"
)

// modelDisks is where modeldisk's disks are in configfs.
const modelDisks = "sys/kernel/config/modeldisk"

// createModelDisk returns the steps that make the disk, through configfs;
// their undoing removes it. The model comes first, as it brings its parameters
// along, then the preset, which sets them.
func (s System) createModelDisk(name string, d experiment.Device) ([]plan.Step, error) {
	m := d.Model
	top := s.Path(modelDisks)
	if _, err := os.Stat(top); errors.Is(err, fs.ErrNotExist) {
		return nil, failure.Unsupportedf("%s is not there: load modeldisk.ko (`make setup` builds it, `isolio kmod load` loads it), and mount configfs", top)
	} else if err != nil {
		return nil, err
	}
	dir := filepath.Join(top, name)
	steps := []plan.Step{makeConfig(dir)}
	set := func(attribute, value string) {
		path := filepath.Join(dir, attribute)
		steps = append(steps, plan.Step{
			Path: path, Value: value, Name: "modeldisk/" + attribute,
			Explain: func(err error) error { return explainAttribute(top, path, err) },
		})
	}
	set("model", m.Name)
	if m.Preset != "" {
		set("preset", m.Preset)
	}
	for _, param := range slices.Sorted(maps.Keys(m.Params)) {
		set(filepath.Join(m.Name, param), strconv.FormatInt(m.Params[param], 10))
	}
	if d.SizeMiB > 0 {
		set("size_mib", strconv.Itoa(d.SizeMiB))
	}
	set("scale", strconv.Itoa(m.Scale))
	set("seed", strconv.FormatInt(m.Seed, 10))
	set("queues", strconv.Itoa(d.Queues))
	set("poll_queues", strconv.Itoa(m.PollQueues))
	set("tags", strconv.Itoa(d.Tags))
	set("memory_backed", digit(m.MemoryBacked))
	set("write_cache", digit(m.WriteCache))
	set("discard", digit(m.Discard))
	set("power", "1")
	steps[len(steps)-1].Undo = "0"
	return steps, nil
}

func digit(on bool) string {
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

// preset is the preset that a modeldisk has, or had before parameters
// were changed.
func (s System) preset(name string) (string, error) {
	text, err := os.ReadFile(s.Path(modelDisks, name, "preset"))
	preset, _, _ := strings.Cut(string(text), " ") // "NAME (changed)"
	return strings.TrimSpace(preset), err
}

// Stat reads what a modeldisk counts about itself, nil for another kind of
// disk. A line is a name and a number.
func (d *Disk) Stat() (map[string]uint64, error) {
	return figures(d.sys.Path(modelDisks, d.Name, "stat"))
}

// Overtaken reads the delay counts of the requests that a modeldisk completed; nil
// for another kind of disk. A line is the lowest delay count of a bucket, and the
// number of requests in it.
func (d *Disk) Overtaken() (map[string]uint64, error) {
	return figures(d.sys.Path(modelDisks, d.Name, "overtaken"))
}

// GuardStat reads what the starvation guard of the disk's scheduler counts,
// nil for a scheduler without one, or with it in debugfs. Its counts by delay are left out: a
// modeldisk has them for any scheduler.
func (d *Disk) GuardStat() (map[string]uint64, error) {
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
