// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"slices"
	"strings"
)

// Expectation is a bound that one contender's result should keep.
type Expectation struct {
	Scheduler string
	Metric    Metric
	Min, Max  *float64 // at least one is set; both are inclusive
}

// String writes the bound as a reader would: "bfq: jain_weighted >= 0.99".
func (x Expectation) String() string {
	var bounds []string
	if x.Min != nil {
		bounds = append(bounds, fmt.Sprintf(">= %g", *x.Min))
	}
	if x.Max != nil {
		bounds = append(bounds, fmt.Sprintf("<= %g", *x.Max))
	}
	return fmt.Sprintf("%s: %s %s", x.Scheduler, x.Metric, strings.Join(bounds, " and "))
}

// Metric names one figure of a run. Kind is one of the constants below; Arg
// is the contender or container that follows a colon in the file.
type Metric struct {
	Kind string
	Arg  string
}

// The figures that an expectation may bound.
const (
	JainWeighted = "jain_weighted"
	TotalVsNone  = "total_vs_none"
	TotalVs      = "total_vs" // :SCHEDULER, ratio of the totals in bytes/s
	TotalBytesPS = "total_bytes_per_s"
	TotalIOPS    = "total_iops"
	Share        = "share"        // :CONTAINER, of the total in bytes/s
	ReadP99US    = "read_p99_us"  // :CONTAINER, latency of its reads
	WriteP99US   = "write_p99_us" // :CONTAINER, latency of its writes
)

// metricForms lists how a metric may be written, for messages.
const metricForms = "jain_weighted, total_vs_none, total_vs:SCHEDULER, total_bytes_per_s, total_iops, " +
	"share:CONTAINER, read_p99_us:CONTAINER, write_p99_us:CONTAINER"

// String writes the metric as the file has it.
func (m Metric) String() string {
	if m.Arg == "" {
		return m.Kind
	}
	return m.Kind + ":" + m.Arg
}

// Reference is the contender that the metric compares with, "" if none.
func (m Metric) Reference() string {
	switch m.Kind {
	case TotalVsNone:
		return "none"
	case TotalVs:
		return m.Arg
	}
	return ""
}

// parseMetric reads a metric; problem is "" when it is one, and else says
// what is wrong, allowed what would be right.
func parseMetric(text string, schedulers, containers []string) (m Metric, problem, allowed string) {
	m.Kind, m.Arg, _ = strings.Cut(text, ":")
	switch m.Kind {
	case JainWeighted, TotalVsNone, TotalBytesPS, TotalIOPS:
		if strings.Contains(text, ":") {
			return m, fmt.Sprintf("%q takes nothing after a colon", m.Kind), metricForms
		}
	case TotalVs:
		if !slices.Contains(schedulers, m.Arg) {
			return m, fmt.Sprintf("%q is not one of the experiment's schedulers", m.Arg), strings.Join(schedulers, ", ")
		}
	case Share, ReadP99US, WriteP99US:
		if !slices.Contains(containers, m.Arg) {
			return m, fmt.Sprintf("%q is not one of the experiment's containers", m.Arg), strings.Join(containers, ", ")
		}
	default:
		return m, fmt.Sprintf("unknown metric %q", text), metricForms
	}
	return m, "", ""
}
