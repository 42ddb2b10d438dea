// SPDX-License-Identifier: MIT

package enable

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/weight"
	"isolio/internal/kmod"
	"isolio/internal/plan"
)

// Upgrade is how a loaded module is replaced by another build of it. No weight acts on its disks
// between Steps, which are undone together, and Restore.
type Upgrade struct {
	Module   string
	From, To kmod.Version
	// Disks are those that share by it.
	Disks []string
	Steps []plan.Step
	// Restore gives disks and cgroups what they had: tunables, and weights that are not the default. A
	// cgroup may be gone by then, and a tunable.
	Restore []plan.Step
	root    string
}

// meanwhile is the scheduler of disks while their module is replaced. Every disk has it.
const meanwhile = "none"

// Upgrades decides how the loaded modules of isolio become the installed ones, or Request.Module;
// none for those that are so already.
func Upgrades(r Request) ([]*Upgrade, error) {
	sys := block.System{Root: r.Root}
	var all []*Upgrade
	for _, scheduler := range Schedulers {
		module := moduleOf(scheduler)
		from, loaded, err := kmod.LoadedVersion(r.Root, module)
		if err != nil {
			return nil, err
		}
		if !loaded || !strings.HasSuffix(module, iosched) {
			continue // the kernel's own are its
		}
		if one, _, _ := strings.Cut(filepath.Base(r.Module), ".ko"); r.Module != "" && one != module && !isDir(r.Module) {
			continue
		}
		file, err := moduleFile(sys, r, module)
		if err != nil {
			return nil, err
		}
		if file == "" {
			return nil, failure.Unsupportedf("module %s: it is loaded, and not installed for kernel %s: `make install` in isolio's source, or the package isolio-dkms, builds it", module, sys.Release())
		}
		to, err := kmod.FileVersion(file)
		if err != nil {
			return nil, err
		}
		if from.Same(to) {
			continue
		}
		// After this the old one is gone, so the new one is compared with the kernel first.
		spec, err := kmod.LoadSpec(sys.Path(kmod.RunningBTF))
		if err == nil {
			err = kmod.CheckLayout(file, spec)
		}
		if err != nil {
			return nil, err
		}
		u := &Upgrade{Module: module, From: from, To: to, root: r.Root}
		if err := u.plan(sys, r, scheduler, file); err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func (u *Upgrade) plan(sys block.System, r Request, scheduler, file string) error {
	disks, err := sys.All()
	if err != nil {
		return err
	}
	var on []plan.Step
	numbers := map[string]bool{}
	for _, info := range disks {
		if info.Scheduler != scheduler {
			continue
		}
		device, err := sys.Find(info.Name)
		if err != nil {
			return err
		}
		off, err := switchTo(sys, device, info, meanwhile)
		if err != nil {
			return err
		}
		for _, s := range off {
			switch {
			case s.Value == meanwhile:
				back := s
				back.Value, back.Undo = s.Undo, s.Value
				on = append(on, back)
			case s.IfDiffers: // a tunable, or nr_requests, which the undoing of off brings back
				u.Restore = append(u.Restore, s)
			}
		}
		u.Steps = append(u.Steps, off...)
		u.Disks = append(u.Disks, info.Name)
		numbers[info.MajMin] = true
	}
	unload, load := []string{r.Self, "kmod", "unload", u.Module}, []string{modprobe(r), u.Module}
	if r.Root != "" {
		unload = []string{modprobe(r), "-r", u.Module}
	}
	undo := load
	if r.Module != "" {
		load = []string{r.Self, "kmod", "load", file}
	}
	u.Steps = append(u.Steps, plan.Step{Command: unload, UndoCommand: undo}, plan.Step{Command: load, UndoCommand: unload})
	u.Steps = append(u.Steps, on...)
	return u.keepWeights(numbers)
}

// keepWeights plans to write the weights that cgroups have: they go with the module.
func (u *Upgrade) keepWeights(disks map[string]bool) error {
	if u.Module != moduleOf(DefaultScheduler) {
		return nil
	}
	tree, err := cgroup.Find(u.root)
	if failure.Code(err) == failure.Unsupported {
		return nil // of cgroup v1 systemd and the engines write none
	}
	if err != nil {
		return err
	}
	groups, err := tree.Groups()
	if err != nil {
		return err
	}
	for _, group := range groups {
		has, there, err := tree.Weights(group, weight.Kyber.File())
		if failure.IsGone(err) || err == nil && !there {
			continue
		}
		if err != nil {
			return err
		}
		say := func(majMin string, n weight.Value) error {
			s, err := tree.SetWeight(group, weight.Kyber.File(), majMin, n)
			if err == nil {
				u.Restore = append(u.Restore, s)
			}
			return err
		}
		if has.Default != weight.Default {
			err = say("", has.Default)
		}
		for majMin, n := range has.Devices {
			if err == nil && disks[majMin] {
				err = say(majMin, n)
			}
		}
		if err != nil && !failure.IsGone(err) {
			return err
		}
	}
	return nil
}

// Verify reads back whether the new module is there, and its disks have it.
func (u *Upgrade) Verify() error {
	now, there, err := kmod.LoadedVersion(u.root, u.Module)
	if err != nil {
		return err
	}
	if !there || !now.Same(u.To) {
		return fmt.Errorf("module %s: %s is loaded after %s was", u.Module, now, u.To)
	}
	sys := block.System{Root: u.root}
	for _, name := range u.Disks {
		device, err := sys.Find(name)
		if err != nil {
			continue // it was pulled meanwhile
		}
		if active, _, err := device.Schedulers(); err != nil || active+iosched != u.Module {
			return fmt.Errorf("device %s: has scheduler %s after its module was replaced: isolio enable %s", name, active, name)
		}
	}
	return nil
}

// Shown are the steps that --dry-run prints.
func (u *Upgrade) Shown() []plan.Step {
	steps := slices.DeleteFunc(slices.Clone(u.Steps), func(s plan.Step) bool { return s.IfDiffers && s.Undo == s.Value })
	return append(steps, u.Restore...)
}
