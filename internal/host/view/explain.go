// SPDX-License-Identifier: MIT

package view

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/host/policy"
	"isolio/internal/host/rule"
	"isolio/internal/host/target"
	"isolio/internal/host/usage"
	"isolio/internal/host/weight"
	"isolio/internal/table"
)

// Code names a reason. Codes are stable: programs may compare them, where the
// text beside them may change.
type Code string

// Codes of reasons, in the order of the chain.
const (
	AskedBy        Code = "asked"           // a runtime or systemd was asked, or a file written: by tells
	NotAsked       Code = "not-asked"       // none of these
	DecidedByRule  Code = "decided-rule"    // a rule decides
	DecidedDefault Code = "decided-default" // a rule's default decides, as no weight was asked for
	DecidedByClass Code = "decided-class"   // a class decides, which a label or the pod's annotation names
	DecidedByPod   Code = "decided-pod"     // an annotation of the pod decides
	DecidedByClaim Code = "decided-claim"   // a share of the disk that the pod claimed decides
	DecidedCluster Code = "decided-cluster" // the default of the pod's PriorityClass or namespace decides
	DecidedByAsked Code = "decided-asked"   // what was asked decides
	DecidedByBoost Code = "decided-hold"    // the daemon raised it for a promise that is missed
	BadAnnotation  Code = "bad-annotation"  // an annotation of the pod is no weight, or is more than it may have
	Undecided      Code = "undecided"       // neither
	InEffect       Code = "in-effect"       // io.kyber.weight holds what was decided
	Overridden     Code = "overridden"      // it holds what another program or an operator wrote, which stays
	Pending        Code = "pending"         // it holds something else, and the daemon changes that
	NotCarried     Code = "not-carried"     // it holds something else, and no daemon runs
	Leftover       Code = "leftover"        // it holds what the daemon takes back
	ByHand         Code = "by-hand"         // it holds what was written by hand, and no other weight is asked for
	Default        Code = "default"         // it holds the kernel's default
	NoFile         Code = "no-file"         // it has no io.kyber.weight
	Unsure         Code = "unsure"          // a file about the container cannot be read: nothing is changed
	NoRules        Code = "no-rules"        // the file of rules has a mistake
	Acts           Code = "acts"            // weights act on a disk
	ActsNot        Code = "acts-not"        // weights do not act on a disk
	NoSiblings     Code = "no-siblings"     // there is no sibling to compare it with
	Entitled       Code = "entitled"        // what share it is entitled to, and got
	Idle           Code = "idle"            // it used no disk
	OwnDepth       Code = "own-depth"       // it keeps too few requests outstanding to use its share
	Owed           Code = "owed"            // its requests took longer than on a disk of its own
	GivesWay       Code = "gives-way"       // fewer of its requests are in flight, as another cgroup is owed
	WaitsTurn      Code = "waits-turn"      // it is ahead of the other cgroups, and these go first
	HasShare       Code = "has-share"       // none of these
	NoOwnDisk      Code = "no-own-disk"     // which of these cannot be read
	LimitParent    Code = "limit-parent"    // a cgroup above it has a weight of its own
	LimitMax       Code = "limit-io-max"    // io.max limits it or a cgroup above it
	LimitBudget    Code = "limit-budget"    // its requests waited, out of budget
	InertWeight    Code = "inert"           // a weight that does nothing
)

// Reason is one link of the chain from what was asked to what came of it.
type Reason struct {
	Code Code `json:"code"`
	// By is who asked or decided, where the code does not tell.
	By weight.By `json:"by,omitempty"`
	// On is the disk or the cgroup that it is about, "" for none.
	On     string       `json:"on,omitempty"`
	Weight weight.Value `json:"weight,omitempty"`
	Text   string       `json:"text"`
	Remedy string       `json:"remedy,omitempty"`
}

