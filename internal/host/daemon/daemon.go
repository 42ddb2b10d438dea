// SPDX-License-Identifier: MIT

// Package daemon keeps io.kyber.weight in step with what is asked for: in a file
// of rules, or in io.bfq.weight and io.weight, which container runtimes and
// systemd write. What they ask for gets through there in several scales; the
// daemon restores what weights were meant to be to each other.
//
// All that it knows of weights is in the kernel and in /run: weights, and marks that tell
// which were its own. It can be killed and started at any moment.
//
// Once a second it has promises judged, in a goroutine of its own: see ledger.
//
// Tenants choose names of cgroups and containers, and make cgroups where they may.
// So what is wrong with one cgroup, container or file costs that one only.
package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/machine"
	"isolio/internal/host/policy"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
	"isolio/internal/plan"
)

// Daemon keeps the weights of one machine.
type Daemon struct {
	// Root is the machine's root directory, "" for /.
	Root string
	// RuleFile is where the rules are; more are in the directory beside it.
	RuleFile string
	// Every is how often everything is looked at again. What happens between is
	// noticed by inotify, and disks are looked at on their own; this is for the
	// rest, such as a container's file that was changed.
	Every time.Duration
	// NoNRI has no runtime asked for pods, whatever the rules say.
	NoNRI bool
	Log   *slog.Logger

	tree   cgroup.Tree
	config rule.Config
	// inForce is config, for scrapes.
	inForce atomic.Pointer[rule.Config]
	marks   *state.AppliedStore
	watcher *fsnotify.Watcher // nil for a daemon that looks once, or cannot have one
	groups  []string          // of the last look
	finder  *target.Finder
	disks   policy.DiskNumbers // with the scheduler
	given   os.FileInfo        // the file of what a cluster gave, at the last look; nil for none
	// units are what systemd said that they were given, and unitsAt when.
	units   map[string]target.Told
	unitsAt time.Time
	// containers are those that run.
	containers []target.Container
	server     *metricsServer // nil for none
	pods       pods
	health     health
	ledger     *ledger // nil for a daemon that looks once
	// swept is true if no cgroup went since marks of those that had gone were removed.
	swept bool
	// byRules are the shares that rules give pods, by the disk's number.
	byRules map[string]int
	// kernel is what weights are written to.
	kernel plan.Machine
	// lines bound what tenants write to the log.
	lines budget
	// told are faults that were logged, so that each is once.
	told map[fault]string
}

// fault is what is wrong, and with what: a cgroup, a file, a rule.
type fault struct{ what, with string }

// Kinds of faults.
const (
	cannotRead  = "read"
	cannotWrite = "weight"
	cannotMark  = "mark"
	engineFile  = "engine file"
	blindRule   = "rules"
	tooMany     = "cgroups"
	notWatched  = "inotify"
	noMetrics   = "metrics"
	noPods      = "nri"
	overgiven   = "shares"
	// badHeld, notKept, notPlanned and tooManyTenants are of promises.
	badHeld        = "raised weights"
	notKept        = "history"
	notPlanned     = "promise"
	tooManyTenants = "promise to several"
	// annotation is what a pod's author did, and no problem of the machine.
	annotation = "annotation"
)

// Change is one weight that was written, or would be.
type Change struct {
	plan.Step
	Group, Why string
	// Disk is "MAJ:MIN", "" for all disks.
	Disk string
	// Name is the container's, "" for none.
	Name string
}

// decision is what is to be done about one cgroup.
type decision struct {
	group   string
	changes []Change
	// last is its mark, and next the one to leave before the changes are made.
	last, next state.Applied
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
	d.finder = &target.Finder{Root: d.Root}
	d.marks = state.OpenApplied(d.Root, tree)
	d.told = map[fault]string{}
	d.kernel = plan.OS{}
	config, err := rule.Load(d.Root, d.RuleFile)
	if err != nil {
		return err
	}
	d.use(config)
	return nil
}

// use takes rules into force.
func (d *Daemon) use(config rule.Config) {
	d.config = config
	d.inForce.Store(&config)
	d.finder.Keep(config.Keeps)
	d.settle(blindRule, nil)
	d.health.reloaded(true)
}

// Reload reads the rules again. If something is wrong with them, those in force
// stay.
func (d *Daemon) Reload() error {
	config, err := rule.Load(d.Root, d.RuleFile)
	if err != nil {
		d.health.reloaded(false)
		return fmt.Errorf("%w; the rules in force stay", err)
	}
	d.use(config)
	return nil
}

// look looks at cgroups, and returns what is to be done. Nothing is changed. An
// error is of the machine: what is wrong with one cgroup is logged, and the
// cgroup keeps its weight.
func (d *Daemon) look(at scope) ([]decision, error) {
	m, err := d.machine(&at)
	if err != nil {
		return nil, err
	}
	if at.all || at.moved {
		d.checkGiven(m)
	}
	var all []decision
	for _, group := range d.groups {
		if !at.has(group) {
			continue
		}
		one, err := d.lookAt(m, group)
		switch {
		case failure.IsGone(err):
		case err != nil:
			d.fail(cannotRead, group, err)
		default:
			d.clear(cannotRead, group)
			all = append(all, one)
		}
	}
	return all, nil
}

