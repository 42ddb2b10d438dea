// SPDX-License-Identifier: MIT

package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/plan"
)

// Options are what an operator says.
type Options struct {
	Root, Device string
	// Loads are names of the catalog; none stands for all that are allowed.
	Loads       []string
	AllowWrites bool
	// Depths are those to measure at, none for the catalog's.
	Depths []int
	// Scheduler is the one to have meanwhile, "" for that of now.
	Scheduler string
	// Time is how long a point's rate must be steady.
	Time    time.Duration
	Version string
}

// Least and Most are what Options.Time may be.
const (
	Least = 200 * time.Millisecond
	Most  = 10 * time.Minute
)

// kind is a load of the catalog.
type kind struct {
	name string
	Kind
	// depths are tried in this order; all of them where they are fixed, and otherwise
	// until a knee is well behind.
	depths []int
	fixed  bool
	// curve has the load go on past its knee, as deep as a scheduler lets requests
	// be in flight: promises of latency are about those depths.
	curve bool
}

// Depths grow by two, so that a knee is known to a factor of two. Writes begin
// with the deepest: it fills caches and uses up erased blocks soonest.
var (
	deep    = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
	shallow = []int{1, 2, 4, 8, 16, 32}
	writes  = []int{128, 64, 32, 16, 8, 4, 2, 1}
	large   = []int{32, 16, 8, 4, 2, 1}
)

const (
	kib       = 1 << 10
	pageBytes = 4 * kib
)

// catalog is what can be measured, in this order: reads before anything is written.
var catalog = []kind{
	{"randread-4k", Kind{Random: true, ReadPct: 100, BlockBytes: pageBytes}, deep, false, true},
	{"randread-16k", Kind{Random: true, ReadPct: 100, BlockBytes: 16 * kib}, deep, false, false},
	{"randread-128k", Kind{Random: true, ReadPct: 100, BlockBytes: 128 * kib}, shallow, true, false},
	{"read-128k", Kind{ReadPct: 100, BlockBytes: 128 * kib}, shallow, true, false},
	{"randwrite-4k", Kind{Random: true, BlockBytes: pageBytes}, writes, true, true},
	{"randwrite-16k", Kind{Random: true, BlockBytes: 16 * kib}, large, true, false},
	{"randwrite-128k", Kind{Random: true, BlockBytes: 128 * kib}, large, true, false},
	{"mix70-4k", Kind{Random: true, ReadPct: 70, BlockBytes: pageBytes}, writes, true, false},
	{"mix30-4k", Kind{Random: true, ReadPct: 30, BlockBytes: pageBytes}, writes, true, false},
	{"write-128k", Kind{BlockBytes: 128 * kib}, large, true, false},
}

// Names are the loads that there are.
func Names() []string {
	var names []string
	for _, k := range catalog {
		names = append(names, k.name)
	}
	return names
}

// Survey is what will be measured.
type Survey struct {
	options  Options
	disk     *block.Device
	info     block.Info
	identity string
	kinds    []kind
	// Steps give the disk its scheduler; they are undone at the end.
	Steps []plan.Step
}

// Decide checks what can be checked before anything is read for minutes.
func Decide(o Options) (*Survey, error) {
	if o.Time < Least || o.Time > Most {
		return nil, failure.Usagef("--time: %s is out of range; allowed: %s to %s", o.Time, Least, Most)
	}
	kinds, err := choose(o.Loads, o.AllowWrites)
	if err != nil {
		return nil, err
	}
	if err := setDepths(kinds, o.Depths); err != nil {
		return nil, err
	}
	sys := block.System{Root: o.Root}
	s := &Survey{options: o, kinds: kinds}
	if s.disk, err = sys.Find(o.Device); err != nil {
		return nil, err
	}
	if s.info, err = s.disk.Info(); err != nil {
		return nil, err
	}
	if s.identity, err = block.DiskID(sys, s.disk); err != nil {
		return nil, err
	}
	if s.disk.SizeBytes < smallest {
		return nil, failure.Usagef("device %s: has %d bytes; allowed: %d MiB or more", s.disk.Name, s.disk.SizeBytes, smallest>>20)
	}
	if s.writes() {
		if err := s.disk.CheckFree(); err != nil {
			return nil, err
		}
	}
	return s, s.decideScheduler()
}

// smallest is how large a disk must be: each request is to meet another place.
const smallest = 16 << 20

