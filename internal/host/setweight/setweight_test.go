// SPDX-License-Identifier: MIT

package setweight

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/host/machine"
	"isolio/internal/host/weight"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// machineWith is a root with a disk of that scheduler, a unit and a plain cgroup.
func machineWith(t *testing.T, scheduler string, more map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"run/systemd/system/x":                                 "",
		"sys/block/sda/dev":                                    "8:0\n",
		"sys/block/sda/size":                                   "1000\n",
		"sys/block/sda/queue/scheduler":                        "none [" + scheduler + "]\n",
		"sys/fs/cgroup/cgroup.controllers":                     "io\n",
		"sys/fs/cgroup/cgroup.subtree_control":                 "io\n",
		"sys/fs/cgroup/plain/io.weight":                        "default 100\n",
		"sys/fs/cgroup/plain/io.bfq.weight":                    "default 100\n",
		"sys/fs/cgroup/plain/io.kyber.weight":                  "default 100\n",
		"sys/fs/cgroup/system.slice/a.service/io.weight":       "default 100\n",
		"sys/fs/cgroup/system.slice/a.service/io.bfq.weight":   "default 100\n",
		"sys/fs/cgroup/system.slice/b.service/cgroup.procs":    "",
		"sys/fs/cgroup/system.slice/c.service/io.kyber.weight": "default 100\n8:0 30\n",
	}
	testtree.Write(t, root, files, more)
	return root
}

func decide(t *testing.T, root, name, device string, n weight.Value) (*Plan, error) {
	t.Helper()
	m, err := machine.Read(root)
	must.OK(t, err)
	found, err := m.Find(name)
	must.OK(t, err)
	return Decide(m, Request{Target: found, Device: device, N: n})
}

