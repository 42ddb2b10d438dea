// SPDX-License-Identifier: MIT

// Package enable gives a disk a scheduler that shares, for now or for good,
// and takes it away again so that nothing is left.
package enable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/weight"
	"isolio/internal/kmod"
	"isolio/internal/plan"
	"isolio/internal/plan/shell"
)

// Schedulers are those that can be chosen.
var Schedulers = block.Schedulers

// DefaultScheduler is the scheduler if none is named.
const DefaultScheduler = "kyber-fairness"

// Request is what a user wants.
type Request struct {
	// Root is the directory that stands for /, "" for / itself.
	Root string
	// Device is a disk's name or node.
	Device string
	// Scheduler is the one to have, "" for what Table says, or Default; of Disable,
	// the one to go back to, "" for that of before.
	Scheduler string
	// Table is what the disk is to have by the rules, nil for nothing.
	Table *rule.Disk
	// Module is a module's file to load, or a directory with RELEASE/NAME.ko; "" for the one
	// that is installed.
	Module string
	// Persist has the scheduler come back with every boot.
	Persist bool
	// Self is this program's file, which loads a module that is not installed.
	Self string
}

// Plan is what is done.
type Plan struct {
	Steps []plan.Step
	// Notes are what the user should know, a line each.
	Notes []string
	// Report is the state of things when it is done.
	Report Report
	device *block.Device
	// tunables are what the scheduler's files are to hold.
	tunables []rule.Tunable
}

// Report is what `isolio enable` and `disable` print.
type Report struct {
	Schema    int    `json:"schema"`
	Disk      string `json:"disk"`
	Scheduler string `json:"scheduler"`
	// Before is the scheduler that there was.
	Before string `json:"before"`
	// Rule is the udev rule that was written or removed, "" for none.
	Rule string `json:"rule,omitempty"`
	// Table is where the tunables come from, "" for nowhere.
	Table    string         `json:"table,omitempty"`
	Tunables []rule.Tunable `json:"tunables,omitempty"`
	// Changed is false if everything was so already.
	Changed bool `json:"changed"`
}

// record is what Disable has to know: how the disk was before. It is in a
// directory that is empty after a boot, as the disk is itself again.
type record struct {
	Scheduler  string `json:"scheduler"`
	Before     string `json:"before"`
	NrRequests int    `json:"nr_requests"`
	// Replaced is a scheduler that isolio had chosen, and that this one replaces, "" for none: the
	// record is written before the switch, and a process that is killed between them leaves it.
	Replaced string `json:"replaced,omitempty"`
	// Loaded is the scheduler's module if Enable loaded it, "" if not. Older versions wrote here,
	// and unload, whatever was loaded last.
	Loaded string `json:"loaded,omitempty"`
	// Earlier are other modules that Enable loaded. Older versions do not know them.
	Earlier []string `json:"loaded_earlier,omitempty"`
	// DiskSeq is the kernel's number of this very disk: another one that comes has the
	// name of one that went, but never its number. "" before Linux 5.15.
	DiskSeq string `json:"diskseq,omitempty"`
}

// chose tells whether it was isolio that gave the disk the scheduler that it has.
func (r *record) chose(scheduler string) bool {
	return scheduler == r.Scheduler || scheduler == r.Replaced
}

// modules are all that Enable loaded for the disk.
func (r *record) modules() []string {
	if r.Loaded == "" {
		return r.Earlier
	}
	return append([]string{r.Loaded}, r.Earlier...)
}

// owns has the record hold these modules, each once.
func (r *record) owns(modules ...string) {
	r.Loaded, r.Earlier = "", nil
	for _, module := range modules {
		switch {
		case module == moduleOf(r.Scheduler):
			r.Loaded = module
		case module != "" && !slices.Contains(r.Earlier, module):
			r.Earlier = append(r.Earlier, module)
		}
	}
}

// step writes the record in place of an old text.
func (r *record) step(sys block.System, name, old string) (plan.Step, error) {
	text, err := json.Marshal(r)
	return plan.Step{
		Create: true, Path: recordFile(sys, name), Value: string(text) + "\n", Undo: old,
		Explain: func(cause error) error { return fmt.Errorf("device %s: note how it was: %w", name, cause) },
	}, err
}

