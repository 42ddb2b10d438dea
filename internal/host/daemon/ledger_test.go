// SPDX-License-Identifier: MIT

package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"isolio/internal/host/slo"
	"isolio/internal/must"
)

const promised = `
[sla]
objective_pct = 99.9
[[promise]]
unit = "shop.service"
device = "sda"
read = "1000 IOPS"
[[promise]]
name = "w*"
count = 1
device = "sda"
order = "sequential"
read = "50 MiB/s"
`

// diskProfile is of a disk that reads 10,000 times a second. The scheduler has 48 requests in flight there.
const diskProfile = `{"schema": 1, "disk": {"identity": "serial-S1", "name": "sda", "size_bytes": 4294967296}, "loads": [
{"name": "randread-4k", "random": true, "read_pct": 100, "block_bytes": 4096, "knee_depth": 16, "points": [
{"depth": 1, "iops": 625, "low_iops": 625, "read_lat_us": {"mean": 1600, "p99": 2000}, "runs": []}, {"depth": 16, "iops": 10000, "low_iops": 10000, "read_lat_us": {"mean": 1600, "p99": 2000}, "runs": []},
{"depth": 32, "iops": 10000, "low_iops": 10000, "read_lat_us": {"mean": 3200, "p99": 4000}, "runs": []}]},
{"name": "read-128k", "random": false, "read_pct": 100, "block_bytes": 131072, "knee_depth": 4, "points": [
{"depth": 1, "iops": 400, "low_iops": 400, "read_lat_us": {"mean": 2500, "p99": 3000}, "runs": []}, {"depth": 4, "iops": 1600, "low_iops": 1600, "read_lat_us": {"mean": 2500, "p99": 3000}, "runs": []},
{"depth": 8, "iops": 1600, "low_iops": 1600, "read_lat_us": {"mean": 5000, "p99": 6000}, "runs": []}]}]}`

// promisedHost is a host with promises, and a ledger with a clock of its own.
type promisedHost struct {
	*host
	clock time.Time
	// counters of shop.service, and of the disk.
	reads, diskReads, stalledMS int
}

const shop = "system.slice/shop.service"

func newPromisedHost(t *testing.T) *promisedHost {
	t.Helper()
	h := &promisedHost{host: newHost(t, promised), clock: time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)}
	h.put("sys/block/sda/serial", "S1\n")
	h.put("var/lib/isolio/profiles/serial-S1.json", diskProfile)
	h.group(shop, 100)
	h.group(shop+"/inside", 100)
	h.group("docker/"+idA+"/shop.service", 100) // a container's own: no unit of the host
	h.ledger = newLedger(h.Root, h.tree, h.Log, nil)
	h.ledger.now = func() time.Time { return h.clock }
	h.counters()
	h.once()
	return h
}

