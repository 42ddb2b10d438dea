// SPDX-License-Identifier: MIT

package enable

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf/btf"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/rule"
	"isolio/internal/must"
	"isolio/internal/plan"
	"isolio/internal/testtree"
)

// machine is a root with two disks whose schedulers are those.
func machine(t *testing.T, sda, sdb string, more map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"dev/sda": "", "dev/sdb": "",
		"sys/block/sda/dev": "8:0\n", "sys/block/sda/size": "8\n", "sys/block/sda/queue/scheduler": sda + "\n", "sys/block/sda/queue/nr_requests": "64\n",
		"sys/block/sdb/dev": "8:16\n", "sys/block/sdb/size": "8\n", "sys/block/sdb/queue/scheduler": sdb + "\n", "sys/block/sdb/queue/nr_requests": "64\n",
	}
	testtree.Write(t, root, files, more)
	return root
}

// kernel is a machine that answers a scheduler's name as the kernel does, with
// brackets around it.
type kernel struct {
	plan.OS
	ran []string
	// tags are how many requests a disk takes, 0 for one that does not care. A scheduler holds twice
	// as many, and a change of it forgets what was written.
	tags int
}

// requests is a write to nr_requests.
func (k *kernel) requests(path, value string) error {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "scheduler"))
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(value)
	if most := k.tags; k.tags > 0 && strings.Contains(string(text), "[none]") && max(n, leastRequests) > most {
		return syscall.EINVAL
	}
	return errors.Join(err, k.OS.Write(path, value))
}

func (k *kernel) Write(path, value string) error {
	switch filepath.Base(path) {
	case "scheduler":
	case "nr_requests":
		return k.requests(path, value)
	default:
		return k.OS.Write(path, value)
	}
	if k.tags > 0 {
		held := k.tags
		if value != "none" {
			held *= 2
		}
		if err := k.OS.Write(filepath.Join(filepath.Dir(path), "nr_requests"), strconv.Itoa(held)); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(string(text)))
	for i, word := range words {
		if word == value {
			words[i] = "[" + word + "]"
		}
	}
	return k.OS.Write(path, strings.Join(words, " "))
}

// Run is modprobe: every disk offers the scheduler, or no longer does.
func (k *kernel) Run(command []string) error {
	k.ran = append(k.ran, strings.Join(command[1:], " "))
	files, err := filepath.Glob(filepath.Join(filepath.Dir(command[0]), "../../sys/block/*/queue/scheduler"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		loaded := strings.TrimSpace(string(text)) + " " + strings.TrimSuffix(command[1], "-iosched")
		if command[1] == "-r" {
			scheduler := strings.TrimSuffix(command[2], "-iosched")
			if strings.Contains(string(text), "["+scheduler+"]") {
				return syscall.EAGAIN
			}
			loaded = strings.Replace(strings.TrimSpace(string(text)), " "+scheduler, "", 1)
		}
		if err := k.OS.Write(file, loaded); err != nil {
			return err
		}
	}
	return err
}

// do decides and does.
func do(t *testing.T, k *kernel, decide func(Request) (*Plan, error), r Request) *Plan {
	t.Helper()
	p, err := decide(r)
	must.OK(t, err)
	must.OK(t, plan.On(k).Apply(p.Steps))
	must.OK(t, p.Verify())
	return p
}

// tree is every file below a root with its text.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	must.OK(t, err)
	return files
}

// After enable and disable, in any order of disks, every file is as before.
func TestUndoIsExact(t *testing.T) {
	bfq := map[string]string{"proc/sys/kernel/osrelease": "6.1\n", "lib/modules/6.1/modules.dep": "kernel/block/bfq.ko:\n"}
	root := machine(t, "[none] mq-deadline", "none [mq-deadline]", bfq)
	before := tree(t, root)
	for _, order := range [][]string{{"sda", "sdb"}, {"sdb", "sda"}} {
		k := &kernel{}
		for _, disk := range []string{"sda", "sdb"} {
			do(t, k, Enable, Request{Root: root, Device: disk, Scheduler: "bfq", Persist: disk == "sda"})
		}
		// A second time changes nothing.
		if p, err := Enable(Request{Root: root, Device: "sda", Scheduler: "bfq", Persist: true}); err != nil || len(p.Steps) != 0 || p.Report.Changed {
			t.Errorf("enabling again: %+v, %v", p, err)
		}
		for _, disk := range order {
			do(t, k, Disable, Request{Root: root, Device: disk})
		}
		if want := []string{"bfq", "-r bfq"}; !slices.Equal(k.ran, want) {
			t.Errorf("%v: modprobe was called with %q, want %q", order, k.ran, want)
		}
		if after := tree(t, root); !maps.Equal(before, after) {
			t.Errorf("%v: before %v\nafter %v", order, before, after)
		}
	}
}

// After a boot there is no record; the rule tells what was before it.
func TestDisableAfterBoot(t *testing.T) {
	root := machine(t, "[none] kyber-fairness", "[none]", nil)
	k := &kernel{}
	do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler, Persist: true})
	must.OK(t, os.RemoveAll(filepath.Join(root, "run")))
	if p := do(t, k, Disable, Request{Root: root, Device: "sda"}); p.Report.Scheduler != "none" || p.Report.Before != DefaultScheduler {
		t.Errorf("%+v", p.Report)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "etc/udev/rules.d/*")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// Another disk that gets the name of one that was pulled does not get its past.
