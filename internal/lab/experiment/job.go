// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Job holds fio options under fio's own names, in fio's own syntax.
type Job map[string]string

// option is a fio option that a [job] may set.
type option struct {
	name string
	kind optionKind
	// min and max bound a count; for a size they are bytes.
	min, max int64
	choices  []string
	// engine is the only one that has it, "" for any.
	engine string
}

type optionKind int

const (
	count  optionKind = iota // integer from min to max
	size                     // bytes, with k, m, g or t for powers of 1024
	choice                   // one of choices
)

const tib = 1 << 40

// MaxRealtime is the highest real-time priority of a load: the engine has the next one.
const MaxRealtime = 98

// options are the fio options that a [job] may set. What the engine decides
// itself (filename, runtime, output, cgroup, ...) is not among them.
func options() []option {
	return []option{
		{name: "rw", kind: choice, choices: []string{
			"read", "write", "rw", "readwrite", "randread", "randwrite", "randrw"}},
		{name: "bs", kind: size, min: 512, max: 64 << 20},
		{name: "iodepth", kind: count, min: 1, max: 65536},
		{name: "iodepth_batch_submit", kind: count, min: 1, max: 65536},
		{name: "iodepth_batch_complete_min", kind: count, min: 0, max: 65536},
		{name: "iodepth_batch_complete_max", kind: count, min: 0, max: 65536},
		{name: "ioengine", kind: choice, choices: append([]string{"libaio", "io_uring", "psync", "pvsync2", "sync"}, LibapsEngines()...)},
		{name: "direct", kind: count, min: 0, max: 1},
		{name: "numjobs", kind: count, min: 1, max: 1024},
		{name: "rwmixread", kind: count, min: 0, max: 100},
		{name: "size", kind: size, min: 512, max: 1024 * tib},
		{name: "offset", kind: size, min: 0, max: 1024 * tib},
		{name: "offset_increment", kind: size, min: 0, max: 1024 * tib},
		{name: "zonesize", kind: size, min: 512, max: 1024 * tib},
		{name: "zoneskip", kind: size, min: 512, max: 1024 * tib},
		{name: "rate", kind: size, min: 1, max: tib},
		{name: "rate_iops", kind: count, min: 1, max: 100_000_000},
		{name: "thinktime", kind: count, min: 0, max: 3600_000_000},
		{name: "thinktime_blocks", kind: count, min: 1, max: math.MaxInt32},
		{name: "number_ios", kind: count, min: 1, max: math.MaxInt32},
		{name: "invalidate", kind: count, min: 0, max: 1},
		{name: "fsync", kind: count, min: 0, max: math.MaxInt32},
		{name: "fdatasync", kind: count, min: 0, max: math.MaxInt32},
		{name: "prio", kind: count, min: 0, max: 7},
		{name: "prioclass", kind: count, min: 0, max: 3},
		{name: "thread", kind: count, min: 0, max: 1},
		{name: "mode", kind: choice, engine: engineAPS, choices: []string{"interrupt", "poll", "hybrid", "aps", "ring-hybrid", "published"}},
		{name: "fallback", kind: count, engine: engineAPS, min: 0, max: 1},
		{name: "poll_margin_ppm", kind: count, engine: engineAPS, min: 0, max: 1_000_000},
		{name: "hybrid_margin_ppm", kind: count, engine: engineAPS, min: 0, max: 1_000_000},
		{name: "hybrid_sleep_ppm", kind: count, engine: engineAPS, min: 0, max: 1_000_000},
		{name: "deep_sleep_ppm", kind: count, engine: engineAPS, min: 0, max: 1_000_000},
		{name: "min_sleep_ns", kind: count, engine: engineAPS, min: 0, max: 10_000_000},
		{name: "sched_rr", kind: count, engine: engineAPS, min: 0, max: MaxRealtime},
		{name: "show_stats", kind: count, engine: engineAPS, min: 0, max: 1},
		{name: "work", kind: count, engine: engineCompute, min: 0, max: 1_000_000},
	}
}

