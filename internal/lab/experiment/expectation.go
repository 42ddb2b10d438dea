// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/tomlfile"
)

// Expectation is a bound that one contender's result should keep.
type Expectation struct {
	// Case is the case that it is about, "" if the experiment lists none.
	Case      string `json:"case,omitzero"`
	Scheduler string `json:"scheduler,omitzero"`
	Metric    Metric `json:"metric,omitzero"`
	// Direction is "read", "write", "both", "sync" or "operations"; "" for a metric that has none, for
	// rates of reads and writes together, and for the worse of the two where latencies are
	// compared.
	Direction string `json:"direction,omitzero"`
	// Container narrows the metric to one container. "" is the sum of all for
	// rates, and the container with the highest figure for the others.
	Container string `json:"container,omitzero"`
	// ReferenceCase is that of the case, "" for none.
	ReferenceCase string `json:"reference_case,omitzero"`
	// Either a range, of which at least one end is set and both are inclusive,
	Min *float64 `json:"min,omitzero"`
	Max *float64 `json:"max,omitzero"`
	// where the figure may be above Max if it is at most so many times that of none in
	// the reference case; 0 if it may not,
	OrTimesReference float64 `json:"or_times_reference,omitzero"`
	// or a value above 0 and by how many percent of it the result may differ.
	Want      *float64 `json:"want,omitzero"`
	WithinPct *float64 `json:"within_pct,omitzero"`
	// Settle says what SettleMS is measured over; nil for the other metrics.
	Settle *Settle `json:"settle,omitzero"`
	// Source says where the bound is from, for a reader; "" for nothing.
	Source string `json:"-"`
}

// Met reports whether a figure keeps the bound.
func (x Expectation) Met(got float64) bool {
	if x.Want != nil {
		return math.Abs(got-*x.Want) <= *x.Want**x.WithinPct/100
	}
	return (x.Min == nil || got >= *x.Min) && (x.Max == nil || got <= *x.Max)
}

// OfReference is the same figure of the reference: none in the reference case, whatever its
// containers are; false for an expectation that does not look there.
func (x Expectation) OfReference() (Expectation, bool) {
	ok := x.OrTimesReference > 0
	x.Case, x.Scheduler, x.Container, x.OrTimesReference, x.ReferenceCase = x.ReferenceCase, "none", "", 0, ""
	return x, ok
}

// Beside is the expectation with the bound that the reference's figure gives it.
func (x Expectation) Beside(reference float64) Expectation {
	x.Max = new(max(*x.Max, x.OrTimesReference*reference))
	return x
}

// Figure writes a number with six significant digits and without an exponent.
func Figure(v float64) string {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		short = v
	}
	return strconv.FormatFloat(short, 'f', -1, 64)
}

// Subject is what is expected of, "bfq: jain_weighted".
func (x Expectation) Subject() string {
	text := x.Scheduler + ": " + x.Metric.String()
	if x.Case != "" {
		text = x.Case + ": " + text
	}
	switch x.Direction {
	case "":
	case "both":
		text += " of reads and writes together"
	case "sync":
		text += " of fsyncs"
	case "operations":
		text += " of operations"
	default:
		text += " of " + x.Direction + "s"
	}
	if x.Container != "" {
		text += " of " + x.Container
	}
	if x.Settle != nil {
		text += " " + x.Settle.String()
	}
	return text
}

// Wanted is the bound, ">= 0.99".
func (x Expectation) Wanted() string {
	if x.Want != nil {
		return Figure(*x.Want) + " within " + Figure(*x.WithinPct) + " %"
	}
	var bounds []string
	if x.Min != nil {
		bounds = append(bounds, ">= "+Figure(*x.Min))
	}
	if x.Max != nil {
		bounds = append(bounds, "<= "+Figure(*x.Max))
	}
	if x.OrTimesReference > 0 {
		bounds = append(bounds, "or <= "+Figure(x.OrTimesReference)+" times the reference's")
		return strings.Join(bounds, " ")
	}
	return strings.Join(bounds, " and ")
}

