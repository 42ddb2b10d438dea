// SPDX-License-Identifier: MIT

// Package run runs experiments in virtual machines in virtual time, one for each contender
// in each case, merges what they measured, and renews and verifies results of the archive.
// Package vm boots the VMs; in them package guest runs one contender.
package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/guest"
	"isolio/internal/lab/guest/fio"
	"isolio/internal/lab/result"
	"isolio/internal/lab/vm"
)

// Options say where and how the lab runs an experiment.
type Options struct {
	// Build is the directory with kernel/<line>/ and modules/<line>/.
	Build string
	// Line is the kernel's line, such as "6.1".
	Line string
	// Init is the program that is the VMs' init and engine; "" stands for isolio-guest
	// in Build, or the running program if that is not there.
	Init string
	// Jobs is how many VMs run at a time; 0 stands for one a CPU.
	Jobs int
	// Timeout bounds all of it on the wall clock; 0 is no bound.
	Timeout time.Duration
	// Stall is how long on the wall clock a VM may show no sign of life;
	// 0 stands for 90 seconds.
	Stall time.Duration
	// Keep is a directory where each contender's initramfs, kernel log and
	// events stay, in a folder of its name, in one of the case's name where
	// there are cases; "" keeps nothing.
	Keep string
	// Cache is a directory where the results of VMs stay, "" for none. With Reuse a VM that
	// would be the same as one that is there is not booted again.
	Cache string
	Reuse bool
}

// Interrupted is an experiment that ended before all contenders had.
type Interrupted struct {
	Err         error // why
	Kept, Total int   // contenders whose results are in Options.Cache, and all
}

func (i *Interrupted) Error() string {
	return fmt.Sprintf("%v; the results of %d of %d contenders are kept, and --resume goes on from there", i.Err, i.Kept, i.Total)
}

func (i *Interrupted) Unwrap() error { return i.Err }

// Guest is the program that is the VMs' init and engine, "" for the running one.
func (o Options) Guest() string {
	if built := filepath.Join(o.Build, "isolio-guest"); o.Init == "" {
		if _, err := os.Stat(built); err == nil {
			return built
		}
	}
	return o.Init
}

// VMs is how many run at a time.
func (o Options) VMs() int { return cmp.Or(o.Jobs, runtime.NumCPU()) }

// Estimate is about how long an experiment takes: a VM boots in some five seconds, and a
// second of load takes a second or three on the wall clock.
func (o Options) Estimate(x *experiment.Experiment) time.Duration {
	seconds := 5*float64(x.Runs()) + 2*x.VirtualS()
	return time.Duration(seconds / float64(o.VMs()) * float64(time.Second))
}

// PhaseBoot comes before the engine's own phases: the VM starts.
const PhaseBoot = "boot"

// stockModules are loaded for every contender, so that all VMs are the same.
var stockModules = []string{"null_blk nr_devices=0", "mq-deadline", "kyber-iosched", "bfq"}

const (
	// kernelMiB is for the kernel, and what it keeps for disks and cgroups.
	kernelMiB = 160
	// processMiB is for one fio: about 20 MiB are its own; jobMiB for each
	// process that it forks for a job.
	processMiB = 24
	jobMiB     = 8
	// Of more than fewJobs processes, manyMiB are for each of the others: what
	// they have apart from one another, with their cgroups and shells.
	fewJobs = 16
	manyMiB = 2
	// A flash disk's maps take 8 bytes for each of its pages of 4 KiB, spare
	// ones too: with room, a 256th of its size. flashMiB is for disks whose size
	// the preset says.
	flashMiB   = 64
	flashShare = 256
	// cacheMiB is for what a file system has in memory: pages that are read, and
	// those to be written, which may be a fifth of what is free.
	cacheMiB = 512
	// programMiB is for a command and what its setup left running, such as a server with a
	// process for each connection.
	programMiB = 128
	// slack is what setting up, waiting for the last request and cleaning up
	// may take on the guest's clock besides the load's own time.
	slack = 3 * time.Minute
)