// Explanation is what `isolio explain --json` prints.
type Explanation struct {
	Schema int `json:"schema"`
	target.Target
	Daemon  string   `json:"daemon"`
	Reasons []Reason `json:"reasons"`
	// Status is what `isolio status --json` prints of the cgroup.
	Status Group `json:"status"`
}

// Explain tells why the cgroup of o.Only has its weight, and what comes of it.
func Explain(ctx context.Context, o StatusOptions) (*Explanation, error) {
	d, err := ReadStatus(ctx, o)
	if err != nil {
		return nil, err
	}
	if d.NoCgroups != "" {
		return nil, failure.Unsupportedf("%s", d.NoCgroups)
	}
	g := d.Groups[0]
	x := explainer{m: d.machine, d: d, g: g}
	x.asked()
	x.decided()
	x.acts()
	x.got()
	x.ownDisks()
	x.limits()
	return &Explanation{Schema: StatusSchema, Target: g.Target, Daemon: d.Daemon, Reasons: x.reasons, Status: g}, nil
}

type explainer struct {
	m       *statusReader
	d       *Status
	g       Group
	reasons []Reason
}

func (x *explainer) add(r Reason) { x.reasons = append(x.reasons, r) }

func (x *explainer) asked() {
	n, key, _ := x.m.rulings.Annotation(x.g.Group)
	if n != 0 {
		x.add(Reason{Code: AskedBy, By: weight.ByPod, Weight: weight.Value(n), Text: fmt.Sprintf("annotation %s: %d", key, n)})
	}
	if text := x.m.rulings.RefusedOf(x.g.Group); text != "" {
		x.add(Reason{Code: BadAnnotation, By: weight.ByPod, Text: text})
	}
	a := x.g.Asked
	devices, _ := x.m.rulings.AskedOn(x.g.Group, x.m.read) // what cannot be read was said before
	switch text := a.How; {
	case a.File != "":
		if a.Raw != 0 && a.Raw != a.Weight {
			text += fmt.Sprintf(", as %d in %s", a.Raw, a.File)
		}
		x.add(Reason{Code: AskedBy, By: a.By, Weight: weight.Value(a.Weight), Text: text})
	case n == 0 && len(devices) == 0:
		x.add(Reason{Code: NotAsked, Text: "neither a container runtime nor systemd was asked for a weight"})
	}
	for _, majMin := range slices.Sorted(maps.Keys(devices)) {
		x.add(Reason{Code: AskedBy, By: weight.BySystemd, On: x.disk(majMin), Weight: weight.Value(devices[majMin]), Text: fmt.Sprintf("IODeviceWeight=%d", devices[majMin])})
	}
}

// disk is the name of a disk for a reader, "" for all.
func (x *explainer) disk(majMin string) string {
	if majMin == policy.EveryDisk {
		return ""
	}
	for _, d := range x.m.disks {
		if d.MajMin == majMin {
			return d.Name
		}
	}
	return majMin
}

