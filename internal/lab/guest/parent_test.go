// SPDX-License-Identifier: MIT

package guest

import (
	"context"
	"math"
	"strings"
	"testing"

	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

// A parent's weight is written as its children's are, and in proportion with
// them where a contender takes less; shares follow from both.
func TestParentsHaveWeights(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, "trap 'report; exit 128' INT; count 0 0; barrier; sleep 0.2; count 4096000 0; load")
	x := parse(t, "")
	k := &x.Cases[0]
	k.DurationS, k.Containers[0].EndS, k.Containers[1].EndS = 1, 1, 1
	k.Containers[0].Cgroup, k.Containers[1].Cgroup = "p/a", "p/q/b"
	k.Parents = []experiment.Parent{{Cgroup: "p/q", Weight: 2000}}
	run, err := runOn(context.Background(), e, x, "bfq", nil)
	must.OK(t, err)
	log := strings.Join(m.log, "\n")
	for _, want := range []string{
		"mkdir sys/fs/cgroup/isolio-x/p/q\nsys/fs/cgroup/isolio-x/p/q/cgroup.subtree_control = +io\n",
		"isolio-x/p/a/io.bfq.weight = 150\n", "isolio-x/p/q/b/io.bfq.weight = 50\n", "isolio-x/p/q/io.bfq.weight = 1000\n",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q among the changes:\n%s", want, log)
		}
	}
	if a, b := run.Containers[0].EntitledShare, run.Containers[1].EntitledShare; math.Abs(a-300.0/2300) > 1e-12 || math.Abs(b-2000.0/2300) > 1e-12 {
		t.Errorf("entitled %g and %g", a, b)
	}
	// Both get the same.
	y := []float64{0.5 / (300.0 / 2300), 0.5 / (2000.0 / 2300)}
	want := (y[0] + y[1]) * (y[0] + y[1]) / (2 * (y[0]*y[0] + y[1]*y[1]))
	if math.Abs(run.JainWeighted-want) > 0.001 {
		t.Errorf("Jain %g, want %g", run.JainWeighted, want)
	}
}