func TestAnotherDiskOfTheName(t *testing.T) {
	root := machine(t, "[none] kyber-fairness mq-deadline", "[none]", map[string]string{"sys/block/sda/diskseq": "7\n"})
	k := &kernel{}
	do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler})
	for name, text := range map[string]string{
		"sys/block/sda/diskseq": "9\n", "sys/block/sda/queue/scheduler": "none kyber-fairness [mq-deadline]\n", "sys/block/sda/queue/nr_requests": "128\n",
	} {
		testtree.File(t, filepath.Join(root, name), text)
	}
	do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler})
	if p := do(t, k, Disable, Request{Root: root, Device: "sda"}); p.Report.Scheduler != "mq-deadline" {
		t.Errorf("it goes back to %s, which was the other disk's", p.Report.Scheduler)
	}
	if text, err := os.ReadFile(filepath.Join(root, "sys/block/sda/queue/nr_requests")); err != nil || strings.TrimSpace(string(text)) != "128" {
		t.Errorf("requests %s, %v", text, err)
	}
}

// A disk that is pulled and comes back, as a new one, leaves the module for its end to unload.
func TestAPulledDiskLeavesNoModule(t *testing.T) {
	root := machine(t, "[none] mq-deadline", "[none]", map[string]string{
		"proc/sys/kernel/osrelease": "6.1\n", "lib/modules/6.1/modules.dep": "kernel/block/bfq.ko:\n", "sys/block/sda/diskseq": "7\n",
	})
	k := &kernel{}
	do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: "bfq"})
	for name, text := range map[string]string{"sys/block/sda/diskseq": "9\n", "sys/block/sda/queue/scheduler": "[none] mq-deadline bfq\n"} {
		testtree.File(t, filepath.Join(root, name), text)
	}
	do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: "bfq"})
	do(t, k, Disable, Request{Root: root, Device: "sda"})
	if want := []string{"bfq", "-r bfq"}; !slices.Equal(k.ran, want) {
		t.Errorf("modprobe was called with %q, want %q", k.ran, want)
	}
	// One that the machine had before isolio stays.
	if got := append(loadedFor(`{"scheduler":"bfq"}`), loadedFor("")...); len(got) != 0 {
		t.Errorf("%q is unloaded", got)
	}
	// All that were loaded go.
	if got := loadedFor(`{"scheduler":"bfq","loaded":"bfq","loaded_earlier":["rsd-iosched"]}`); !slices.Equal(got, []string{"bfq", "rsd-iosched"}) {
		t.Errorf("%q is unloaded", got)
	}
}

// What fails after the module was loaded unloads it.
func TestEnableThatFailsUnloads(t *testing.T) {
	bfq := map[string]string{"proc/sys/kernel/osrelease": "6.1\n", "lib/modules/6.1/modules.dep": "kernel/block/bfq.ko:\n"}
	root := machine(t, "[none] mq-deadline", "[none]", bfq)
	before := tree(t, root)
	p, err := Enable(Request{Root: root, Device: "sda", Scheduler: "bfq"})
	must.OK(t, err)
	k := &kernel{}
	applied := plan.On(k)
	if err := applied.Apply(append(slices.Clone(p.Steps), plan.Step{Path: filepath.Join(root, "absent/file"), Value: "1"})); err == nil {
		t.Fatal("no error")
	}
	must.OK(t, applied.Undo())
	if want := []string{"bfq", "-r bfq"}; !slices.Equal(k.ran, want) {
		t.Errorf("modprobe was called with %q, want %q", k.ran, want)
	}
	after := tree(t, root)
	if !maps.Equal(before, after) {
		t.Errorf("before %v\nafter %v", before, after)
	}
}

// Every disk that was enabled is known, for now or for good.
func TestEnabled(t *testing.T) {
	root := machine(t, "[none] kyber-fairness", "none [bfq] kyber-fairness", nil)
	sys := block.System{Root: root}
	if all, err := Enabled(sys); err != nil || len(all) != 0 {
		t.Errorf("before: %v, %v", all, err)
	}
	k := &kernel{}
	do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler, Persist: true})
	if all, err := Enabled(sys); err != nil || !slices.Equal(all, []string{"sda"}) {
		t.Errorf("enabled: %v, %v", all, err)
	}
	must.OK(t, os.RemoveAll(filepath.Join(root, "run")))
	if all, err := Enabled(sys); err != nil || !slices.Equal(all, []string{"sda"}) {
		t.Errorf("after a boot: %v, %v", all, err)
	}
}

