// SPDX-License-Identifier: MIT

// Package assignment gives a cgroup its weight where it acts: in the file that
// the disks' schedulers read, and through systemd where the cgroup is a unit's,
// so that nothing that systemd does takes it back.
package assignment

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/share"
	"isolio/internal/host/target"
	"isolio/internal/host/unit"
	"isolio/internal/host/weight"
	"isolio/internal/plan"
)

// Request is what a user wants.
type Request struct {
	// Root is the directory that stands for /, "" for / itself.
	Root   string
	Target target.Target
	// Device is a disk's name, "" for all.
	Device string
	// N is the weight, 0 for the default.
	N int
	// Runtime has systemd forget it with the next boot.
	Runtime bool
}

// Plan is what is done.
type Plan struct {
	Steps []plan.Step
	// Notes are what the user should know, a line each.
	Notes []string
	// written are what to look at afterwards.
	written []written
	world   target.World
	request Request
}

// written is a file and disk "MAJ:MIN" that must hold the weight in the end.
type written struct{ file, majMin string }

// Decide finds out what has to be done. Nothing is changed.
func Decide(world target.World, r Request) (*Plan, error) {
	p := &Plan{world: world, request: r}
	majMin, node, acting, err := p.acting()
	if err != nil {
		return nil, err
	}
	for _, by := range acting {
		if r.N != 0 {
			if err := by.Check(r.N); err != nil {
				return nil, err
			}
		}
	}
	if parent := filepath.Dir(r.Target.Group); parent != share.Root && !p.siblings(parent) {
		p.Notes = append(p.Notes, fmt.Sprintf("%s has no sibling, so its weight is compared with nobody's: give %s the weight", r.Target, parent))
	}
	files, told, err := p.systemd(acting, node)
	if err != nil {
		return nil, err
	}
	// Where systemd has yet to pass the io controller on, there is no file
	// before. Elsewhere what can be taken back comes first.
	if len(p.lacking(files)) > 0 {
		p.Steps, told = told, nil
	}
	for _, by := range files {
		step, err := world.Tree.SetWeight(r.Target.Group, by.File(), majMin, r.N)
		if err != nil {
			return nil, err
		}
		step.Explain = func(cause error) error { return p.explain(by, cause) }
		p.Steps = append(p.Steps, step)
		p.written = append(p.written, written{by.File(), majMin})
	}
	p.Steps = append(p.Steps, told...)
	return p, nil
}

// acting lists what makes weights act on the disk that is meant, or on any.
func (p *Plan) acting() (majMin, node string, acting []weight.Mechanism, err error) {
	sys := block.System{Root: p.request.Root}
	iocost, err := p.world.Tree.IOCost()
	if err != nil {
		return "", "", nil, err
	}
	var infos []block.Info
	if p.request.Device != "" {
		device, err := sys.Find(p.request.Device)
		if err != nil {
			return "", "", nil, err
		}
		info, err := device.Info()
		if err != nil {
			return "", "", nil, err
		}
		infos, majMin, node = []block.Info{info}, device.MajMin, "/dev/"+strings.ReplaceAll(device.Name, "!", "/")
	} else if infos, err = sys.All(); err != nil {
		return "", "", nil, err
	}
	for _, i := range infos {
		for _, by := range weight.Acting(i.Scheduler, iocost[i.MajMin]) {
			if !slices.Contains(acting, by) {
				acting = append(acting, by)
			}
		}
	}
	switch {
	case len(acting) > 0:
		return majMin, node, acting, nil
	case majMin != "" && !infos[0].TakesScheduler && len(infos[0].Below) > 0:
		return "", "", nil, failure.Unsupportedf("device %s: passes requests on to others, where weights act: --device %s", infos[0].Name, strings.Join(infos[0].Below, ", or --device "))
	case majMin != "":
		return "", "", nil, failure.Unsupportedf("device %s: its scheduler %s knows no weights; first: isolio enable %s", infos[0].Name, infos[0].Scheduler, infos[0].Name)
	}
	return "", "", nil, failure.Unsupportedf("weight of %s: no disk shares by weight, it would do nothing; first: isolio enable DEV (`isolio status` lists the disks)", p.request.Target)
}

func (p *Plan) siblings(parent string) bool {
	return slices.ContainsFunc(p.world.Groups, func(other string) bool {
		return other != p.request.Target.Group && filepath.Dir(other) == parent
	})
}