func (x *explainer) decided() {
	if x.d.NoRules != "" {
		x.add(Reason{Code: NoRules, Text: x.d.NoRules, Remedy: "isolio daemon --check"})
	}
	if x.m.rulings.Unsure(x.g.Group) {
		x.add(Reason{Code: Unsure, Text: "a file of its container's engine cannot be read or parsed, so the weight stays as it is", Remedy: "journalctl -u isolio -p warning names the file"})
	}
	file := weight.Kyber.File()
	if len(x.g.Reasons) == 0 {
		x.add(Reason{Code: NoFile, Text: "the cgroup has no " + file + ": the module is not loaded, or the io controller ends above it", Remedy: "isolio doctor"})
		return
	}
	none := "no rule in " + rule.File
	if slices.ContainsFunc(x.m.rules, func(r rule.Rule) bool { return r.Device != "" }) {
		none += " without a device" // the others decide on their disks, or do nothing now
	}
	for _, ground := range x.g.Reasons {
		on := x.disk(ground.Disk)
		switch want := ground.Want; {
		case want == nil && ground.Disk == policy.EveryDisk:
			x.add(Reason{Code: Undecided, Text: none + " matches it"})
		case want == nil:
		case want.By == policy.ByBoost:
			x.add(Reason{Code: DecidedByBoost, By: want.By, On: on, Weight: want.Weight, Text: fmt.Sprintf("%s: %s", want.Weight, want.Why)})
		case want.By == weight.ByDefault:
			x.add(Reason{Code: DecidedDefault, By: want.By, On: on, Weight: want.Weight, Text: fmt.Sprintf("%s: the default in %s%s", want.Weight, want.RuleName(), x.matches(want))})
		case want.By == weight.ByPod:
			x.add(Reason{Code: DecidedByPod, By: want.By, On: on, Weight: want.Weight, Text: fmt.Sprintf("%s: %s", want.Weight, want.Why)})
		case want.By == policy.ByClaim:
			x.add(Reason{Code: DecidedByClaim, By: want.By, On: on, Weight: want.Weight, Text: fmt.Sprintf("%s: %s", want.Weight, want.Why)})
		case want.By == policy.ByCluster:
			x.add(Reason{Code: DecidedCluster, By: want.By, On: on, Weight: want.Weight, Text: fmt.Sprintf("%s: %s", want.Weight, want.Why)})
		case want.By == weight.ByClass:
			x.add(Reason{Code: DecidedByClass, By: want.By, On: on, Weight: want.Weight, Text: fmt.Sprintf("%s: %s", want.Weight, want.Why)})
		case want.By == weight.ByRule:
			x.add(Reason{Code: DecidedByRule, By: want.By, On: on, Weight: want.Weight, Text: fmt.Sprintf("%s: %s%s", want.Weight, want.RuleName(), x.matches(want))})
		case want.Limit != 0:
			x.add(Reason{Code: DecidedByAsked, By: want.By, On: on, Weight: want.Weight, Text: fmt.Sprintf("%s: %s of %s", want.Weight, want.Why, rule.File)})
		default:
			x.add(Reason{Code: DecidedByAsked, By: want.By, On: on, Weight: want.Weight, Text: fmt.Sprintf("%s: as it was asked for; %s matches", want.Weight, none)})
		}
		x.state(ground, on)
	}
}

// matches is what a rule says of the containers and units that it is for, and of its weight.
func (x *explainer) matches(want *policy.Want) string {
	i := slices.IndexFunc(x.m.rules, func(r rule.Rule) bool { return r.At.Nr == want.Rule && r.At.File == want.File })
	if i < 0 {
		return ""
	}
	r := x.m.rules[i]
	var words []string
	for _, one := range []struct{ key, value string }{
		{"name", r.Name}, {"pod", r.Pod}, {"unit", r.Unit}, {"class", r.Class}, {"label", r.Label}, {"annotation", r.Annotation}, {"device", r.Device},
	} {
		if one.value != "" {
			words = append(words, fmt.Sprintf("%s = %q", one.key, one.value))
		}
	}
	if r.From != "" {
		words = append(words, "class "+r.From)
	}
	return ", " + strings.Join(words, ", ")
}