// A disk has the scheduler and the tunables of its table, and loses them together.
func TestTable(t *testing.T) {
	root := machine(t, "[none] kyber-fairness", "none [kyber-fairness]", map[string]string{
		"sys/block/sda/queue/iosched/share_by": "[bytes] iops time\n", "sys/block/sda/queue/iosched/max_wait_ms": "0\n",
		"sys/block/sdb/queue/iosched/share_by": "[bytes] iops time\n", "sys/block/sdb/queue/iosched/max_wait_ms": "5000\n",
		"sys/block/sdb/queue/iosched/cost_model": "user rbps=3199999998 riops=490001 wbps=1050000000 wiops=38000\n",
	})
	before := tree(t, root)
	table := &rule.Disk{Device: "model:*", Scheduler: "kyber-fairness", Tunables: []rule.Tunable{{Name: "share_by", Value: "time"}, {Name: "max_wait_ms", Value: "5000"}}, At: rule.Place{File: "/etc/isolio.toml", Line: 3}}
	k := &kernel{}
	p := do(t, k, Enable, Request{Root: root, Device: "sda", Table: table})
	if got := p.Report.String(); got != "sda: scheduler kyber-fairness, was none, share_by time, max_wait_ms 5000, by [[disk]] in line 3 of /etc/isolio.toml" {
		t.Errorf("%s", got)
	}
	for file, want := range map[string]string{"share_by": "time", "max_wait_ms": "5000"} {
		if text, err := os.ReadFile(filepath.Join(root, "sys/block/sda/queue/iosched", file)); err != nil || strings.TrimSpace(string(text)) != want {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	// A disk that has the scheduler is written what differs, and gets its own back.
	model := *table
	model.Tunables = append(slices.Clone(table.Tunables), rule.Tunable{Name: "cost_model", Value: "rbps=3200000000 riops=490000 wbps=1050000000 wiops=38000"})
	q, err := Enable(Request{Root: root, Device: "sdb", Table: &model})
	if err != nil || len(q.Steps) != 1 || q.Steps[0].Name != "queue/iosched/share_by" || q.Steps[0].Undo != "bytes" {
		t.Errorf("%+v, %v", q, err)
	}
	// Another scheduler than the table's has none of its tunables.
	if q, err := Enable(Request{Root: root, Device: "sdb", Scheduler: "kyber-fairness", Table: &rule.Disk{Scheduler: "sfq", Tunables: []rule.Tunable{{Name: "unit_kib", Value: "4"}}}}); err != nil || len(q.Steps) != 0 {
		t.Errorf("%+v, %v", q, err)
	}
	if d := do(t, k, Disable, Request{Root: root, Device: "sda", Table: table}); len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "comes back with the next boot") {
		t.Errorf("%q", d.Notes)
	}
	after := tree(t, root)
	for _, file := range []string{"share_by", "max_wait_ms"} { // the kernel's go with the scheduler
		delete(after, filepath.Join(root, "sys/block/sda/queue/iosched", file))
		delete(before, filepath.Join(root, "sys/block/sda/queue/iosched", file))
	}
	if !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// A tunable that the kernel refuses takes all of it back.
func TestTableIsAllOrNothing(t *testing.T) {
	root := machine(t, "[none] kyber-fairness", "[none]", map[string]string{"sys/block/sda/queue/iosched/max_wait_ms": "0\n"})
	before := tree(t, root)
	p, err := Enable(Request{Root: root, Device: "sda", Table: &rule.Disk{Scheduler: "kyber-fairness", Tunables: []rule.Tunable{{Name: "max_wait_ms", Value: "7"}, {Name: "unheard", Value: "7"}}}})
	must.OK(t, err)
	applied := plan.On(&kernel{})
	if err := applied.Apply(p.Steps); err == nil || !strings.Contains(err.Error(), "scheduler kyber-fairness has no tunable unheard; allowed: max_wait_ms") {
		t.Errorf("%v", err)
	}
	must.OK(t, applied.Undo())
	after := tree(t, root)
	wait := filepath.Join(root, "sys/block/sda/queue/iosched/max_wait_ms")
	delete(before, wait)
	delete(after, wait)
	if !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// Disks are enabled together where they can be: not loop devices, not those that are to be
// left alone.
func TestCandidates(t *testing.T) {
	root := machine(t, "[none]", "[none]", map[string]string{
		"sys/block/loop0/dev": "7:0", "sys/block/loop0/size": "8", "sys/block/loop0/queue/scheduler": "[none]",
		"sys/block/sdc/dev": "8:32", "sys/block/sdc/size": "0", "sys/block/sdc/queue/scheduler": "[none]",
		"sys/block/sdd/dev": "8:48", "sys/block/sdd/size": "8", "sys/block/sdd/queue/scheduler": "[none]", "sys/block/sdd/queue/zoned": "host-managed",
	})
	sys := block.System{Root: root}
	config := rule.Config{Disks: []rule.Disk{{Device: "sdb", Scheduler: rule.Keep}, {Device: "loop0", Scheduler: "bfq"}, {Device: "sdd", Scheduler: "bfq"}}}
	for _, tt := range []struct {
		config     rule.Config
		configured bool
		names      []string
		left       int
	}{
		{rule.Config{}, false, []string{"sda", "sdb"}, 0},
		{rule.Config{}, true, nil, 0},
		{config, false, []string{"loop0", "sda"}, 1},
		{config, true, []string{"loop0"}, 1},
	} {
		names, left, err := Candidates(sys, tt.config, tt.configured)
		if err != nil || !slices.Equal(names, tt.names) || len(left) != tt.left {
			t.Errorf("%v: %q, %q, %v", tt.configured, names, left, err)
		}
	}
}

// A rule is for one disk only: by a property that no other has.
func TestIdentity(t *testing.T) {
	for _, tt := range []struct{ sda, sdb, want string }{
		{"E:ID_SERIAL=x\nE:ID_WWN=0x1\n", "E:ID_WWN=0x2\n", `ENV{ID_WWN}=="0x1"`},
		{"E:ID_SERIAL=x\nE:ID_WWN=0x1\n", "E:ID_WWN=0x1\n", `ENV{ID_SERIAL}=="x"`},
		{"E:ID_PATH=pci-0:1\n", "E:ID_PATH=pci-0:2\n", `ENV{ID_PATH}=="pci-0:1"`},
		{"S:disk/by-x\n", "", `KERNEL=="sda"`},
		{`E:ID_SERIAL=a"b*c[d]|e` + "\n", "", `ENV{ID_SERIAL}=="a?b?c?d??e"`},
	} {
		root := machine(t, "[none] kyber-fairness", "[none]", map[string]string{"run/udev/data/b8:0": tt.sda, "run/udev/data/b8:16": tt.sdb})
		p, err := Enable(Request{Root: root, Device: "sda", Scheduler: DefaultScheduler, Persist: true})
		must.OK(t, err)
		rule := p.Steps[len(p.Steps)-1]
		if !rule.Create || !strings.Contains(rule.Value, ", "+tt.want+", ATTR{queue/scheduler}=\"kyber-fairness\"\n") {
			t.Errorf("%q beside %q: %s; want %s", tt.sda, tt.sdb, rule.Value, tt.want)
		}
		if (len(p.Notes) > 0) != strings.HasPrefix(tt.want, "KERNEL") {
			t.Errorf("%q: notes %q", tt.sda, p.Notes)
		}
	}
}

// rsd and sfq are no schedulers of weights, and the user is told.
func TestNoWeights(t *testing.T) {
	root := machine(t, "[none] rsd bfq", "[none]", nil)
	for scheduler, notes := range map[string]int{"rsd": 1, "bfq": 0} {
		if p, err := Enable(Request{Root: root, Device: "sda", Scheduler: scheduler}); err != nil || len(p.Notes) != notes {
			t.Errorf("%s: notes %q, %v", scheduler, p.Notes, err)
		}
	}
}

// A record that cannot be read is not guessed.
func TestDamagedRecord(t *testing.T) {
	root := machine(t, "[none] kyber-fairness", "[none]", map[string]string{"run/isolio/enabled/sda.json": "{"})
	for _, decide := range []func(Request) (*Plan, error){Enable, Disable} {
		if _, err := decide(Request{Root: root, Device: "sda", Scheduler: DefaultScheduler}); err == nil || !strings.Contains(err.Error(), "sda.json: damaged; remove it") {
			t.Errorf("%v", err)
		}
	}
}

// A module that cannot be compared with the kernel is not loaded: nothing is planned.
func TestModuleIsNotLoaded(t *testing.T) {
	builder, err := btf.NewBuilder([]btf.Type{&btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}, nil)
	must.OK(t, err)
	kernelBTF, err := builder.Marshal(nil, nil)
	must.OK(t, err)
	for _, tt := range []struct {
		btf, module, want string
		code              int
	}{
		{"", "text.ko", "vmlinux is missing", failure.Unsupported},
		{"not BTF", "text.ko", "neither raw BTF, nor", failure.Usage},
		{string(kernelBTF), "absent.ko", "absent.ko: no such file", failure.Usage},
		{string(kernelBTF), "text.ko", "text.ko: not a kernel module", failure.Usage},
	} {
		files := map[string]string{"text.ko": "this is no ELF, and has more than sixteen bytes\n"}
		if tt.btf != "" {
			files["sys/kernel/btf/vmlinux"] = tt.btf
		}
		root := machine(t, "[none]", "none", files)
		p, err := Enable(Request{Root: root, Device: "sda", Scheduler: DefaultScheduler, Module: filepath.Join(root, tt.module)})
		if p != nil || err == nil || !strings.Contains(err.Error(), tt.want) || failure.Code(err) != tt.code {
			t.Errorf("%s, %.7q: %v, code %d, want %s, %d", tt.module, tt.btf, err, failure.Code(err), tt.want, tt.code)
		}
	}
}

// A directory has modules for several kernels. What it has not, the machine may have.
func TestModuleOfADirectory(t *testing.T) {
	for _, tt := range []struct {
		name string
		more map[string]string
		want string
		code int
	}{
		{"the kernel's", map[string]string{"mods/6.1.0-1/kyber-fairness-iosched.ko": "this is no ELF, and has more than sixteen bytes\n"}, "mods/6.1.0-1/kyber-fairness-iosched.ko: not a kernel module", failure.Usage},
		{"another one's", map[string]string{"mods/6.1.0-2/kyber-fairness-iosched.ko": "", "mods/6.12.0-3/kyber-fairness-iosched.ko": "", "mods/6.18.0-4/x": ""}, "has no kyber-fairness-iosched.ko for kernel 6.1.0-1, only for 6.1.0-2, 6.12.0-3; needed: an image", failure.Unsupported},
		{"none", map[string]string{"mods/6.1.0-2/x": ""}, "has no kyber-fairness-iosched.ko for kernel 6.1.0-1, nor for any other; needed: an image", failure.Unsupported},
		{"the machine's", map[string]string{"mods/x": "", "lib/modules/6.1.0-1/modules.dep": "updates/dkms/kyber-fairness-iosched.ko:\n", "lib/modules/6.1.0-1/updates/dkms/kyber-fairness-iosched.ko": "this is no ELF, and has more than sixteen bytes\n"},
			"updates/dkms/kyber-fairness-iosched.ko: not a kernel module", failure.Usage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			builder, err := btf.NewBuilder([]btf.Type{&btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}, nil)
			must.OK(t, err)
			kernelBTF, err := builder.Marshal(nil, nil)
			must.OK(t, err)
			tt.more["sys/kernel/btf/vmlinux"], tt.more["proc/sys/kernel/osrelease"] = string(kernelBTF), "6.1.0-1\n"
			root := machine(t, "[none]", "none", tt.more)
			_, err = Enable(Request{Root: root, Device: "sda", Scheduler: DefaultScheduler, Module: filepath.Join(root, "mods")})
			if err == nil || !strings.Contains(err.Error(), tt.want) || failure.Code(err) != tt.code {
				t.Errorf("%v, code %d; want %s, %d", err, failure.Code(err), tt.want, tt.code)
			}
		})
	}
}

// read is a file below a root.
func read(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	must.OK(t, err)
	return strings.TrimSpace(string(text))
}

// rules are the names of the udev rules that there are.
func rules(t *testing.T, root string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "etc/udev/rules.d/*"))
	must.OK(t, err)
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	return names
}

