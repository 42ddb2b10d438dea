// SPDX-License-Identifier: MIT

package guest

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/guest/fio"
	"isolio/internal/plan"
	"isolio/internal/plan/shell"
)

// Plan is all that a run will do to the machine.
type Plan struct {
	// Case is "" where the experiment lists none.
	Case      string
	Scheduler string
	// Device describes the disk.
	Device string
	// Setup is done before the load, and taken back after it in reverse order.
	Setup []plan.Step
	// Changes are written during the load, to what Setup has made.
	Changes []Change
	// Jobs are the processes, one for each container.
	Jobs []Job
	// Entitled are the shares that weights entitle the jobs' containers to.
	Entitled []float64
	// Ramp is how long the load runs before it is counted, Load how long it
	// runs until counting ends: ramp and counted time.
	Ramp, Load time.Duration
	// Sample is every how much of the counted time all counters are read; 0 is
	// never.
	Sample time.Duration

	disk *Disk
	// mounted is where its file system is, "" for none.
	mounted string
}

// Job is a container's fio process, or a command in its place.
type Job struct {
	fio.Job
	Container experiment.Container
	// Cgroup is the group of fio, in the cgroup tree; Groups are those of the
	// containers, which are the same for one that is just itself.
	Cgroup string
	Groups []string
	// Start and End are when its load starts and is stopped, after the start
	// of the whole.
	Start, End time.Duration
	// Counted is the part of the experiment's counted time in which the
	// container is there, up to 1.
	Counted float64
}

// Decide plans a run of one of the experiment's schedulers, in one of its
// cases, on a disk that is there. It changes nothing.
func Decide(e Env, x *experiment.Experiment, k *experiment.Case, scheduler string) (*Plan, error) {
	d, err := e.found()
	if err != nil {
		return nil, err
	}
	return e.decide(x, k, scheduler, d)
}

func (e Env) decide(x *experiment.Experiment, k *experiment.Case, scheduler string, d *Disk) (*Plan, error) {
	if all := x.SchedulersIn(k); !slices.Contains(all, scheduler) {
		of := "the experiment's"
		if k.Schedulers != nil {
			of = "those of case " + k.Name
		}
		return nil, failure.Usagef("%s: scheduler %q is not among %s; allowed: %s", x.File, scheduler, of, strings.Join(all, ", "))
	}
	c := contenderOf(x, scheduler)
	p := &Plan{
		Case: k.Name, Scheduler: scheduler, Device: d.About,
		Ramp: seconds(k.RampS), Load: seconds(k.RampS + k.DurationS),
		Sample: time.Duration(k.SampleMS) * time.Millisecond, Entitled: k.Entitled(), disk: d,
	}
	var err error
	if p.Changes, err = e.changes(x, k, d.Name); err != nil {
		return nil, err
	}
	group := "isolio-" + x.Name
	setScheduler, err := d.setScheduler(c.scheduler)
	if err != nil {
		return nil, err
	}
	if x.NrRequests > 0 && c.scheduler != "none" {
		setScheduler = append(setScheduler, d.setNrRequests(x.NrRequests))
	}
	if len(setScheduler) > 0 {
		keep, err := d.keepNrRequests()
		if err != nil {
			return nil, err
		}
		setScheduler = append([]plan.Step{keep}, setScheduler...)
	}
	scale := 1
	if e.Find == nil {
		scale = k.Device.Model.Scale
	}
	for _, t := range c.tunables(scale) {
		set, err := d.setTunable(c.scheduler, t.name, t.value)
		if err != nil {
			return nil, err
		}
		setScheduler = append(setScheduler, set)
	}
	iocost, err := e.iocostSteps(c, d, k)
	if err != nil {
		return nil, err
	}
	enableIO, err := e.Cgroups.Enable(controllers(k))
	if err != nil {
		return nil, err
	}
	var leaves []string
	for _, t := range k.Containers {
		leaves = append(leaves, t.MemberCgroups()...)
		if t.Count > 0 {
			leaves = append(leaves, t.Cgroup) // where their fio is
		}
	}
	// The scheduler comes first: its module brings the weight files along.
	p.Setup = slices.Concat(setScheduler, iocost, enableIO, e.Cgroups.Make(group, leaves, controllers(k)))
	if c.weightFile != "" {
		// All in one, so that all keep their proportion to one another.
		weighted := slices.Clone(k.Containers)
		for _, inner := range k.Parents {
			weighted = append(weighted, experiment.Container{Cgroup: inner.Cgroup, Weight: inner.Weight})
		}
		for i, weight := range c.weights(weighted) {
			for n, cgroup := range weighted[i].MemberCgroups() {
				set := e.Cgroups.Set(filepath.Join(group, cgroup), c.weightFile, fmt.Sprintf(c.weightFormat, weight))
				if n > 0 {
					set.Name = "" // the result shows one of them
				}
				p.Setup = append(p.Setup, set)
			}
		}
	}
	at, mount, err := e.filesystem(x, k, d)
	if err != nil {
		return nil, err
	}
	p.mounted = at
	p.Setup = slices.Concat(p.Setup, e.limitMemory(k, group), mount)
	p.Jobs, err = e.jobs(x, k, c, group, d, at)
	return p, err
}

