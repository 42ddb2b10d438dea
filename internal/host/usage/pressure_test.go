// SPDX-License-Identifier: MIT

package usage

import (
	"testing"

	"isolio/internal/testtree"
)

func TestReadPressure(t *testing.T) {
	for text, want := range map[string]float64{
		"some avg10=12.34 avg60=1.00 avg300=0.10 total=99\nfull avg10=3.00 avg60=0 avg300=0 total=9\n": 12.34,
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n":                                             0,
		"full avg10=3.00 avg60=0\n": -1, "some avg10=NaN avg60=0\n": -1, "some avg10=101 a": -1, "": -1,
	} {
		dir := t.TempDir()
		testtree.File(t, dir+"/io.pressure", text)
		got := readPressure(dir)
		if (got != nil) != (want >= 0) || got != nil && *got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := readPressure(t.TempDir()); got != nil {
		t.Errorf("a kernel without pressure has %v", *got)
	}
}