// checkGiven tells of disks of which claims and rules give more than there is. isolio-node sells no
// share that a rule gives, but rules and pods come after claims.
func (d *Daemon) checkGiven(m *policy.Policy) {
	over, rules, sum := map[string]string{}, map[string]int{}, 0
	for disk, given := range m.Given(d.tree.Weights) {
		if given.Rules > 0 {
			rules[disk] = given.Rules
		}
		if n := given.Over(); n > 0 {
			sum += n
			over[disk] = fmt.Sprintf("claims give %d and rules %d of its %d shares: each has less in proportion; lower the weights of rules for pods", given.Claims, given.Rules, state.WholeDisk)
		}
	}
	d.settle(overgiven, over)
	d.health.gives(sum)
	d.byRules = rules
}

// machine is what is known now. It adds to the scope those cgroups of which
// something else is known than before.
func (d *Daemon) machine(at *scope) (*policy.Policy, error) {
	if at.all || at.moved {
		if err := d.list(at); err != nil {
			return nil, err
		}
	}
	disks, err := machine.SharingDisks(block.System{Root: d.Root}, d.config.Rules)
	d.disks = disks
	m := policy.New(d.config, disks, d.containers).Hold(d.raised()).Ask(d.toldBySystemd)
	d.settle(annotation, m.Refused())
	return m, err
}

// askAgain is how old an answer of systemd may be, and inDoubt how old where files differ from it. A pass
// follows each change of a cgroup, and a file that another hand wrote differs for ever.
const (
	askAgain = 10 * time.Second
	inDoubt  = time.Second
)

// toldBySystemd is what systemd says that units were given.
func (d *Daemon) toldBySystemd(doubt bool) map[string]target.Told {
	old := askAgain
	if doubt {
		old = inDoubt
	}
	if now := time.Now(); now.Sub(d.unitsAt) > old {
		d.units, d.unitsAt = machine.SystemdTold(block.System{Root: d.Root}), now
	}
	return d.units
}

// walks is how often the tree is walked at most for what comes meanwhile.
const walks = 4

// walk finds out which cgroups there are. New ones are watched before they are
// looked at, and so is what came in them before they were watched.
func (d *Daemon) walk() (groups []string, err error) {
	for range walks {
		if groups, err = d.tree.Groups(); err != nil {
			break
		}
		if groups = d.limited(groups); d.watch(groups) == 0 {
			break
		}
	}
	return groups, err
}

// mostInside is how many cgroups are looked at inside a container or a unit. Each costs memory and an inotify watch, of which there are
// so many for all.
const mostInside = 1000

// limited leaves out what is beyond that.
func (d *Daemon) limited(groups []string) []string {
	groups, inside := target.LimitPerTenant(groups, mostInside)
	over := map[string]string{}
	for tenant, nr := range inside {
		over[tenant] = fmt.Sprintf("has %d cgroups inside: %d keep the weights that they have; limit them with cgroup.max.descendants", nr, nr-mostInside)
	}
	d.settle(tooMany, over)
	return groups
}

// list finds out which cgroups there are, and whose.
func (d *Daemon) list(at *scope) error {
	d.given = d.givenNow()
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
		d.swept = false
		for _, what := range []string{cannotRead, cannotWrite} {
			d.clear(what, group)
		}
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
	d.settle(engineFile, d.finder.Faults())
	blind := map[string]string{}
	if all := d.config.Blind(containers); len(all) > 0 {
		blind[d.RuleFile] = strings.Join(all, "; ")
	}
	d.settle(blindRule, blind)
	at.addChanged(d.containers, containers)
	if len(at.groups) > 0 && (policy.Claims(d.containers) || policy.Claims(containers)) {
		at.addPods(containers) // what claims leave is for all others together
	}
	d.containers = containers
	return nil
}

// lookAt decides what is to be written to one cgroup.
func (d *Daemon) lookAt(m *policy.Policy, group string) (decision, error) {
	is := decision{group: group}
	have, there, err := d.tree.Weights(group, weight.Kyber.File())
	if err != nil || !there || m.Unsure(group) {
		return is, err
	}
	wants, _, err := m.Wants(group, d.tree.Weights)
	if err != nil {
		return is, err
	}
	if is.last, err = d.marks.Get(group); err != nil {
		return is, err
	}
	changes, next := policy.Decide(wants, have, is.last)
	if d.ledger != nil {
		d.ledger.sees(group, wants, have, is.last)
	}
	is.next = next
	for _, c := range changes {
		majMin := c.Disk
		if majMin == policy.EveryDisk {
			majMin = ""
		}
		step, err := d.tree.SetWeight(group, weight.Kyber.File(), majMin, c.Weight)
		if err != nil {
			return is, err
		}
		why := wants[c.Disk].Why
		if c.Weight == 0 {
			why = "no rule, runtime or unit asks for it any more"
		}
		is.changes = append(is.changes, Change{Step: step, Group: group, Why: why, Disk: majMin, Name: m.Name(group)})
	}
	return is, nil
}