// state is what the file holds against what was decided.
func (x *explainer) state(ground policy.Reasons, on string) {
	file := weight.Kyber.File()
	r := Reason{On: on, Weight: ground.Weight}
	switch ground.State {
	case policy.Default:
		r.Code, r.Text = Default, fmt.Sprintf("%s in %s, the kernel's default", ground.Weight, file)
	case policy.ByHand:
		r.Code, r.Text = ByHand, fmt.Sprintf("%s in %s: written by hand; no rule, runtime or unit asks for a weight", ground.Weight, file)
	case policy.InEffect:
		r.Code, r.Text = InEffect, fmt.Sprintf("%s in %s, as decided", ground.Weight, file)
	case policy.Overridden:
		r.Code, r.Text = Overridden, fmt.Sprintf("%s in %s: written by hand; it stays until a weight other than %s is decided", ground.Weight, file, ground.Want.AskedFor())
		r.Remedy = fmt.Sprintf("`isolio weight %s default` gives it back to the daemon", x.g.Word())
	case policy.Leftover:
		r.Code, r.Text = Leftover, fmt.Sprintf("%s in %s: the daemon wrote it; no rule, runtime or unit asks for it any more, so the daemon takes it back", ground.Weight, file)
	default:
		r.Code, r.Text = Pending, fmt.Sprintf("%s in %s: the daemon changes it to %s in its next pass", ground.Weight, file, ground.Want.Weight)
		if x.d.Daemon == DaemonStopped {
			r.Code, r.Text = NotCarried, fmt.Sprintf("%s in %s: it should be %s, and the daemon that would write that does not run", ground.Weight, file, ground.Want.Weight)
			r.Remedy = startDaemon(x.m.sys)
		}
	}
	x.add(r)
}

// acts tells on which disks the weight does something.
func (x *explainer) acts() {
	if parent, others := policy.ComparedIn(x.m.world.Groups, x.g.Group, weight.Kyber, x.m.read); !others {
		x.add(Reason{Code: NoSiblings, On: parent, Text: "a weight is compared with those of siblings, and it has no sibling in " + parent, Remedy: "give " + parent + " the weight"})
	}
	for _, d := range x.d.Disks {
		switch {
		case len(d.WeightsBy) > 0:
			var files []string
			for _, by := range d.WeightsBy {
				files = append(files, by.File())
			}
			x.add(Reason{Code: Acts, On: d.Name, Weight: x.m.weightOn(d, x.g.Group), Text: fmt.Sprintf("%s, through %s; shared: %s", x.m.weightOn(d, x.g.Group), strings.Join(files, ", "), d.ShareBy)})
		case d.Unfit() == "":
			x.add(Reason{Code: ActsNot, On: d.Name, Text: d.Why, Remedy: d.Remedy})
		}
	}
	for _, w := range x.g.Weights {
		for _, inert := range w.Inert {
			if w.File != weight.Kyber.File() {
				x.add(Reason{Code: InertWeight, On: inert.On, Weight: w.Default, Text: w.File + ": " + inert.Why, Remedy: inert.Remedy})
			}
		}
	}
}

// got tells what came of it.
func (x *explainer) got() {
	if len(x.g.Shares) == 0 {
		x.add(Reason{Code: Idle, Text: "it used no disk in the interval, and only active cgroups have a share"})
	}
	for _, s := range x.g.Shares {
		text := fmt.Sprintf("%.2f %%", 100*s.Entitled)
		if x.d.IntervalMS > 0 {
			text += fmt.Sprintf("; got %.2f %%, %.1f MiB/s, %.0f IOPS", 100*s.Actual, s.BytesPS/(1<<20), s.IOPS)
		}
		x.add(Reason{Code: Entitled, On: s.Disk, Weight: weight.Value(s.Weight), Text: text})
	}
}

// ownDisks tells what it has against a disk of its own.
func (x *explainer) ownDisks() {
	for _, s := range x.g.Shares {
		if why := x.m.noClock[s.Disk]; why != "" {
			x.add(Reason{Code: NoOwnDisk, On: s.Disk, Text: why})
		}
		if s.OwnDisk == nil {
			continue
		}
		r := Reason{Code: s.OwnDisk.Situation, On: s.Disk, Text: s.OwnDisk.words(x.m.called)}
		if r.Code == OwnDepth {
			r.Remedy = "have it send more requests at a time"
		}
		x.add(r)
	}
}

