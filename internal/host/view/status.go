// SPDX-License-Identifier: MIT

// Package view is what an operator is shown. `isolio status` and `explain` tell of every disk whether
// weights act on it, and of every weight what was meant, what comes of it, and why nothing does.
// `isolio doctor` finds out whether a machine can share its disks, and what to do where it cannot.
package view

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/machine"
	"isolio/internal/host/policy"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/host/usage"
	"isolio/internal/host/weight"
	"isolio/internal/plan/shell"
)

// StatusSchema is the version of the document; keys may be added without a new one.
const StatusSchema = 1

// Status is what `isolio status --json` prints.
type Status struct {
	Schema int    `json:"schema"`
	Kernel string `json:"kernel"`
	// IntervalMS is for how long activity was watched, 0 if it was not.
	IntervalMS int64   `json:"interval_ms"`
	Disks      []Disk  `json:"disks"`
	Groups     []Group `json:"cgroups"`
	// NoCgroups says why there is no cgroup to tell of.
	NoCgroups string `json:"no_cgroups,omitempty"`
	// NoRules says why the rules of /etc/isolio.toml are not known.
	NoRules string `json:"no_rules,omitempty"`
	// NoOwnDisks says why own_disk of some share is not known.
	NoOwnDisks string `json:"no_own_disks,omitempty"`
	// Daemon is "running", "stopped" or, where the user is not root, "unknown".
	Daemon string `json:"daemon"`

	machine *statusReader
	// wide has tables with more of it, and limited has the disks of its cgroups alone.
	wide, limited bool
}

// Err is an error where there is no cgroup to tell of: no weight acts on this machine.
func (d *Status) Err() error {
	if d.NoCgroups == "" {
		return nil
	}
	return failure.Unsupportedf("%s", d.NoCgroups)
}

