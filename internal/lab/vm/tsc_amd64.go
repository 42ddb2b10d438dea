// SPDX-License-Identifier: MIT

package vm

import "time"

// tsc is this machine's time stamp counter, which is also that of a parallel
// virtual CPU.
func tsc() uint64

// tscTime is how long its rate is measured: to within a millionth or so.
const tscTime = 100 * time.Millisecond

// tscKHz is the counter's rate. A guest that measures it itself gets it wrong
// when the host has other work.
func tscKHz() uint64 {
	best, rate := time.Hour, uint64(0)
	for range 3 {
		from := time.Now()
		first := tsc()
		time.Sleep(tscTime)
		last := tsc()
		took := time.Since(from)
		if took < best { // least disturbed
			best, rate = took, (last-first)*uint64(time.Millisecond)/uint64(took)
		}
	}
	return rate
}
