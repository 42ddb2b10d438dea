// SPDX-License-Identifier: MIT

package rule

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"isolio/internal/host/state"
)

// Promise is what a container, pod or unit was sold of a disk: it gets this much at
// least when it asks for it.
type Promise struct {
	// For selects containers, pods or units, as a rule does; it has no weight.
	For Rule
	// Line is where the promise begins in its file, and Lines where its keys are.
	Line  int
	Lines map[string]int
	// File is the file's name in messages.
	File string
	// Device is a disk, by its name or a path below /dev.
	Device      string
	Read, Write Amount
	// BlockBytes is the size of the requests, Sequential their order.
	BlockBytes int
	Sequential bool
	// P99 is the latency that 99 % of its requests do not exceed, 0 for none promised.
	P99 time.Duration
	// Count is how many there are at a time that each get as much.
	Count int
	// Hold is the most that the weight is multiplied by while the promise is missed because the
	// weight no longer suffices; 0 for a promise whose weight stays.
	Hold float64
}

// Amount is a rate, in requests or in bytes a second; both 0 for none.
type Amount struct {
	IOPS    float64
	BytesPS float64
}

// RequestsPS is the rate in requests of a size.
func (a Amount) RequestsPS(blockBytes int) float64 {
	if a.BytesPS > 0 {
		return a.BytesPS / float64(blockBytes)
	}
	return a.IOPS
}

// String is the amount as people write it.
func (a Amount) String() string {
	switch {
	case a.BytesPS > 0:
		return Number(a.BytesPS/(1<<20)) + " MiB/s"
	case a.IOPS > 0:
		return Number(a.IOPS) + " IOPS"
	}
	return ""
}