// limits tells what keeps it from more.
func (x *explainer) limits() {
	for dir := filepath.Dir(x.g.Group); dir != policy.RootGroup; dir = filepath.Dir(dir) {
		if v, ok := x.m.weights[weight.Kyber.File()][dir]; ok && v.Said() {
			text := fmt.Sprintf("it shares what its parent %s gets, whose weight is %s", dir, v)
			if v.Default == weight.Sum {
				text += ": what its active children weigh together"
			}
			x.add(Reason{Code: LimitParent, On: dir, Weight: v.Default, Text: text})
		}
	}
	for dir := x.g.Group; dir != policy.RootGroup; dir = filepath.Dir(dir) {
		limits, err := x.m.world.Tree.Keyed(dir, "io.max")
		if err != nil {
			continue
		}
		for _, majMin := range slices.Sorted(maps.Keys(limits)) {
			var words []string
			for _, key := range slices.Sorted(maps.Keys(limits[majMin])) {
				words = append(words, fmt.Sprintf("%s=%d", key, limits[majMin][key]))
			}
			if len(words) > 0 && x.shown(majMin) {
				x.add(Reason{Code: LimitMax, On: x.disk(majMin), Text: fmt.Sprintf("io.max of %s: %s", dir, strings.Join(words, " "))})
			}
		}
	}
	stat, err := x.m.world.Tree.Keyed(x.g.Group, usage.StatFile)
	if err != nil {
		return
	}
	for _, d := range x.d.Disks {
		if us := stat[d.MajMin]["throttled_usec"]; us > 0 {
			x.add(Reason{Code: LimitBudget, On: d.Name, Text: fmt.Sprintf("its requests were throttled for %.1f s in all: it asks for more than its share", float64(us)/1e6)})
		}
	}
}

// shown reports whether a disk is one of those that are told of.
func (x *explainer) shown(majMin string) bool {
	return slices.ContainsFunc(x.d.Disks, func(d Disk) bool { return d.MajMin == majMin })
}

// steps are what codes are about, for a reader.
var steps = map[Code]string{
	AskedBy: "asked", NotAsked: "asked", DecidedByRule: "decided", DecidedDefault: "decided", DecidedByPod: "decided", DecidedByClass: "decided", DecidedByClaim: "decided", DecidedCluster: "decided", DecidedByAsked: "decided", DecidedByBoost: "decided", BadAnnotation: "asked", Undecided: "decided", NoRules: "decided", Unsure: "decided",
	Acts: "acts on", ActsNot: "does not act on", NoSiblings: "acts on", InertWeight: "does not act on", Entitled: "entitled", Idle: "entitled",
	OwnDepth: "own disk", Owed: "own disk", GivesWay: "own disk", WaitsTurn: "own disk", HasShare: "own disk", NoOwnDisk: "own disk",
	LimitParent: "limited", LimitMax: "limited", LimitBudget: "limited",
}

// WriteTable writes the chain for a reader.
func (e *Explanation) WriteTable(w io.Writer) error {
	if err := table.Lines(w, fmt.Sprintf("%s; daemon: %s", e.Target, e.Daemon)); err != nil {
		return err
	}
	var rows [][]string
	for _, r := range e.Reasons {
		step := steps[r.Code]
		if step == "" {
			step = "in effect"
		}
		if len(rows) > 0 && rows[len(rows)-1][1] != "" && previous(rows) == step {
			step = ""
		}
		text := r.Text
		if r.Remedy != "" {
			text += "; remedy: " + r.Remedy
		}
		rows = append(rows, []string{step, string(r.Code), r.On, text})
	}
	return table.Write(w, []table.Column{{Head: "step"}, {Head: "code", Spare: 1}, {Head: "on"}, {Head: "why"}}, rows)
}

// previous is the last step that was named.
func previous(rows [][]string) string {
	for _, row := range slices.Backward(rows) {
		if row[0] != "" {
			return row[0]
		}
	}
	return ""
}

// WriteJSON writes it as indented JSON.
func (e *Explanation) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(e)
}