// spare is how much longer than needed fio is told to run. The engine stops
// it; by itself fio would stop before a window that closes a little late.
const spare = time.Second

// partAlign keeps the containers' parts of the device on round offsets.
const partAlign = 1 << 20

// jobs gives each container an equal part of the disk, unless its job names
// an offset.
func (e Env) jobs(x *experiment.Experiment, k *experiment.Case, c contender, group string, d *Disk, mounted string) ([]Job, error) {
	part := (d.SizeBytes - int64(k.Device.SwapMiB)<<20) / int64(max(k.Parts, len(k.Containers))) / partAlign * partAlign
	var jobs []Job
	for n, t := range k.Containers {
		i := k.Part + n
		if t.Program != nil {
			_, counted := k.CountedS(t)
			jobs = append(jobs, Job{
				Container: t, Cgroup: filepath.Join(group, t.Cgroup), Groups: []string{filepath.Join(group, t.Cgroup)},
				Counted: counted / k.DurationS, Start: seconds(t.StartS), End: seconds(t.EndS), Job: fio.Job{Name: t.Name},
			})
			continue
		}
		t.Job = c.JobOf(&t)
		if t.Job.UsesLibaps() && e.Engines == "" {
			return nil, failure.Unsupportedf("%s: container %s: fio's engine %s is libaps' own, and nothing says where it is; "+
				"`make -C libaps FIO=DIR` builds it, --engines names its directory", x.File, t.Name, t.Job["ioengine"])
		}
		offset := t.Job.Bytes("offset", int64(i)*part)
		size := t.Job.Bytes("size", min(part, d.SizeBytes-offset))
		if _, chosen := t.Job["offset"]; !chosen && size > part {
			return nil, failure.Usagef("%s: container %s: job.size %d is more than its part of %s; allowed: up to %d bytes, or set offset",
				x.File, t.Name, size, d.Name, part)
		}
		if bs := t.Job.Bytes("bs", 4096); size < bs || offset+size > d.SizeBytes {
			return nil, failure.Usagef("%s: container %s: %d bytes from offset %d with bs %d do not fit on %s; allowed: offset + size up to %d bytes, size at least bs",
				x.File, t.Name, size, offset, bs, d.Name, d.SizeBytes)
		}
		filename := d.Node
		if mounted != "" {
			filename = filepath.Join(mounted, t.Name)
			offset, size = 0, t.Job.Bytes("size", fileBytes(part))
		}
		uncounted, counted := k.CountedS(t)
		jobs = append(jobs, Job{
			Container: t, Cgroup: filepath.Join(group, t.Cgroup), Counted: counted / k.DurationS,
			Start: seconds(t.StartS), End: seconds(t.EndS),
			Job: fio.Job{
				Name: t.Name, Filename: filename, Files: mounted != "", OffsetBytes: offset, SizeBytes: size,
				Ramp: seconds(uncounted), Runtime: seconds(counted) + spare,
				Seed: i + 1 + runStep*k.Seed, Prerun: prerun(t.Name), Options: t.Job, Engines: e.Engines,
			},
		})
		if err := e.members(x, &jobs[n], group); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// runStep is how far apart the seeds of a case's runs are.
const runStep = 1000

// seedStep is how far apart the seeds of several containers' jobs begin.
const seedStep = 10_000

// members fills in what a job's containers are each told.
func (e Env) members(x *experiment.Experiment, j *Job, group string) error {
	for _, cgroup := range j.Container.MemberCgroups() {
		j.Groups = append(j.Groups, filepath.Join(group, cgroup))
	}
	if j.Container.Count == 0 {
		return nil
	}
	disk := j.Filename
	if j.Files {
		disk = "" // the file is not there yet, and is no disk
	}
	for i, cgroup := range j.Groups {
		j.Members = append(j.Members, fio.Member{
			Name: filepath.Base(cgroup), Seed: j.Seed*seedStep + i,
			Prerun: memberPrerun(j.Name, e.Cgroups.Path(cgroup, "cgroup.procs"), disk),
		})
	}
	j.Prerun = ""
	if bs := j.Container.Job.Bytes("bs", 4096); j.SizeBytes/int64(j.Container.Count) < max(bs, 4096) {
		return failure.Usagef("%s: container %s: %d bytes are too few for %d containers with bs %d; allowed: a larger disk, or job.size, or fewer of them",
			x.File, j.Name, j.SizeBytes, j.Container.Count, bs)
	}
	return nil
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second))
}