// Number is a figure of three digits or more, without an exponent.
func Number(n float64) string {
	if n >= 100 {
		return strconv.FormatFloat(math.Round(n), 'f', -1, 64)
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

// SLA are settings for all promises.
type SLA struct {
	// ReservePct is the part of each disk that is not sold.
	ReservePct float64
	// BestEffort is how many cgroups without a promise and with the default weight
	// are to be active beside those with one.
	BestEffort int
	// ShareBy is what the scheduler shares.
	ShareBy string
	// ObjectivePct is the part of the intervals in which a promise was demanded that it is to
	// be kept in.
	ObjectivePct float64
}

// DefaultSLA is what holds where the file says nothing. A tenth covers what two runs of
// `isolio measure` may be apart, and as much again.
var DefaultSLA = SLA{ReservePct: 10, BestEffort: 10, ShareBy: "time", ObjectivePct: 99.9}

// Room says what a disk has to promise in requests of a size, an order and a direction,
// with these settings; "" where that is not known.
type Room func(sla SLA, device string, write, sequential bool, blockBytes int) string

type filePromise struct {
	Name       *string `toml:"name"`
	Label      *string `toml:"label"`
	Annotation *string `toml:"annotation"`
	Class      *string `toml:"class"`
	Pod        *string `toml:"pod"`
	Unit       *string `toml:"unit"`
	Device     *string `toml:"device"`
	// Read and Write may be numbers: then the message says which units there are.
	Read  any     `toml:"read"`
	Write any     `toml:"write"`
	Block any     `toml:"block"`
	Order *string `toml:"order"`
	P99   any     `toml:"p99"`
	Count *int64  `toml:"count"`
	Mode  *string `toml:"mode"`
	// HoldMax may be a whole number or not.
	HoldMax any `toml:"hold_max_factor"`
}

type fileSLA struct {
	ReservePct *float64 `toml:"reserve_pct"`
	BestEffort *int64   `toml:"best_effort"`
	ShareBy    *string  `toml:"share_by"`

	ObjectivePct *float64 `toml:"objective_pct"`
}

// promiseTable is what the i-th promise is called among the lines.
func promiseTable(i int) string { return fmt.Sprintf("promise[%d]", i) }

// sla reads the settings that a file has.
func (c *checker) sla(f *fileSLA) {
	if f == nil {
		return
	}
	s := &c.settings
	if f.ReservePct != nil {
		c.alone("sla", "reserve_pct")
		if s.ReservePct = *f.ReservePct; !(s.ReservePct >= 0 && s.ReservePct <= 90) {
			c.fail("sla", "reserve_pct", fmt.Sprintf("%g is out of range", s.ReservePct), "0 to 90")
		}
	}
	if f.BestEffort != nil {
		c.alone("sla", "best_effort")
		if *f.BestEffort < 0 || *f.BestEffort > 10000 {
			c.fail("sla", "best_effort", fmt.Sprintf("%d is out of range", *f.BestEffort), "0 to 10000")
		} else {
			s.BestEffort = int(*f.BestEffort)
		}
	}
	if f.ObjectivePct != nil {
		c.alone("sla", "objective_pct")
		if s.ObjectivePct = *f.ObjectivePct; !(s.ObjectivePct >= 50 && s.ObjectivePct <= 99.999) {
			c.fail("sla", "objective_pct", fmt.Sprintf("%g is out of range", s.ObjectivePct), "50 to 99.999")
		}
	}
	if f.ShareBy != nil {
		c.alone("sla", "share_by")
		switch s.ShareBy = *f.ShareBy; s.ShareBy {
		case "bytes", "iops", "time":
		default:
			c.fail("sla", "share_by", fmt.Sprintf("%q is not a unit", s.ShareBy), "bytes, iops, time")
		}
	}
}

// Sizes of requests where a promise does not say.
const (
	smallBlock = 4 << 10
	largeBlock = 128 << 10
	mostBlock  = 16 << 20
)

func (c *checker) promise(table string, f *filePromise) Promise {
	p := Promise{Count: 1, Line: c.lines[table], Lines: map[string]int{}, File: c.name}
	for _, key := range []string{"read", "write", "p99", "device", "block"} {
		if p.Lines[key] = c.lines[table+"."+key]; p.Lines[key] == 0 {
			p.Lines[key] = p.Line
		}
	}
	p.For = c.selector(table, &fileRule{Name: f.Name, Label: f.Label, Annotation: f.Annotation, Class: f.Class, Pod: f.Pod, Unit: f.Unit})
	if f.Device == nil || *f.Device == "" {
		c.fail(table, "device", "is missing", `the disk that the promise is about, such as "nvme0n1"`)
	} else {
		p.Device = *f.Device
	}
	p.BlockBytes = c.block(table, f)
	if f.Order != nil {
		switch *f.Order {
		case "random":
		case "sequential":
			p.Sequential = true
		default:
			c.fail(table, "order", fmt.Sprintf("%q is not an order", *f.Order), "random, sequential")
		}
	}
	p.Read = c.amount(table, "read", f.Read, p)
	p.Write = c.amount(table, "write", f.Write, p)
	if f.Read == nil && f.Write == nil {
		c.fail(table, "", "promises nothing", `read or write, or both, such as read = "5000 IOPS"`)
	}
	p.P99 = c.latency(table, f.P99)
	c.count(table, f.Count, &p)
	c.mode(table, f, &p)
	return p
}

// mode reads whether the weight is raised while the promise is missed, and how far.
func (c *checker) mode(table string, f *filePromise, p *Promise) {
	mode := "account"
	if f.Mode != nil {
		mode = *f.Mode
	}
	switch mode {
	case "account":
	case "hold":
		p.Hold = state.DefaultBoost
	default:
		c.fail(table, "mode", fmt.Sprintf("%q is none", mode), "account, hold")
		return
	}
	if f.HoldMax == nil {
		return
	}
	most, ok := 0.0, true
	switch v := f.HoldMax.(type) {
	case int64:
		most = float64(v)
	case float64:
		most = v
	default:
		ok = false
	}
	switch allowed := fmt.Sprintf("1.1 to %d", state.MaxBoost); {
	case !ok:
		c.fail(table, "hold_max_factor", "has the wrong type", "a number, "+allowed)
	case !(most >= 1.1 && most <= state.MaxBoost):
		c.fail(table, "hold_max_factor", fmt.Sprintf("%g is out of range", most), allowed)
	case p.Hold == 0:
		c.fail(table, "hold_max_factor", "does nothing without a mode", `mode = "hold" beside it`)
	default:
		p.Hold = most
	}
}

// count checks that a promise to more than one says to how many.
func (c *checker) count(table string, v *int64, p *Promise) {
	switch {
	case v == nil && p.For.several():
		c.fail(table, "count", "is missing, and more than one may match", "how many there are at most that each get as much, 1 to 10000")
	case v == nil:
	case *v < 1 || *v > 10000:
		c.fail(table, "count", fmt.Sprintf("%d is out of range", *v), "1 to 10000")
	default:
		p.Count = int(*v)
	}
}

// several reports whether more than one container, pod or unit can match.
func (r Rule) several() bool {
	return r.Class+r.Label+r.Annotation != "" || strings.ContainsAny(r.Name+r.Pod+r.Unit, "*?[")
}

// promises reads all of them.
func (c *checker) promises(all []filePromise) []Promise {
	if !c.isList("promise", len(all)) {
		return nil
	}
	var promises []Promise
	for i := range all {
		promises = append(promises, c.promise(promiseTable(i), &all[i]))
	}
	c.eachPromise(promises)
	return promises
}

// promised is who a promise is to, and of which disk.
type promised struct {
	rule   Rule
	device string
}

// eachPromise refuses what is promised twice.
func (c *checker) eachPromise(promises []Promise) {
	for i, p := range promises {
		if before := c.once(promised{p.For, strings.TrimPrefix(p.Device, "/dev/")}, p.Line); before != "" {
			c.fail(promiseTable(i), "", "matches the same as that in "+before+", on the same disk", "one promise for each, with read and write in it")
		}
	}
}

// quantity is a number and its unit.
var quantity = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) *([A-Za-z/]*)$`)

// measureOf reads a number with one of the units; 0 where it has none or is none.
func measureOf(v any, units map[string]float64) (n float64, unit string, ok bool) {
	text, isText := v.(string)
	if !isText {
		return 0, "", false
	}
	found := quantity.FindStringSubmatch(strings.TrimSpace(text))
	if found == nil {
		return 0, "", false
	}
	times, known := units[found[2]]
	n, err := strconv.ParseFloat(found[1], 64)
	if !known || err != nil {
		return 0, "", false
	}
	return n * times, found[2], true
}

// wrong says what is wrong with a quantity: that it has no unit, or that it is none.
func wrong(v any) string {
	switch x := v.(type) {
	case string:
		if found := quantity.FindStringSubmatch(strings.TrimSpace(x)); found != nil && found[2] == "" {
			return fmt.Sprintf("%q has no unit", x)
		}
		return fmt.Sprintf("%q is not a number with one of the units", x)
	case int64, float64:
		return fmt.Sprintf("%v has no unit", x)
	}
	return "has the wrong type"
}

var (
	rateUnits  = map[string]float64{"IOPS": 1, "KiB/s": 1 << 10, "MiB/s": 1 << 20, "GiB/s": 1 << 30}
	sizeUnits  = map[string]float64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
	timesUnits = map[string]float64{"us": 1e3, "ms": 1e6, "s": 1e9}
)

// mostRate is far more than any disk has.
const mostRate = 1e12

func (c *checker) amount(table, key string, v any, p Promise) Amount {
	if v == nil {
		return Amount{}
	}
	allowed := `such as "5000 IOPS" or "100 MiB/s"; units: IOPS, KiB/s, MiB/s, GiB/s`
	if c.room != nil && p.Device != "" {
		if room := c.room(c.settings, p.Device, key == "write", p.Sequential, p.BlockBytes); room != "" {
			allowed += "; " + room
		}
	}
	n, unit, ok := measureOf(v, rateUnits)
	switch {
	case !ok:
		c.fail(table, key, wrong(v), allowed)
	case n <= 0 || n > mostRate:
		c.fail(table, key, fmt.Sprintf("%v is out of range", v), allowed)
	case unit == "IOPS":
		return Amount{IOPS: n}
	default:
		return Amount{BytesPS: n}
	}
	return Amount{}
}

// block is the size of a request. What is promised in bytes is about large ones.
func (c *checker) block(table string, f *filePromise) int {
	if f.Block == nil {
		for _, v := range []any{f.Read, f.Write} {
			if text, ok := v.(string); v != nil && (!ok || !strings.HasSuffix(strings.TrimSpace(text), "/s")) {
				return smallBlock
			}
		}
		return largeBlock
	}
	n, _, ok := measureOf(f.Block, sizeUnits)
	const allowed = `"512 B" to "16 MiB", such as "4 KiB"; units: B, KiB, MiB`
	switch {
	case !ok:
		c.fail(table, "block", wrong(f.Block), allowed)
	case n < 512 || n > mostBlock || n != math.Trunc(n):
		c.fail(table, "block", fmt.Sprintf("%v is out of range", f.Block), allowed)
	default:
		return int(n)
	}
	return smallBlock
}

func (c *checker) latency(table string, v any) time.Duration {
	if v == nil {
		return 0
	}
	n, _, ok := measureOf(v, timesUnits)
	const allowed = `"1 us" to "100 s", such as "5 ms"; units: us, ms, s`
	switch {
	case !ok:
		c.fail(table, "p99", wrong(v), allowed)
	case n < 1e3 || n > 100e9:
		c.fail(table, "p99", fmt.Sprintf("%v is out of range", v), allowed)
	}
	return time.Duration(n)
}

// Selector is the container, pod or unit that the promise is for, as the file has it.
func (p Promise) Selector() string {
	var parts []string
	for _, x := range []struct{ key, value string }{
		{"name", p.For.Name}, {"pod", p.For.Pod}, {"unit", p.For.Unit}, {"class", p.For.Class}, {"label", p.For.Label}, {"annotation", p.For.Annotation},
	} {
		if x.value != "" {
			parts = append(parts, x.key+" "+x.value)
		}
	}
	return strings.Join(parts, ", ")
}

// selectors are all rules, and those that select who promises are for.
func (c Config) selectors() []Rule {
	all := slices.Clone(c.Rules)
	for _, p := range c.Promises {
		all = append(all, p.For)
	}
	return all
}

// Terms is what is promised, in words.
func (p Promise) Terms() string {
	var parts []string
	if p.Read != (Amount{}) {
		parts = append(parts, p.Read.String()+" of reads")
	}
	if p.Write != (Amount{}) {
		parts = append(parts, p.Write.String()+" of writes")
	}
	if p.P99 > 0 {
		parts = append(parts, "p99 "+p.P99.String())
	}
	if p.Count > 1 {
		parts = append(parts, fmt.Sprintf("to each of %d", p.Count))
	}
	return strings.Join(parts, ", ")
}