// String writes the whole as a reader would: "bfq: jain_weighted >= 0.99".
func (x Expectation) String() string {
	return x.Subject() + " " + x.Wanted()
}

// The file's own shape.
type fileExpect struct {
	Case             *string  `toml:"case"`
	Scheduler        *string  `toml:"scheduler"`
	Metric           *string  `toml:"metric"`
	Direction        *string  `toml:"direction"`
	Container        *string  `toml:"container"`
	Min              *float64 `toml:"min"`
	Max              *float64 `toml:"max"`
	Want             *float64 `toml:"want"`
	WithinPct        *float64 `toml:"within_pct"`
	OrTimesReference *float64 `toml:"or_times_reference"`
	AfterS           *float64 `toml:"after_s"`
	UntilS           *float64 `toml:"until_s"`
	Fraction         *float64 `toml:"fraction"`
	WindowMS         *int64   `toml:"window_ms"`
	OfTotal          *float64 `toml:"of_total"`
	Source           *string  `toml:"source"`

	// Several of a kind, in place of the key above that has one: the expectation is of each.
	Cases      []string `toml:"cases"`
	Schedulers []string `toml:"schedulers"`
	Containers []string `toml:"containers"`
	Metrics    []string `toml:"metrics"`
}

// maxEach is how many expectations one table may stand for.
const maxEach = 100

// each is an [[expect]] once for each of what its lists name, all metrics of a container
// before the next container, and so on up to cases.
func (c *checker) each(key string, f fileExpect) []fileExpect {
	all := []fileExpect{f}
	for _, list := range []struct {
		name  string // of one
		names []string
		one   func(f *fileExpect) **string
	}{
		{"case", f.Cases, func(f *fileExpect) **string { return &f.Case }},
		{"scheduler", f.Schedulers, func(f *fileExpect) **string { return &f.Scheduler }},
		{"container", f.Containers, func(f *fileExpect) **string { return &f.Container }},
		{"metric", f.Metrics, func(f *fileExpect) **string { return &f.Metric }},
	} {
		if list.names == nil {
			continue
		}
		one := key + "." + list.name
		if len(list.names) == 0 {
			c.fail(one+"s", "is empty", "one or more, or leave it out")
		}
		for i, name := range list.names {
			if slices.Contains(list.names[:i], name) {
				c.fail(one+"s", fmt.Sprintf("%q is listed twice", name), "each once")
				return nil
			}
		}
		if *list.one(&f) != nil {
			c.fail(one, "does not go with "+list.name+"s", "one or the other")
		}
		c.lines[one] = c.lines[one+"s"] // of what is said about one of them
		if n := len(all) * len(list.names); n > maxEach {
			c.fail(one+"s", fmt.Sprintf("makes %d expectations of one", n), fmt.Sprintf("up to %d", maxEach))
			return nil
		}
		var more []fileExpect
		for _, was := range all {
			for _, name := range list.names {
				*list.one(&was) = &name
				more = append(more, was)
			}
		}
		all = more
	}
	return all
}

// expectations is an [[expect]], once for each case that it is about: if it
// names none, all in which its scheduler runs, and what it is compared with.
func (c *checker) expectations(key string, f *fileExpect, e *Experiment) []Expectation {
	cases := e.Cases
	if f.Case != nil {
		if problem, allowed := oneOf(*f.Case, e.caseNames(), "cases"); problem != "" || *f.Case == "" {
			c.fail(key+".case", problem, allowed)
			return nil
		}
		cases = []Case{*e.CaseNamed(*f.Case)}
	}
	if f.Case == nil && f.Scheduler != nil && slices.Contains(e.Schedulers, *f.Scheduler) {
		cases = slices.DeleteFunc(slices.Clone(cases), func(k Case) bool { return !e.measures(k.Name, *f.Scheduler) })
	}
	var all []Expectation
	compared := 0
	for i := range cases {
		before := len(c.problems)
		x := c.expectation(key, f, e, &cases[i])
		c.settle(key, f, &x, &cases[i])
		missing := ""
		if len(c.problems) == before && !e.answers(x) {
			name, scheduler, _ := x.Reference()
			missing = notIn(name, scheduler)
			if !e.measures(x.Case, x.Scheduler) {
				missing = notIn(x.Case, x.Scheduler)
			} else if (x.Metric.Kind == TotalVsRef || x.OrTimesReference > 0) && !e.measures(x.ReferenceCase, "none") {
				missing = x.noReference()
			} else if x.Metric.OfOwnDisk() && !cases[i].OwnDisk {
				missing = cases[i].noOwnDisk()
			}
			compared++
		}
		if missing != "" && (f.Case != nil || compared == len(cases)) {
			c.fail(key+".scheduler", missing, "a case in which its scheduler runs, and what it is compared with")
		}
		if missing == "" {
			all = append(all, x)
		}
	}
	return all
}