// libaps' engines for fio.
const (
	engineAPS     = "aps"     // waits as libaps does
	engineCompute = "compute" // computes after each request
)

// LibapsEngines are the engines that come with libaps, and not with fio.
func LibapsEngines() []string { return []string{engineAPS, engineCompute} }

// UsesLibaps reports whether the job's engine comes with libaps.
func (j Job) UsesLibaps() bool { return slices.Contains(LibapsEngines(), j["ioengine"]) }

// misplaced is an option of an engine that is not the job's; false if there is none.
func (j Job) misplaced() (o option, found bool) {
	for _, o := range options() {
		if _, set := j[o.name]; set && o.engine != "" && o.engine != j["ioengine"] {
			return o, true
		}
	}
	return o, false
}

// Writes reports whether the job changes the device's contents.
func (j Job) Writes() bool {
	return j["rw"] != "read" && j["rw"] != "randread"
}

// Ends reports whether the job ends by itself, after so many requests of each of
// its processes. Others go on until they are stopped.
func (j Job) Ends() bool { return j["number_ios"] != "" }

// Bytes returns a size option in bytes, or def when the job does not set it.
// The option must have passed the check of its syntax.
func (j Job) Bytes(name string, def int64) int64 {
	text, ok := j[name]
	if !ok {
		return def
	}
	n, err := parseSize(text)
	if err != nil {
		return def
	}
	return n
}

// Count returns an integer option, or def when the job does not set it.
func (j Job) Count(name string, def int) int {
	n, err := strconv.Atoi(j[name])
	if err != nil {
		return def
	}
	return n
}

// overlaid returns j with the options of over in place of its own.
func (j Job) overlaid(over Job) Job {
	merged := maps.Clone(j)
	if merged == nil {
		merged = Job{}
	}
	maps.Copy(merged, over)
	return merged
}

// checkOption returns value as fio takes it; problem is "" when it may be
// set, and else says what is wrong, allowed what would be right.
func checkOption(name string, value any) (text, problem, allowed string) {
	i := slices.IndexFunc(options(), func(o option) bool { return o.name == name })
	if i < 0 {
		var names []string
		for _, o := range options() {
			names = append(names, o.name)
		}
		return "", "unknown fio option", strings.Join(names, ", ")
	}
	o := options()[i]
	switch v := value.(type) {
	case string:
		text = v
	case int64:
		text = strconv.FormatInt(v, 10)
	default:
		return "", fmt.Sprintf("%v is neither a string nor an integer", value), o.allowed()
	}
	if !o.accepts(text) {
		return "", fmt.Sprintf("%q is not allowed", text), o.allowed()
	}
	return text, "", ""
}

func (o option) accepts(text string) bool {
	var n int64
	var err error
	switch o.kind {
	case choice:
		return slices.Contains(o.choices, text)
	case size:
		n, err = parseSize(text)
	default:
		n, err = strconv.ParseInt(text, 10, 64)
	}
	return err == nil && o.min <= n && n <= o.max
}

func (o option) allowed() string {
	switch o.kind {
	case choice:
		return strings.Join(o.choices, ", ")
	case size:
		return fmt.Sprintf("%s to %s, in bytes or with k, m, g or t for powers of 1024", formatSize(o.min), formatSize(o.max))
	default:
		return fmt.Sprintf("an integer %d..%d", o.min, o.max)
	}
}

// parseSize reads fio's sizes: k, m, g and t are powers of 1024. The longer
// forms (kb, kib) are refused: fio reads "kib" as 1000 bytes.
func parseSize(text string) (int64, error) {
	digits, shift := text, 0
	if text != "" {
		if i := strings.IndexByte("kmgt", text[len(text)-1]|0x20); i >= 0 {
			digits, shift = text[:len(text)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size", text)
	}
	if n < 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("size %q is out of range", text)
	}
	return n << shift, nil
}

func formatSize(n int64) string {
	for i, unit := range []string{"t", "g", "m", "k"} {
		if shift := 40 - 10*i; n > 0 && n%(1<<shift) == 0 {
			return strconv.FormatInt(n>>shift, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10)
}
