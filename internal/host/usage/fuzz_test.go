// SPDX-License-Identifier: MIT

package usage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/host/block"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// FuzzFiles reads the scheduler's files. An error names the file.
func FuzzFiles(f *testing.F) {
	f.Add("8:0 rbytes=1 wbytes=2 rios=3 wios=4 throttled_usec=5 weight=100 share_ppm=500000 rlat_ios=1 rlat_p50_usec=80 wlat_p999_usec=9\n",
		"8:0 r1280=5 r20480=17 wmore=1\n", "bytes iops [time]", "user rbps=1 riops=2 wbps=3 wiops=4",
		"lead_bytes=1 open=0\ncgroup=7 ahead_bytes=-1 awaited=0 outstanding=4 depth_milli=3900 owed_us=-5\n")
	f.Add("8:0 rbytes=x", "8:0 q1=1", "[bytes]", "", "cgroup=x")
	dir := f.TempDir()
	must.OK(f, os.MkdirAll(filepath.Join(dir, "queue/iosched"), 0o755))
	f.Fuzz(func(t *testing.T, stat, latency, unit, model, clock string) {
		for name, text := range map[string]string{StatFile: stat, LatencyFile: latency, "queue/iosched/share_by": unit, "queue/iosched/cost_model": model, clockFile: clock} {
			testtree.File(t, filepath.Join(dir, name), text)
		}
		named := func(err error) {
			if err != nil && !strings.Contains(err.Error(), dir) {
				t.Errorf("error %q does not name the file", err)
			}
		}
		fuzzlimit.Run(t, uint64(16<<20+1000*(len(stat)+len(latency)+len(unit)+len(model)+len(clock))), func() {
			_, err := ReadStat(dir)
			named(err)
			all, err := ReadLatency(dir)
			named(err)
			for _, h := range all {
				for _, b := range slices.Concat(h.Read, h.Write) {
					if b.Under != NoBound && (b.Middle() < 0 || b.Middle() > b.Under) {
						t.Errorf("the middle of the bucket below %d is %d", b.Under, b.Middle())
					}
				}
			}
			_, err = ReadClock(block.System{Root: dir}, "sda")
			named(err)
			u, err := ReadUnit(filepath.Join(dir, "queue"))
			named(err)
			if cost := u.Cost(Counters{}); err == nil && cost != 0 {
				t.Errorf("nothing costs %g", cost)
			}
		})
	})
}
