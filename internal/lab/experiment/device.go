// SPDX-License-Identifier: MIT

package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/tomlfile"
)

// The kinds of disk that the lab can make.
const (
	NullBlk   = "null_blk"  // the kernel's: a constant time for each request
	ModelDisk = "modeldisk" // this project's: behaves like a disk that exists
)

// Device is the disk that the lab makes for the load.
type Device struct {
	Kind   string `json:"kind,omitzero"`   // NullBlk or ModelDisk
	Tags   int    `json:"tags,omitzero"`   // requests a hardware queue holds at once
	Queues int    `json:"queues,omitzero"` // hardware queues, without those that are polled
	// SizeMiB is the disk's size; 0 leaves a modeldisk its preset's.
	SizeMiB int `json:"size_mib,omitzero"`
	// CompletionUS is the microseconds a null_blk takes for a request of any
	// size; 0 completes it at once, where it is sent.
	CompletionUS int `json:"completion_us,omitzero"`
	// Filesystem is what is made on the disk, for files in place of the disk
	// itself: one of Filesystems, "" for none.
	Filesystem string `json:"filesystem,omitzero"`
	// SwapMiB is how large a file of it the kernel swaps to; 0 is none.
	SwapMiB int `json:"swap_mib,omitzero"`
	// Share is the part of its speed that the disk has, above 0 to 1; 0 for all. A file
	// cannot say it.
	Share float64 `json:"share,omitzero"`
	// Model is what a modeldisk is; the zero Model for a null_blk.
	Model Model `json:"model,omitzero"`
}

// Model is what a modeldisk behaves like.
type Model struct {
	Name string `json:"name,omitzero"` // one of Models
	// Preset is the disk whose figures the model has; "" is the model's first.
	Preset string `json:"preset,omitzero"`
	// Scale is the factor by which the real disk is slowed down, 1..1000.
	Scale int `json:"scale,omitzero"`
	// Seed is where the model's own random numbers begin.
	Seed       int64 `json:"seed,omitzero"`
	PollQueues int   `json:"poll_queues,omitzero"` // hardware queues that are polled
	// MemoryBacked disks keep what is written; others read as they like.
	MemoryBacked bool `json:"memory_backed,omitzero"`
	WriteCache   bool `json:"write_cache,omitzero"`
	Discard      bool `json:"discard,omitzero"`
	// Params are parameters of the model that differ from the preset's. Which
	// there are, and their ranges, the module knows.
	Params map[string]int64 `json:"params,omitzero"`
	// Iocost is what io.cost is told about the disk, nil for nothing: always so where no
	// contender is iocost.
	Iocost *Iocost `json:"iocost,omitzero"`
}

// Iocost is a linear model for io.cost: bytes and requests per second that the
// disk can do, unscaled.
type Iocost struct {
	RBPS      int64 `json:"rbps,omitzero"`
	RSeqIOPS  int64 `json:"rseqiops,omitzero"`
	RRandIOPS int64 `json:"rrandiops,omitzero"`
	WBPS      int64 `json:"wbps,omitzero"`
	WSeqIOPS  int64 `json:"wseqiops,omitzero"`
	WRandIOPS int64 `json:"wrandiops,omitzero"`
	// RLatUS and WLatUS are latencies in microseconds: when more than 5 % of the
	// reads or writes take longer, the disk counts as overloaded, and io.cost
	// may go down to half of the model's rate. 0 is none.
	RLatUS int64 `json:"rlat_us,omitzero"`
	WLatUS int64 `json:"wlat_us,omitzero"`
}

// Models lists what a modeldisk can be.
func Models() []string { return []string{"fixed", "hdd", "flash", "nvme", "ull"} }

// String describes the device in one line.
func (d Device) String() string {
	queues := countOf(d.Queues, "queue") + fmt.Sprintf(" of %d tags", d.Tags)
	if d.Kind != ModelDisk {
		return fmt.Sprintf("%s, completion %s us, %s, %d MiB", d.Kind, thousandths(d.CompletionNS()), queues, d.SizeMiB)
	}
	m := d.Model
	name := m.Name
	if m.Preset != "" {
		name += "/" + m.Preset
	}
	about := []string{d.Kind + " " + name}
	for _, param := range slices.Sorted(maps.Keys(m.Params)) {
		about = append(about, fmt.Sprintf("%s %d", param, m.Params[param]))
	}
	about = append(about, "scale "+thousandths(d.Slowdown()), queues)
	if m.PollQueues > 0 {
		about = append(about, countOf(m.PollQueues, "poll queue"))
	}
	if d.SizeMiB > 0 {
		about = append(about, fmt.Sprintf("%d MiB", d.SizeMiB))
	}
	for _, has := range []struct {
		it   bool
		name string
	}{{m.MemoryBacked, "memory-backed"}, {m.WriteCache, "write cache"}, {m.Discard, "discard"}} {
		if has.it {
			about = append(about, has.name)
		}
	}
	if d.Filesystem != "" {
		about = append(about, d.Filesystem)
	}
	if d.SwapMiB > 0 {
		about = append(about, fmt.Sprintf("swap %d MiB", d.SwapMiB))
	}
	return strings.Join(about, ", ")
}