// counters writes what the kernel would.
func (h *promisedHost) counters() {
	h.t.Helper()
	h.put("sys/block/sda/stat", fmt.Sprintf("%d 0 %d 0 0 0 0 0 9 %d 0\n", h.diskReads, h.diskReads*8, h.clock.UnixMilli()%1e9))
	h.put("sys/block/sda/inflight", "       48        0\n")
	h.put("sys/fs/cgroup/"+shop+"/io.stat", fmt.Sprintf("8:0 rbytes=%d wbytes=0 rios=%d wios=0\n", h.reads*4096, h.reads))
	h.put("sys/fs/cgroup/"+shop+"/io.pressure", fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", h.stalledMS*1000))
	half := h.reads / 2 // one half is of a cgroup inside
	for group, n := range map[string]int{shop: h.reads - half, shop + "/inside": half} {
		h.put("sys/fs/cgroup/"+group+"/io.kyber.stat", fmt.Sprintf("8:0 rbytes=%d wbytes=0 rios=%d wios=0 throttled_usec=0 weight=100 share_ppm=60000\n", n*4096, n))
		h.put("sys/fs/cgroup/"+group+"/io.kyber.latency", fmt.Sprintf("8:0 r12582912=%d\n", n))
	}
	h.put("sys/fs/cgroup/docker/"+idA+"/io.stat", "")
	h.put("sys/fs/cgroup/docker/"+idA+"/io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
}

// pass has a second pass in which shop.service reads so often, and the disk in all.
func (h *promisedHost) pass(reads, disk int, stalled bool) {
	h.t.Helper()
	h.clock = h.clock.Add(time.Second)
	h.reads += reads
	h.diskReads += disk
	if stalled {
		h.stalledMS += 1000
	}
	h.counters()
	h.ledger.judge()
}

// totals are what was counted of each promise.
func (h *promisedHost) totals() map[string]slo.Counts {
	all := map[string]slo.Counts{}
	for _, s := range h.ledger.sold {
		all[s.meta.Promise] = s.total
	}
	return all
}

func TestLedger(t *testing.T) {
	h := newPromisedHost(t)
	h.ledger.judge()
	for range 10 {
		h.pass(1000, 9000, true) // what was promised
	}
	for range 5 {
		h.pass(500, 4500, true) // on a disk of half the speed
	}
	for range 5 {
		h.pass(0, 9000, false) // idle
	}
	want := slo.Counts{Judged: 20, Demanded: 15, Kept: 10}
	want.Missed[slo.SlowDisk] = 5
	if got := h.totals(); got["unit shop.service"] != want || got["name w*"] != (slo.Counts{Judged: 20}) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	// A look goes on with what was counted, and new terms begin another judge.
	h.once()
	h.pass(1000, 9000, true)
	want.Judged, want.Demanded, want.Kept = 21, 16, 11
	if got := h.totals()["unit shop.service"]; got != want {
		t.Errorf("after a look: %+v, want %+v", got, want)
	}
	h.put("etc/isolio.toml", strings.Replace(promised, "1000 IOPS", "2000 IOPS", 1))
	must.OK(t, h.Reload())
	h.once()
	h.pass(1000, 9000, true) // the first reading of another judge
	h.pass(1000, 9000, true)
	want.Judged, want.Demanded = 22, 17
	want.Missed[slo.Oversold]++
	if got := h.totals()["unit shop.service"]; got != want {
		t.Errorf("twice as much promised: %+v, want %+v", got, want)
	}
	// A disk with another scheduler.
	h.put("sys/block/sda/queue/scheduler", "[none] kyber-fairness\n")
	h.pass(1000, 9000, true)
	want.Judged, want.Demanded = 23, 18
	want.Missed[slo.NoScheduler]++
	if got := h.totals()["unit shop.service"]; got != want {
		t.Errorf("without the scheduler: %+v, want %+v", got, want)
	}
}

// The metrics are counters, with each cause from the beginning on, and a name that acts on
// nothing.
func TestPromiseMetrics(t *testing.T) {
	h := newPromisedHost(t)
	h.ledger.judge()
	h.pass(1000, 9000, true)
	h.pass(500, 4500, true)
	m := NewMetrics(h.Root, h.tree, h.finder)
	m.more = append(m.more, h.ledger)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(w.Body)
	must.OK(t, err)
	for _, want := range []string{
		`isolio_promise_judged_intervals_total{device="sda",promise="unit shop.service"} 2`,
		`isolio_promise_demanded_intervals_total{device="sda",promise="unit shop.service"} 2`,
		`isolio_promise_kept_intervals_total{device="sda",promise="unit shop.service"} 1`,
		`isolio_promise_missed_intervals_total{cause="disk",device="sda",promise="unit shop.service"} 1`,
		`isolio_promise_missed_intervals_total{cause="oversold",device="sda",promise="unit shop.service"} 0`,
		`isolio_promise_objective_ratio{device="sda",promise="name w*"} 0.999`,
	} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// The daemon keeps what it counted when it ends, and a new one goes on.
func TestLedgerKeeps(t *testing.T) {
	root := ""
	for i := range 2 {
		h := newPromisedHost(t)
		if root != "" { // another daemon on the same machine
			must.OK(t, os.CopyFS(filepath.Join(h.Root, slo.HistoryDir), os.DirFS(filepath.Join(root, slo.HistoryDir))))
		}
		root = h.Root
		h.ledger.judge()
		for range 3 {
			h.pass(1000, 9000, true)
		}
		ctx, end := context.WithCancel(context.Background())
		end()
		h.ledger.run(ctx)
		past, faults, err := slo.HistoryAt(root).Read(h.clock.Add(-time.Hour), h.clock)
		if err != nil || len(faults) > 0 || len(past) != 2 {
			t.Fatalf("%+v, %v, %v", past, faults, err)
		}
		for _, p := range past {
			if p.Promise == "unit shop.service" && (p.Identity != "serial-S1" || p.Terms != "1000 IOPS of reads" || p.ObjectivePct != 99.9 || p.Buckets[0].Kept != uint32(3*(i+1))) {
				t.Errorf("%+v", p)
			}
		}
	}
}

// What is wrong with a promise is in the log, and costs the others nothing.
func TestPromiseFaults(t *testing.T) {
	h := newPromisedHost(t)
	h.put("etc/isolio.toml", promised+"[[promise]]\nunit = \"*.service\"\ncount = 1\ndevice = \"sda\"\nread = \"9000 IOPS\"\n[[promise]]\nunit = \"x\"\ndevice = \"sdx\"\nread = \"1 IOPS\"\n")
	log := h.logged()
	must.OK(t, h.Reload())
	h.once()
	for _, want := range []string{
		`msg=promise of=sda warning="125.0 % of the disk is promised, and at most 90.0 % can be; isolio sla plan says more"`,
		`msg=promise of="unit x on sdx" warning="device sdx: there is no such disk`,
		`msg="promise to several" of="unit *.service" warning="is for 1 at a time, and more match: system.slice/shop.service and others have no account; raise count"`,
	} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("not once: %s\n%s", want, log)
		}
	}
	h.ledger.judge()
	h.pass(1000, 9000, true)
	if got := h.totals()["unit shop.service"]; got.Kept != 1 {
		t.Errorf("%+v", got)
	}
}

// Cgroups that a tenant makes without end cost the daemon no more than so much each second, and
// the name of a unit makes none of them a tenant.
func TestCgroupsOfAPromisedTenantAreLimited(t *testing.T) {
	h := newPromisedHost(t)
	log := h.logged()
	for i := range 150 {
		h.group(fmt.Sprintf("%s/%d/shop.service", shop, i), 100)
	}
	h.once()
	s := h.ledger.sold[0]
	if len(s.members) != 1 || s.members[0].group != shop || len(s.members[0].groups) != mostCounted {
		t.Errorf("%d members, of which the first has %d cgroups", len(s.members), len(s.members[0].groups))
	}
	if want := `of=` + shop + ` warning="has 301 cgroups inside: what 202 of them are served is not counted`; strings.Count(log.String(), want) != 1 {
		t.Errorf("not once: %s\n%s", want, log)
	}
}

// BenchmarkJudge is an interval of 20 promises: a daemon does this each second.
func BenchmarkJudge(b *testing.B) {
	h := newHost(b, "")
	var rules strings.Builder
	for i := range 20 {
		group := fmt.Sprintf("system.slice/s%d.service", i)
		fmt.Fprintf(&rules, "[[promise]]\nunit = \"s%d.service\"\ndevice = \"sda\"\nread = \"100 IOPS\"\n", i)
		h.group(group, 100)
		h.put("sys/fs/cgroup/"+group+"/io.stat", "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n")
		h.put("sys/fs/cgroup/"+group+"/io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
		h.put("sys/fs/cgroup/"+group+"/io.kyber.stat", "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 throttled_usec=0 weight=200 share_ppm=0 rlat_ios=1 rlat_p50_usec=20 rlat_p90_usec=20 rlat_p99_usec=20 rlat_p999_usec=20\n")
		line := "8:0"
		for ns := 1 << 14; ns < 1<<24; ns += ns / 4 {
			line += fmt.Sprintf(" r%d=%d", ns, ns%97+1)
		}
		h.put("sys/fs/cgroup/"+group+"/io.kyber.latency", line+"\n")
	}
	h.put("sys/block/sda/stat", "1 0 8 0 0 0 0 0 9 1 0\n")
	h.put("sys/block/sda/inflight", "0 0\n")
	h.put("etc/isolio.toml", rules.String())
	must.OK(b, h.Reload())
	h.ledger = newLedger(h.Root, h.tree, h.Log, nil)
	h.once()
	for b.Loop() {
		h.ledger.judge()
	}
	if got := h.ledger.sold[19].total.Judged; got == 0 && b.N > 1 {
		b.Error("nothing was judged")
	}
}

// Histories are kept beside promises that are judged, and both may fail: the log has each fault once.
func TestHistoriesAndRaisedWeightsFailTogether(t *testing.T) {
	h := newPromisedHost(t)
	log := h.logged()
	h.ledger.log = h.Log
	h.put(slo.HistoryDir, "no directory")
	h.put("run/isolio/held.json/x", "no file")
	kept, done := make(chan map[slo.Meta]slo.Counts), make(chan struct{})
	go func() {
		defer close(done)
		h.ledger.keep(kept)
	}()
	for range 100 {
		kept <- map[slo.Meta]slo.Counts{{Promise: "unit shop.service"}: {Judged: 1}}
		h.ledger.letGo()
	}
	close(kept)
	<-done
	if got := h.ledger.problems(); got != 2 {
		t.Errorf("%d problems, want 2", got)
	}
	for _, want := range []string{"promise to unit shop.service: what was counted is lost", "held.json"} {
		if got := strings.Count(log.String(), want); got != 1 {
			t.Errorf("%d times, want once: %s\n%.2000s", got, want, log)
		}
	}
}
