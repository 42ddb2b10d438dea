// SPDX-License-Identifier: MIT

// Package setweight gives a cgroup its weight where it acts: in the file that
// the disks' schedulers read, and through systemd where the cgroup is a unit's,
// so that nothing that systemd does takes it back.
package setweight

import (
	"fmt"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/machine"
	"isolio/internal/host/policy"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
	"isolio/internal/plan"
	"isolio/internal/plan/shell"
)

// Request is what a user wants.
type Request struct {
	Target target.Target
	// Device is a disk's name, "" for all.
	Device string
	// N is the weight, 0 for the default.
	N weight.Value
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
	machine *machine.Snapshot
	request Request
	// disks are those that the request is about.
	disks []block.Info
}

// Target is the cgroup that gets the weight.
func (p *Plan) Target() target.Target { return p.request.Target }

// written is a file and disk "MAJ:MIN" that must hold the weight in the end.
type written struct{ file, majMin string }

// Decide finds out what has to be done. Nothing is changed.
func Decide(m *machine.Snapshot, r Request) (*Plan, error) {
	p := &Plan{machine: m, request: r}
	majMin, node, acting, err := p.acting()
	if err != nil {
		return nil, err
	}
	if acting, err = p.taking(acting); err != nil {
		return nil, err
	}
	by := acting[0]
	if slices.Contains(acting, weight.Kyber) {
		by = weight.Kyber
	}
	if parent, others := policy.ComparedIn(m.Groups, r.Target.Group, by, m.Tree.Weights); !others {
		p.Notes = append(p.Notes, fmt.Sprintf("%s has no sibling, so its weight is compared with no other: give %s the weight", r.Target, parent))
	}
	files, told, err := p.systemd(acting, node)
	if err != nil {
		return nil, err
	}
	if slices.Contains(files, weight.Kyber) {
		if err := p.ruled(majMin, len(told) > 0); err != nil {
			return nil, err
		}
	}
	// Where systemd has yet to pass the io controller on, there is no file
	// before. Elsewhere what can be taken back comes first.
	if len(p.lacking(files)) > 0 {
		p.Steps, told = told, nil
	}
	for _, by := range files {
		step, err := m.Tree.SetWeight(r.Target.Group, by.File(), majMin, r.N)
		if err != nil {
			return nil, err
		}
		step.Explain = func(cause error) error { return p.explain(by, cause) }
		p.Steps = append(p.Steps, step)
		p.written = append(p.written, written{by.File(), majMin})
		if majMin == "" {
			p.own(by)
		}
	}
	p.Steps = append(p.Steps, told...)
	return p, nil
}

// acting lists what makes weights act on the disk that is meant, or on any.
func (p *Plan) acting() (majMin, node string, acting []weight.Mechanism, err error) {
	sys := p.machine.System
	iocost, err := p.machine.Tree.IOCost()
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
	p.disks = infos
	for _, i := range infos {
		for _, by := range weight.Acting(i.Scheduler, iocost[i.MajMin]) {
			if !slices.Contains(acting, by) {
				acting = append(acting, by)
			}
		}
	}
	switch {
	case len(acting) > 0:
		p.elsewhere(infos, iocost)
		return majMin, node, acting, nil
	case majMin != "":
		return "", "", nil, failure.Unsupportedf("device %s: its scheduler %s knows no weights; first: isolio enable %s", infos[0].Name, infos[0].Scheduler, shell.Quote(infos[0].Name))
	}
	first := "this machine has no disk that takes a scheduler"
	stats, _ := p.machine.Tree.IOStats(p.request.Target.Group) // a cgroup without the controller has used none
	if disk := block.Fit(infos, func(majMin string) bool { return stats[majMin].IOs() > 0 }); disk != "" {
		first = "first: isolio enable " + shell.Quote(disk)
	}
	return "", "", nil, failure.Unsupportedf("weight of %s: no disk shares by weight, it would do nothing; %s", p.request.Target.Word(), first)
}

