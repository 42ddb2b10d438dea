// SPDX-License-Identifier: MIT

package usage

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/cgroup"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

const statLine = "rbytes=4096 wbytes=8192 rios=1 wios=2 throttled_usec=1500 weight=800 share_ppm=540540" +
	" rlat_ios=1 rlat_p50_usec=90 rlat_p90_usec=91 rlat_p99_usec=92 rlat_p999_usec=93" +
	" wlat_ios=2 wlat_p50_usec=20 wlat_p90_usec=21 wlat_p99_usec=22 wlat_p999_usec=23"

func TestReadStat(t *testing.T) {
	want := Stat{
		MajMin:   "259:0",
		Counters: Counters{IOStat: cgroup.IOStat{ReadBytes: 4096, WriteBytes: 8192, ReadIOs: 1, WriteIOs: 2}, ThrottledUS: 1500},
		Weight:   800, SharePPM: 540540,
		Read:  Latency{1, 90, 91, 92, 93},
		Write: Latency{2, 20, 21, 22, 23},
	}
	// Keys that came later are passed over, and the order may change.
	d := testtree.New(t, map[string]string{StatFile: "259:0 news=5 rlat_more=1 " + statLine + "\n8:0 weight=100 rbytes=1\n"})
	got, err := ReadStat(d)
	if err != nil || len(got) != 2 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("ReadStat = %+v, %v\nwant %+v", got, err, want)
	}
	if got[1].MajMin != "8:0" || got[1].Weight != 100 || got[1].ReadBytes != 1 {
		t.Errorf("second disk: %+v", got[1])
	}
	if got[0].Read.P50() != 90*time.Microsecond || got[0].Write.P99() != 22*time.Microsecond {
		t.Errorf("P50 %v, P99 %v", got[0].Read.P50(), got[0].Write.P99())
	}
	if got, err := ReadStat(testtree.New(t, nil)); got != nil || err != nil {
		t.Errorf("a cgroup that is gone: %v, %v", got, err)
	}
	d = testtree.New(t, map[string]string{StatFile: "259:0 rbytes=many\n"})
	if _, err := ReadStat(d); err == nil || !strings.Contains(err.Error(), `io.kyber.stat: 259:0: "rbytes=many" is not a key and a number`) {
		t.Errorf("nonsense: %v", err)
	}
}

func TestReadLatency(t *testing.T) {
	d := testtree.New(t, map[string]string{LatencyFile: "259:0 rmore=1 r20480=17 r1024=3 w4096=2\n8:0\n"})
	got, err := ReadLatency(d)
	want := []Histograms{{
		MajMin: "259:0",
		Read:   Histogram{{1024, 3}, {20480, 17}, {NoBound, 1}},
		Write:  Histogram{{4096, 2}},
	}, {MajMin: "8:0"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ReadLatency = %+v, %v\nwant %+v", got, err, want)
	}
	for _, bad := range []string{"x20480=1", "r=1", "=1", "rx=1", "r-5=1"} {
		d := testtree.New(t, map[string]string{LatencyFile: "259:0 " + bad + "\n"})
		if _, err := ReadLatency(d); err == nil {
			t.Errorf("%s: taken", bad)
		}
	}
}

func TestUnitCost(t *testing.T) {
	files := map[string]string{
		"bytes/iosched/share_by":  "[bytes] iops time\n",
		"iops/iosched/share_by":   "bytes [iops] time\n",
		"time/iosched/share_by":   "bytes iops [time]\n",
		"time/iosched/cost_model": "user rbps=4096000 riops=500 wbps=1024000 wiops=250\n",
		"odd/iosched/share_by":    "bytes iops time\n",
		"bad/iosched/share_by":    "[time]\n",
		"bad/iosched/cost_model":  "auto rbps=1 riops=1 wbps=1\n",
	}
	d := testtree.New(t, files)
	// 2 reads of 8 KiB and 1 write of 4 KiB. In time: a read of 4 KiB takes 2 ms,
	// 1 ms of that for its bytes; a write of 4 KiB 4 ms.
	c := Counters{IOStat: cgroup.IOStat{ReadBytes: 16384, ReadIOs: 2, WriteBytes: 4096, WriteIOs: 1}}
	for name, want := range map[string]float64{"bytes": 20480, "iops": 3, "time": 2*0.001 + 4*0.001 + 0.004} {
		u, err := ReadUnit(filepath.Join(d, name))
		must.OK(t, err)
		if got := u.Cost(c); u.Name != name || got < 0.999*want || got > 1.001*want {
			t.Errorf("%s: unit %s, cost %v, want %v", name, u.Name, got, want)
		}
	}
	for _, name := range []string{"odd", "bad", "absent"} {
		if u, err := ReadUnit(filepath.Join(d, name)); err == nil {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := Check(testtree.New(t, map[string]string{StatFile: ""})); err != nil {
		t.Error(err)
	}
	if err := Check(testtree.New(t, nil)); failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "kyber-fairness is not loaded") {
		t.Errorf("without the module: %v", err)
	}
}