// A number of requests is of the scheduler that it was noted with: another one may refuse it.
func TestDisableToAnotherScheduler(t *testing.T) {
	root := machine(t, "none [mq-deadline] kyber-fairness", "[none]", nil)
	k := &kernel{tags: 32}
	do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler})
	do(t, k, Disable, Request{Root: root, Device: "sda", Scheduler: "none"})
	if got := read(t, root, "sys/block/sda/queue/nr_requests"); got != "32" {
		t.Errorf("requests %s, want those of none, 32", got)
	}
	// The one of before, by its name.
	must.OK(t, k.requests(filepath.Join(root, "sys/block/sda/queue/nr_requests"), "16"))
	do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler})
	do(t, k, Disable, Request{Root: root, Device: "sda", Scheduler: "none"})
	if got := read(t, root, "sys/block/sda/queue/nr_requests"); got != "16" {
		t.Errorf("requests %s, want 16", got)
	}
}

// What fails leaves the number of requests that an administrator has set.
func TestFailureKeepsRequests(t *testing.T) {
	root := machine(t, "[none] kyber-fairness", "[none] kyber-fairness", map[string]string{"sys/block/sda/queue/nr_requests": "16\n", "sys/block/sdb/queue/nr_requests": "2\n"})
	fails := plan.Step{Path: filepath.Join(root, "absent/file"), Value: "1"}
	try := func(k *kernel, decide func(Request) (*Plan, error), r Request) {
		t.Helper()
		before := tree(t, root)
		p, err := decide(r)
		must.OK(t, err)
		applied := plan.On(k)
		if err := applied.Apply(append(slices.Clone(p.Steps), fails)); err == nil {
			t.Fatal("no error")
		}
		if err := applied.Undo(); err != nil {
			t.Error(err)
		}
		if after := tree(t, root); !maps.Equal(before, after) {
			t.Errorf("before %v\nafter %v", before, after)
		}
	}
	k := &kernel{tags: 32}
	try(k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler})
	do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler})
	must.OK(t, k.requests(filepath.Join(root, "sys/block/sda/queue/nr_requests"), "48"))
	try(k, Disable, Request{Root: root, Device: "sda"})
	// Fewer than four cannot be written.
	try(&kernel{tags: 2}, Enable, Request{Root: root, Device: "sdb", Scheduler: DefaultScheduler})
	// And --dry-run does not tell of a write that changes nothing.
	p, err := Disable(Request{Root: root, Device: "sda"})
	must.OK(t, err)
	shown := p.Shown()
	if len(shown) != len(p.Steps)-1 || slices.ContainsFunc(shown, func(s plan.Step) bool { return s.Value == "48" }) {
		t.Errorf("shown: %v", shown)
	}
}