// What is written for whom, under each mechanism.
func TestDecide(t *testing.T) {
	id := strings.Repeat("ab", 32)
	pod := "sys/fs/cgroup/kubepods.slice/kubepods-pod0a0a0a0a_1b1b_2c2c_3d3d_4e4e4e4e4e4e.slice"
	scope := "sys/fs/cgroup/system.slice/docker-" + id + ".scope"
	iocost := map[string]string{"sys/fs/cgroup/io.cost.qos": "8:0 enable=1 ctrl=user\n"}
	for _, tt := range []struct {
		what, scheduler string
		more            map[string]string
		target, device  string
		n               weight.Value
		want            []string // below root, systemctl's without its path
	}{
		{"plain", "kyber-fairness", nil, "plain", "", 500, []string{"echo '500' > plain/io.kyber.weight"}},
		{"plain, default", "kyber-fairness", nil, "plain", "", 0, []string{"echo '100' > plain/io.kyber.weight"}},
		{"plain, bfq", "bfq", nil, "plain", "", 500, []string{"echo '500' > plain/io.bfq.weight"}},
		{"plain, io.cost", "none", iocost, "plain", "", 500, []string{"echo '500' > plain/io.weight"}},
		{"plain, both", "bfq", iocost, "plain", "", 500, []string{"echo '500' > plain/io.bfq.weight", "echo '500' > plain/io.weight"}},
		{"plain, one disk", "bfq", nil, "plain", "sda", 500, []string{"echo '8:0 500' > plain/io.bfq.weight"}},
		{"unit that has the file", "kyber-fairness", nil, "c.service", "", 500,
			[]string{"echo '500' > system.slice/c.service/io.kyber.weight", "set-property c.service IOWeight=500"}},
		{"unit without the io controller, which systemd gives", "kyber-fairness", nil, "b.service", "", 500,
			[]string{"set-property b.service IOWeight=500", "echo '500' > system.slice/b.service/io.kyber.weight"}},
		{"unit, one disk", "kyber-fairness", nil, "c.service", "sda", 500, []string{"echo '8:0 500' > system.slice/c.service/io.kyber.weight"}},
		{"unit without the io controller, one disk", "kyber-fairness", nil, "b.service", "sda", 500,
			[]string{"set-property --runtime b.service IOAccounting=yes", "echo '8:0 500' > system.slice/b.service/io.kyber.weight"}},
		{"unit, one disk, default", "kyber-fairness", nil, "c.service", "sda", 0, []string{"echo '8:0 default' > system.slice/c.service/io.kyber.weight"}},
		{"sum", "kyber-fairness", nil, "plain", "", weight.Sum, []string{"echo 'sum' > plain/io.kyber.weight"}},
		{"sum, one disk", "kyber-fairness", nil, "plain", "sda", weight.Sum, []string{"echo '8:0 sum' > plain/io.kyber.weight"}},
		{"sum of a unit: systemd has no word for it", "kyber-fairness", nil, "c.service", "", weight.Sum, []string{"echo 'sum' > system.slice/c.service/io.kyber.weight"}},
		{"sum of a unit without the io controller", "kyber-fairness", nil, "b.service", "", weight.Sum,
			[]string{"set-property --runtime b.service IOAccounting=yes", "echo 'sum' > system.slice/b.service/io.kyber.weight"}},
		{"sum, where io.cost acts as well", "kyber-fairness", iocost, "c.service", "", weight.Sum, []string{"echo 'sum' > system.slice/c.service/io.kyber.weight"}},
		{"pod's slice", "kyber-fairness", map[string]string{pod + "/io.kyber.weight": "default 100\n", pod + "/crio-" + id + ".scope/io.kyber.weight": "default 100\n"},
			filepath.Base(pod), "", 500, []string{"echo '500' > " + strings.TrimPrefix(pod, "sys/fs/cgroup/") + "/io.kyber.weight", "set-property --runtime " + filepath.Base(pod) + " IOWeight=500"}},
		{"container that has the file", "kyber-fairness", map[string]string{scope + "/io.kyber.weight": "default 100\n"}, id, "", 500,
			[]string{"echo '500' > system.slice/docker-" + id + ".scope/io.kyber.weight"}},
		{"container without the io controller", "kyber-fairness", map[string]string{scope + "/cgroup.procs": ""}, id, "", 500,
			[]string{"set-property --runtime docker-" + id + ".scope IOAccounting=yes", "echo '500' > system.slice/docker-" + id + ".scope/io.kyber.weight"}},
		{"container, bfq", "bfq", map[string]string{scope + "/io.bfq.weight": "default 100\n"}, id, "", 200,
			[]string{"set-property --runtime docker-" + id + ".scope IOWeight=1200"}},
		{"unit, bfq", "bfq", nil, "a.service", "", 200, []string{"set-property a.service IOWeight=1200"}},
		{"unit, io.cost", "none", iocost, "a.service", "", 200, []string{"set-property a.service IOWeight=200"}},
		{"unit, io.cost, one disk", "none", iocost, "a.service", "sda", 200, []string{"set-property a.service 'IODeviceWeight=/dev/sda 200'"}},
		{"unit, both", "bfq", iocost, "a.service", "", 200,
			[]string{"echo '200' > system.slice/a.service/io.bfq.weight", "set-property a.service IOWeight=200"}},
	} {
		root := machineWith(t, tt.scheduler, tt.more)
		p, err := decide(t, root, tt.target, tt.device, tt.n)
		if err != nil {
			t.Errorf("%s: %v", tt.what, err)
			continue
		}
		var got []string
		for _, step := range p.Steps {
			line := strings.ReplaceAll(step.String(), root+"/sys/fs/cgroup/", "")
			got = append(got, strings.ReplaceAll(line, root+"/usr/bin/systemctl ", ""))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got %q\nwant %q", tt.what, got, tt.want)
		}
	}
}

// Notes say that a cgroup has no sibling, and that its weight ends with the unit.
func TestNotes(t *testing.T) {
	root := machineWith(t, "kyber-fairness", map[string]string{"sys/fs/cgroup/pod/only/io.kyber.weight": "default 100\n"})
	p, err := decide(t, root, "pod/only", "", 500)
	if err != nil || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "give pod the weight") {
		t.Errorf("notes %q, %v", p.Notes, err)
	}
	inSum := machineWith(t, "kyber-fairness", map[string]string{
		"sys/fs/cgroup/pod/io.kyber.weight": "default sum\n", "sys/fs/cgroup/pod/only/io.kyber.weight": "default 100\n",
	})
	if p, err = decide(t, inSum, "pod/only", "", 500); err != nil || len(p.Notes) != 0 {
		t.Errorf("below a sum: notes %q, %v", p.Notes, err)
	}
	if p, err = decide(t, root, "c.service", "sda", 500); err != nil || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "lasts until c.service stops") {
		t.Errorf("notes %q, %v", p.Notes, err)
	}
	for device, want := range map[string][]string{
		"":    {"the sum lasts until c.service stops: a rule with unit in /etc/isolio.toml keeps it", "sda keeps its own weight, 30: --device sda changes that"},
		"sda": {"the sum on one disk lasts until c.service stops: a rule with unit and device in /etc/isolio.toml keeps it"},
	} {
		if p, err = decide(t, root, "c.service", device, weight.Sum); err != nil || !slices.Equal(p.Notes, want) {
			t.Errorf("notes %q, %v; want %q", p.Notes, err, want)
		}
	}
	if p, err = decide(t, root, "c.service", "", 30); err != nil || len(p.Notes) != 0 {
		t.Errorf("a disk's own weight is the new one: notes %q, %v", p.Notes, err)
	}
	iocost := machineWith(t, "kyber-fairness", map[string]string{"sys/fs/cgroup/io.cost.qos": "8:0 enable=1 ctrl=user\n"})
	const numbers = "no effect on disks that io.cost shares: io.weight takes numbers only"
	if p, err = decide(t, iocost, "plain", "", weight.Sum); err != nil || !slices.Equal(p.Notes, []string{numbers}) {
		t.Errorf("notes %q, %v; want %q", p.Notes, err, numbers)
	}
	if p, err = decide(t, root, "plain", "", 500); err != nil || len(p.Notes) != 0 {
		t.Errorf("notes %q, %v", p.Notes, err)
	}
}