// diskSeq is the kernel's number of the disk that has a name now.
func diskSeq(sys block.System, name string) string {
	text, _ := os.ReadFile(sys.Path("sys/block", name, "diskseq"))
	return strings.TrimSpace(string(text))
}

// Instance tells a disk from another that has its name later: the same text means the same disk.
func Instance(sys block.System, name string) string {
	text, _ := os.ReadFile(sys.Path("sys/block", name, "dev"))
	return strings.TrimSpace(string(text)) + " " + diskSeq(sys, name)
}

func recordFile(sys block.System, name string) string {
	return state.EnabledFile(sys.Root, name)
}

// readRecord reads a disk's record and its text; nil is none, also where the text
// is of a disk that had the name before.
func readRecord(sys block.System, name string) (*record, string, error) {
	text, err := os.ReadFile(recordFile(sys, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil || r.Before == "" {
		return nil, "", fmt.Errorf("%s: damaged; remove it, and name the scheduler to go back to with --scheduler", recordFile(sys, name))
	}
	if now := diskSeq(sys, name); r.DiskSeq != "" && now != "" && r.DiskSeq != now {
		return nil, string(text), nil
	}
	return &r, string(text), nil
}

// loadedFor are the modules that Enable loaded for a disk that went: they are there still, for the
// disk that has the name now to unload.
func loadedFor(old string) []string {
	var gone record
	if json.Unmarshal([]byte(old), &gone) != nil {
		return nil
	}
	return gone.modules()
}

// past is what is to be noted of a disk that gets a scheduler, or has it. rec is what is noted,
// nil for nothing, and old its text.
func past(sys block.System, info block.Info, rec *record, old string, rules []written, scheduler string) *record {
	r := &record{Before: info.Scheduler, NrRequests: info.NrRequests, DiskSeq: diskSeq(sys, info.Name)}
	switches := info.Scheduler != scheduler
	own := slices.ContainsFunc(rules, func(w written) bool { return w.scheduler == info.Scheduler })
	modules := loadedFor(old)
	switch before := beforeOf(rules); {
	case rec != nil:
		modules = rec.modules()
		// Another program may have chosen since, or isolio was killed before it switched. Then what
		// the disk has now is what comes back.
		if own = rec.chose(info.Scheduler); own || !switches {
			r.Before, r.NrRequests = rec.Before, rec.NrRequests
		}
	case before != "": // since the last boot, it is the rule's
		r.Before = before
	case !switches: // it was chosen in another way
		r.Before = usual(info)
	}
	if rec == nil && r.Before != info.Scheduler {
		r.NrRequests = 0 // what there is now is of another scheduler
	}
	if own && switches {
		r.Replaced = info.Scheduler
	}
	r.Scheduler = scheduler
	r.owns(modules...)
	return r
}

// Enabled are the disks that Enable gave a scheduler, for now or for good.
func Enabled(sys block.System) ([]string, error) {
	all, err := sys.All()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, info := range all {
		rec, _, err := readRecord(sys, info.Name)
		if err != nil {
			return nil, err
		}
		rules, err := rulesOf(sys, info)
		if err != nil {
			return nil, err
		}
		if rec != nil || len(rules) > 0 {
			names = append(names, info.Name)
		}
	}
	return names, nil
}

// Enable decides how a disk gets its scheduler. Nothing is changed.
func Enable(r Request) (*Plan, error) {
	table := r.Table
	switch {
	case r.Scheduler == "" && table != nil && table.Scheduler == rule.Keep:
		return nil, failure.Usagef("device %s: %s keeps its scheduler; change that, or name one with --scheduler", r.Device, tableName(table))
	case r.Scheduler == "" && table != nil:
		r.Scheduler = table.Scheduler
	case r.Scheduler == "":
		r.Scheduler = DefaultScheduler
	}
	if !slices.Contains(Schedulers, r.Scheduler) {
		return nil, failure.Usagef("scheduler %q: allowed: %s", r.Scheduler, strings.Join(Schedulers, ", "))
	}
	sys := block.System{Root: r.Root}
	device, info, err := find(sys, r.Device)
	if err != nil {
		return nil, err
	}
	if err := suits(sys, info, r.Scheduler); err != nil {
		return nil, err
	}
	p := &Plan{device: device, Report: Report{Schema: 1, Disk: info.Name, Scheduler: r.Scheduler, Before: info.Scheduler}}
	if unfit := info.Unfit(); unfit != "" {
		p.Notes = append(p.Notes, info.Name+": "+unfit)
	}
	if len(weight.Acting(r.Scheduler, false)) == 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%s knows no weights of cgroups", r.Scheduler))
	} else if tree, err := cgroup.Find(r.Root); err == nil && tree.Lacks() != "" {
		p.Notes = append(p.Notes, "no weight acts here: "+tree.Lacks())
	}
	loading, err := p.load(sys, info, r)
	if err != nil {
		return nil, err
	}
	switching, err := switchTo(sys, device, info, r.Scheduler)
	if err != nil {
		return nil, err
	}
	noted, old, err := readRecord(sys, info.Name)
	if err != nil {
		return nil, err
	}
	rules, err := rulesOf(sys, info)
	if err != nil {
		return nil, err
	}
	rec := past(sys, info, noted, old, rules, r.Scheduler)
	rec.owns(append(rec.modules(), loading)...)
	if len(switching) > 0 {
		// The record comes first: a process that is killed while it loads or switches leaves nothing
		// that Disable would have to guess.
		note, err := rec.step(sys, info.Name, old)
		if err != nil {
			return nil, err
		}
		p.Steps = slices.Concat([]plan.Step{note}, p.Steps, switching)
	}
	if err := p.tune(table, r.Scheduler, len(switching) > 0); err != nil {
		return nil, err
	}
	if r.Persist {
		if err := p.persist(sys, info, rec, rules); err != nil {
			return nil, err
		}
	}
	if r.Persist || table != nil {
		p.tryBoots(sys)
	}
	p.Report.Changed = len(p.Steps) > 0
	return p, nil
}

// tableName is a table of a disk, with its place.
func tableName(d *rule.Disk) string {
	return fmt.Sprintf("[[disk]] in line %d of %s", d.At.Line, d.At.File)
}

// tune plans the tunables that a table has for a scheduler. Those of one that is chosen
// now have their defaults then, and are all written.
func (p *Plan) tune(table *rule.Disk, scheduler string, switched bool) error {
	if table == nil || table.Scheduler != scheduler {
		return nil
	}
	p.Report.Table, p.Report.Tunables, p.tunables = tableName(table), table.Tunables, table.Tunables
	for _, t := range table.Tunables {
		if now, err := p.device.Tunable(t.Name); !switched && err == nil && block.SameTunable(t.Name, now, t.Value) {
			continue
		}
		step, err := p.device.SetTunable(scheduler, t.Name, t.Value)
		if err != nil {
			return err
		}
		p.Steps = append(p.Steps, step)
	}
	return nil
}

// Candidates are the disks that Enable gives a scheduler where none is named: those with a
// table only, or all that can have one. Left out are devices that Unfit tells of, and
// disks that keep what they have by a table; left tells of disks with a table that cannot
// have a scheduler.
func Candidates(sys block.System, config rule.Config, configured bool) (names, left []string, err error) {
	all, err := sys.All()
	if err != nil {
		return nil, nil, err
	}
	for _, info := range all {
		table, err := config.DiskFor(sys, info.Name)
		if err != nil {
			return nil, nil, err
		}
		switch unfit := suits(sys, info, DefaultScheduler); {
		case table == nil && (configured || info.Unfit() != ""), table != nil && table.Scheduler == rule.Keep:
		case unfit == nil:
			names = append(names, info.Name)
		case table != nil:
			left = append(left, unfit.Error())
		}
	}
	return names, left, nil
}

func find(sys block.System, name string) (*block.Device, block.Info, error) {
	device, err := sys.Find(name)
	if err != nil {
		return nil, block.Info{}, err
	}
	info, err := device.Info()
	return device, info, err
}

// suits says of a device that cannot have the scheduler which one can.
func suits(sys block.System, info block.Info, scheduler string) error {
	switch {
	case !info.TakesScheduler && len(info.Hidden) > 0:
		return failure.Unsupportedf("device %s: %s; %s", info.Name, info.Unfit(), block.ShowPaths)
	case len(info.On) > 0:
		return failure.Unsupportedf("device %s: is on %s, where requests wait: isolio enable %s", info.Name, strings.Join(info.On, " and "), shell.Quote(info.Name))
	case !info.TakesScheduler:
		return failure.Unsupportedf("device %s: its driver takes no scheduler, only none: %s", info.Name, others(sys))
	case info.Zoned:
		return failure.Unsupportedf("device %s: is zoned, and %s does not keep the order of writes that it needs; use another disk", info.Name, scheduler)
	}
	return nil
}

// others names the disks that could be meant.
func others(sys block.System) string {
	all, err := sys.All()
	var names []string
	for _, i := range all {
		if i.Unfit() == "" {
			names = append(names, i.Name)
		}
	}
	if err != nil || len(names) == 0 {
		return "no disk of this machine takes one"
	}
	return "those that take one: " + strings.Join(names, ", ")
}

// load plans to load the scheduler's module if it is not there, and returns its
// name then.
func (p *Plan) load(sys block.System, info block.Info, r Request) (string, error) {
	if slices.Contains(info.Available, r.Scheduler) {
		if r.Module != "" {
			p.Notes = append(p.Notes, fmt.Sprintf("the kernel has %s already: %s is not loaded", r.Scheduler, r.Module))
		}
		return "", nil
	}
	name := moduleOf(r.Scheduler)
	file, err := moduleFile(sys, r, name)
	if err != nil {
		return "", err
	}
	switch {
	case file == "" && name == "bfq":
		return "", failure.Unsupportedf("scheduler bfq: kernel %s has no module bfq; isolio enable %s uses kyber-fairness", sys.Release(), shell.Quote(r.Device))
	case file == "":
		return "", failure.Unsupportedf("scheduler %s: there is no module %s for kernel %s; `make install` in isolio's source, or the package isolio-dkms, builds it",
			r.Scheduler, name, sys.Release())
	case name != "bfq": // the kernel's own modules fit it
		spec, err := kmod.LoadSpec(sys.Path(kmod.RunningBTF))
		if err != nil {
			return "", err
		}
		if err := kmod.CheckLayout(file, spec); err != nil {
			return "", err
		}
	}
	step := plan.Step{Command: []string{modprobe(r), name}, UndoCommand: []string{modprobe(r), "-r", name}}
	if r.Module != "" {
		step = plan.Step{Command: []string{r.Self, "kmod", "load", file}, UndoCommand: []string{r.Self, "kmod", "unload", name}}
	}
	p.Steps = append(p.Steps, step)
	return name, nil
}

// moduleFile is the file of the module to load, "" for none: the installed one, or
// Request.Module. Where that is a directory, it has one for each kernel, as a container
// image does; a module that is installed for a kernel that it has none for will do.
func moduleFile(sys block.System, r Request, name string) (string, error) {
	info, err := os.Stat(r.Module)
	if r.Module != "" && (err != nil || !info.IsDir()) {
		return r.Module, nil // the comparison tells if it is not there
	}
	if r.Module != "" {
		file := filepath.Join(r.Module, sys.Release(), name+".ko")
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	file, err := kmod.Installed(r.Root, sys.Release(), name)
	if err != nil || file != "" || r.Module == "" {
		return file, err
	}
	entries, err := os.ReadDir(r.Module)
	if err != nil {
		return "", err
	}
	var releases []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(r.Module, e.Name(), name+".ko")); err == nil {
			releases = append(releases, e.Name())
		}
	}
	others := "nor for any other"
	if len(releases) > 0 {
		others = "only for " + strings.Join(releases, ", ")
	}
	return "", failure.Unsupportedf("--module %s: has no %s.ko for kernel %s, %s; needed: an image for that kernel, or isolio-dkms on this node", r.Module, name, sys.Release(), others)
}

