// SPDX-License-Identifier: MIT

package guest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
)

// Several containers have one fio, a cgroup each, and one row.
func TestCount(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	// Each of the jobs that fio would fork runs its own prerun command; the
	// kernel counts 1, 2 and 3 MiB for them.
	m, e := newMachine(t, `trap 'report; trace "let go $(cat $GROUP/cgroup.freeze)"; exit 128' INT
		if test -z "$name"; then barrier; load; fi
		n=0; for a; do case $a in --exec_prerun=*)
			sh -c "${a#*=} > prerun.$n.txt 2>&1" & n=$((n + 1)) ;;
		esac; done
		trace $n
		until grep -q 1 $GROUP/cgroup.freeze; do sleep 0.01; done; trace held
		sleep 0.3
		for i in 1 2 3; do echo "252:0 rbytes=$((i << 20)) rios=$i" > $GROUP-000$((i - 1))/io.stat; done
		name=a; load`)
	x := parse(t, "")
	k := &x.Cases[0]
	k.DurationS, k.Containers = 1, k.Containers[:1]
	k.Containers[0].Count, k.Containers[0].EndS = 3, 1
	run, err := runOn(context.Background(), e, x, "bfq", nil)
	must.OK(t, err)
	m.checkClean()
	// fio is frozen while its jobs run, and no longer when it is to stop them.
	if got := traced(t, m); len(got) != 3 || !strings.HasPrefix(got[0], "3 ") || !strings.HasPrefix(got[1], "held") || !strings.HasPrefix(got[2], "let go 0") {
		t.Errorf("trace %q, want 3 preruns of one fio, which is held and let go", got)
	}
	for disk, first := range map[string]string{"": "", "/dev/x": "dd if=/dev/x of=/dev/null bs=4k count=1 iflag=direct status=none && "} {
		want := "echo $$ >/p && echo $PPID >/p && " + first + "echo ready >ready; read go <a.go"
		if got := memberPrerun("a", "/p", disk); got != want {
			t.Errorf("prerun %q, want %q: whoever stays with fio is frozen with it", got, want)
		}
	}
	log := strings.Join(m.log, "\n")
	for _, want := range []string{"mkdir sys/fs/cgroup/isolio-x/a\n", "mkdir sys/fs/cgroup/isolio-x/a-0002\n", "a-0002/io.bfq.weight = 300\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q among the changes:\n%s", want, log)
		}
	}
	if n := strings.Count(strings.Join(run.Settings, "\n"), "io.bfq.weight"); n != 1 {
		t.Errorf("%d weights among the settings, want 1: %q", n, run.Settings)
	}
	if len(run.Containers) != 1 || run.Containers[0].Members == nil || run.Containers[0].EntitledShare != 1 {
		t.Fatalf("containers %+v", run.Containers)
	}
	each := run.Containers[0].Members
	if each.Count != 3 || each.Least > 0.51 || each.Least < 0.49 || each.Most > 1.51 || each.Most < 1.49 || !slices.IsSorted(each.BytesPS) {
		t.Errorf("members %+v, want 1 : 2 : 3", each)
	}
	if run.JainWeighted > 0.86 || run.JainWeighted < 0.85 { // 36 / (3 * 14)
		t.Errorf("Jain %g, want that of the three", run.JainWeighted)
	}
}

func TestCountNeedsRoom(t *testing.T) {
	_, e := newMachine(t, honest)
	x := parse(t, "")
	c := &x.Cases[0].Containers[1]
	c.Count, c.Job["size"] = 3, "8k"
	_, err := decide(t, e, x, "bfq")
	if failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), "container b: 8192 bytes are too few for 3 containers with bs 4096") {
		t.Errorf("Decide = %v", err)
	}
}