// Disk is one disk, and what makes weights act on it.
type Disk struct {
	block.Info
	WeightsBy []weight.Mechanism `json:"weights_by"`
	// ShareBy is what is shared: bytes, iops or time; "" where nothing is.
	ShareBy string `json:"share_by,omitempty"`
	// Why weights do not act, and what to do; "" where they do.
	Why    string `json:"why,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// Group is one cgroup.
type Group struct {
	target.Target
	// Asked is what was asked of systemd or of a container runtime.
	Asked weight.Asked `json:"asked"`
	// Reasons are why it has its weights in io.kyber.weight.
	Reasons []policy.Reasons `json:"grounds,omitempty"`
	// Weights are what its files hold: those that were written.
	Weights []Weight `json:"weights"`
	// Shares are of the disks that it used.
	Shares []Share `json:"shares"`
}

// Weight is what one file holds.
type Weight struct {
	File    string                  `json:"file"`
	Default weight.Value            `json:"default"`
	Devices map[string]weight.Value `json:"devices,omitempty"`
	// Means is what the number is to who said nothing.
	Means string `json:"means"`
	// ActsOn are the disks on which it does something.
	ActsOn []string `json:"acts_on"`
	// DecidedBy is the rule that decided otherwise, "" for none.
	DecidedBy string `json:"decided_by,omitempty"`
	// CarriedBy is the file in which the disks find what was asked here, "" for none.
	CarriedBy string `json:"carried_by,omitempty"`
	// Inert is where it does nothing, or something other than was asked.
	Inert []Inert `json:"inert,omitempty"`
}

// Inert is a weight that does nothing.
type Inert struct {
	// On is a disk, "" for every one.
	On     string `json:"on,omitempty"`
	Why    string `json:"why"`
	Remedy string `json:"remedy"`
}

// Share is a cgroup's part of one disk, 0 to 1.
type Share struct {
	Disk string `json:"disk"`
	// Weight is a number: the sum where that is the cgroup's weight.
	Weight   int     `json:"weight"`
	Entitled float64 `json:"entitled_share"`
	Actual   float64 `json:"share"`
	BytesPS  float64 `json:"bytes_per_s"`
	IOPS     float64 `json:"iops"`
	// OwnDisk is nil where that is not known.
	OwnDisk *OwnDisk `json:"own_disk,omitempty"`
}

// StatusOptions say what to look at.
type StatusOptions struct {
	// Root is the directory that stands for /, "" for / itself.
	Root string
	// Machine is a look at it that is recent enough, nil for none.
	Machine *machine.Snapshot
	// Interval is how long to watch which cgroups are active; 0 does not watch.
	Interval time.Duration
	// All has cgroups in the document that have no weight and do nothing.
	All bool
	// Only are targets to which cgroups are limited, none for no limit.
	Only []string
	// Device is a disk to which what is told is limited, "" for no limit.
	Device string
	// wait is what passes the interval, nil for the clock.
	wait func(context.Context, time.Duration) error
}

// ReadStatus looks at the machine.
func ReadStatus(ctx context.Context, o StatusOptions) (*Status, error) {
	snapshot, noCgroups := o.Machine, error(nil)
	if snapshot == nil {
		snapshot, noCgroups = machine.Read(o.Root)
	}
	sys := snapshot.System
	d := &Status{Schema: StatusSchema, Kernel: sys.Release(), IntervalMS: o.Interval.Milliseconds(), Disks: []Disk{}, Groups: []Group{}}
	infos, err := sys.All()
	if err != nil {
		return nil, err
	}
	var only block.Chosen
	if o.Device != "" {
		if only, err = sys.Resolve(o.Device); err != nil {
			return nil, err
		}
	}
	if snapshot.BadRules != nil {
		d.NoRules = snapshot.BadRules.Error()
	}
	d.Daemon = daemonState(sys.Root)
	switch {
	case failure.Code(noCgroups) == failure.Unsupported:
		d.NoCgroups = noCgroups.Error()
	case noCgroups != nil:
		return nil, noCgroups
	}
	world := snapshot.World
	m := &statusReader{sys: sys, world: world, rules: snapshot.Rules.Rules, daemon: d.Daemon, marks: snapshot.Applied}
	d.machine = m
	if m.rulings, err = snapshot.Policy(); err != nil {
		return nil, err
	}
	if d.NoCgroups == "" {
		if m.iocost, err = world.Tree.IOCost(); err != nil {
			return nil, err
		}
	}
	for _, i := range infos {
		m.disks = append(m.disks, m.disk(i))
	}
	m.carry()
	d.Disks = m.disks
	if d.NoCgroups != "" {
		if o.Device != "" {
			d.limit(only)
		}
		return d, nil
	}
	groups := world.Groups
	if len(o.Only) > 0 {
		groups, o.All, d.limited = nil, true, true
		for _, name := range o.Only {
			only, err := world.Find(name)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(groups, only.Group) {
				groups = append(groups, only.Group)
			}
		}
	}
	if o.wait == nil {
		o.wait = sleep
	}
	if err := m.look(ctx, o); err != nil {
		return nil, err
	}
	for _, group := range groups {
		g, err := m.group(group, len(o.Only) > 0)
		if err != nil {
			return nil, err
		}
		if o.All || len(g.Weights) > 0 || len(g.Shares) > 0 {
			d.Groups = append(d.Groups, g)
		}
	}
	if o.Device != "" {
		d.limit(only)
	}
	for _, g := range d.Groups {
		for _, s := range g.Shares {
			d.NoOwnDisks = cmp.Or(d.NoOwnDisks, m.noClock[s.Disk])
		}
	}
	return d, nil
}

// limit leaves what is told of some disks.
func (d *Status) limit(only block.Chosen) {
	var numbers []string
	for _, disk := range only.Disks {
		numbers = append(numbers, disk.MajMin)
	}
	other := func(disk string) bool { return !slices.Contains(only.Names(), disk) }
	d.Disks = slices.DeleteFunc(d.Disks, func(disk Disk) bool { return other(disk.Name) })
	for i := range d.Groups {
		g := &d.Groups[i]
		g.Shares = slices.DeleteFunc(g.Shares, func(s Share) bool { return other(s.Disk) })
		for j := range g.Weights {
			w := &g.Weights[j]
			w.ActsOn = slices.DeleteFunc(w.ActsOn, other)
			w.Devices = maps.Clone(w.Devices)
			maps.DeleteFunc(w.Devices, func(majMin string, _ weight.Value) bool { return !slices.Contains(numbers, majMin) })
			w.Inert = slices.DeleteFunc(w.Inert, func(x Inert) bool { return x.On != "" && other(x.On) })
		}
	}
}

// WriteJSON writes the document as indented JSON.
func (d *Status) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(d)
}

// daemonState tells whether a daemon keeps the weights.
func daemonState(root string) string {
	switch held, known := state.Locked(root, state.DaemonLock); {
	case held:
		return DaemonRuns
	case known:
		return DaemonStopped
	}
	return DaemonUnknown
}

// What is known of the daemon.
const (
	DaemonRuns    = "running"
	DaemonStopped = "stopped"
	DaemonUnknown = "unknown"
)

// statusReader is what a document is made of.
type statusReader struct {
	rulings *policy.Policy
	rules   []rule.Rule
	marks   *state.AppliedStore
	daemon  string
	sys     block.System
	world   target.World
	iocost  map[string]bool
	disks   []Disk
	before  policy.IOSample
	after   policy.IOSample
	// parts are by disk and group; weights by file and group.
	parts   map[string]map[string]policy.Entitlement
	weights map[string]map[string]weight.Values
	// clocks are by disk, and noClock is why there is none.
	clocks  map[string]clock
	noClock map[string]string
}

// disk tells what makes weights act on one.
func (m *statusReader) disk(i block.Info) Disk {
	d := Disk{Info: i, WeightsBy: weight.Acting(i.Scheduler, m.iocost[i.MajMin])}
	switch {
	case slices.Contains(d.WeightsBy, weight.Kyber):
		d.ShareBy = m.shareBy(i.Name)
	case len(d.WeightsBy) > 0:
		d.ShareBy = "time" // both reckon with what a request costs the disk
	default:
		d.WeightsBy = []weight.Mechanism{}
		d.Why, d.Remedy = idle(i)
	}
	return d
}

// shareBy is what kyber-fairness shares on a disk: "[bytes] iops time" is bytes.
func (m *statusReader) shareBy(disk string) string {
	text, _ := os.ReadFile(m.sys.Path("sys/block", disk, "queue/iosched/share_by")) // an older module has no such tunable
	for word := range strings.FieldsSeq(string(text)) {
		if bare := strings.Trim(word, "[]"); bare != word {
			return bare
		}
	}
	return string(policy.Bytes)
}

// carry tells of devices that are on other disks what makes weights act there.
func (m *statusReader) carry() {
	for i := range m.disks {
		d := &m.disks[i]
		if len(d.On) == 0 || len(d.WeightsBy) > 0 {
			continue
		}
		d.Why, d.Remedy = "its requests wait on "+strings.Join(d.On, " and "), ""
		for _, below := range m.disks {
			if slices.Contains(d.On, below.Name) && len(below.WeightsBy) == 0 {
				d.Remedy = below.Remedy
				if len(d.On) > 1 && strings.HasPrefix(d.Remedy, "isolio enable ") {
					d.Remedy = "isolio enable " + shell.Quote(d.Name)
				}
			}
		}
	}
}

// idle is why weights do not act on a disk, and what to do.
func idle(i block.Info) (why, remedy string) {
	switch unfit := i.Unfit(); {
	case len(i.Hidden) > 0 && !i.TakesScheduler:
		return unfit, "none: " + block.ShowPaths
	case !i.TakesScheduler && i.Kind != block.Memory:
		return unfit, "none: use a disk with blk-mq queues"
	case unfit != "":
		return unfit, "none: it is no disk to share"
	case i.Zoned:
		return "zoned disks need the order that " + i.Scheduler + " keeps", "none"
	}
	return "the scheduler " + i.Scheduler + " knows no weights", "isolio enable " + shell.Quote(i.Name)
}

// look finds out who is active, and reads all weights.
func (m *statusReader) look(ctx context.Context, o StatusOptions) (err error) {
	if m.before, err = usage.TakeIOSample(m.world.Tree); err != nil {
		return err
	}
	m.after = m.before
	if o.Interval > 0 {
		if err := o.wait(ctx, o.Interval); err != nil {
			return err
		}
		if m.after, err = usage.TakeIOSample(m.world.Tree); err != nil {
			return err
		}
	}
	m.readClocks()
	m.weights = map[string]map[string]weight.Values{}
	for _, by := range weight.Mechanisms() {
		of := map[string]weight.Values{}
		for _, group := range m.world.Groups {
			// What cannot be read of one cgroup costs the others nothing.
			if values, there, err := m.world.Tree.Weights(group, by.File()); there && err == nil {
				of[group] = values
			}
		}
		m.weights[by.File()] = of
	}
	m.parts = map[string]map[string]policy.Entitlement{}
	for _, d := range m.disks {
		m.parts[d.MajMin] = map[string]policy.Entitlement{}
		for _, p := range policy.Entitlements(m.before, m.after, d.MajMin, unitOf(d), func(group string) weight.Value { return m.weightOn(d, group) }) {
			m.parts[d.MajMin][p.Group] = p
		}
	}
	return nil
}

// sleep passes time, unless it is interrupted.
func sleep(ctx context.Context, interval time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(interval):
		return nil
	}
}

// unitOf is what to count a disk's parts in.
func unitOf(d Disk) policy.Unit {
	if d.ShareBy == string(policy.IOs) {
		return policy.IOs
	}
	return policy.Bytes
}

// weightOn is the weight of a group that acts on a disk.
func (m *statusReader) weightOn(d Disk, group string) weight.Value {
	if len(d.WeightsBy) == 0 {
		return weight.Default
	}
	if v, ok := m.weights[d.WeightsBy[0].File()][group]; ok {
		return v.On(d.MajMin)
	}
	return weight.Default
}

// group tells of one cgroup; all has files in it that were never written to.
func (m *statusReader) group(path string, all bool) (Group, error) {
	g := Group{Target: m.world.Of(path), Weights: []Weight{}, Shares: []Share{}}
	var err error
	last, _ := m.marks.Get(path) // the daemon tells of one that is damaged
	if g.Reasons, g.Asked, err = m.rulings.Reasons(path, m.read, last); err != nil {
		return g, err
	}
	for _, by := range weight.Mechanisms() {
		if v, ok := m.weights[by.File()][path]; ok && (all || v.Said()) {
			g.Weights = append(g.Weights, m.judge(g, by, v))
		}
	}
	stat, err := m.world.Tree.Keyed(path, usage.StatFile)
	if err != nil {
		return g, err
	}
	for _, d := range m.disks {
		if s, ok := m.share(d, path, stat); ok {
			g.Shares = append(g.Shares, s)
		}
	}
	return g, nil
}

// share is a group's part of a disk, false if it does not use it. The scheduler
// itself says what a group is entitled to, and what its weight comes to, where it does.
func (m *statusReader) share(d Disk, group string, stat cgroup.Keyed) (Share, bool) {
	p := m.parts[d.MajMin][group]
	s := Share{
		Disk: d.Name, Weight: int(m.weightOn(d, group)), Entitled: p.Entitled, Actual: p.Actual,
		BytesPS: p.ReadBytes + p.WriteBytes, IOPS: p.ReadIOs + p.WriteIOs,
	}
	if m.weightOn(d, group) == weight.Sum {
		s.Weight = cmp.Or(int(stat[d.MajMin]["weight"]), p.Weight)
	}
	if ppm := stat[d.MajMin]["share_ppm"]; ppm > 0 && slices.Contains(d.WeightsBy, weight.Kyber) {
		s.Entitled = float64(ppm) / 1e6
	}
	if c, ok := m.clocks[d.Name]; ok {
		s.OwnDisk = ownDisk(c, group, p.Active)
	}
	return s, p.Active || s.Entitled > 0
}

// readStatus answers from what look has read of all cgroups.
func (m *statusReader) read(group, file string) (weight.Values, bool, error) {
	v, there := m.weights[file][group]
	return v, there, nil
}
