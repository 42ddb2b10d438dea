// SPDX-License-Identifier: MIT

// Package status tells of every disk whether weights act on it, and of every
// weight what was meant, what comes of it, and why nothing does.
package status

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/container"
	"isolio/internal/host/share"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
)

// Schema is the version of the document; keys may be added without a new one.
const Schema = 1

// Document is what `isolio status --json` prints.
type Document struct {
	Schema int    `json:"schema"`
	Kernel string `json:"kernel"`
	// IntervalMS is how long was looked at who is active, 0 if nobody looked.
	IntervalMS int64   `json:"interval_ms"`
	Disks      []Disk  `json:"disks"`
	Groups     []Group `json:"cgroups"`
	// NoCgroups says why there is no cgroup to tell of.
	NoCgroups string `json:"no_cgroups,omitempty"`
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
	// Weights are what its files hold: those that somebody wrote.
	Weights []Weight `json:"weights"`
	// Shares are of the disks that it used.
	Shares []Share `json:"shares"`
}

// Weight is what one file holds.
type Weight struct {
	File    string         `json:"file"`
	Default int            `json:"default"`
	Devices map[string]int `json:"devices,omitempty"`
	// Means is what the number is to who said nothing.
	Means string `json:"means"`
	// ActsOn are the disks on which it does something.
	ActsOn []string `json:"acts_on"`
	// CarriedBy is the file in which the disks find what was asked here, "" for none.
	CarriedBy string `json:"carried_by,omitempty"`
	// Inert is where it does nothing, or something else than was asked.
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
	Disk     string  `json:"disk"`
	Weight   int     `json:"weight"`
	Entitled float64 `json:"entitled_share"`
	Actual   float64 `json:"share"`
	BytesPS  float64 `json:"bytes_per_s"`
	IOPS     float64 `json:"iops"`
}

// Options say what to look at.
type Options struct {
	// Root is the directory that stands for /, "" for / itself.
	Root string
	// Interval is how long to look who is active; 0 does not look.
	Interval time.Duration
	// All has cgroups in the document that have no weight and do nothing.
	All bool
	// Only is a target to which cgroups are limited, "" for no limit.
	Only string
	// Device is a disk to which what is told is limited, "" for no limit.
	Device string
	// wait is what passes the interval, nil for the clock.
	wait func(context.Context, time.Duration) error
}

// Read looks at the machine.
func Read(ctx context.Context, o Options) (*Document, error) {
	sys := block.System{Root: o.Root}
	d := &Document{Schema: Schema, Kernel: sys.Release(), IntervalMS: o.Interval.Milliseconds(), Disks: []Disk{}, Groups: []Group{}}
	infos, err := sys.All()
	if err != nil {
		return nil, err
	}
	var only *block.Device
	if o.Device != "" {
		if only, err = sys.Find(o.Device); err != nil {
			return nil, err
		}
	}
	world, err := target.Read(o.Root)
	switch {
	case failure.Code(err) == failure.Unsupported:
		d.NoCgroups = err.Error()
	case err != nil:
		return nil, err
	}
	m := machine{sys: sys, world: world}
	if d.NoCgroups == "" {
		if m.iocost, err = world.Tree.IOCost(); err != nil {
			return nil, err
		}
	}
	for _, i := range infos {
		m.disks = append(m.disks, m.disk(i))
	}
	d.Disks = m.disks
	if d.NoCgroups != "" {
		return d, nil
	}
	groups := world.Groups
	if o.Only != "" {
		only, err := world.Find(o.Only)
		if err != nil {
			return nil, err
		}
		groups, o.All = []string{only.Group}, true
	}
	if o.wait == nil {
		o.wait = sleep
	}
	if err := m.look(ctx, o); err != nil {
		return nil, err
	}
	for _, group := range groups {
		g, err := m.group(group, o.Only != "")
		if err != nil {
			return nil, err
		}
		if o.All || len(g.Weights) > 0 || len(g.Shares) > 0 {
			d.Groups = append(d.Groups, g)
		}
	}
	if only != nil {
		d.limit(only)
	}
	return d, nil
}

// limit leaves what is told of one disk.
func (d *Document) limit(only *block.Device) {
	d.Disks = slices.DeleteFunc(d.Disks, func(other Disk) bool { return other.Name != only.Name })
	for i := range d.Groups {
		g := &d.Groups[i]
		g.Shares = slices.DeleteFunc(g.Shares, func(s Share) bool { return s.Disk != only.Name })
		for j := range g.Weights {
			w := &g.Weights[j]
			w.ActsOn = slices.DeleteFunc(w.ActsOn, func(disk string) bool { return disk != only.Name })
			w.Devices = maps.Clone(w.Devices)
			maps.DeleteFunc(w.Devices, func(majMin string, _ int) bool { return majMin != only.MajMin })
			w.Inert = slices.DeleteFunc(w.Inert, func(x Inert) bool { return x.On != "" && x.On != only.Name })
		}
	}
}

// WriteJSON writes the document as indented JSON.
func (d *Document) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(d)
}

// machine is what a document is made of.
type machine struct {
	sys    block.System
	world  target.World
	iocost map[string]bool
	disks  []Disk
	before share.Sample
	after  share.Sample
	// parts are by disk and group; weights by file and group.
	parts   map[string]map[string]share.Part
	weights map[string]map[string]weight.Values
}