// iosched is what the name of a scheduler's module ends in.
const iosched = "-iosched"

// moduleOf is the name of a scheduler's module.
func moduleOf(scheduler string) string {
	if scheduler == "bfq" || scheduler == "mq-deadline" { // whose file has no more than that
		return scheduler
	}
	return scheduler + iosched
}

// modprobe is the program, below root in a tree for tests.
func modprobe(r Request) string {
	if r.Root == "" {
		return "modprobe"
	}
	return filepath.Join(r.Root, "usr/sbin/modprobe")
}

// Disable decides how a disk goes back to what it was. Nothing is changed.
func Disable(r Request) (*Plan, error) {
	sys := block.System{Root: r.Root}
	device, info, err := find(sys, r.Device)
	if err != nil {
		return nil, err
	}
	rec, text, err := readRecord(sys, info.Name)
	if err != nil {
		return nil, err
	}
	p := &Plan{device: device, Report: Report{Schema: 1, Disk: info.Name, Before: info.Scheduler}}
	rules, err := rulesOf(sys, info)
	if err != nil {
		return nil, err
	}
	if err := p.forget(sys, info, rules); err != nil {
		return nil, err
	}
	if rec == nil {
		rec = &record{Scheduler: info.Scheduler, Before: beforeOf(rules)}
	}
	if r.Scheduler != "" {
		if err := known(sys, info, r.Scheduler); err != nil {
			return nil, err
		}
		if r.Scheduler != rec.Before {
			rec.NrRequests = 0 // it is of the other one, and may be more than this one can have
		}
		rec.Before = r.Scheduler
	}
	if rec.Before == "" {
		rec.Before = usual(info)
	}
	p.Report.Scheduler = info.Scheduler
	switch {
	case !rec.chose(info.Scheduler):
		p.Notes = append(p.Notes, fmt.Sprintf("%s has %s now, which isolio did not choose: it stays", info.Name, info.Scheduler))
	case slices.Contains(Schedulers, info.Scheduler):
		p.Report.Scheduler = rec.Before
		if err := p.restore(sys, info, rec); err != nil {
			return nil, err
		}
	}
	if r.Table != nil && r.Table.Scheduler != rule.Keep {
		p.Notes = append(p.Notes, fmt.Sprintf("%s comes back with the next boot, by %s: remove that, or write scheduler = %q", info.Name, tableName(r.Table), rule.Keep))
	}
	if text != "" {
		p.Steps = append(p.Steps, plan.Step{Remove: true, Path: recordFile(sys, info.Name), Undo: text})
	}
	if err := p.unload(sys, info, rec, r); err != nil {
		return nil, err
	}
	p.Report.Changed = len(p.Steps) > 0
	return p, nil
}