// elsewhere notes that the target has used disks, but none on which weights act.
func (p *Plan) elsewhere(infos []block.Info, iocost map[string]bool) {
	stats, err := p.machine.Tree.IOStats(p.request.Target.Group)
	if err != nil {
		return // a cgroup without the controller is told of later
	}
	var others []string
	for _, i := range infos {
		used := stats[i.MajMin].IOs() > 0
		switch {
		case used && len(weight.Acting(i.Scheduler, iocost[i.MajMin])) > 0:
			return
		case used && i.Unfit() == "":
			others = append(others, i.Name)
		}
	}
	if len(others) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%s has used %s only, where no weight acts: isolio enable %s", p.request.Target, strings.Join(others, " and "), shell.Quote(others[0])))
	}
}

// own notes the disks on which the target keeps a weight of their own, which the one
// for all disks does not change.
func (p *Plan) own(by weight.Mechanism) {
	values, _, err := p.machine.Tree.Weights(p.request.Target.Group, by.File())
	if err != nil {
		return // it is written next, which says the same error
	}
	for _, i := range p.disks {
		if n, own := values.Devices[i.MajMin]; own && n != p.request.N {
			p.Notes = append(p.Notes, fmt.Sprintf("%s keeps its own weight, %s: --device %s changes that", i.Name, n, i.Name))
		}
	}
}

// taking lists those of the mechanisms that take the weight: all of them, or for a
// sum just kyber-fairness.
func (p *Plan) taking(acting []weight.Mechanism) ([]weight.Mechanism, error) {
	n := p.request.N
	if n == weight.Sum && slices.Contains(acting, weight.Kyber) {
		for _, by := range acting {
			if by != weight.Kyber {
				p.Notes = append(p.Notes, fmt.Sprintf("no effect on disks that %s shares: %s takes numbers only", by, by.File()))
			}
		}
		return []weight.Mechanism{weight.Kyber}, nil
	}
	for _, by := range acting {
		if n != 0 {
			if err := by.Check(n); err != nil {
				return nil, err
			}
		}
	}
	return acting, nil
}

// ruled refuses a weight that the daemon would put back, and tells of a rule that
// the weight overrides. What systemd is told is asked for from then on.
func (p *Plan) ruled(majMin string, systemdIsTold bool) error {
	r := p.request
	rules, err := p.machine.Policy()
	if err != nil {
		return err
	}
	disk, n := majMin, r.N
	if disk == "" {
		disk = policy.EveryDisk
	}
	if n == 0 {
		n = weight.Default
	}
	last, err := p.machine.Applied.Get(r.Target.Group)
	if err != nil {
		return err
	}
	want, back, err := rules.WouldRevert(r.Target.Group, disk, n, p.machine.Tree.Weights, last)
	if err != nil || want == nil || want.Weight == n || !want.Decided() && systemdIsTold {
		return err
	}
	daemon, known := state.Locked(p.machine.System.Root, state.DaemonLock)
	says := fmt.Sprintf("%s says %s", want.Source(), want.Weight)
	switch {
	case back && r.N != 0 && daemon:
		return failure.Usagef("weight %s of %s: %s, and the daemon puts that back; change that, or give another weight than %s, which overrides it", n, r.Target, says, n)
	case back && (daemon || !known):
		p.Notes = append(p.Notes, fmt.Sprintf("%s: the daemon writes that in its next pass", says))
	case back:
		p.Notes = append(p.Notes, fmt.Sprintf("%s: the daemon writes that when it runs", says))
	default:
		p.Notes = append(p.Notes, fmt.Sprintf("%s: this overrides it until another weight is requested, or the cgroup is removed", says))
	}
	return nil
}