// Experiment boots one VM for every scheduler in every case of the experiment, Jobs at
// a time, runs the engine in it, and merges what they measured. progress is called from one
// goroutine at a time; it may be nil. If a VM fails, the others are stopped.
func Experiment(ctx context.Context, opts Options, x *experiment.Experiment, progress func(guest.Progress)) (*result.Document, error) {
	m, err := opts.machine(x)
	if err != nil {
		return nil, err
	}
	dir, done, err := vm.WorkDir(opts.Keep)
	if err != nil {
		return nil, err
	}
	defer done()
	g := &group{opts: opts, experiment: x, base: m, dir: dir, began: time.Now(), progress: progress}
	defer g.removeImages()
	if err := g.makeImages(); err != nil {
		return nil, err
	}
	runs, err := g.all(ctx)
	if kept := int(g.kept.Load()); err != nil && kept > 0 {
		return nil, &Interrupted{Err: err, Kept: kept, Total: len(runs)}
	}
	if err != nil {
		return nil, err
	}
	return result.Merge(x, runs)
}

// machine is the VM for any of the experiment's contenders, without the project's
// modules and what depends on the case.
func (o Options) machine(x *experiment.Experiment) (vm.VM, error) {
	kernel, err := vm.OpenKernel(o.Build, o.Line)
	if err != nil {
		return vm.VM{}, err
	}
	engines, err := built(kernel, x)
	if err != nil {
		return vm.VM{}, err
	}
	helpers, err := helperModules(kernel, x)
	if err != nil {
		return vm.VM{}, err
	}
	m := vm.VM{
		Kernel: kernel, Init: o.Guest(),
		Programs: programs(x),
		Built:    engines,
		Stock:    stock(x, helpers),
		Payload: vm.Payload{
			Env:  []string{"PATH=/bin", "TMPDIR=/tmp", vm.EngineEnv + "=1"},
			Argv: []string{vm.Command},
			Data: map[string][]byte{},
		},
		Stall: o.Stall,
	}
	if needsTree(x) {
		err = o.addCommands(x, &m)
	}
	return m, err
}

// Users that the guest knows by name: some programs want one. Commands run as `nobody`.
const (
	guestUsers  = "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n"
	guestGroups = "root:x:0:\nnogroup:x:65534:\n"
)

// addCommands adds the programs that containers run in place of fio.
func (o Options) addCommands(x *experiment.Experiment, m *vm.VM) error {
	if err := m.Kernel.OpenPrograms(o.Build); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	m.FromPrograms = true
	add := func(name string) error {
		if slices.Contains(m.Programs, name) {
			return nil
		}
		m.Programs = append(m.Programs, name)
		return m.Kernel.HasProgram(name)
	}
	for i := range x.Cases {
		for _, t := range x.Cases[i].Containers {
			if t.Program == nil {
				continue
			}
			for _, words := range t.Program.All() {
				if err := add(words[0]); err != nil {
					return fmt.Errorf("lab: container %s: command %s: %w", t.Name, words[0], err)
				}
			}
		}
	}
	for _, name := range x.Programs {
		if err := add(name); err != nil {
			return fmt.Errorf("lab: programs: %s: %w", name, err)
		}
	}
	m.Payload.Data["/etc/passwd"], m.Payload.Data["/etc/group"] = []byte(guestUsers), []byte(guestGroups)
	return nil
}

// needsTree reports whether the guest's programs are those of the tree of programs, which
// has what the kernel's root has, and more.
func needsTree(x *experiment.Experiment) bool {
	extra := slices.ContainsFunc(x.FilesystemsUsed(), func(f experiment.Filesystem) bool { return f.Extra })
	return extra || x.Swaps() || x.UsesPrograms()
}