// A module stays as long as a disk has its scheduler, and goes with the last, whichever
// schedulers came in between.
func TestModulesOfSeveralSchedulers(t *testing.T) {
	const kyber = "none mq-deadline [kyber-fairness]"
	bfq := map[string]string{
		"proc/sys/kernel/osrelease": "6.1\n", "lib/modules/6.1/modules.dep": "kernel/block/bfq.ko:\n",
		"run/isolio/enabled/sda.json": `{"scheduler":"kyber-fairness","before":"none","nr_requests":64,"loaded":"kyber-fairness-iosched"}`,
		"run/isolio/enabled/sdb.json": `{"scheduler":"kyber-fairness","before":"none","nr_requests":64}`,
	}
	t.Run("the other one is loaded", func(t *testing.T) {
		root := machine(t, kyber, kyber, bfq)
		k := &kernel{}
		do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: "bfq"})
		// An older version unloads what it can.
		if got := read(t, root, "run/isolio/enabled/sda.json"); !strings.Contains(got, `"loaded":"bfq"`) || !strings.Contains(got, `"loaded_earlier":["kyber-fairness-iosched"]`) {
			t.Errorf("record %s", got)
		}
		do(t, k, Disable, Request{Root: root, Device: "sda"})
		do(t, k, Disable, Request{Root: root, Device: "sdb"})
		if want := []string{"bfq", "-r bfq", "-r kyber-fairness-iosched"}; !slices.Equal(k.ran, want) {
			t.Errorf("modprobe was called with %q, want %q", k.ran, want)
		}
	})
	t.Run("the other one is there", func(t *testing.T) {
		root := machine(t, kyber+" bfq", kyber+" bfq", bfq)
		k := &kernel{}
		do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: "bfq"})
		if p := do(t, k, Disable, Request{Root: root, Device: "sda"}); len(p.Notes) != 1 || p.Notes[0] != "the module kyber-fairness-iosched stays: sdb uses it" {
			t.Errorf("%q", p.Notes)
		}
		do(t, k, Disable, Request{Root: root, Device: "sdb"})
		if want := []string{"-r kyber-fairness-iosched"}; !slices.Equal(k.ran, want) {
			t.Errorf("modprobe was called with %q, want %q", k.ran, want)
		}
	})
	t.Run("by an older version", func(t *testing.T) {
		old := maps.Clone(bfq)
		old["run/isolio/enabled/sda.json"] = `{"scheduler":"bfq","before":"none","nr_requests":64,"loaded":"kyber-fairness-iosched"}`
		root := machine(t, "none kyber-fairness [bfq]", kyber+" bfq", old)
		k := &kernel{}
		do(t, k, Disable, Request{Root: root, Device: "sda"})
		do(t, k, Disable, Request{Root: root, Device: "sdb"})
		if want := []string{"-r kyber-fairness-iosched"}; !slices.Equal(k.ran, want) {
			t.Errorf("modprobe was called with %q, want %q", k.ran, want)
		}
	})
	t.Run("the disk itself keeps it", func(t *testing.T) {
		root := machine(t, "[none]", "[none]", bfq)
		must.OK(t, os.RemoveAll(filepath.Join(root, "run")))
		k := &kernel{}
		do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: "bfq"})
		if p := do(t, k, Disable, Request{Root: root, Device: "sda", Scheduler: "bfq"}); len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "the module bfq stays: sda uses it") {
			t.Errorf("%q", p.Notes)
		}
		if left, _ := filepath.Glob(filepath.Join(root, "run/isolio/enabled/*")); len(left) != 0 {
			t.Errorf("left over: %q", left)
		}
	})
	t.Run("another program has unloaded it", func(t *testing.T) {
		root := machine(t, "none [bfq]", "[none] bfq", bfq)
		k := &kernel{}
		do(t, k, Disable, Request{Root: root, Device: "sda"})
		if len(k.ran) != 0 {
			t.Errorf("modprobe was called with %q", k.ran)
		}
	})
}

