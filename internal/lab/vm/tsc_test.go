// SPDX-License-Identifier: MIT

package vm

import (
	"math"
	"runtime"
	"testing"
)

// Two measurements of the same counter agree to what a guest tolerates.
func TestTSCRate(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("no TSC")
	}
	a, b := float64(tscKHz()), float64(tscKHz())
	if a < 100e3 || a > 100e6 || math.Abs(a/b-1) > 1e-3 {
		t.Errorf("the counter's rate is %.0f and %.0f kHz", a, b)
	}
}