// systemd returns whose files there are to write, and what systemd is told. It
// writes io.weight itself and, on a scale of its own, io.bfq.weight.
func (p *Plan) systemd(acting []weight.Mechanism, node string) (files []weight.Mechanism, told []plan.Step, err error) {
	r := p.request
	manager, there := unit.On(r.Root)
	onlyOurs := slices.Equal(acting, []weight.Mechanism{weight.Kyber})
	// A container's scope is gone when it stops, and nothing takes its io.kyber.weight
	// back before. Its IOWeight= stands for --blkio-weight, on a scale of the runtime's.
	// And the kernel refuses a disk's weight in a file that acts on no such disk.
	justController := onlyOurs && (r.Target.Kind == target.Container || node != "")
	if justController && r.Target.Kind == target.Unit && r.N != 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("the weight on one disk lasts until %s stops: a rule with unit and device in /etc/isolio.toml keeps it", r.Target.Unit))
	}
	if r.Target.Unit == "" || !there || justController && len(p.lacking(acting)) == 0 {
		if lacking := p.lacking(acting); len(lacking) > 0 {
			return nil, nil, p.noController(lacking[0])
		}
		return acting, nil, nil
	}
	// A pod's slice goes with the pod: a drop-in in /etc would stay for nobody.
	w := unit.Weight{
		Unit: r.Target.Unit, Device: node, N: r.N, JustController: justController,
		Runtime: r.Runtime || r.Target.Kind == target.Pod || justController,
	}
	files = slices.DeleteFunc(slices.Clone(acting), func(by weight.Mechanism) bool { return by == weight.IOCost })
	switch {
	case slices.Contains(acting, weight.IOCost) && slices.Contains(acting, weight.BFQ):
		p.Notes = append(p.Notes, fmt.Sprintf("systemd has one number for bfq and io.cost, and a scale of its own for bfq: %s is written beside it, "+
			"and `systemctl daemon-reload` may take it back", weight.BFQ.File()))
	case slices.Contains(acting, weight.BFQ):
		files = slices.DeleteFunc(files, func(by weight.Mechanism) bool { return by == weight.BFQ })
		if r.N != 0 {
			w.N = weight.SystemdFromBFQ(r.N)
		}
	}
	step, err := manager.SetWeight(w)
	if err != nil {
		return nil, nil, err
	}
	if r.N == 0 && node != "" && !justController {
		p.Notes = append(p.Notes, "systemd cannot forget one disk's weight: those of all disks are taken back")
	}
	return files, []plan.Step{step}, nil
}

// lacking lists mechanisms whose file the cgroup does not have.
func (p *Plan) lacking(acting []weight.Mechanism) []weight.Mechanism {
	return slices.DeleteFunc(slices.Clone(acting), func(by weight.Mechanism) bool {
		_, there, err := p.world.Tree.Weights(p.request.Target.Group, by.File())
		return there || err != nil
	})
}

// noController says at which cgroup the io controller ends.
func (p *Plan) noController(by weight.Mechanism) error {
	group := p.request.Target.Group
	dirs := []string{share.Root}
	for i := range group {
		if group[i] == '/' {
			dirs = append(dirs, group[:i])
		}
	}
	for _, dir := range dirs {
		if passes, err := p.world.Tree.Passes(dir); err == nil && !passes {
			file := p.world.Tree.Path(dir, "cgroup.subtree_control")
			return failure.Unsupportedf("%s has no %s: cgroup %s does not pass the io controller on; remedy: echo +io > %s (if it is a user's: "+
				"Delegate=cpu io memory pids in a drop-in of user@.service)", p.request.Target, by.File(), dir, file)
		}
	}
	return failure.Unsupportedf("%s has no %s; is the module of %s loaded?", p.request.Target, by.File(), by)
}

// explain says why the kernel refused a weight.
func (p *Plan) explain(by weight.Mechanism, cause error) error {
	return fmt.Errorf("weight of %s, for %s: %w", p.request.Target, by, cause)
}

// Verify reads back what was written.
func (p *Plan) Verify() error {
	want := p.request.N
	for _, w := range p.written {
		v, there, err := p.world.Tree.Weights(p.request.Target.Group, w.file)
		if err != nil {
			return err
		}
		got := v.Default
		if w.majMin != "" {
			got = v.On(w.majMin)
		}
		if want == 0 {
			want = weight.Default
			if _, still := v.Devices[w.majMin]; w.majMin != "" && !still {
				want = got
			}
		}
		if !there || got != want {
			return fmt.Errorf("weight of %s: %s holds %s after %d was written: does another program write it?", p.request.Target, w.file, v, want)
		}
	}
	return nil
}