// known refuses what is no scheduler of the disk's, nor a module's that the kernel
// would load.
func known(sys block.System, info block.Info, scheduler string) error {
	if slices.Contains(info.Available, scheduler) {
		return nil
	}
	if file, err := kmod.Installed(sys.Root, sys.Release(), moduleOf(scheduler)); err != nil || file != "" {
		return err
	}
	return failure.Usagef("scheduler %q: device %s does not have it; allowed: %s", scheduler, info.Name, strings.Join(info.Available, ", "))
}

// usual is the kernel's own choice: mq-deadline for one hardware queue, nothing
// for several.
func usual(info block.Info) string {
	if info.Queues == 1 && slices.Contains(info.Available, "mq-deadline") {
		return "mq-deadline"
	}
	return "none"
}

// leastRequests is the least that the kernel takes for nr_requests. A disk that has fewer has
// them from its driver, with any scheduler.
const leastRequests = 4

// switchTo returns the steps that give a disk a scheduler, none if it has it. A change of
// scheduler resets how many requests the disk holds, and forgets the tunables of the one that
// there was: if it is taken back, so are these.
func switchTo(sys block.System, device *block.Device, info block.Info, scheduler string) ([]plan.Step, error) {
	steps, err := device.SetScheduler(scheduler)
	if err != nil || len(steps) == 0 {
		return steps, err
	}
	kept, err := keepTunables(sys, device, info.Name)
	if err != nil {
		return nil, err
	}
	if info.NrRequests >= leastRequests {
		keep, err := device.KeepNrRequests()
		if err != nil {
			return nil, err
		}
		keep.IfDiffers = true
		kept = append(kept, keep)
	}
	return append(kept, steps...), nil
}