// choose finds loads by name.
func choose(names []string, allowWrites bool) ([]kind, error) {
	var kinds []kind
	for _, k := range catalog {
		named := slices.Contains(names, k.name)
		switch {
		case named && k.ReadPct < 100 && !allowWrites:
			return nil, failure.Usagef("--loads: %s overwrites the disk; it needs --allow-writes", k.name)
		case named, names == nil && (k.ReadPct == 100 || allowWrites):
			kinds = append(kinds, k)
		}
	}
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, failure.Usagef("--loads: %q is not a load; allowed: %s", name, strings.Join(Names(), ", "))
		}
	}
	if len(kinds) == 0 {
		return nil, failure.Usagef("--loads: is empty; leave it out for all")
	}
	return kinds, nil
}

// deepest is the most requests that may be outstanding.
const deepest = 4096

// setDepths has the loads measured at these depths, in the order of the catalog's: reads
// from the least on, writes from the greatest.
func setDepths(kinds []kind, depths []int) error {
	if depths == nil {
		return nil
	}
	depths = slices.Clone(depths)
	slices.Sort(depths)
	depths = slices.Compact(depths)
	if len(depths) == 0 || depths[0] < 1 || depths[len(depths)-1] > deepest {
		return failure.Usagef("--depths: %s; allowed: 1 to %d", strings.Trim(fmt.Sprint(depths), "[]"), deepest)
	}
	for i := range kinds {
		kinds[i].depths, kinds[i].fixed = slices.Clone(depths), true
		if kinds[i].ReadPct < 100 {
			slices.Reverse(kinds[i].depths)
		}
	}
	return nil
}

// decideScheduler plans the change of scheduler, and refuses one that is not there.
func (s *Survey) decideScheduler() error {
	want := s.options.Scheduler
	if want == "" || want == s.info.Scheduler {
		return nil
	}
	if !slices.Contains(s.info.Available, want) {
		return failure.Usagef("--scheduler: %q is not there; allowed: %s", want, strings.Join(s.info.Available, ", "))
	}
	keep, err := s.disk.KeepNrRequests()
	if err != nil {
		return err
	}
	steps, err := s.disk.SetScheduler(want)
	s.Steps = append([]plan.Step{keep}, steps...)
	return err
}

// writes reports whether anything is written to the disk.
func (s *Survey) writes() bool {
	return slices.ContainsFunc(s.kinds, func(k kind) bool { return k.ReadPct < 100 })
}

// Describe prints what Run would do: changes as shell commands, and loads.
func (s *Survey) Describe(w io.Writer) error {
	var changes []plan.Step
	for _, step := range s.Steps {
		if step.Value != step.Undo { // the others only keep what is there
			changes = append(changes, step)
		}
	}
	if err := plan.Print(w, changes); err != nil {
		return err
	}
	for _, k := range s.kinds {
		does := "reads"
		switch {
		case k.ReadPct == 0:
			does = "overwrites"
		case k.ReadPct < 100:
			does = fmt.Sprintf("%d %% reads, overwrites", k.ReadPct)
		}
		order := "sequential"
		if k.Random {
			order = "random"
		}
		depths := strings.Trim(fmt.Sprint(k.depths), "[]")
		if _, err := fmt.Fprintf(w, "# %s: %s %s, %s, %d KiB, %d runs of %s or more at each depth: %s\n", k.name, does, s.disk.Name, order, k.BlockBytes/kib, runs, s.options.Time, depths); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "# kept as %s\n", File(block.System{Root: s.options.Root}, s.identity))
	return err
}

// Run measures and returns the profile; tell gets a line for each step. The disk has
// its scheduler back at the end.
func (s *Survey) Run(ctx context.Context, tell func(string)) (_ *Profile, err error) {
	if err := s.disk.CheckNode(); err != nil {
		return nil, err
	}
	flags := os.O_RDONLY
	if s.writes() {
		flags = os.O_RDWR | os.O_EXCL // kept as long as anything is written
	}
	f, err := os.OpenFile(s.disk.Node, flags|syscall.O_DIRECT, 0)
	if errors.Is(err, syscall.EBUSY) {
		return nil, failure.Usagef("device %s: another program or mount namespace holds it; allowed: a disk that nothing uses", s.disk.Name)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	applied := plan.On(plan.OS{})
	defer func() {
		if undo := applied.Undo(); undo != nil {
			err = errors.Join(err, undo)
		}
	}()
	if err := applied.Apply(s.Steps); err != nil {
		return nil, err
	}
	return s.measure(ctx, machine{
		run: func(ctx context.Context, job Job, window time.Duration, enough func([]Window) bool) ([]Window, error) {
			return RunJob(ctx, f, job, window, enough)
		},
		moved: s.disk.MovedBytes,
	}, tell)
}