func (c *checker) expectation(key string, f *fileExpect, e *Experiment, k *Case) Expectation {
	x := c.subject(key, f, e, k)
	c.bounds(key, &x)
	if f.OrTimesReference != nil {
		c.orTimesReference(key+".or_times_reference", &x)
	}
	return x
}

// orTimesReference checks what is said of the reference beside a bound.
func (c *checker) orTimesReference(key string, x *Expectation) {
	_, _, compares := x.Reference()
	switch n := x.OrTimesReference; {
	case x.Max == nil || x.Min != nil:
		c.fail(key, "goes with max alone", "max, and no min and no want")
	case compares || x.Metric.OfOthers() || x.Metric.OfOwnDisk() || x.Metric.OfShares() || x.Metric.OfContainer():
		c.fail(key, "means nothing for "+x.Metric.Kind, "a figure that a run has by itself, of any container")
	case math.IsNaN(n) || math.IsInf(n, 0) || n <= 0:
		c.fail(key, fmt.Sprintf("%g is out of range", n), "above 0")
	}
}

// Asked is a figure of the contender in the case, such as a table may ask for: an
// expectation without bounds. The problem is nil where there is such a figure. Direction
// and container are "" where the metric is not to be narrowed.
func (e *Experiment) Asked(k *Case, scheduler, metric, direction, container string) (Expectation, *tomlfile.Problem) {
	given := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	c := &checker{}
	f := &fileExpect{Scheduler: &scheduler, Metric: &metric, Direction: given(direction), Container: given(container)}
	x := c.subject("", f, e, k)
	if p := c.first(); p != nil {
		p.Key = strings.TrimPrefix(p.Key, ".")
		return x, p
	}
	if x.Metric.Kind == TotalVsRef && !e.answers(x) {
		return x, &tomlfile.Problem{Key: "metric", What: x.noReference(), Allowed: "a case with reference_case or sharing_reference"}
	}
	if x.Metric.OfOwnDisk() && !k.OwnDisk {
		return x, &tomlfile.Problem{Key: "metric", What: k.noOwnDisk(), Allowed: "a case of several containers with own_disk = true"}
	}
	if !e.answers(x) {
		return x, &tomlfile.Problem{Key: "scheduler", What: notIn(k.Name, scheduler), Allowed: strings.Join(e.SchedulersIn(k), ", ")}
	}
	return x, nil
}