// keepTunables returns steps that change nothing, and whose undoing brings back what the files of
// a disk's scheduler hold.
func keepTunables(sys block.System, device *block.Device, disk string) ([]plan.Step, error) {
	dir := sys.Path("sys/block", disk, "queue/iosched")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // none has no tunables
	}
	if err != nil {
		return nil, err
	}
	var steps []plan.Step
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		now, err := device.Tunable(e.Name())
		if err != nil || now == "" || info.Mode().Perm()&0o200 == 0 {
			continue // one that is not read, or not written, is not lost
		}
		steps = append(steps, plan.Step{Path: filepath.Join(dir, e.Name()), Value: now, Undo: now, IfDiffers: true})
	}
	return steps, nil
}

// Shown are the steps that --dry-run prints: not those that are there for their undoing alone.
func (p *Plan) Shown() []plan.Step {
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s plan.Step) bool { return s.IfDiffers && s.Undo == s.Value })
}

// restore brings back the scheduler and how many requests it holds. A change of
// scheduler resets that number.
func (p *Plan) restore(sys block.System, info block.Info, rec *record) error {
	steps, err := switchTo(sys, p.device, info, rec.Before)
	if err != nil {
		return err
	}
	p.Steps = append(p.Steps, steps...)
	if len(steps) > 0 && rec.NrRequests > 0 {
		requests := p.device.SetNrRequests(rec.NrRequests)
		requests.IfDiffers = true // fewer than 4 tags cannot be written
		p.Steps = append(p.Steps, requests)
	}
	return nil
}

