// SPDX-License-Identifier: MIT

// Package daemon keeps io.kyber.weight in step with what is asked for: in a file
// of rules, or in io.bfq.weight and io.weight, which container runtimes and
// systemd write. What they ask for gets through there in several scales; the
// daemon restores what weights were meant to be to each other.
//
// All that it knows is in the kernel: weights, and beside them marks that tell
// which were its own. It can be killed and started at any moment.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path"
	"strconv"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/container"
	"isolio/internal/host/rule"
	"isolio/internal/host/weight"
	"isolio/internal/plan"
)

// Daemon keeps the weights of one machine.
type Daemon struct {
	// Root is the machine's root directory, "" for /.
	Root string
	// RuleFile is where the rules are.
	RuleFile string
	// Every is how often everything is looked at again. What happens between is
	// noticed by inotify, and disks are looked at on their own; this is for the
	// rest, such as a container's file that was changed.
	Every time.Duration
	Log   *slog.Logger

	tree    cgroup.Tree
	config  rule.Config
	marks   marks
	watcher *fsnotify.Watcher // nil for a daemon that looks once
	groups  []string          // of the last look
	finder  *container.Finder
	disks   map[string]string // with the scheduler
	// containers are those that run.
	containers []container.Container
	server     *http.Server // of metrics, nil for none
	serving    string       // the address that they are served on
	// failed are cgroups whose weight could not be set, by the error, so that it
	// is logged once.
	failed map[string]string
	// blind is what was told of rules that cannot know their containers.
	blind map[string]bool
}

// Change is one weight that was written, or would be.
type Change struct {
	plan.Step
	Group, Why string
}

// Open finds the cgroup tree and reads the rules.
func (d *Daemon) Open() error {
	tree, err := cgroup.Find(d.Root)
	if err != nil {
		return err
	}
	if err := tree.Check(); err != nil {
		return err
	}
	d.tree = tree
	d.finder = &container.Finder{Root: d.Root}
	d.failed, d.blind = map[string]string{}, map[string]bool{}
	d.config, err = rule.Load(d.RuleFile)
	return err
}

// Reload reads the rules again. If something is wrong with them, those in force
// stay.
func (d *Daemon) Reload() error {
	config, err := rule.Load(d.RuleFile)
	if err != nil {
		return fmt.Errorf("%w; the rules in force stay", err)
	}
	d.config, d.blind = config, map[string]bool{}
	return nil
}

// look looks at cgroups, and returns what is to be written. marked is
// called before with each cgroup's mark; nil to change nothing.
func (d *Daemon) look(at scope, marked func(dir string, next mark) error) ([]Change, error) {
	m, err := d.machine(&at)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, group := range d.groups {
		if !at.has(group) {
			continue
		}
		more, err := d.lookAt(m, group, marked)
		if err != nil && !gone(err) {
			return changes, err
		}
		changes = append(changes, more...)
	}
	return changes, nil
}

// machine is what is known now. It adds to the scope those cgroups of which
// something else is known than before.
func (d *Daemon) machine(at *scope) (*machine, error) {
	if at.all || at.moved {
		if err := d.list(at); err != nil {
			return nil, err
		}
	}
	disks, err := kyberDisks(block.System{Root: d.Root})
	d.disks = disks
	return newMachine(d.config.Rules, disks, d.containers), err
}

// walks is how often the tree is walked at most for what comes meanwhile.
const walks = 4

// walk finds out which cgroups there are. New ones are watched before they are
// looked at, and so is what came in them before they were watched.
func (d *Daemon) walk() (groups []string, err error) {
	for range walks {
		groups, err = d.tree.Groups()
		if err != nil || d.watch(groups) == 0 {
			break
		}
	}
	return groups, err
}

// list finds out which cgroups there are, and whose.
func (d *Daemon) list(at *scope) error {
	groups, err := d.walk()
	if err != nil {
		return err
	}
	before := make(map[string]bool, len(d.groups))
	for _, group := range d.groups {
		before[group] = true
	}
	for _, group := range groups { // parents come before children
		if !before[group] || at.has(path.Dir(group)) {
			at.add(group)
		}
		delete(before, group)
	}
	for group := range before {
		d.marks.forget(d.tree.Path(group))
		delete(d.failed, group)
	}
	d.groups = groups
	find := d.finder.ListNew
	if at.all {
		find = d.finder.List
	}
	containers, err := find(groups)
	if err != nil {
		return err
	}
	for _, blind := range d.config.Blind(containers) {
		if !d.blind[blind] {
			d.blind[blind] = true
			d.Log.Warn("rules", "file", d.RuleFile, "warning", blind)
		}
	}
	at.addChanged(d.containers, containers)
	d.containers = containers
	return nil
}

// lookAt decides what is to be written to one cgroup.
func (d *Daemon) lookAt(m *machine, group string, marked func(string, mark) error) ([]Change, error) {
	have, there, err := d.tree.Weights(group, weight.Kyber.File())
	if err != nil || !there {
		return nil, err
	}
	want, err := m.want(d.tree, group)
	if err != nil {
		return nil, err
	}
	dir := d.tree.Path(group)
	last := d.marks.get(dir)
	changes, next := decide(want.Weights, have, last)
	if marked != nil && !maps.Equal(last, next) {
		if err := marked(dir, next); err != nil {
			return nil, fmt.Errorf("mark %s: %w", dir, err)
		}
	}
	var steps []Change
	for _, c := range changes {
		majMin := c.disk
		if majMin == everyDisk {
			majMin = ""
		}
		step, err := d.tree.SetWeight(group, weight.Kyber.File(), majMin, c.weight)
		if err != nil {
			return nil, err
		}
		why := want.Why
		if c.weight == 0 {
			why = "nobody asks for it any more"
		}
		steps = append(steps, Change{Step: step, Group: group, Why: why})
	}
	return steps, nil
}

func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// Preview returns what a look at everything would write, and changes nothing.
func (d *Daemon) Preview() ([]Change, error) {
	return d.look(scope{all: true}, nil)
}

// Once looks at every cgroup and writes what is to be written. It returns how
// many weights it wrote.
func (d *Daemon) Once(ctx context.Context) (int, error) {
	return d.write(ctx, scope{all: true})
}

// write looks at cgroups and writes what is to be written. A weight that cannot
// be written is logged, and tried again by the next look.
func (d *Daemon) write(ctx context.Context, at scope) (int, error) {
	changes, err := d.look(at, d.marks.set)
	if err != nil {
		return 0, err
	}
	nr := 0
	for i := range changes {
		c := &changes[i]
		err := plan.On(plan.OS{}).Apply([]plan.Step{c.Step})
		switch {
		case err == nil:
			nr++
			delete(d.failed, c.Group)
			d.Log.InfoContext(ctx, "weight", "cgroup", c.Group, "value", c.Value, "before", c.Undo, "why", c.Why)
		case gone(err):
		case d.failed[c.Group] != err.Error():
			d.failed[c.Group] = err.Error()
			d.Log.ErrorContext(ctx, "weight", "cgroup", c.Group, "value", c.Value, "error", err.Error())
		}
	}
	return nr, nil
}

// Status is one line about what the daemon does.
func (d *Daemon) Status() string {
	return strconv.Itoa(len(d.groups)) + " cgroups, " + strconv.Itoa(len(d.containers)) + " containers, " +
		strconv.Itoa(len(d.config.Rules)) + " rules"
}
