// SPDX-License-Identifier: MIT

package guest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/must"
)

// A case with two seeds is two loads with random numbers of their own, and one
// run. A job that ends by itself has a time, one that is stopped has none.
func TestRunWithSeeds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, `case "$*" in *randseed=1001*|*randseed=1002*) trace second ;; *) trace first ;; esac
barrier; sleep 0.02; count 4096000 40960; case $name in b) load ;; esac; report; case $name in b) exit 128 ;; esac`)
	x := parse(t, "")
	k := &x.Cases[0]
	k.Seeds = 2
	for i := range k.Containers {
		k.Containers[i].Job["number_ios"] = "10"
	}
	run, err := runOn(context.Background(), e, x, "bfq", nil)
	must.OK(t, err)
	m.checkClean()
	text, err := os.ReadFile(filepath.Join(m.root, "trace"))
	must.OK(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "first") || !strings.HasPrefix(lines[3], "second") {
		t.Errorf("loads %q, want two of the first seed and two of the second", lines)
	}
	if run.Seeds != 2 || run.Containers[0].Read.Seeds == nil {
		t.Errorf("run of %d seeds, %+v", run.Seeds, run.Containers[0].Read)
	}
	if run.Containers[0].FinishMS == nil || run.Containers[1].FinishMS != nil {
		t.Errorf("finished after %v and %v", run.Containers[0].FinishMS, run.Containers[1].FinishMS)
	}
}