// Preview returns what a look at everything would write, and changes nothing.
func (d *Daemon) Preview() ([]Change, error) {
	all, err := d.look(scope{all: true})
	var changes []Change
	for _, one := range all {
		changes = append(changes, one.changes...)
	}
	return changes, err
}

// Once looks at every cgroup and writes what is to be written. It returns how
// many weights it wrote. The error tells of cgroups that do not have what they
// are to have.
func (d *Daemon) Once(ctx context.Context) (int, error) {
	nr, err := d.write(ctx, scope{all: true})
	if err != nil {
		return nr, err
	}
	for _, what := range []string{cannotRead, cannotWrite} {
		with := d.with(what)
		if len(with) > 0 {
			return nr, fmt.Errorf("%d of %d cgroups keep the weights that they have; the first: %s: %s", len(with), len(d.groups), with[0], d.told[fault{what, with[0]}])
		}
	}
	return nr, nil
}

// write looks at cgroups and writes what is to be written. A weight that cannot
// be written is logged, and tried again by the next look.
func (d *Daemon) write(ctx context.Context, at scope) (int, error) {
	all, err := d.look(at)
	if err != nil {
		return 0, err
	}
	nr := 0
	for i := range all {
		nr += d.apply(ctx, &all[i])
	}
	d.leaveOut(time.Now())
	d.keepAccount(at)
	if !d.swept {
		d.marks.Sweep(d.groups)
		d.swept = true
	}
	d.health.looked(d.disks.Count(), len(d.groups), len(d.containers), d.problems(), len(d.with(annotation)))
	return nr, nil
}

// apply does what was decided about one cgroup, and returns how many weights it
// wrote.
func (d *Daemon) apply(ctx context.Context, is *decision) (nr int) {
	if !maps.Equal(is.last, is.next) {
		switch err := d.marks.Set(is.group, is.next); {
		case failure.IsGone(err):
			return 0
		case err != nil:
			d.fail(cannotMark, "marks", err)
		}
	}
	for i := range is.changes {
		c := &is.changes[i]
		err := plan.On(d.kernel).Apply([]plan.Step{c.Step})
		switch {
		case err == nil:
			nr++
			d.health.wrote()
			d.clear(cannotWrite, c.Group)
			attrs := []any{"cgroup", c.Group, "value", c.Value, "before", c.Undo, "why", c.Why, "by", "daemon"}
			if c.Disk != "" {
				attrs = append(attrs, "disk", c.Disk)
			}
			if c.Name != "" {
				attrs = append(attrs, "name", c.Name)
			}
			if d.lines.allows(c.Group) {
				d.Log.InfoContext(ctx, "weight", attrs...)
			}
		case failure.IsGone(err):
		default:
			d.health.wroteNot()
			d.fail(cannotWrite, c.Group, err)
		}
	}
	return nr
}

// fail logs an error, once for as long as it is the same.
func (d *Daemon) fail(what, with string, err error) {
	if d.told[fault{what, with}] != err.Error() {
		d.told[fault{what, with}] = err.Error()
		if d.lines.allows(with) {
			d.Log.Error(what, "of", with, "error", err.Error())
		}
	}
}

func (d *Daemon) clear(what, with string) { delete(d.told, fault{what, with}) }

// settle replaces all warnings of a kind, and logs those that are new.
func (d *Daemon) settle(what string, now map[string]string) {
	for f := range d.told {
		if _, still := now[f.with]; f.what == what && !still {
			delete(d.told, f)
		}
	}
	for _, with := range slices.Sorted(maps.Keys(now)) {
		if d.told[fault{what, with}] != now[with] {
			d.told[fault{what, with}] = now[with]
			d.Log.Warn(what, "of", with, "warning", now[with])
		}
	}
}

// problems is how many faults of the machine there are.
func (d *Daemon) problems() int { return len(d.told) - len(d.with(annotation)) + d.ledger.problems() }

// with are those with which something is wrong.
func (d *Daemon) with(what string) []string {
	var all []string
	for f := range d.told {
		if f.what == what {
			all = append(all, f.with)
		}
	}
	slices.Sort(all)
	return all
}

// Status is one line about what the daemon does.
func (d *Daemon) Status() string {
	text := strconv.Itoa(len(d.groups)) + " cgroups, " + strconv.Itoa(len(d.containers)) + " containers, " +
		strconv.Itoa(len(d.config.Rules)) + " rules"
	if nr := d.problems(); nr > 0 {
		text += ", " + strconv.Itoa(nr) + " problems (see the log)"
	}
	return text
}
