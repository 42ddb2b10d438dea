// SPDX-License-Identifier: MIT

package usage

import (
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/host/block"
	"isolio/internal/testtree"
)

// FuzzClock reads a scheduler's state, of any version of the module, and its unit.
func FuzzClock(f *testing.F) {
	f.Add("lead_bytes=4096 open=1\ncgroup=7 ahead_bytes=-3 awaited=0 outstanding=2 depth_milli=1500 owed_us=-4\n", "bytes [time]")
	f.Add("cgroup=7\n", "")
	f.Add("open=2 =\n\n", "[")
	f.Fuzz(func(t *testing.T, text, shareBy string) {
		root := testtree.New(t, map[string]string{"sys/kernel/debug/block/sda/sched/clock": text, "sys/block/sda/queue/iosched/share_by": shareBy})
		fuzzlimit.Run(t, uint64(1<<20+1000*(len(text)+len(shareBy))), func() {
			sys := block.System{Root: root}
			c, err := ReadClock(sys, "sda")
			switch {
			case err != nil && strings.Contains(err.Error(), "\n"):
				t.Errorf("%q is not one line", err)
			case err == nil && len(c.Turns) > strings.Count(text, "cgroup="):
				t.Errorf("%d cgroups in %q", len(c.Turns), text)
			}
			_, _ = ReadUnit(sys.Path("sys/block/sda/queue"))
		})
	})
}