// After a boot the rule tells what the disk had before, whatever is enabled then.
func TestEnableAfterBoot(t *testing.T) {
	const udev = "E:ID_WWN=0x1\n"
	for _, tt := range []struct {
		scheduler string
		persist   bool
		steps     int // that are planned
	}{
		{DefaultScheduler, true, 0}, {DefaultScheduler, false, 0}, {"rsd", true, 4}, {"rsd", false, 3}, // the record, a number kept, the switch, the rule
	} {
		root := machine(t, "none [bfq] kyber-fairness rsd", "[none]", map[string]string{"run/udev/data/b8:0": udev})
		k := &kernel{tags: 32}
		do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler, Persist: true})
		must.OK(t, os.RemoveAll(filepath.Join(root, "run/isolio")))
		// A number that is written now is of the rule's scheduler, not of that before.
		must.OK(t, k.Write(filepath.Join(root, "sys/block/sda/queue/nr_requests"), "48"))
		if p := do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: tt.scheduler, Persist: tt.persist}); len(p.Steps) != tt.steps {
			t.Errorf("%+v: %v", tt, p.Steps)
		}
		if rule := read(t, root, "etc/udev/rules.d/99-zz-isolio-0x1.rules"); !strings.Contains(rule, "# before: bfq\n") {
			t.Errorf("%+v: %s", tt, rule)
		}
		if p := do(t, k, Disable, Request{Root: root, Device: "sda"}); p.Report.Scheduler != "bfq" {
			t.Errorf("%+v: it goes back to %s", tt, p.Report.Scheduler)
		}
		if got := read(t, root, "sys/block/sda/queue/nr_requests"); got != "64" {
			t.Errorf("%+v: requests %s", tt, got)
		}
	}
}

// A process may be killed at any step of enable. Disable finds how the disk was.
func TestKilledWhileEnabling(t *testing.T) {
	files := map[string]string{"proc/sys/kernel/osrelease": "6.1\n", "lib/modules/6.1/modules.dep": "kernel/block/bfq.ko:\n"}
	for _, first := range []string{"", "rsd"} { // what isolio has given the disk before
		for done := 0; ; done++ {
			root := machine(t, "none [mq-deadline] rsd", "[none]", files)
			before := tree(t, root)
			k := &kernel{}
			if first != "" {
				do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: first})
			}
			p, err := Enable(Request{Root: root, Device: "sda", Scheduler: "bfq"})
			must.OK(t, err)
			must.OK(t, plan.On(k).Apply(p.Steps[:done]))
			do(t, k, Disable, Request{Root: root, Device: "sda"})
			if after := tree(t, root); !maps.Equal(before, after) {
				t.Errorf("first %q, killed after %d steps: before %v\nafter %v", first, done, before, after)
			}
			if done == len(p.Steps) {
				break
			}
		}
	}
}

// What another program has chosen since is what comes back, as Disable would leave it.
func TestEnableAfterAnotherProgram(t *testing.T) {
	root := machine(t, "[none] mq-deadline kyber-fairness", "[none]", nil)
	k := &kernel{}
	p, err := Enable(Request{Root: root, Device: "sda", Scheduler: DefaultScheduler})
	must.OK(t, err)
	if err := plan.On(k).Apply(p.Steps[:1]); err != nil || !p.Steps[0].Create { // the record alone
		t.Fatal(p.Steps, err)
	}
	must.OK(t, k.Write(filepath.Join(root, "sys/block/sda/queue/scheduler"), "mq-deadline"))
	do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler})
	if p := do(t, k, Disable, Request{Root: root, Device: "sda"}); p.Report.Scheduler != "mq-deadline" {
		t.Errorf("it goes back to %s", p.Report.Scheduler)
	}
}