// programs are what the guest has of the kernel's root.
func programs(x *experiment.Experiment) []string {
	all := []string{"fio", "sh"}
	if hasMembers(x) {
		all = append(all, "dd") // with which each reads a block before the load
	}
	for _, kind := range x.FilesystemsUsed() {
		all = append(all, "mkfs."+kind.Name)
	}
	if x.Swaps() {
		all = append(all, experiment.SwapPrograms()...)
	}
	return all
}

// hasMembers reports whether one of the containers stands for several.
func hasMembers(x *experiment.Experiment) bool {
	return slices.ContainsFunc(x.Cases, func(k experiment.Case) bool {
		return slices.ContainsFunc(k.Containers, func(c experiment.Container) bool { return c.Count > 0 })
	})
}

// built are libaps' engines for fio, if a container has one.
func built(kernel *vm.Kernel, x *experiment.Experiment) (map[string]string, error) {
	if !x.UsesLibaps() {
		return nil, nil
	}
	engines := map[string]string{}
	for _, name := range experiment.LibapsEngines() {
		files, err := kernel.Libaps(fio.EngineFile(name))
		if err != nil {
			return nil, fmt.Errorf("lab: %w", err)
		}
		engines[path.Join(guest.EnginesDir, fio.EngineFile(name))] = files[0]
	}
	return engines, nil
}

