// SPDX-License-Identifier: MIT

package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/host/block"
	"isolio/internal/host/enable"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
)

const (
	// followEvery is how often --follow looks for disks. A volume of a pod is given its filesystem
	// and mounted meanwhile.
	followEvery = 5 * time.Second
	// retryLooks is how many of these looks a disk waits that could not be enabled: its module may
	// be installed.
	retryLooks = 12
)

// follower enables disks as they come.
type follower struct {
	f     *enableFlags
	cmd   *cobra.Command
	looks int
	// had are the disks that had their turn, by name: what activation.Instance says of each. What
	// is chosen for one of them after that stays until the disk goes.
	had map[string]string
	// failed are those of them that got no scheduler.
	failed map[string]state.EnableError
	// wrote tells that the file of --error-file has what failed. At first it may be that of
	// another process.
	wrote bool
	// noted are the disks that have a table and cannot have a scheduler, as was said.
	noted []string
	// said is what the last look failed with, and is said once.
	said string
}

func newFollower(f *enableFlags, cmd *cobra.Command) *follower {
	return &follower{f: f, cmd: cmd, had: map[string]string{}, failed: map[string]state.EnableError{}}
}

// follow looks for disks until it is interrupted.
func (f *enableFlags) follow(cmd *cobra.Command) error {
	w := newFollower(f, cmd)
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		w.look()
		select {
		case <-cmd.Context().Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look enables the disks that came since the last one, and says once what keeps it from that.
func (w *follower) look() {
	if w.looks%retryLooks == 0 {
		for name := range w.failed {
			delete(w.had, name)
		}
	}
	w.looks++
	said := ""
	if err := w.enable(); err != nil {
		said = err.Error()
	}
	if said != "" && said != w.said {
		w.say(said)
	}
	w.said = said
}

func (w *follower) say(what string) {
	fmt.Fprintf(w.cmd.ErrOrStderr(), "isolio: %s\n", what)
}

// enable enables the disks that came since the last look.
func (w *follower) enable() error {
	sys := block.System{Root: w.f.request.Root}
	config, err := rule.Load(w.f.request.Root, "")
	if err != nil {
		return err
	}
	names, left, err := enable.Candidates(sys, config, w.f.configured)
	if err != nil {
		return err
	}
	for _, why := range left {
		if !slices.Contains(w.noted, why) {
			w.say(why)
		}
	}
	w.noted = left
	now := map[string]string{}
	for _, name := range names {
		now[name] = enable.Instance(sys, name)
	}
	maps.DeleteFunc(w.had, func(name, was string) bool { return now[name] != was })
	before := maps.Clone(w.failed)
	maps.DeleteFunc(w.failed, func(name string, _ state.EnableError) bool { return now[name] == "" })
	for _, name := range names {
		if _, ok := w.had[name]; ok {
			continue
		}
		one := *w.f
		one.failed, one.rules = nil, &config
		err := one.each(w.cmd, []string{name}, enable.Enable)
		if w.cmd.Context().Err() != nil {
			return nil
		}
		w.had[name] = now[name]
		delete(w.failed, name)
		for _, d := range one.failed {
			w.failed[name] = d
		}
		if err != nil && before[name].Why != w.failed[name].Why {
			w.say(err.Error())
		}
	}
	w.wrote = w.wrote && maps.Equal(before, w.failed)
	if w.f.errorFile == "" || w.wrote {
		return nil
	}
	disks := slices.SortedFunc(maps.Values(w.failed), func(a, b state.EnableError) int { return cmp.Compare(a.Device, b.Device) })
	if err := state.WriteEnableErrors(w.f.errorFile, disks); err != nil {
		return fmt.Errorf("--error-file: %w", err)
	}
	w.wrote = true
	return nil
}