// A rule is found by the disk that it is for, not by what would be written today.
func TestRuleOfAnEarlierIdentity(t *testing.T) {
	const serial, path = "99-zz-isolio-twin-1.rules", "99-zz-isolio-pci-0-1.rules"
	start := func(t *testing.T) (string, *kernel) {
		t.Helper()
		root := machine(t, "[none] kyber-fairness rsd", "[none] kyber-fairness", map[string]string{"run/udev/data/b8:0": "E:ID_SERIAL=twin*1\nE:ID_PATH=pci-0:1\n"})
		k := &kernel{}
		do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler, Persist: true})
		if got := rules(t, root); !slices.Equal(got, []string{serial}) {
			t.Fatalf("rules %q", got)
		}
		// A second disk of the number comes.
		testtree.File(t, filepath.Join(root, "run/udev/data/b8:16"), "E:ID_SERIAL=twin*1\nE:ID_PATH=pci-0:2\n")
		return root, k
	}
	t.Run("disable", func(t *testing.T) {
		root, k := start(t)
		p := do(t, k, Disable, Request{Root: root, Device: "sda"})
		if got := rules(t, root); len(got) != 0 {
			t.Errorf("left over: %q", got)
		}
		if p.Report.Rule != "removed /etc/udev/rules.d/"+serial {
			t.Errorf("%q", p.Report.Rule)
		}
		if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "was for sdb too: `isolio enable sdb --persist`") {
			t.Errorf("notes %q", p.Notes)
		}
	})
	t.Run("disable after a boot", func(t *testing.T) {
		root, k := start(t)
		must.OK(t, os.RemoveAll(filepath.Join(root, "run/isolio")))
		if all, err := Enabled(block.System{Root: root}); err != nil || !slices.Contains(all, "sda") {
			t.Errorf("enabled: %q, %v", all, err)
		}
		if p := do(t, k, Disable, Request{Root: root, Device: "sda"}); p.Report.Scheduler != "none" || len(rules(t, root)) != 0 {
			t.Errorf("%+v, %q", p.Report, rules(t, root))
		}
	})
	t.Run("enable both", func(t *testing.T) {
		root, k := start(t)
		p := do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: "rsd", Persist: true})
		if !slices.ContainsFunc(p.Notes, func(note string) bool {
			return strings.Contains(note, serial+" is for sdb too, and stays: it chooses kyber-fairness for sda as well")
		}) {
			t.Errorf("notes %q", p.Notes)
		}
		do(t, k, Enable, Request{Root: root, Device: "sdb", Scheduler: DefaultScheduler, Persist: true})
		if got := rules(t, root); !slices.Equal(got, []string{path, "99-zz-isolio-pci-0-2.rules"}) {
			t.Errorf("rules %q", got)
		}
		if p, err := Enable(Request{Root: root, Device: "sda", Scheduler: "rsd", Persist: true}); err != nil || len(p.Steps) != 0 {
			t.Errorf("again: %+v, %v", p, err)
		}
		do(t, k, Disable, Request{Root: root, Device: "sda"})
		if got := rules(t, root); !slices.Equal(got, []string{"99-zz-isolio-pci-0-2.rules"}) {
			t.Errorf("rules %q", got)
		}
	})
	t.Run("of another disk", func(t *testing.T) {
		// It has the name of sda's, but not its number.
		root := machine(t, "[none] kyber-fairness", "[none] kyber-fairness", map[string]string{
			"run/udev/data/b8:0": "E:ID_SERIAL=twin 1\n", "run/udev/data/b8:16": "E:ID_SERIAL=twin-1\n",
		})
		k := &kernel{}
		do(t, k, Enable, Request{Root: root, Device: "sdb", Scheduler: DefaultScheduler, Persist: true})
		if p := do(t, k, Disable, Request{Root: root, Device: "sda"}); p.Report.Changed || len(rules(t, root)) != 1 {
			t.Errorf("%+v, %q", p.Report, rules(t, root))
		}
	})
	t.Run("changed by hand", func(t *testing.T) {
		root, k := start(t)
		for name, text := range map[string]string{"99-zz-isolio-sda.rules": "# nothing\n", "99-zz-isolio-mine.rules": "# nothing\n"} {
			testtree.File(t, filepath.Join(root, "etc/udev/rules.d", name), text)
		}
		do(t, k, Disable, Request{Root: root, Device: "sda"})
		if got := rules(t, root); !slices.Equal(got, []string{"99-zz-isolio-mine.rules"}) {
			t.Errorf("rules %q", got)
		}
	})
}

// Disks whose numbers differ in punctuation alone have a rule each.
func TestRulesOfNumbersThatLookAlike(t *testing.T) {
	root := machine(t, "[none] kyber-fairness rsd", "[none] kyber-fairness rsd", map[string]string{
		"run/udev/data/b8:0": "E:ID_SERIAL=a_1\n", "run/udev/data/b8:16": "E:ID_SERIAL=a 1\n",
	})
	k := &kernel{}
	do(t, k, Enable, Request{Root: root, Device: "sda", Scheduler: DefaultScheduler, Persist: true})
	do(t, k, Enable, Request{Root: root, Device: "sdb", Scheduler: "rsd", Persist: true})
	const first, second = "99-zz-isolio-a-1.rules", "99-zz-isolio-a-1-042a5f2e.rules"
	if got := rules(t, root); !slices.Equal(got, []string{second, first}) {
		t.Fatalf("rules %q", got)
	}
	for file, want := range map[string]string{first: `ENV{ID_SERIAL}=="a_1", ATTR{queue/scheduler}="kyber-fairness"`, second: `ENV{ID_SERIAL}=="a 1", ATTR{queue/scheduler}="rsd"`} {
		if text := read(t, root, filepath.Join("etc/udev/rules.d", file)); !strings.Contains(text, want) {
			t.Errorf("%s:\n%s", file, text)
		}
	}
	// Again, nothing is new; each goes with its disk.
	if p, err := Enable(Request{Root: root, Device: "sdb", Scheduler: "rsd", Persist: true}); err != nil || len(p.Steps) != 0 {
		t.Errorf("again: %+v, %v", p, err)
	}
	do(t, k, Disable, Request{Root: root, Device: "sda"})
	if got := rules(t, root); !slices.Equal(got, []string{second}) {
		t.Errorf("rules %q", got)
	}
	do(t, k, Disable, Request{Root: root, Device: "sdb"})
	if got := rules(t, root); len(got) != 0 {
		t.Errorf("left over: %q", got)
	}
}