// pauses says when the job is frozen.
func (j Job) pauses() string {
	var text strings.Builder
	for _, pause := range j.Container.Pauses {
		fmt.Fprintf(&text, ", frozen from %s to %s", seconds(pause.FromS), seconds(pause.ToS))
	}
	return text.String()
}

// processes is how many the jobs are in all.
func (p *Plan) processes() int {
	total := 0
	for _, j := range p.Jobs {
		total += j.Processes()
	}
	return total
}

// printProgram writes the commands of a container.
func (p *Plan) printProgram(b *strings.Builder, j Job) {
	fmt.Fprintf(b, "# in %s, as user %d in %s", j.Cgroup, nobody, p.home(j))
	if len(j.Container.Program.Setup) > 0 {
		b.WriteString(", before the load:\n")
	}
	for _, words := range j.Container.Program.Setup {
		b.WriteString(shell.Join(words...) + "\n")
	}
	if len(j.Container.Program.Setup) > 0 {
		b.WriteString("#")
	}
	until := fmt.Sprintf("stopped with SIGTERM after %s", j.End)
	if j.Container.Program.Ends {
		until = "to its own end"
	}
	fmt.Fprintf(b, " from %s on, %s%s:\n%s\n", j.Start, until, j.pauses(), shell.Join(j.Container.Program.Command...))
}

// Print writes the plan as shell commands with comments.
func (p *Plan) Print(w io.Writer) error {
	var b strings.Builder
	name := p.Scheduler
	if p.Case != "" {
		name = p.Case + ", " + name
	}
	fmt.Fprintf(&b, "# %s on %s: set up\n", name, p.Device)
	if err := plan.Print(&b, p.Setup); err != nil {
		return err
	}
	fmt.Fprintf(&b, "# load for %s, counted from %s on; each fio in its cgroup, all released at once\n", p.Load, p.Ramp)
	if p.Sample > 0 {
		fmt.Fprintf(&b, "# every %s of the counted time each container's io.stat is read\n", p.Sample)
	}
	for _, j := range p.Jobs {
		if j.Container.Program != nil {
			p.printProgram(&b, j)
			continue
		}
		fmt.Fprintf(&b, "# in %s, from %s on, stopped with SIGINT after %s%s:\nfio", j.Cgroup, j.Start, j.End, j.pauses())
		for _, arg := range j.Args(j.Name + ".json") {
			if strings.ContainsAny(arg, " <>;|&") {
				arg = "'" + arg + "'"
			}
			b.WriteString(" " + arg)
		}
		b.WriteString("\n")
	}
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "# after %s\n", c.At)
		if err := plan.Print(&b, c.Steps); err != nil {
			return err
		}
	}
	b.WriteString("# afterwards\n")
	for _, s := range slices.Backward(p.Setup) {
		switch {
		case s.Mkdir:
			b.WriteString("rmdir " + s.Path + "\n")
		case s.UndoCommand != nil:
			b.WriteString(shell.Join(s.UndoCommand...) + "\n")
		case s.Mount != "":
			b.WriteString("umount " + s.Path + "\n")
		case s.Undo != "":
			b.WriteString(plan.Step{Path: s.Path, Value: s.Undo}.String() + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