// subject is an expectation's without its bounds.
func (c *checker) subject(key string, f *fileExpect, e *Experiment, k *Case) Expectation {
	containers := k.containerNames()
	x := Expectation{
		Case:      k.Name,
		Scheduler: required(c, key+".scheduler", f.Scheduler, strings.Join(e.Schedulers, ", ")),
		Direction: value(f.Direction, ""), Container: value(f.Container, ""), Source: value(f.Source, ""),
		Min: f.Min, Max: f.Max, Want: f.Want, WithinPct: f.WithinPct,
		ReferenceCase: k.ReferenceCase, OrTimesReference: value(f.OrTimesReference, 0),
	}
	if problem, allowed := oneOf(x.Scheduler, e.Schedulers, "schedulers"); f.Scheduler != nil && problem != "" {
		c.fail(key+".scheduler", problem, allowed)
	}
	metric := required(c, key+".metric", f.Metric, allMetrics())
	if f.Metric != nil {
		var wrong, allowed string
		if x.Metric, wrong, allowed = e.parseMetric(metric, containers); wrong != "" {
			c.fail(key+".metric", wrong, allowed)
		} else if _, reference, ok := x.Reference(); ok && reference == "none" && !slices.Contains(e.Schedulers, "none") {
			c.fail(key+".metric", x.Metric.Kind+" needs none among the schedulers", "another metric, or add none")
		} else if x.Metric.OfOthers() && len(e.OthersIn(k, x.Scheduler)) == 0 {
			c.fail(key+".metric", x.Metric.Kind+" needs another scheduler to compare with", "another metric, or add a scheduler")
		}
		c.narrowing(key, f, &x, containers)
		if x.Metric.Kind == P99VsFair && k.UsesPrograms() {
			c.fail(key+".metric", "needs to know how many requests each container keeps outstanding, which a command does not say",
				"another metric, or containers with a job alone")
		}
	}
	return x
}

// directions are what a figure may be narrowed to; "both" is of all requests together.
var directions = []string{"read", "write", "both"}

// calls are what latencies and numbers may be narrowed to besides: fio's calls of fsync and
// fdatasync, and the operations of a program.
var calls = []string{"sync", "operations"}

// directions are those that the metric may be narrowed to.
func (f metricForm) directions() []string {
	if f.calls {
		return slices.Concat(directions, calls)
	}
	return directions
}

// narrowing checks direction and container, and sets the default: latencies
// are those of reads.
func (c *checker) narrowing(key string, f *fileExpect, x *Expectation, containers []string) {
	form, _ := x.Metric.form()
	if f.Direction != nil {
		if !form.direction {
			c.fail(key+".direction", "means nothing for "+x.Metric.Kind, "only with "+kindsWith(func(f metricForm) bool { return f.direction }))
		} else if allowed := form.directions(); !slices.Contains(allowed, x.Direction) {
			c.fail(key+".direction", fmt.Sprintf("%q is not allowed", x.Direction), strings.Join(allowed, ", "))
		}
	} else if x.Metric.Kind == LatUS || x.Metric.Kind == LatVsBest {
		x.Direction = "read"
	}
	if f.Container != nil {
		if problem, allowed := oneOf(x.Container, containers, "containers"); !form.container {
			c.fail(key+".container", "means nothing for "+x.Metric.Kind, "only with "+kindsWith(func(f metricForm) bool { return f.container }))
		} else if problem != "" {
			c.fail(key+".container", problem, allowed)
		}
	}
}

func (c *checker) bounds(key string, x *Expectation) {
	for _, bound := range []*float64{x.Min, x.Max, x.Want, x.WithinPct} {
		if bound != nil && (math.IsNaN(*bound) || math.IsInf(*bound, 0)) {
			c.fail(key, "a bound is not a number", "a finite number")
			return
		}
	}
	switch {
	case x.Want == nil && x.WithinPct != nil:
		c.fail(key+".want", "is missing", "what within_pct is about, above 0")
	case x.Want == nil && x.Min == nil && x.Max == nil:
		c.fail(key+".min", "is missing", "min, max or both, or want and within_pct")
	case x.Want == nil && x.Min != nil && x.Max != nil && *x.Min > *x.Max:
		c.fail(key+".min", fmt.Sprintf("min %g is above max %g", *x.Min, *x.Max), "min <= max")
	case x.Want == nil:
	case x.Min != nil || x.Max != nil:
		c.fail(key+".want", "does not go with min and max", "either min, max or both, or want and within_pct")
	case *x.Want <= 0:
		c.fail(key+".want", fmt.Sprintf("%g is out of range", *x.Want), "above 0")
	case x.WithinPct == nil:
		c.fail(key+".within_pct", "is missing", "a percentage above 0, at most 100")
	case *x.WithinPct <= 0 || *x.WithinPct > 100:
		c.fail(key+".within_pct", fmt.Sprintf("%g is out of range", *x.WithinPct), "above 0, at most 100")
	}
}
