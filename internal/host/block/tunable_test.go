// SPDX-License-Identifier: MIT

package block

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"isolio/internal/must"
)

// source is a module's source where its files are listed, and what lists one.
var sources = map[string]struct{ file, attr string }{
	"kyber-fairness": {"kyber-fairness/tunables.c", "KF"},
	"rsd":            {"rsd/main.c", "RSD"},
	"sfq":            {"sfq/tunables.c", "SFQ"},
}

// A scheduler has the files that are known of it, and no more but what shows statistics.
func TestModulesHaveThem(t *testing.T) {
	for scheduler, source := range sources {
		text, err := os.ReadFile("../../../kernel/" + source.file)
		must.OK(t, err)
		var names []string
		for _, found := range regexp.MustCompile(`(?m)^\t`+source.attr+`_ATTR\(([a-z_]+)\),`).FindAllStringSubmatch(string(text), -1) {
			if found[1] != "guard_stat" {
				names = append(names, found[1])
			}
		}
		var known []string
		for _, one := range TunablesOf(scheduler) {
			known = append(known, one.Name)
		}
		slices.Sort(names)
		slices.Sort(known)
		if !slices.Equal(names, known) {
			t.Errorf("%s has %q, known are %q", scheduler, names, known)
		}
	}
	if len(TunablesOf("bfq")) != 0 || KnownTunable("guard_stat") || !KnownTunable("unit_kib") {
		t.Error("of another scheduler")
	}
}

// What they take is what their documents say, whose figures are the modules'.
func TestRangesAreDocumented(t *testing.T) {
	rows := map[string]string{}
	for _, file := range []string{"kyber-fairness.md", "sfq.md", "rsd.md"} {
		text, err := os.ReadFile("../../../docs/" + file)
		must.OK(t, err)
		for line := range strings.Lines(string(text)) {
			if cells := strings.Split(line, " | "); len(cells) > 2 {
				for name := range strings.FieldsSeq(strings.NewReplacer("|", "", "`", "").Replace(cells[0])) {
					rows[file+" "+name] += line
				}
			}
		}
	}
	power := strings.NewReplacer("10^10", "10000000000")
	for scheduler := range sources {
		for _, one := range TunablesOf(scheduler) {
			row := power.Replace(rows[scheduler+".md "+one.Name])
			want := strconv.FormatInt(one.Least, 10) + " to " + strconv.FormatInt(one.Most, 10)
			switch {
			case one.Name == "reads_first":
				want = "0, 1"
			case one.Words != nil:
				want = "`" + strings.Join(one.Words, "` `") + "`"
			case !one.isNumber():
				want = "`rbps= riops= wbps= wiops=`"
			case scheduler == "sfq" && slices.ContainsFunc(guard, func(g Tunable) bool { return g.Name == one.Name }):
				want = "[starvation guard](rsd.md)"
			}
			if !strings.Contains(row, want) {
				t.Errorf("%s, %s: %q is not in %q", scheduler, one.Name, want, row)
			}
		}
	}
}

func TestValue(t *testing.T) {
	for _, tt := range []struct {
		name        string
		v           any
		text, wrong string
	}{
		{"min_total_pct", int64(0), "0", ""},
		{"min_total_pct", int64(100), "100", ""},
		{"min_total_pct", int64(101), "", "101 is out of range"},
		{"min_total_pct", int64(-1), "", "-1 is out of range"},
		{"read_lat_nsec", int64(0), "", "0 is out of range"},
		{"read_lat_nsec", int64(10000000000), "10000000000", ""},
		{"read_lat_nsec", 2.5, "", "has the wrong type"},
		{"share_by", "iops", "iops", ""},
		{"share_by", "", "", `"" is none`},
		{"cost_model", "auto", "auto", ""},
		{"cost_model", "rbps=100000 riops=1 wbps=1000000000000 wiops=100000000", "rbps=100000 riops=1 wbps=1000000000000 wiops=100000000", ""},
		{"cost_model", "rbps=99999 riops=1 wbps=100000 wiops=1", "", `"rbps=99999 riops=1 wbps=100000 wiops=1" is none`},
		{"cost_model", "rbps=100000 riops=0 wbps=100000 wiops=1", "", `"rbps=100000 riops=0 wbps=100000 wiops=1" is none`},
		{"cost_model", "rbps=100000 riops=1 wbps=100000 wiops=1\n", "", `"rbps=100000 riops=1 wbps=100000 wiops=1\n" is none`},
	} {
		i := slices.IndexFunc(TunablesOf("kyber-fairness"), func(one Tunable) bool { return one.Name == tt.name })
		if text, wrong := TunablesOf("kyber-fairness")[i].Value(tt.v); text != tt.text || wrong != tt.wrong {
			t.Errorf("%s = %v: %q, %q", tt.name, tt.v, text, wrong)
		}
	}
}

func TestNow(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"share_by", "bytes iops [time]\n", "time"},
		{"min_total_pct", "45\n", "45"},
		{"cost_model", "auto rbps=3 riops=4 wbps=1 wiops=4\n", "auto"},
		{"cost_model", "user rbps=3 riops=4 wbps=1 wiops=4\n", "rbps=3 riops=4 wbps=1 wiops=4"},
	} {
		if got := TunableNow(tt.name, tt.text); got != tt.want {
			t.Errorf("%s, %q: %q, want %q", tt.name, tt.text, got, tt.want)
		}
	}
}

func TestSame(t *testing.T) {
	const model = "rbps=3200000000 riops=490000 wbps=1050000000 wiops=38000"
	for _, tt := range []struct {
		name, now, written string
		want               bool
	}{
		{"share_by", "time", "time", true},
		{"share_by", "time", "bytes", false},
		{"cost_model", "auto", "auto", true},
		{"cost_model", "auto", model, false},
		{"cost_model", "rbps=3199999998 riops=490011 wbps=1050000000 wiops=37999", model, true},
		{"cost_model", "rbps=3200000000 riops=490000 wbps=1050000000 wiops=39000", model, false},
	} {
		if got := SameTunable(tt.name, tt.now, tt.written); got != tt.want {
			t.Errorf("%s: %s and %s: %v", tt.name, tt.now, tt.written, got)
		}
	}
}