// Just kyber-fairness knows sums.
func TestSumRefused(t *testing.T) {
	root := machineWith(t, "bfq", nil)
	const want = "weight sum: io.bfq.weight, which bfq reads, takes numbers only; allowed: 1..1000"
	if _, err := decide(t, root, "plain", "", weight.Sum); err == nil || err.Error() != want || failure.Code(err) != failure.Usage {
		t.Errorf("bfq: %v, want %s", err, want)
	}
}

// A weight that is not there afterwards is an error.
func TestVerify(t *testing.T) {
	root := machineWith(t, "kyber-fairness", nil)
	for _, tt := range []struct {
		device, text string
		n            weight.Value
		ok           bool
	}{
		{"", "default 500\n", 500, true},
		{"", "default 100\n", 500, false},
		{"", "default 100\n", 0, true},
		{"", "default 500\n", 0, false},
		{"sda", "default 100\n8:0 500\n", 500, true},
		{"sda", "default 100\n8:0 400\n", 500, false},
		{"", "default sum\n", weight.Sum, true},
		{"", "default 100\n", weight.Sum, false},
		{"", "default sum\n", 100, false},
		{"sda", "default 100\n8:0 sum\n", weight.Sum, true},
		{"sda", "default 300\n", 0, true},
		{"sda", "default 300\n8:0 500\n", 0, false},
	} {
		p, err := decide(t, root, "plain", tt.device, tt.n)
		must.OK(t, err)
		testtree.File(t, p.Steps[0].Path, tt.text)
		if err := p.Verify(); (err == nil) != tt.ok {
			t.Errorf("%s on %q, %q: %v", tt.n, tt.device, tt.text, err)
		}
	}
}

// Two mechanisms that act on a disk may have different defaults.
func TestVerifyOfTwo(t *testing.T) {
	root := machineWith(t, "bfq", map[string]string{
		"sys/fs/cgroup/io.cost.qos":         "8:0 enable=1 ctrl=auto\n",
		"sys/fs/cgroup/plain/io.bfq.weight": "default 100\n",
		"sys/fs/cgroup/plain/io.weight":     "default 300\n",
	})
	p, err := decide(t, root, "plain", "sda", 0)
	must.OK(t, err)
	if len(p.written) != 2 {
		t.Fatalf("written: %v", p.written)
	}
	if err := p.Verify(); err != nil {
		t.Error(err)
	}
}

// A target that has used no disk on which weights act is told so; one that has used such
// a disk as well is not.
func TestWeightWhereNoneActs(t *testing.T) {
	other := map[string]string{
		"sys/block/sdb/dev": "8:16\n", "sys/block/sdb/size": "1000\n", "sys/block/sdb/queue/scheduler": "[none]\n",
		"sys/fs/cgroup/plain/io.stat": "8:16 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n",
	}
	const note = "cgroup plain has used sdb only, where no weight acts: isolio enable sdb"
	p, err := decide(t, machineWith(t, "kyber-fairness", other), "plain", "", 500)
	if err != nil || !slices.Contains(p.Notes, note) {
		t.Errorf("%v: notes %q, want %q", err, p.Notes, note)
	}
	other["sys/fs/cgroup/plain/io.stat"] += "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n"
	if p, err := decide(t, machineWith(t, "kyber-fairness", other), "plain", "", 500); err != nil || slices.Contains(p.Notes, note) {
		t.Errorf("%v: notes %q with the other disk used as well", err, p.Notes)
	}
	if p, err := decide(t, machineWith(t, "kyber-fairness", nil), "plain", "", 500); err != nil || slices.Contains(p.Notes, note) {
		t.Errorf("%v: notes %q with no disk used", err, p.Notes)
	}
}
