// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"isolio/internal/host/profile"
	"isolio/internal/host/slo"
)

// A plan made from a measured profile holds: with its weights, tenants that keep as many
// requests outstanding as it says get what they were promised, beside ten cgroups that
// send what the disk takes longest for.
func TestPromisesAreKept(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	d := newModelDisk(t, []string{"model=nvme", "preset=p4500-2tb", "scale=32", "tags=1023"})
	succeeds(t, "measure", d.name, "--scheduler", "none", "--allow-writes", "--time", "500ms", "--depths", "1,16,128,256", "--loads", "randread-4k,read-128k,randwrite-4k")
	t.Logf("\n%s", succeeds(t, "measure", d.name, "--show"))
	var measured profile.Profile
	must(t, json.Unmarshal([]byte(succeeds(t, "measure", d.name, "--show", "--json")), &measured))
	for _, l := range measured.Loads {
		for _, at := range l.Points {
			if at.DifferPct > profile.Repeatable {
				t.Errorf("%s, depth %d: runs are %.1f %% apart: %s", l.Name, at.Depth, at.DifferPct, at.Why)
			}
		}
	}

	file := filepath.Join(t.TempDir(), "promises.toml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `
[[promise]]
unit = "shop.service"
device = %q
read = "3000 IOPS"
p99 = "40 ms"

[[promise]]
unit = "ledger.service"
device = %[1]q
read = "500 IOPS"
write = "150 IOPS"

[[promise]]
unit = "scan.service"
device = %[1]q
order = "sequential"
read = "12 MiB/s"
`, d.name), 0o644))
	t.Logf("\n%s", succeeds(t, "sla", "plan", "--file", file))
	var doc slo.PlanDocument
	must(t, json.Unmarshal([]byte(succeeds(t, "sla", "plan", "--file", file, "--json")), &doc))
	plan := doc.Plans[0]
	if _, stderr, code := isolio(t, "sla", "plan", "--file", file, "--what-if", "unit=more.service,device="+d.name+",read=9000 IOPS"); code != 1 {
		t.Errorf("more than there is: exit status %d, %s", code, stderr)
	}

	d.use(t, elevator)
	write(t, d.tunable("share_by"), plan.ShareBy)
	write(t, d.tunable("cost_model"), plan.CostModel)
	write(t, d.tunable("min_total_pct"), fmt.Sprint(plan.MinTotalPct))
	jobs := [][]string{
		{"--rw=randread"},
		{"--rw=randrw", "--rwmixread=77"}, // 500 of 650
		{"--rw=read", "--bs=128k"},
	}
	// Requests a second that each must have, of any direction.
	want := []float64{3000, 650, 12 * 8}
	blocks := []float64{4096, 4096, 128 << 10}
	var groups []string
	for i, tenant := range plan.Tenants {
		g := newGroup(t, tenant.For[len("unit "):])
		write(t, filepath.Join(g, weightFile), fmt.Sprint(tenant.Weight))
		startFio(t, d, g, append(jobs[i], "--time_based", "--runtime=600", fmt.Sprint("--iodepth=", tenant.Depth))...)
		groups = append(groups, g)
	}
	for i := range plan.Others.BestEffort {
		startFio(t, d, newGroup(t, fmt.Sprint("other", i)), "--rw=randwrite", "--time_based", "--runtime=600", "--iodepth=16")
	}
	time.Sleep(10 * time.Second) // the drive's buffer is full, and the scheduler has probed it
	moved := func(g string) float64 {
		s := keyed(t, g, "io.stat", d)
		return float64(s["rbytes"] + s["wbytes"])
	}
	var before []float64
	for _, g := range groups {
		before = append(before, moved(g))
	}
	const lasts = 5
	time.Sleep(lasts * time.Second)
	if p99 := keyed(t, groups[0], statFile, d)["rlat_p99_usec"]; p99 == 0 || float64(p99) > plan.Tenants[0].P99MS*1000 {
		t.Errorf("%s: p99 %d us, promised %g ms", plan.Tenants[0].For, p99, plan.Tenants[0].P99MS)
	} else {
		t.Logf("%s: p99 %d us, promised %g ms, bound %.1f ms", plan.Tenants[0].For, p99, plan.Tenants[0].P99MS, plan.Tenants[0].Bound)
	}
	for i, g := range groups {
		got := (moved(g) - before[i]) / blocks[i] / lasts
		t.Logf("%s: %.0f a second, promised %.0f: %+.1f %%", plan.Tenants[i].For, got, want[i], 100*(got/want[i]-1))
		if got < want[i]*0.99 {
			t.Errorf("%s: %.0f a second, promised %.0f", plan.Tenants[i].For, got, want[i])
		}
	}
}