// thousandths writes 1000 as "1", and 1500 as "1.5".
func thousandths(n int64) string { return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) }

// countOf writes "1 queue" and "2 queues".
func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// The file's [device]. Which keys go with which kind is in kindKeys.
type fileDevice struct {
	Disk         *string        `toml:"disk"`
	Kind         *string        `toml:"kind"`
	CompletionUS *int64         `toml:"completion_us"`
	Model        *string        `toml:"model"`
	Preset       *string        `toml:"preset"`
	Scale        *int64         `toml:"scale"`
	Seed         *int64         `toml:"seed"`
	Tags         *int64         `toml:"tags"`
	Queues       *int64         `toml:"queues"`
	PollQueues   *int64         `toml:"poll_queues"`
	SizeMiB      *int64         `toml:"size_mib"`
	MemoryBacked *bool          `toml:"memory_backed"`
	WriteCache   *bool          `toml:"write_cache"`
	Discard      *bool          `toml:"discard"`
	Filesystem   *string        `toml:"filesystem"`
	SwapMiB      *int64         `toml:"swap_mib"`
	Params       map[string]any `toml:"params"`
	Iocost       *fileIocost    `toml:"iocost"`
}

type fileIocost struct {
	RBPS      *int64 `toml:"rbps" json:"rbps,omitzero"`
	RSeqIOPS  *int64 `toml:"rseqiops" json:"rseqiops,omitzero"`
	RRandIOPS *int64 `toml:"rrandiops" json:"rrandiops,omitzero"`
	WBPS      *int64 `toml:"wbps" json:"wbps,omitzero"`
	WSeqIOPS  *int64 `toml:"wseqiops" json:"wseqiops,omitzero"`
	WRandIOPS *int64 `toml:"wrandiops" json:"wrandiops,omitzero"`
	RLatUS    *int64 `toml:"rlat_us" json:"rlat_us,omitzero"`
	WLatUS    *int64 `toml:"wlat_us" json:"wlat_us,omitzero"`
}

// forCase is the part of the file's [device] that a case with its own one
// goes on from: the keys of another kind, or of another model, mean nothing.
func (f *fileDevice) forCase(own *fileDevice) *fileDevice {
	if f == nil || own == nil {
		return f
	}
	if own.Disk != nil || own.Kind != nil && value(f.Kind, "") != *own.Kind {
		return nil
	}
	base := *f
	if own.Model != nil && value(f.Model, "") != *own.Model {
		base.Preset, base.Params, base.SizeMiB, base.Iocost = nil, nil, nil, nil
	}
	return &base
}

// kindKeys are the keys of each kind besides kind itself.
func kindKeys(kind string) []string {
	if kind == NullBlk {
		return []string{"completion_us", "tags", "queues", "size_mib"}
	}
	return []string{"model", "preset", "scale", "seed", "tags", "queues", "poll_queues", "size_mib",
		"memory_backed", "write_cache", "discard", "filesystem", "swap_mib", "params", "iocost"}
}

// paramPattern keeps the names of parameters and presets fit for file names.
var paramPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)

func (c *checker) device(f *fileDevice) Device {
	kinds := NullBlk + ", " + ModelDisk
	if f == nil {
		c.fail("device", "is missing", "a [device] table with disk ("+strings.Join(diskNames(), ", ")+"), or with kind ("+kinds+") and that kind's keys")
		return Device{}
	}
	kind := required(c, "device.kind", f.Kind, kinds)
	if kind != NullBlk && kind != ModelDisk {
		if f.Kind != nil {
			c.fail("device.kind", fmt.Sprintf("unknown kind %q", kind), kinds)
		}
		return Device{Kind: kind}
	}
	c.onlyKindKeys(f, kind)
	d := Device{Kind: kind, Queues: c.integer("device.queues", f.Queues, new(int64(1)), 1, 1024)}
	if kind == NullBlk {
		d.CompletionUS = c.integer("device.completion_us", f.CompletionUS, nil, 0, 10_000_000)
		d.Tags = c.integer("device.tags", f.Tags, nil, 1, 10240)
		d.SizeMiB = c.integer("device.size_mib", f.SizeMiB, new(int64(4096)), 16, 1<<24)
		return d
	}
	d.Tags = c.integer("device.tags", f.Tags, new(int64(64)), 1, 10240)
	if f.SizeMiB != nil {
		d.SizeMiB = c.integer("device.size_mib", f.SizeMiB, nil, 1, 1<<24)
	}
	d.Model = c.model(f)
	c.filesystem(f, &d)
	return d
}