// The rules of disks that are not there go, and no others.
func TestForgetAbsent(t *testing.T) {
	root := machine(t, "[none] kyber-fairness", "[none] kyber-fairness", map[string]string{
		"run/udev/data/b8:0": "E:ID_SERIAL=a/b\n", "run/udev/data/b8:16": "E:ID_SERIAL=two\n", "etc/udev/rules.d/99-zz-isolio-mine.rules": "# mine\n", "etc/udev/rules.d/60-x.rules": "",
	})
	k := &kernel{}
	for _, disk := range []string{"sda", "sdb"} {
		do(t, k, Enable, Request{Root: root, Device: disk, Scheduler: DefaultScheduler, Persist: true})
	}
	must.OK(t, os.RemoveAll(filepath.Join(root, "sys/block/sdb")))
	p, err := ForgetAbsent(root)
	must.OK(t, err)
	if want := []string{"the rule /etc/udev/rules.d/99-zz-isolio-two.rules goes: its disk is not there"}; !slices.Equal(p.Notes, want) {
		t.Errorf("notes %q, want %q", p.Notes, want)
	}
	must.OK(t, plan.On(k).Apply(p.Steps))
	if got, want := rules(t, root), []string{"60-x.rules", "99-zz-isolio-a-b.rules", "99-zz-isolio-mine.rules"}; !slices.Equal(got, want) {
		t.Errorf("rules %q, want %q", got, want)
	}
}

// A disk that the kernel makes of several paths says so, and how to have the paths.
func TestNativeMultipath(t *testing.T) {
	root := machine(t, "[none]", "[none]", map[string]string{
		"dev/nvme0n1": "", "sys/block/nvme0n1/dev": "259:0\n", "sys/block/nvme0n1/size": "8\n", "sys/block/nvme0n1/queue/scheduler": "none\n",
		"dev/nvme0n11": "", "sys/block/nvme0n11/dev": "259:1\n", "sys/block/nvme0n11/size": "8\n", "sys/block/nvme0n11/queue/scheduler": "none\n",
		// Paths have no node.
		"sys/block/nvme0c0n1/hidden": "1\n", "sys/block/nvme0c12n1/hidden": "1\n", "sys/block/nvme1c0n1/hidden": "1\n",
	})
	for device, want := range map[string]string{
		"nvme0n1":  "device nvme0n1: native multipath of NVMe hides the queues of its paths, nvme0c0n1, nvme0c12n1; boot with nvme_core.multipath=N, ",
		"nvme0n11": "device nvme0n11: its driver takes no scheduler, only none: ",
	} {
		if _, err := Enable(Request{Root: root, Device: device, Scheduler: DefaultScheduler}); err == nil || !strings.HasPrefix(err.Error(), want) || failure.Code(err) != failure.Unsupported {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// forgetful is a kernel whose scheduler begins with its defaults, and whose modules stay.
type forgetful struct{ kernel }

func (k *forgetful) Write(path, value string) error {
	if err := k.kernel.Write(path, value); err != nil || filepath.Base(path) != "scheduler" {
		return err
	}
	dir := filepath.Join(filepath.Dir(path), "iosched")
	if err := os.RemoveAll(dir); err != nil || value == "none" {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "min_total_pct"), []byte("45\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "share_by"), []byte("[bytes] iops time\n"), 0o644))
}

func (*forgetful) Run([]string) error { return syscall.EBUSY }

// What fails is taken back with the tunables of the scheduler that there was.
func TestTunablesComeBack(t *testing.T) {
	root := machine(t, "none [kyber-fairness]", "[none] kyber-fairness", map[string]string{
		"sys/block/sda/queue/iosched/min_total_pct": "60\n", "sys/block/sda/queue/iosched/share_by": "bytes iops [time]\n",
		"run/isolio/enabled/sda.json": `{"scheduler":"kyber-fairness","before":"none","nr_requests":64,"loaded":"kyber-fairness-iosched"}`,
	})
	p, err := Disable(Request{Root: root, Device: "sda"})
	must.OK(t, err)
	for _, s := range p.Shown() {
		if strings.Contains(s.Path, "iosched") {
			t.Errorf("--dry-run prints %s", s)
		}
	}
	done := plan.On(&forgetful{})
	if err := done.Apply(p.Steps); !errors.Is(err, syscall.EBUSY) {
		t.Fatalf("%v, want %v", err, syscall.EBUSY)
	}
	must.OK(t, done.Undo())
	for name, want := range map[string]string{"queue/scheduler": "none [kyber-fairness]", "queue/iosched/min_total_pct": "60", "queue/iosched/share_by": "time"} {
		if got := read(t, root, filepath.Join("sys/block/sda", name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
