// SPDX-License-Identifier: MIT

package result

import (
	"math"
	"strings"
	"testing"
)

func TestMembers(t *testing.T) {
	m := NewMembers([]float64{100, 200, 300, 200})
	if m.Count != 4 || m.Least != 0.5 || m.Most != 1.5 || math.Abs(m.Jain-640.0/720) > 1e-12 {
		t.Errorf("%+v", m)
	}
	if z := NewMembers([]float64{0, 0}); z.Least != 0 || z.Most != 0 || z.Jain != 0 {
		t.Errorf("nothing: %+v", z)
	}
	// The sum has its share, 4 of 5; one of its members has twice too little.
	r := Run{Scheduler: "bfq", Containers: []Container{
		{Name: "many", Weight: 100, BytesPS: 800, Members: m}, {Name: "one", Weight: 100, BytesPS: 200},
	}}
	r.Sum()
	if r.Containers[0].EntitledShare != 0.8 || r.Containers[0].Share != 0.8 {
		t.Errorf("entitled %g, share %g, want 0.8", r.Containers[0].EntitledShare, r.Containers[0].Share)
	}
	if want := 1000.0 * 1000 / (5 * (100*100 + 200*200 + 300*300 + 200*200 + 200*200)); math.Abs(r.JainWeighted-want) > 1e-12 {
		t.Errorf("Jain %g, want %g: that of all five", r.JainWeighted, want)
	}
	if got, ok := r.ShareErrorPct(""); !ok || math.Abs(got-50) > 1e-9 {
		t.Errorf("share error %g %%, want 50", got)
	}
	var b strings.Builder
	section{runs: []Run{r}}.members(&b)
	if want := "bfq          many x 4  0.500  1.500  0.8889\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("table:\n%s\nwant its last line %q", b.String(), want)
	}
}