// systemd returns whose files there are to write, and what systemd is told. It
// writes io.weight itself and, on a scale of its own, io.bfq.weight.
func (p *Plan) systemd(acting []weight.Mechanism, node string) (files []weight.Mechanism, told []plan.Step, err error) {
	r := p.request
	manager, there := target.SystemdOn(p.machine.System.Root)
	onlyOurs := slices.Equal(acting, []weight.Mechanism{weight.Kyber})
	// A container's scope is gone when it stops, and nothing takes its io.kyber.weight
	// back before. Its IOWeight= stands for --blkio-weight, on a scale of the runtime's.
	// And the kernel refuses a disk's weight in a file that acts on no such disk. systemd
	// has no word for a sum.
	justController := onlyOurs && (r.Target.Kind == target.ContainerKind || node != "" || r.N == weight.Sum)
	if justController && r.Target.Kind == target.UnitKind && r.N != 0 {
		p.Notes = append(p.Notes, p.passing(node))
	}
	if r.Target.Unit == "" || !there || justController && len(p.lacking(acting)) == 0 {
		if lacking := p.lacking(acting); len(lacking) > 0 {
			return nil, nil, p.noController(lacking[0])
		}
		return acting, nil, nil
	}
	// A pod's slice goes with the pod: a drop-in in /etc would stay for no unit.
	w := target.UnitWeight{
		Unit: r.Target.Unit, Device: node, N: int(r.N), JustController: justController,
		Runtime: r.Runtime || r.Target.Kind == target.PodKind || justController,
	}
	files = slices.DeleteFunc(slices.Clone(acting), func(by weight.Mechanism) bool { return by == weight.IOCost })
	switch {
	case slices.Contains(acting, weight.IOCost) && slices.Contains(acting, weight.BFQ):
		p.Notes = append(p.Notes, fmt.Sprintf("systemd has one number for bfq and io.cost, and its own scale for bfq: isolio writes %s as well, "+
			"and `systemctl daemon-reload` may undo that", weight.BFQ.File()))
	case slices.Contains(acting, weight.BFQ):
		files = slices.DeleteFunc(files, func(by weight.Mechanism) bool { return by == weight.BFQ })
		if r.N != 0 {
			w.N = weight.SystemdFromBFQ(int(r.N))
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

// passing tells how long a weight lasts that systemd is not told.
func (p *Plan) passing(node string) string {
	what, keys := "the weight on one disk", "unit and device"
	switch {
	case p.request.N == weight.Sum && node == "":
		what, keys = "the sum", "unit"
	case p.request.N == weight.Sum:
		what = "the sum on one disk"
	}
	return fmt.Sprintf("%s lasts until %s stops: a rule with %s in /etc/isolio.toml keeps it", what, p.request.Target.Unit, keys)
}

// lacking lists mechanisms whose file the cgroup does not have.
func (p *Plan) lacking(acting []weight.Mechanism) []weight.Mechanism {
	return slices.DeleteFunc(slices.Clone(acting), func(by weight.Mechanism) bool {
		_, there, err := p.machine.Tree.Weights(p.request.Target.Group, by.File())
		return there || err != nil
	})
}

// noController says at which cgroup the io controller ends.
func (p *Plan) noController(by weight.Mechanism) error {
	group := p.request.Target.Group
	dirs := []string{policy.RootGroup}
	for i := range group {
		if group[i] == '/' {
			dirs = append(dirs, group[:i])
		}
	}
	for _, dir := range dirs {
		if passes, err := p.machine.Tree.Passes(dir); err == nil && !passes {
			file := p.machine.Tree.Path(dir, "cgroup.subtree_control")
			return failure.Unsupportedf("%s has no %s: cgroup %s does not pass the io controller on; remedy: %s (if it is a user's: "+
				"Delegate=cpu io memory pids in a drop-in of user@.service)", p.request.Target, by.File(), dir, shell.Echo("+io", file))
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
	for _, w := range p.written {
		want := p.request.N
		v, there, err := p.machine.Tree.Weights(p.request.Target.Group, w.file)
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
			return fmt.Errorf("weight of %s: %s holds %s after %s was written: does another program write it?", p.request.Target, w.file, v, want)
		}
	}
	return nil
}