// helperModules are the modules that the experiment's file systems want loaded before them,
// of those that the kernel has.
func helperModules(kernel *vm.Kernel, x *experiment.Experiment) (all []string, err error) {
	for _, kind := range x.FilesystemsUsed() {
		for _, name := range kind.Helpers {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return kernel.Modules(all...)
}

// stock are the kernel's own modules to load, with the helpers that file systems want.
func stock(x *experiment.Experiment, helpers []string) []string {
	all := slices.Concat(stockModules, helpers)
	for _, kind := range x.FilesystemsUsed() {
		all = append(all, kind.Name)
	}
	return all
}

// modules are the files of the named modules of the project, as Experiment.ModulesIn has them.
func (o Options) modules(names []string) (files []string, err error) {
	dir := filepath.Join(o.Build, "modules", o.Line)
	for _, name := range names {
		if name != experiment.ModelDisk {
			name += "-iosched"
		}
		file := filepath.Join(dir, name+".ko")
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("lab: %w; `make setup KERNEL=%s` builds it", err, o.Line)
		}
		files = append(files, file)
	}
	return files, nil
}

// workMiB is what a case needs of the guest's memory: for the kernel, fio, and
// a disk that keeps what is written or where it was written to.
func workMiB(k *experiment.Case) int {
	need := kernelMiB
	for _, t := range k.Containers {
		if t.Program != nil {
			need += programMiB
			continue
		}
		jobs := t.Job.Count("numjobs", 1) * t.Members()
		need += processMiB + jobMiB*min(jobs, fewJobs) + manyMiB*max(0, jobs-fewJobs) // fio itself, and a process a job
	}
	switch d := k.Device; {
	case d.Model.MemoryBacked:
		need += d.SizeMiB
		if d.Filesystem != "" {
			need += cacheMiB
		}
	case d.Model.Name == "flash":
		need += max(flashMiB, d.SizeMiB/flashShare)
	}
	return need
}

// group is the VMs of one experiment.
type group struct {
	opts       Options
	experiment *experiment.Experiment
	base       vm.VM                    // of all contenders
	images     map[string]*modulesImage // by modulesKey
	dir        string
	began      time.Time
	kept       atomic.Int32

	mu       sync.Mutex // progress
	progress func(guest.Progress)
}

// modulesImage is an image with some of the project's modules.
type modulesImage struct {
	*vm.Image
	extra []string // the modules' files
	cache *cache   // nil: nothing is kept
}

func modulesKey(names []string) string { return strings.Join(names, " ") }

// imageOf is the image of a contender. It has the modules that this one needs, and no
// other of the project's: the result depends on those alone.
func (g *group) imageOf(c contender) *modulesImage {
	return g.images[modulesKey(g.experiment.ModulesIn(c.of, c.scheduler))]
}

// makeImages makes those of all contenders, one for those with the same modules.
func (g *group) makeImages() (err error) {
	g.images = map[string]*modulesImage{}
	for _, c := range g.contenders() {
		names := g.experiment.ModulesIn(c.of, c.scheduler)
		key := modulesKey(names)
		if g.images[key] != nil {
			continue
		}
		img := &modulesImage{}
		m := g.base
		if m.Extra, err = g.opts.modules(names); err != nil {
			return err
		}
		img.extra = m.Extra
		if img.Image, err = m.Image(filepath.Join(g.dir, fmt.Sprintf("base-%d.cpio", len(g.images)))); err != nil {
			return err
		}
		g.images[key] = img
		if g.opts.Cache == "" {
			continue
		}
		if img.cache, err = newCache(g.opts.Cache, img.Image, g.base.Kernel); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) removeImages() {
	for _, img := range g.images {
		os.Remove(img.File)
	}
}

func (g *group) report(p guest.Progress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.progress != nil {
		g.progress(p)
	}
}

// all runs every contender and returns the runs in the experiment's order, or
// the error of the first contender, in that order, that has one of its own.
func (g *group) all(parent context.Context) ([]result.Run, error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	contenders := g.contenders()
	runs, errs := make([]result.Run, len(contenders)), make([]error, len(contenders))
	free := make(chan struct{}, g.opts.VMs())
	var vms sync.WaitGroup
	for i, one := range contenders {
		free <- struct{}{}
		vms.Go(func() {
			defer func() { <-free }()
			if runs[i], errs[i] = g.one(ctx, one); errs[i] != nil {
				cancel()
			}
		})
	}
	vms.Wait()
	if err := parent.Err(); err != nil {
		return runs, err
	}
	own := slices.IndexFunc(errs, func(err error) bool { return err != nil && !errors.Is(err, context.Canceled) })
	if own >= 0 {
		return runs, errs[own]
	}
	return runs, nil
}

// contender is a scheduler in a case: one VM.
type contender struct {
	of        *experiment.Case
	scheduler string
}

// contenders lists them in the order of the result, and after them the references that
// containers are compared with.
func (g *group) contenders() []contender {
	var all []contender
	for i := range g.experiment.Cases {
		k := &g.experiment.Cases[i]
		for _, scheduler := range g.experiment.SchedulersIn(k) {
			all = append(all, contender{k, scheduler})
		}
	}
	for _, k := range g.experiment.OwnDisks() {
		all = append(all, contender{&k, "none"})
	}
	return all
}

// bootTwice boots the VM, and once more if it hung before its init began: QEMU 10.0 with
// 8 CPUs does that, now and then, where the kernel is about to start the second. There
// is nothing of a result yet, and one VM is like another.
func (img *modulesImage) bootTwice(ctx context.Context, m vm.VM, dir string, on func(vm.Event)) (out *vm.Outcome, err error) {
	for range 2 {
		out, err = img.Boot(ctx, m, dir, on)
		var fail *vm.Failure
		if !errors.As(err, &fail) || !fail.Unborn {
			break
		}
	}
	return out, err
}

// one is the result of one contender: that of the same VM, if it is kept and asked for, or
// measured.
func (g *group) one(ctx context.Context, c contender) (run result.Run, err error) {
	if err = ctx.Err(); err != nil {
		return run, err
	}
	m, err := g.contenderVM(c)
	if err != nil {
		return run, err
	}
	kept := g.imageOf(c).cache
	if kept == nil {
		return g.measure(ctx, c, m)
	}
	version, err := m.Kernel.QEMUVersion(ctx, m.CPUs)
	if err != nil {
		return run, err
	}
	file, err := kept.file(&m, version)
	if err != nil {
		return run, err
	}
	if g.opts.Reuse {
		if run, ok, err := kept.load(file); ok || err != nil {
			g.report(guest.Progress{Case: c.of.Name, Scheduler: c.scheduler, Phase: guest.PhaseDone, Fraction: 1})
			g.kept.Add(1)
			return run, err
		}
	}
	if run, err = g.measure(ctx, c, m); err != nil {
		return run, err
	}
	if err = kept.save(file, &run); err == nil {
		g.kept.Add(1)
	}
	return run, err
}

// contenderVM is the VM of a contender, without what differs from run to run.
func (g *group) contenderVM(c contender) (m vm.VM, err error) {
	m = g.base
	m.Extra = g.imageOf(c).extra
	m.Payload.Data = maps.Clone(m.Payload.Data)
	if m.Payload.Data[guest.PlanFile], err = g.experiment.ForVM(c.of, c.scheduler); err != nil {
		return m, err
	}
	m.WorkMiB = workMiB(c.of)
	m.CPUs = c.of.CPUs
	m.Limit = time.Duration((c.of.RampS+c.of.DurationS)*float64(time.Second)) + slack
	for _, t := range c.of.Containers {
		if t.Program != nil {
			m.Limit += time.Duration(len(t.Program.Setup)) * guest.SetupLimit
		}
	}
	return m, nil
}

// measure runs a contender in its VM.
func (g *group) measure(ctx context.Context, c contender, m vm.VM) (run result.Run, err error) {
	if g.opts.Timeout > 0 {
		m.Timeout = max(time.Millisecond, g.opts.Timeout-time.Since(g.began))
	}
	dir := filepath.Join(g.dir, c.of.Name, c.scheduler)
	if err = os.MkdirAll(dir, 0o755); err != nil {
		return run, fmt.Errorf("lab: %w", err)
	}
	if g.opts.Keep != "" {
		m.Keep = dir
	} else {
		defer os.RemoveAll(dir)
	}
	label := result.Label(c.of.Name, c.scheduler)
	begin := guest.Progress{Case: c.of.Name, Scheduler: c.scheduler, Phase: PhaseBoot}
	g.report(begin)
	var got report
	out, err := g.imageOf(c).bootTwice(ctx, m, dir, func(ev vm.Event) {
		if ev.Kind == vm.EventData {
			g.report(got.take(ev.Data, begin))
		}
	})
	var fail *vm.Failure
	switch {
	case errors.As(err, &fail):
		fail.Reason = label + ": " + fail.Reason
		return run, fail
	case err != nil:
		return run, err
	case got.Error != "":
		return run, failure.WithCode(fmt.Errorf("lab: %s%s", result.Label(c.of.Name, got.Error), diskSays(out.Log)), max(1, out.Code))
	case out.Code != 0 || got.Run == nil:
		return run, out.Failure(fmt.Sprintf("%s: the engine ended without a result (exit status %d)", label, out.Code), m.Keep)
	}
	return *got.Run, nil
}

// diskSays is the last that modeldisk wrote to the kernel's log, for a message:
// it names the values that are allowed.
func diskSays(log string) string {
	const from = experiment.ModelDisk + ": "
	i := strings.LastIndex(log, from)
	if i < 0 {
		return ""
	}
	line, _, _ := strings.Cut(log[i:], "\n")
	return "; kernel log: " + strings.TrimSpace(line)
}

// report is what a VM's engine has written so far.
type report struct{ guest.Report }

// take adds a line to what is known and returns the progress as of it; begin is
// that before the first line.
func (r *report) take(line json.RawMessage, begin guest.Progress) guest.Progress {
	var next guest.Report
	if err := json.Unmarshal(line, &next); err != nil {
		r.Error = fmt.Sprintf("the engine wrote %q: %v", line, err)
	}
	r.Run = cmp.Or(next.Run, r.Run)
	r.Error = cmp.Or(r.Error, next.Error)
	r.Progress = cmp.Or(next.Progress, r.Progress, &begin)
	return *r.Progress
}
