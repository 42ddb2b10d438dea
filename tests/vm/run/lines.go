// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"isolio/internal/lab/vm"
)

// looking is a kernel line that looks for mistakes. All it does takes instructions
// and memory: limits and memory are multiplied by factor.
type looking struct {
	factor int
	args   []string // of the kernel
	races  bool     // it reports data races
}

// The line "debug" stops at its first warning, with everything as it was. "kcsan"
// goes on: a race is a warning as well, and one boot is to show them all. It watches
// every 20th access: with every 500th, none of our races showed in 6 minutes.
var lookingLines = map[string]looking{
	"debug": {factor: 3, args: []string{"panic_on_warn=1"}},
	"kcsan": {factor: 3, args: []string{"kcsan.skip_watch=20"}, races: true},
}

// lookStall is how long such a kernel may show no sign of life: on a busy host 100 s went
// by before its init.
const lookStall = 10 * time.Minute

// showRaces says how often each data race was reported: those in our modules,
// and then those in the rest of the kernel.
func showRaces(out io.Writer, log string) {
	races, _ := vm.Races(log)
	for _, group := range []struct {
		ours bool
		name string
	}{{true, "our modules"}, {false, "the kernel's own code"}} {
		times := map[string]int{}
		reports := 0
		for _, r := range races {
			if r.Ours == group.ours {
				times[r.Title]++
				reports++
			}
		}
		fmt.Fprintf(out, "=== %s: %d reports of %d data races\n", group.name, reports, len(times))
		for _, title := range slices.Sorted(maps.Keys(times)) {
			fmt.Fprintf(out, "    %d %s\n", times[title], title)
		}
	}
}
