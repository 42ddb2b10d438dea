// SPDX-License-Identifier: MIT

package daemon

import (
	"io"
	"strconv"
	"strings"
	"time"

	"isolio/internal/host/usage"
	"isolio/internal/printable"
)

// metricPrefix begins the names of all metrics.
const metricPrefix = "isolio_"

// series are the metrics of a container and a disk.
type series struct {
	labels string // in braces, of which the last is left out
	// hasWeight is false where several containers are counted together.
	hasWeight                             bool
	weight, entitled, cost, throttledSecs float64
	read, write                           direction
}

// direction is what went to the disk, or came from it.
type direction struct {
	bytes, requests uint64
	latency         times
}

// Bounds of the buckets that Prometheus gets: every eighth of the kernel's, from
// 16 us to 17 s, so that their counts are exact.
const (
	firstBound = 1 << 14 * time.Nanosecond
	boundStep  = 4
	nrBounds   = 11
)

// times is a histogram as Prometheus has it: each bucket has all requests that took less.
type times struct {
	under   [nrBounds]uint64
	count   uint64
	seconds float64 // of all requests
}

// timesOf are those of both directions.
type timesOf struct{ read, write times }

// timesIn are the times in a kernel's histogram. Its buckets are narrow, and requests
// are taken to be in the middle of theirs.
func timesIn(h usage.Histogram) (t times) {
	for _, b := range h {
		bound := firstBound
		for i := range t.under {
			if b.Under != usage.NoBound && b.Under <= bound {
				t.under[i] += b.Count
			}
			bound *= boundStep
		}
		t.count += b.Count
		t.seconds += float64(b.Count) * b.Middle().Seconds()
	}
	return t
}

// since is what was counted after last. Counts of which one went back were begun again.
func (t times) since(last *times) times {
	did := t
	for i := range t.under {
		if t.under[i] < last.under[i] {
			return t
		}
		did.under[i] -= last.under[i]
	}
	if t.count < last.count {
		return t
	}
	did.count -= last.count
	did.seconds = max(0, t.seconds-last.seconds)
	return did
}

func (t *times) add(more times) {
	for i := range t.under {
		t.under[i] += more.under[i]
	}
	t.count += more.count
	t.seconds += more.seconds
}

// labelText is how the text format has a label's value.
var labelText = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// seriesOf are the metrics of a cgroup and its disk.
func seriesOf(group string, sum *total) series {
	c := &sum.counters
	label := func(text string) string { return labelText.Replace(printable.Text(text)) }
	return series{
		labels:    `{cgroup="` + label(group) + `",container="` + label(sum.name) + `",device="` + label(sum.disk) + `"`,
		hasWeight: group != others,
		weight:    float64(sum.weight), entitled: sum.entitled, cost: sum.cost, throttledSecs: float64(c.ThrottledUS) / 1e6,
		read:  direction{c.ReadBytes, c.ReadIOs, sum.latency.read},
		write: direction{c.WriteBytes, c.WriteIOs, sum.latency.write},
	}
}

// family are the samples of one name.
type family struct {
	name, kind, help string
	write            func(t *text, s *series)
}

// families are the metrics of each container and disk, by name.
var families = []family{
	{"bytes_total", "counter", "Bytes of requests that went to the disk.",
		func(t *text, s *series) {
			s.each(func(label string, d *direction) { t.number("", s, label, float64(d.bytes)) })
		}},
	{"entitled_share_ratio", "gauge", "Share of the disk that it is entitled to among those active now, 0 if it is not active.",
		func(t *text, s *series) { t.number("", s, "", s.entitled) }},
	{"request_duration_seconds", "histogram", "Time of requests in the scheduler and the disk. The sum is made of the buckets, to within an eighth.",
		func(t *text, s *series) {
			s.each(func(label string, d *direction) { t.histogram(s, label, &d.latency) })
		}},
	{"requests_total", "counter", "Requests that went to the disk.",
		func(t *text, s *series) {
			s.each(func(label string, d *direction) { t.number("", s, label, float64(d.requests)) })
		}},
	{"served_total", "counter", "What the disk served, in the unit that it is shared by: bytes, requests, or seconds of the disk.",
		func(t *text, s *series) { t.number("", s, "", s.cost) }},
	{"throttled_seconds_total", "counter", "How long the cgroup was throttled: it had requests queued and was a lead ahead. The sum over hardware queues.",
		func(t *text, s *series) { t.number("", s, "", s.throttledSecs) }},
	{"weight", "gauge", "Weight in effect on the disk.", func(t *text, s *series) {
		if s.hasWeight {
			t.number("", s, "", s.weight)
		}
	}},
}

// each calls do with each direction in which there were requests, and its label.
func (s *series) each(do func(label string, d *direction)) {
	if s.read.requests > 0 {
		do(`,direction="read"`, &s.read)
	}
	if s.write.requests > 0 {
		do(`,direction="write"`, &s.write)
	}
}

// writeSeries writes the metrics of all containers in Prometheus' text format.
func writeSeries(to io.Writer, all []series) error {
	t := &text{to: to}
	for i := range families {
		f := &families[i]
		t.name = metricPrefix + f.name
		t.line = append(t.line, "# HELP "+t.name+" "+f.help+"\n# TYPE "+t.name+" "+f.kind+"\n"...)
		for n := range all {
			f.write(t, &all[n])
			if t.flush(textMost); t.err != nil {
				return t.err
			}
		}
	}
	t.flush(1)
	return t.err
}

// text is what is being written of a family.
type text struct {
	to   io.Writer
	name string
	line []byte // lines that are not written yet
	err  error
}

// textMost is how much text is held before it is written, in bytes.
const textMost = 16 << 10

// flush writes the lines if they are so long.
func (t *text) flush(least int) {
	if t.err == nil && len(t.line) >= least {
		_, t.err = t.to.Write(t.line)
		t.line = t.line[:0]
	}
}

func (t *text) begin(suffix string, s *series, label string) {
	t.line = append(t.line, t.name...)
	t.line = append(t.line, suffix...)
	t.line = append(t.line, s.labels...)
	t.line = append(t.line, label...)
}

func (t *text) number(suffix string, s *series, label string, value float64) {
	t.begin(suffix, s, label)
	t.line = append(t.line, "} "...)
	t.line = strconv.AppendFloat(t.line, value, 'g', -1, 64)
	t.line = append(t.line, '\n')
}

func (t *text) bucket(s *series, label, bound string, count uint64) {
	t.begin("_bucket", s, label)
	t.line = append(t.line, `,le="`...)
	t.line = append(t.line, bound...)
	t.line = append(t.line, `"} `...)
	t.line = strconv.AppendUint(t.line, count, 10)
	t.line = append(t.line, '\n')
}

// bounds are those of the buckets, as labels.
var bounds = func() (all [nrBounds]string) {
	bound := firstBound
	for i := range all {
		all[i] = strconv.FormatFloat(bound.Seconds(), 'g', -1, 64)
		bound *= boundStep
	}
	return all
}()

func (t *text) histogram(s *series, label string, h *times) {
	for i, bound := range bounds {
		t.bucket(s, label, bound, h.under[i])
	}
	t.bucket(s, label, "+Inf", h.count)
	t.number("_sum", s, label, h.seconds)
	t.number("_count", s, label, float64(h.count))
}