// disk tells what makes weights act on one.
func (m *machine) disk(i block.Info) Disk {
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
func (m *machine) shareBy(disk string) string {
	text, _ := os.ReadFile(m.sys.Path("sys/block", disk, "queue/iosched/share_by")) // an older module has no such tunable
	for word := range strings.FieldsSeq(string(text)) {
		if bare := strings.Trim(word, "[]"); bare != word {
			return bare
		}
	}
	return string(share.Bytes)
}

// idle is why weights do not act on a disk, and what to do.
func idle(i block.Info) (why, remedy string) {
	switch {
	case !i.TakesScheduler && len(i.Below) > 0:
		return "it passes requests on to " + strings.Join(i.Below, ", "), "isolio enable " + i.Below[0]
	case !i.TakesScheduler:
		return "its driver takes no scheduler", "none: use a disk with blk-mq queues"
	case i.Zoned:
		return "zoned disks need the order that " + i.Scheduler + " keeps", "none"
	}
	return "the scheduler " + i.Scheduler + " knows no weights", "isolio enable " + i.Name
}

// look finds out who is active, and reads all weights.
func (m *machine) look(ctx context.Context, o Options) (err error) {
	if m.before, err = share.Take(m.world.Tree); err != nil {
		return err
	}
	m.after = m.before
	if o.Interval > 0 {
		if err := o.wait(ctx, o.Interval); err != nil {
			return err
		}
		if m.after, err = share.Take(m.world.Tree); err != nil {
			return err
		}
	}
	m.weights = map[string]map[string]weight.Values{}
	for _, by := range weight.Mechanisms() {
		of := map[string]weight.Values{}
		for _, group := range m.world.Groups {
			values, there, err := m.world.Tree.Weights(group, by.File())
			if err != nil {
				return err
			}
			if there {
				of[group] = values
			}
		}
		m.weights[by.File()] = of
	}
	m.parts = map[string]map[string]share.Part{}
	for _, d := range m.disks {
		m.parts[d.MajMin] = map[string]share.Part{}
		for _, p := range share.Parts(m.before, m.after, d.MajMin, unitOf(d), func(group string) int { return m.weightOn(d, group) }) {
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
func unitOf(d Disk) share.Unit {
	if d.ShareBy == string(share.IOs) {
		return share.IOs
	}
	return share.Bytes
}

// weightOn is the weight of a group that acts on a disk.
func (m *machine) weightOn(d Disk, group string) int {
	if len(d.WeightsBy) == 0 {
		return weight.Default
	}
	if v, ok := m.weights[d.WeightsBy[0].File()][group]; ok {
		return v.On(d.MajMin)
	}
	return weight.Default
}

// group tells of one cgroup; all has files in it that nobody wrote to.
func (m *machine) group(path string, all bool) (Group, error) {
	g := Group{Target: m.world.Of(path), Weights: []Weight{}, Shares: []Share{}}
	g.Asked = m.asked(path).Decode()
	for _, by := range weight.Mechanisms() {
		if v, ok := m.weights[by.File()][path]; ok && (all || v.Said()) {
			g.Weights = append(g.Weights, m.judge(g, by, v))
		}
	}
	stat, err := m.world.Tree.Keyed(path, "io.kyber.stat")
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
// itself says what a group is entitled to, where it does.
func (m *machine) share(d Disk, group string, stat cgroup.Keyed) (Share, bool) {
	p := m.parts[d.MajMin][group]
	s := Share{
		Disk: d.Name, Weight: m.weightOn(d, group), Entitled: p.Entitled, Actual: p.Actual,
		BytesPS: p.ReadBytes + p.WriteBytes, IOPS: p.ReadIOs + p.WriteIOs,
	}
	if ppm := stat[d.MajMin]["share_ppm"]; ppm > 0 && slices.Contains(d.WeightsBy, weight.Kyber) {
		s.Entitled = float64(ppm) / 1e6
	}
	return s, p.Active || s.Entitled > 0
}

// asked is what there is to tell from what was asked for.
func (m *machine) asked(group string) weight.Evidence {
	bfq, io := m.weights[weight.BFQ.File()], m.weights[weight.IOCost.File()]
	e := WithContainer(weight.Evidence{BFQ: bfq[group].Default, IO: io[group].Default}, m.world.Containers, group)
	if e.ByCrun {
		inner := container.Container{Cgroup: group, ByCrun: true}.InnerGroup()
		e.InnerBFQ, e.InnerIO = bfq[inner].Default, io[inner].Default
	}
	return e
}

// WithContainer adds what is known of the container whose cgroup it is.
func WithContainer(e weight.Evidence, containers []container.Container, group string) weight.Evidence {
	for _, c := range containers {
		if c.Cgroup == group {
			e.Container, e.ByCrun, e.SpecRead, e.OCI = true, c.ByCrun, c.SpecRead, c.Weight
		}
	}
	return e
}

// siblings reports whether there is anybody to compare a group's weight with.
// The root group's own tasks compete with its children.
func (m *machine) siblings(group string) bool {
	parent := filepath.Dir(group)
	return parent == share.Root || slices.ContainsFunc(m.world.Groups, func(other string) bool {
		return other != group && filepath.Dir(other) == parent
	})
}
