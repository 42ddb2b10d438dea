// SPDX-License-Identifier: MIT

package doc

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"isolio/internal/host/slo"
	"isolio/internal/lab/archive"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// promiseFiles are what an experiment of experiments/promises belongs to.
func promiseFiles(x *experiment.Experiment) (promises, profile string) {
	disk := strings.TrimPrefix(x.Name, "promises-")
	dir := filepath.Join("../../../experiments/promises")
	return filepath.Join(dir, disk+".sold"), filepath.Join(dir, "profiles", disk+".json")
}

// The weights, depths and settings of experiments/promises are what `isolio sla plan` says for the profile that
// was measured.
func TestExperimentsAreAsPlanned(t *testing.T) {
	all, err := archive.Tree("../../..").Experiments()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, x := range all {
		if !strings.HasPrefix(x.Name, "promises-") {
			continue
		}
		sold, err := ReadSold(promiseFiles(x))
		if err != nil {
			t.Errorf("%s: %v", x.Name, err)
			continue
		}
		checked++
		var contender *experiment.Contender
		for i := range x.Contenders {
			if x.Contenders[i].Scheduler == "kyber-fairness" {
				contender = &x.Contenders[i]
			}
		}
		if contender == nil || contender.Tunables["share_by"] != sold.Plan.ShareBy || contender.Tunables["cost_model"] != sold.Plan.CostModel ||
			contender.Tunables["min_total_pct"] != strconv.Itoa(sold.Plan.MinTotalPct) {
			t.Errorf("%s: %+v, the plan says\n%s", x.Name, contender, sold.Plan.Table())
		}
		for _, k := range x.Cases {
			others := 0
			for _, c := range k.Containers {
				i := slices.IndexFunc(sold.Plan.Tenants, func(p slo.Tenant) bool { return p.For == "name "+c.Name })
				if i < 0 {
					others += c.Weight * max(1, c.Count)
					continue
				}
				p := sold.Plan.Tenants[i]
				if c.Weight != p.Weight {
					t.Errorf("%s, %s: %s has weight %d, the plan says %d", x.Name, k.Name, c.Name, c.Weight, p.Weight)
				}
				want := map[string]int{"shop": p.Depth, "more": 4 * p.Depth}[c.Name]
				if got := outstanding(c.Job); got != want {
					t.Errorf("%s, %s: %s keeps %d outstanding, the plan says %d", x.Name, k.Name, c.Name, got, p.Depth)
				}
				if c.Name == "less" && c.Job.Count("rate_iops", 0) != int(sold.Promises[i].Read.IOPS/2) {
					t.Errorf("%s, %s: %s sends %s a second, promised %s", x.Name, k.Name, c.Name, c.Job["rate_iops"], sold.Promises[i].Read)
				}
			}
			if others != sold.Plan.Others.Weight {
				t.Errorf("%s, %s: others have weight %d, the plan counts on %d", x.Name, k.Name, others, sold.Plan.Others.Weight)
			}
		}
	}
	if checked == 0 {
		t.Error("there is no such experiment")
	}
}

// Seconds are judged as the daemon does: what is demanded is seen from what is outstanding, what was missed is not
// kept, and one that sends half of its promise demands nothing.
func TestKept(t *testing.T) {
	files, err := filepath.Glob("../../../experiments/promises/*.sold")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	disk := strings.TrimSuffix(filepath.Base(files[0]), ".sold")
	sold, err := ReadSold(files[0], "../../../experiments/promises/profiles/"+disk+".json")
	if err != nil {
		t.Fatal(err)
	}
	promised := uint64(sold.Promises[0].Read.IOPS)
	name := sold.Promises[0].For.Name
	for _, c := range []struct {
		what string
		job  experiment.Job
		rate func(second int) uint64
		want string
	}{
		{"more than promised", experiment.Job{"iodepth": "8"}, func(int) uint64 { return promised + 10 }, "30 of 30"},
		{"half of it, backlogged", experiment.Job{"iodepth": "8"}, func(int) uint64 { return promised / 2 }, "0 of 30"},
		{"half of it, paced", experiment.Job{"rate_iops": "5"}, func(int) uint64 { return promised / 2 }, "0 of 0"},
		{"nothing for ten seconds", experiment.Job{"iodepth": "8"}, func(n int) uint64 {
			if n < 10 {
				return 0
			}
			return promised + 10
		}, "20 of 30"},
	} {
		series := &result.Series{StepMS: 1000}
		for n := range 30 {
			series.IOs = append(series.IOs, c.rate(n))
			series.Bytes = append(series.Bytes, 4096*c.rate(n))
		}
		r := &result.Run{Containers: []result.Container{{Name: name, Series: series}}}
		c.job["rw"] = "randread"
		k := &experiment.Case{Containers: []experiment.Container{{Name: name, Job: c.job}}}
		got, err := sold.keptOf(0, r, k)
		if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", c.what, got, err, c.want)
		}
	}
}
