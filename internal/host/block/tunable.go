// SPDX-License-Identifier: MIT

package block

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tunable is a file that a scheduler has below queue/iosched for an operator to write, and what it
// takes. The modules have the last word: a test compares the two.
type Tunable struct {
	Name string
	// Least and Most bound a number; both 0 for a file that takes text.
	Least, Most int64
	// Words are what a file takes that has no number, nil for the file of the model of costs.
	Words []string
}

// Schedulers are those that can be chosen for a disk. The first is the default.
var Schedulers = []string{"kyber-fairness", "bfq", "rsd", "sfq"}

// maxWait and guard are the files of the starvation guard. All of the project's schedulers have the first.
var (
	maxWait = Tunable{Name: "max_wait_ms", Most: 3600000}
	guard   = []Tunable{{Name: "age_th", Most: 65536}, maxWait}
)

var tunablesOf = map[string][]Tunable{
	"kyber-fairness": {
		{Name: "share_by", Words: []string{"bytes", "iops", "time"}},
		{Name: costModel},
		{Name: "read_lat_nsec", Least: 1, Most: 1e10},
		{Name: "write_lat_nsec", Least: 1, Most: 1e10},
		{Name: "min_total_pct", Most: 100},
		maxWait,
	},
	"rsd": guard,
	"sfq": append([]Tunable{
		{Name: "sync_selections", Least: 1, Most: 1000},
		{Name: "turn_requests", Least: 2, Most: 1000},
		{Name: "turn_reads", Least: 1, Most: 1000},
		{Name: "turn_writes", Least: 1, Most: 1000},
		{Name: "reads_first", Most: 1},
		{Name: "writes_inside_pct", Least: 1, Most: 100},
		{Name: "quiet_ms", Most: 600000},
		{Name: "unit_kib", Most: 1024},
		{Name: "patience_us", Most: 1000000},
		{Name: "read_expire_ms", Least: 1, Most: 600000},
		{Name: "write_expire_ms", Least: 1, Most: 600000},
	}, guard...),
}

// TunablesOf are the tunables of a scheduler, in the order in which they are written: none of one
// that is not the project's.
func TunablesOf(scheduler string) []Tunable { return tunablesOf[scheduler] }

// KnownTunable reports whether any scheduler has a tunable of that name.
func KnownTunable(name string) bool {
	for _, all := range tunablesOf {
		if slices.ContainsFunc(all, func(t Tunable) bool { return t.Name == name }) {
			return true
		}
	}
	return false
}

// costModel is the file with four rates, or a word for those that are learnt.
const costModel = "cost_model"

// Bounds of those rates: bytes and requests a second.
const (
	leastBPS, mostBPS   = 1e5, 1e12
	leastIOPS, mostIOPS = 1, 1e8
)

var model = regexp.MustCompile(`^rbps=([0-9]{1,18}) riops=([0-9]{1,18}) wbps=([0-9]{1,18}) wiops=([0-9]{1,18})$`)

// Value is what is written to the file for a value as TOML has it; wrong says what is
// wrong with that, "" for nothing.
func (t Tunable) Value(v any) (text, wrong string) {
	if t.isNumber() {
		n, ok := v.(int64)
		switch {
		case !ok:
			return "", "has the wrong type"
		case n < t.Least || n > t.Most:
			return "", fmt.Sprintf("%d is out of range", n)
		}
		return strconv.FormatInt(n, 10), ""
	}
	text, ok := v.(string)
	switch {
	case !ok:
		return "", "has the wrong type"
	case t.Name == costModel && !isModel(text), t.Name != costModel && !slices.Contains(t.Words, text):
		return "", fmt.Sprintf("%q is none", text)
	}
	return text, ""
}

func (t Tunable) isNumber() bool { return t.Most > 0 }

// Allowed says what the file takes.
func (t Tunable) Allowed() string {
	switch {
	case t.isNumber():
		return fmt.Sprintf("an integer %d..%d", t.Least, t.Most)
	case t.Name == costModel:
		return fmt.Sprintf(`"auto", or "rbps=N riops=N wbps=N wiops=N" with bytes %.0f..%.0f and requests %d..%.0f a second`, leastBPS, mostBPS, leastIOPS, mostIOPS)
	}
	return strings.Join(t.Words, ", ")
}

func isModel(text string) bool {
	if text == "auto" {
		return true
	}
	found := model.FindStringSubmatch(text)
	if found == nil {
		return false
	}
	for i, word := range found[1:] {
		n, err := strconv.ParseFloat(word, 64)
		least, most := float64(leastBPS), float64(mostBPS)
		if i%2 == 1 {
			least, most = leastIOPS, mostIOPS
		}
		if err != nil || n < least || n > most {
			return false
		}
	}
	return true
}

// TunableNow is what a file that reads as text says is in force: of "[bytes] iops time" the word
// in brackets, of a model what was written for it.
func TunableNow(name, text string) string {
	text = strings.TrimSpace(text)
	if name == costModel {
		if figures, ok := strings.CutPrefix(text, "user "); ok {
			return figures
		}
		return "auto"
	}
	for word := range strings.FieldsSeq(text) {
		if bare := strings.Trim(word, "[]"); bare != word {
			return bare
		}
	}
	return text
}

// mostOff is by how much a rate of a model may differ that the scheduler keeps as times of
// a request and of a byte.
const mostOff = 0.01

// SameTunable reports whether a file says what was written there.
func SameTunable(name, now, written string) bool {
	a, b := model.FindStringSubmatch(now), model.FindStringSubmatch(written)
	if name != costModel || a == nil || b == nil {
		return now == written
	}
	for i := range a[1:] {
		x, errX := strconv.ParseFloat(a[i+1], 64)
		y, errY := strconv.ParseFloat(b[i+1], 64)
		if errX != nil || errY != nil || math.Abs(x-y) > mostOff*y {
			return false
		}
	}
	return true
}