// onlyKindKeys refuses keys that mean nothing for the kind.
func (c *checker) onlyKindKeys(f *fileDevice, kind string) {
	v := reflect.ValueOf(f).Elem()
	for field, value := range v.Fields() {
		key := field.Tag.Get("toml")
		if key != "kind" && !value.IsNil() && !slices.Contains(kindKeys(kind), key) {
			c.fail("device."+key, "is not a key of kind "+kind, strings.Join(kindKeys(kind), ", "))
		}
	}
}

func (c *checker) model(f *fileDevice) Model {
	models := strings.Join(Models(), ", ")
	m := Model{
		Name:         required(c, "device.model", f.Model, models),
		Preset:       value(f.Preset, ""),
		Scale:        c.integer("device.scale", f.Scale, new(int64(1)), 1, 1000),
		Seed:         value(f.Seed, 1),
		PollQueues:   c.integer("device.poll_queues", f.PollQueues, new(int64(0)), 0, 1024),
		MemoryBacked: value(f.MemoryBacked, false),
		WriteCache:   value(f.WriteCache, false),
		Discard:      value(f.Discard, false),
		Iocost:       c.iocost(f.Iocost),
	}
	if f.Model != nil && !slices.Contains(Models(), m.Name) {
		c.fail("device.model", fmt.Sprintf("unknown model %q", m.Name), models)
	}
	if f.Preset != nil && !paramPattern.MatchString(m.Preset) {
		c.fail("device.preset", fmt.Sprintf("%q is not a preset's name", m.Preset), "a preset of the model, or leave it out for the first")
	}
	if m.Seed < 0 {
		c.fail("device.seed", fmt.Sprintf("%d is out of range", m.Seed), "an integer 0 and up")
	}
	if m.MemoryBacked && f.SizeMiB == nil {
		c.fail("device.size_mib", "is missing", "how much memory a memory-backed disk may take")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Params)) {
		key := "device.params." + name
		n, integer := f.Params[name].(int64)
		switch {
		case !paramPattern.MatchString(name):
			c.fail(key, "is not a parameter's name", "the files in the model's directory in configfs")
		case !integer || n < 0:
			c.fail(key, fmt.Sprintf("%v is not allowed", f.Params[name]), "an integer 0 and up")
		}
		if m.Params == nil {
			m.Params = map[string]int64{}
		}
		m.Params[name] = n
	}
	return m
}

func (c *checker) iocost(f *fileIocost) *Iocost {
	if f == nil {
		return nil
	}
	rate := func(name string, v *int64) int64 {
		const key = "device.iocost."
		n := required(c, key+name, v, "what the disk does each second, unscaled")
		if v != nil && n < 1 {
			c.fail(key+name, fmt.Sprintf("%d is out of range", n), "an integer 1 and up")
		}
		return n
	}
	lat := func(key string, v *int64) int64 {
		return int64(c.integer("device.iocost."+key, v, new(int64(0)), 0, 10_000_000))
	}
	return &Iocost{
		RBPS: rate("rbps", f.RBPS), RSeqIOPS: rate("rseqiops", f.RSeqIOPS), RRandIOPS: rate("rrandiops", f.RRandIOPS),
		WBPS: rate("wbps", f.WBPS), WSeqIOPS: rate("wseqiops", f.WSeqIOPS), WRandIOPS: rate("wrandiops", f.WRandIOPS),
		RLatUS: lat("rlat_us", f.RLatUS), WLatUS: lat("wlat_us", f.WLatUS),
	}
}

// iocostNeedsModel refuses the contender iocost on a disk that it is told
// nothing about. Without that contender there is nothing to tell.
func (c *checker) iocostNeedsModel(e *Experiment) {
	i := slices.IndexFunc(e.Schedulers, func(name string) bool { return e.Contender(name).Scheduler == "iocost" })
	if i < 0 {
		for j := range e.Cases {
			e.Cases[j].Device.Model.Iocost = nil
		}
		return
	}
	if slices.ContainsFunc(e.Cases, func(k Case) bool { return k.Device.Kind == ModelDisk && k.Device.Model.Iocost == nil }) {
		c.fail(fmt.Sprintf("schedulers[%d]", i), "iocost needs to be told what the modeldisk can do",
			"device.disk, or a [device.iocost] table with "+strings.Join(tomlfile.Keys(reflect.TypeFor[fileIocost]())[:6], ", ")+"; or leave iocost out")
	}
}

// Scaled is the model for a disk that is slowed down by the factor scale.
func (m Iocost) Scaled(scale int) Iocost {
	times := int64(cmp.Or(scale, 1))
	by := func(n int64) int64 { return max(1, n/times) }
	return Iocost{
		RBPS: by(m.RBPS), RSeqIOPS: by(m.RSeqIOPS), RRandIOPS: by(m.RRandIOPS),
		WBPS: by(m.WBPS), WSeqIOPS: by(m.WSeqIOPS), WRandIOPS: by(m.WRandIOPS),
		RLatUS: m.RLatUS * times, WLatUS: m.WLatUS * times,
	}
}
