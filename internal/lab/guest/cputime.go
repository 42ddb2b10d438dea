// SPDX-License-Identifier: MIT

package guest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cpuTime is how long the machine's CPUs have been idle, all together, at a
// time. A CPU that waits for a disk is idle.
type cpuTime struct {
	at   time.Time
	idle time.Duration
	cpus int
}

// userTick is the unit of /proc/stat: USER_HZ is 100 on all machines that have fio.
const userTick = 10 * time.Millisecond

// cpuTime reads /proc/stat, and the clock with it. The kernel times idleness,
// and only counts ticks of what is in use: what is not idle is the better figure.
func (e Env) cpuTime() (cpuTime, error) {
	path := e.System.Path("proc/stat")
	text, err := os.ReadFile(path)
	t := cpuTime{at: time.Now()}
	if err != nil {
		return t, err
	}
	for line := range bytes.Lines(text) {
		// cpu0 USER NICE SYSTEM IDLE IOWAIT ...; "cpu" alone is the sum.
		words := strings.Fields(string(line))
		if len(words) < 6 || !strings.HasPrefix(words[0], "cpu") || words[0] == "cpu" {
			continue
		}
		t.cpus++
		for _, word := range words[4:6] {
			ticks, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return t, fmt.Errorf("%s: %q: %w", path, strings.TrimSpace(string(line)), err)
			}
			t.idle += time.Duration(ticks) * userTick
		}
	}
	if t.cpus == 0 {
		return t, fmt.Errorf("%s lists no CPU", path)
	}
	return t, nil
}

// busyPct is the CPU time in use from then until now, in percent of one CPU.
func (t cpuTime) busyPct(then cpuTime) float64 {
	passed := t.at.Sub(then.at)
	if passed <= 0 {
		return 0
	}
	available := passed * time.Duration(t.cpus)
	idle := min(max(0, t.idle-then.idle), available)
	return 100 * float64(available-idle) / float64(passed)
}
