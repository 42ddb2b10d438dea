// SPDX-License-Identifier: MIT

package usage

import (
	"testing"
	"time"
)

// Buckets touch each other: a quarter of an octave each, the first from 0 on, the last
// without an end.
func TestBegin(t *testing.T) {
	last := time.Duration(0)
	for octave := time.Duration(1024); octave <= 1<<33; octave *= 2 {
		for quarter := range time.Duration(4) {
			b := Bucket{Under: octave + octave/4*(quarter+1)}
			if b.Begin() != last || b.Middle() < last || b.Middle() >= b.Under {
				t.Fatalf("the bucket below %d begins at %d, and the one before ends at %d", b.Under, b.Begin(), last)
			}
			if last = b.Under; last == lastBegin {
				break
			}
		}
	}
	if b := (Bucket{Under: NoBound}); b.Begin() != lastBegin {
		t.Errorf("the last bucket begins at %s", b.Begin())
	}
}
