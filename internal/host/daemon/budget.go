// SPDX-License-Identifier: MIT

package daemon

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"isolio/internal/host/target"
)

// mostLines is how many lines of the log are about the cgroups of one tenant in a minute, and
// linesOften is that minute. A tenant makes cgroups with weights as often as it likes, and the
// journal keeps others' lines for a shorter time then.
const (
	mostLines  = 100
	linesOften = time.Minute
)

// budget counts lines of tenants. The zero value is ready.
type budget struct {
	since time.Time
	lines map[string]int
}

// allows reports whether one more line may be about a cgroup. Those that only the machine's owner
// makes have no limit.
func (b *budget) allows(group string) bool {
	tenant := target.TenantOf(group)
	if tenant == "" || tenant == group {
		return true
	}
	if b.lines == nil {
		b.lines = map[string]int{}
	}
	b.lines[tenant]++
	return b.lines[tenant] <= mostLines
}

// begin begins another minute where one is over. What is returned are the lines that were left
// out, by tenant.
func (b *budget) begin(now time.Time) map[string]int {
	if now.Sub(b.since) < linesOften {
		return nil
	}
	left := maps.Clone(b.lines)
	maps.DeleteFunc(left, func(_ string, n int) bool { return n <= mostLines })
	for tenant := range left {
		left[tenant] -= mostLines
	}
	b.since, b.lines = now, nil
	return left
}

// leaveOut tells of lines that were left out.
func (d *Daemon) leaveOut(now time.Time) {
	left := d.lines.begin(now)
	for _, tenant := range slices.Sorted(maps.Keys(left)) {
		d.Log.Warn("log", "of", tenant, "warning", fmt.Sprintf("%d more lines about cgroups inside are left out; limit them with cgroup.max.descendants", left[tenant]))
	}
}