// unload plans to unload the modules that Enable loaded, but those that a disk uses.
func (p *Plan) unload(sys block.System, info block.Info, rec *record, r Request) error {
	if len(rec.modules()) == 0 {
		return nil
	}
	all, err := sys.All()
	if err != nil {
		return err
	}
	for _, module := range rec.modules() {
		var users []string
		for _, disk := range all {
			scheduler := disk.Scheduler
			if disk.Name == info.Name {
				scheduler = p.Report.Scheduler // the one that it is to have
			}
			if moduleOf(scheduler) == module {
				users = append(users, disk.Name)
			}
		}
		if len(users) > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("the module %s stays: %s uses it", module, users[0]))
			if err := p.inherit(sys, users, info.Name, module); err != nil {
				return err
			}
			continue
		}
		if !slices.Contains(info.Available, strings.TrimSuffix(module, iosched)) {
			continue // it is gone, or never came
		}
		command := []string{r.Self, "kmod", "unload", module}
		if r.Root != "" {
			command = []string{modprobe(r), "-r", module}
		}
		p.Steps = append(p.Steps, plan.Step{Command: command})
	}
	return nil
}

// inherit leaves the unloading of a module to the last disk that uses it. Each has one scheduler,
// so none inherits two.
func (p *Plan) inherit(sys block.System, users []string, but, module string) error {
	for _, name := range users {
		rec, old, err := readRecord(sys, name)
		if err != nil {
			return err
		}
		if rec == nil || name == but {
			continue
		}
		rec.owns(append(rec.modules(), module)...)
		note, err := rec.step(sys, name, old)
		p.Steps = append(p.Steps, note)
		return err
	}
	return nil
}

// Verify reads back what the disk has.
func (p *Plan) Verify() error {
	active, _, err := p.device.Schedulers()
	if err != nil {
		return err
	}
	if active != p.Report.Scheduler {
		return fmt.Errorf("device %s: has scheduler %s after %s was written: does a udev rule or tuned change it? `isolio doctor` looks",
			p.Report.Disk, active, p.Report.Scheduler)
	}
	for _, t := range p.tunables {
		now, err := p.device.Tunable(t.Name)
		if err != nil {
			return err
		}
		if !block.SameTunable(t.Name, now, t.Value) {
			return fmt.Errorf("device %s: %s is %s after %s was written", p.Report.Disk, t.Name, now, t.Value)
		}
	}
	return nil
}

// String is the report on one line.
func (r Report) String() string {
	text := fmt.Sprintf("%s: scheduler %s", r.Disk, r.Scheduler)
	switch {
	case !r.Changed:
		text += ", as before"
	case r.Before != r.Scheduler:
		text += ", was " + r.Before
	}
	if len(r.Tunables) > 0 {
		var words []string
		for _, t := range r.Tunables {
			words = append(words, t.Name+" "+t.Value)
		}
		text += ", " + strings.Join(words, ", ") + ", by " + r.Table
	}
	if r.Rule != "" {
		text += "; " + r.Rule
	}
	return text
}

// ruleDir is where an administrator's udev rules are.
func ruleDir(sys block.System) string {
	return sys.Path(filepath.Join("etc", "udev", "rules.d"))
}
