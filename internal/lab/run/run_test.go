// SPDX-License-Identifier: MIT

package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/guest"
	"isolio/internal/lab/result"
	"isolio/internal/lab/vm"
	"isolio/internal/lab/vm/vmtest"
	"isolio/internal/must"
)

const testExperiment = `
name = "t"
question = "Does it?"
schedulers = ["none", "kyber", "bfq"]
ramp_s = 1.0
duration_s = 2.0
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
queues = 1
size_mib = 64
[job]
rw = "randread"
bs = "4k"
ioengine = "libaio"
iodepth = 1
direct = 1
[[container]]
name = "a"
weight = 100
`

// fakeLab is a build directory with a fake kernel, and an experiment; each VM
// is the script, which finds the contender's name in $scheduler.
func fakeLab(t *testing.T, script string) (Options, *experiment.Experiment) {
	t.Helper()
	init, _ := vmtest.QEMU(t, `scheduler=$(basename $(dirname "$console")); : >"$console"`+"\n"+script)
	build := t.TempDir()
	dir := filepath.Join(build, "kernel/6.1")
	must.OK(t, os.MkdirAll(dir, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(dir, "release"), []byte("6.1-test\n"), 0o644))
	must.OK(t, os.WriteFile(filepath.Join(dir, "vmlinuz"), nil, 0o644))
	root := vmtest.ModuleRoot(t)
	must.OK(t, os.Symlink(root, filepath.Join(dir, "root")))
	must.OK(t, os.Symlink(anyLibrary(t), filepath.Join(build, vm.ClockLibrary)))
	for _, program := range []string{"fio", "sh"} {
		vmtest.ELF{Needed: []string{}}.Write(t, filepath.Join(root, "usr/bin", program))
	}
	for _, name := range []string{"bfq.ko", "kyber-iosched.ko.xz"} {
		vmtest.ELF{}.Write(t, filepath.Join(root, "usr/lib/modules/6.1-test/kernel/block", name))
	}
	for _, name := range []string{"fs/configfs.ko", "lib/base.ko", "lib/mid.ko", "drivers/null_blk.ko"} {
		vmtest.ELF{}.Write(t, filepath.Join(root, "usr/lib/modules/6.1-test/kernel", name))
	}
	vmtest.ELF{Modinfo: []string{"depends="}}.Write(t, filepath.Join(build, "modules/6.1/kyber-fairness-iosched.ko"))
	x, err := experiment.Parse("t.toml", []byte(testExperiment))
	must.OK(t, err)
	return Options{Build: build, Line: "6.1", Init: init, Jobs: 2}, x
}

// anyLibrary is one that any program can be started with: it has it anyway.
func anyLibrary(t *testing.T) string {
	t.Helper()
	for _, pattern := range []string{"/lib/*/libc.so.6", "/lib64/libc.so.6"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	t.Skip("no C library found to start a script with")
	return ""
}

// modelDiskCases has a model disk in two cases.
const modelDiskCases = `
name = "t"
question = "Does it?"
schedulers = ["none", "bfq"]
duration_s = 2.0
[device]
kind = "modeldisk"
model = "flash"
[job]
rw = "randread"
[[container]]
name = "a"
weight = 100
[[case]]
name = "large"
[case.device]
size_mib = 65536
[[case]]
name = "stored"
duration_s = 500.0
[case.device]
memory_backed = true
size_mib = 512
[case.job]
numjobs = 4
`

const goodRun = `
	event '{"event":"boot"}'
	event '{"event":"data","data":{"progress":{"scheduler":"'$scheduler'","phase":"measure","fraction":0.5}}}'
	event '{"event":"data","data":{"run":{"scheduler":"'$scheduler'","kernel":"6.1-test","fio":"fio-1","device":"d","total_bytes_per_s":100}}}'
	event '{"event":"exit","code":0}'`

// The runs come in the experiment's order though the first ends last, each VM
// is told its own contender and the same experiment, and no more than Jobs
// run at a time.
func TestRunMerges(t *testing.T) {
	opts, x := fakeLab(t, `
		here=$(dirname $(dirname "$console"))
		echo x >"$here/running.$scheduler"; ls "$here" | grep -c running >>"$here/../most"
		case $scheduler in none) sleep 1;; *) sleep 0.2;; esac`+goodRun+`
		rm "$here/running.$scheduler"`)
	opts.Keep = filepath.Join(t.TempDir(), "kept")
	var seen []string
	doc, err := Experiment(context.Background(), opts, x, func(p guest.Progress) {
		seen = append(seen, p.Scheduler+" "+p.Phase)
	})
	must.OK(t, err)
	var order []string
	for _, r := range doc.Runs {
		order = append(order, r.Scheduler)
	}
	if !slices.Equal(order, x.Schedulers) {
		t.Errorf("runs in order %v, want %v", order, x.Schedulers)
	}
	if doc.Kernel != "6.1-test" || doc.Runs[2].TotalVsNone == nil || *doc.Runs[2].TotalVsNone != 1 {
		t.Errorf("merged document %+v", doc)
	}
	for _, s := range x.Schedulers {
		for _, phase := range []string{PhaseBoot, guest.PhaseMeasure} {
			if !slices.Contains(seen, s+" "+phase) {
				t.Errorf("no progress %q of %s", phase, s)
			}
		}
		image, err := os.ReadFile(filepath.Join(opts.Keep, s, "initramfs.cpio"))
		must.OK(t, err)
		plan, err := x.ForVM(&x.Cases[0], s)
		must.OK(t, err)
		if !strings.Contains(string(image), string(plan)) || strings.Contains(string(image), "question") {
			t.Errorf("%s: the initramfs lacks its plan, or has the experiment", s)
		}
	}
	most, err := os.ReadFile(filepath.Join(opts.Keep, "../most"))
	must.OK(t, err)
	if strings.Contains(string(most), "3") || !strings.Contains(string(most), "2") {
		t.Errorf("VMs at a time: %q, want 2 at most and once", most)
	}
}

// One contender's failure ends the others at once, and is what is reported.
func TestRunStopsAtFailure(t *testing.T) {
	opts, x := fakeLab(t, `
		case $scheduler in
		kyber) echo '[    1.000000] BUG: bad' >"$console"; event '{"event":"boot"}'; sleep 0.3; exit 0;;
		*) while :; do event '{"event":"beat"}'; sleep 0.1; done;;
		esac`)
	began := time.Now()
	_, err := Experiment(context.Background(), opts, x, nil)
	var fail *vm.Failure
	if !errors.As(err, &fail) || !strings.HasPrefix(fail.Reason, "kyber: the guest's kernel complained") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
}

// A guest that hung before it began is booted again, once; one that began is not.
func TestRunBootsAgain(t *testing.T) {
	for _, c := range []struct {
		name, hang, before, after, reason string
	}{
		{"once", `:`, "1", "0", ""},
		{"always", `:`, "9", "7", "the guest hangs"},
		{"later", `event '{"event":"boot"}'`, "9", "8", "the guest hangs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			left := filepath.Join(t.TempDir(), "left")
			must.OK(t, os.WriteFile(left, []byte(c.before), 0o644))
			opts, x := fakeLab(t, `
				n=$(cat `+left+`)
				if [ "$n" -gt 0 ]; then
					echo $((n - 1)) >`+left+`
					`+c.hang+`
					exec sleep 60
				fi`+goodRun)
			opts.Jobs, opts.Stall = 1, 2*time.Second
			_, err := Experiment(context.Background(), opts, x, nil)
			var fail *vm.Failure
			switch {
			case c.reason == "" && err != nil:
				t.Error(err)
			case c.reason != "" && (!errors.As(err, &fail) || !strings.Contains(fail.Reason, c.reason)):
				t.Errorf("error %v, want one that says %q", err, c.reason)
			}
			rest, err := os.ReadFile(left)
			must.OK(t, err)
			if got := strings.TrimSpace(string(rest)); got != c.after {
				t.Errorf("%s hangs are left, want %s", got, c.after)
			}
		})
	}
}

// What the engine refuses in the guest has the same exit code on the host.
func TestRunPassesEngineErrors(t *testing.T) {
	opts, x := fakeLab(t, `
		event '{"event":"data","data":{"error":"io.bfq.weight: no such file"}}'
		event '{"event":"exit","code":3}'`)
	_, err := Experiment(context.Background(), opts, x, nil)
	if err == nil || !strings.Contains(err.Error(), "io.bfq.weight: no such file") || failure.Code(err) != failure.Unsupported {
		t.Errorf("error %v, code %d", err, failure.Code(err))
	}
}

func TestRunWithoutResult(t *testing.T) {
	opts, x := fakeLab(t, `
		event '{"event":"output","line":"panic: nil map"}'
		event '{"event":"exit","code":2}'`)
	_, err := Experiment(context.Background(), opts, x, nil)
	var fail *vm.Failure
	if !errors.As(err, &fail) || !strings.Contains(err.Error(), "exit status 2") || !strings.Contains(err.Error(), "nil map") {
		t.Errorf("error %v", err)
	}
}

func TestRunTimeout(t *testing.T) {
	opts, x := fakeLab(t, `while :; do event '{"event":"beat"}'; sleep 0.1; done`)
	opts.Timeout = 500 * time.Millisecond
	_, err := Experiment(context.Background(), opts, x, nil)
	var fail *vm.Failure
	if !errors.As(err, &fail) || !strings.Contains(fail.Reason, "did not finish within") {
		t.Errorf("error %v", err)
	}
}

// Each case of each scheduler has a VM of its own, which is told its case.
func TestRunCases(t *testing.T) {
	opts, _ := fakeLab(t, `case=$(basename $(dirname $(dirname "$console")))
		event '{"event":"data","data":{"run":{"case":"'$case'","scheduler":"'$scheduler'","total_bytes_per_s":100}}}'
		event '{"event":"exit","code":0}'`)
	vmtest.ELF{Modinfo: []string{"depends="}}.Write(t, filepath.Join(opts.Build, "modules/6.1/modeldisk.ko"))
	opts.Keep = filepath.Join(t.TempDir(), "kept")
	x, err := experiment.Parse("t.toml", []byte(strings.Replace(modelDiskCases, `name = "large"`, "name = \"large\"\nschedulers = [\"none\"]", 1)))
	must.OK(t, err)
	var seen []string
	doc, err := Experiment(context.Background(), opts, x, func(p guest.Progress) { seen = append(seen, p.Case+" "+p.Scheduler+" "+p.Phase) })
	must.OK(t, err)
	var order []string
	for _, r := range doc.Runs {
		order = append(order, result.Label(r.Case, r.Scheduler))
	}
	if want := []string{"large: none", "stored: none", "stored: bfq"}; !slices.Equal(order, want) {
		t.Errorf("runs %q, want %q", order, want)
	}
	if !slices.Contains(seen, "stored bfq boot") {
		t.Errorf("progress %q", seen)
	}
	image, err := os.ReadFile(filepath.Join(opts.Keep, "stored", "bfq", "initramfs.cpio"))
	must.OK(t, err)
	for _, want := range []string{`"schedulers":["bfq"],"cases":[{"name":"stored"`, `"limit_ms": 680000`, "modules/modeldisk.ko"} {
		if !strings.Contains(string(image), want) {
			t.Errorf("the initramfs lacks %q", want)
		}
	}
}

func TestWorkMiB(t *testing.T) {
	x, err := experiment.Parse("t.toml", []byte(modelDiskCases))
	must.OK(t, err)
	one := kernelMiB + processMiB + jobMiB
	if got, want := workMiB(&x.Cases[0]), one+256; got != want { // maps of 64 GiB
		t.Errorf("large: %d MiB, want %d", got, want)
	}
	if got, want := workMiB(&x.Cases[1]), one+3*jobMiB+512; got != want { // all that it stores
		t.Errorf("stored: %d MiB, want %d", got, want)
	}
	x.Cases[0].Device.SizeMiB = 0
	if got, want := workMiB(&x.Cases[0]), one+flashMiB; got != want {
		t.Errorf("flash of the preset's size: %d MiB, want %d", got, want)
	}
}

// A contender's image has the modules that it needs, and none of another's: its result
// does not depend on those.
func TestModulesOfContenders(t *testing.T) {
	opts, _ := fakeLab(t, goodRun)
	x, err := experiment.Parse("t.toml", []byte(strings.Replace(modelDiskCases, `"none", "bfq"`, `"none", "bfq", "kyber-fairness", "rsd"`, 1)))
	must.OK(t, err)
	base, err := opts.machine(x)
	must.OK(t, err)
	g := &group{opts: opts, experiment: x, base: base, dir: t.TempDir()}
	for _, missing := range []string{"modeldisk", "rsd-iosched"} {
		if err := g.makeImages(); err == nil || !strings.Contains(err.Error(), "modules/6.1/"+missing+".ko") || !strings.Contains(err.Error(), "`make setup KERNEL=6.1` builds it") {
			t.Errorf("without %s: %v", missing, err)
		}
		vmtest.ELF{Modinfo: []string{"depends="}}.Write(t, filepath.Join(opts.Build, "modules/6.1", missing+".ko"))
	}
	must.OK(t, g.makeImages())
	if len(g.images) != 3 {
		t.Errorf("%d images, want 3: of kyber-fairness, of rsd, and of the rest", len(g.images))
	}
	for _, tt := range []struct{ scheduler, want string }{
		{"none", "modeldisk.ko"}, {"bfq", "modeldisk.ko"}, {"kyber-fairness", "kyber-fairness-iosched.ko modeldisk.ko"}, {"rsd", "rsd-iosched.ko modeldisk.ko"},
	} {
		img := g.imageOf(contender{&x.Cases[0], tt.scheduler})
		text, err := os.ReadFile(img.File)
		must.OK(t, err)
		var loaded []string
		for _, m := range img.Modules {
			if name := filepath.Base(m.Path); strings.Contains(name, "iosched") && !strings.HasPrefix(name, "kyber-iosched") || name == "modeldisk.ko" {
				loaded = append(loaded, name)
			}
		}
		if got := strings.Join(loaded, " "); got != tt.want {
			t.Errorf("%s loads %s, want %s", tt.scheduler, got, tt.want)
		}
		for _, name := range []string{"kyber-fairness-iosched.ko", "rsd-iosched.ko", "modeldisk.ko"} {
			if has := strings.Contains(string(text), vm.ModuleDir[1:]+"/"+name); has != strings.Contains(tt.want, name) {
				t.Errorf("%s: the image has %s: %t", tt.scheduler, name, has)
			}
		}
	}
}

// Engines of libaps come along where a container has one, and only there; they
// must have been built.
func TestEnginesOfLibaps(t *testing.T) {
	opts, plain := fakeLab(t, goodRun)
	kernel, err := vm.OpenKernel(opts.Build, opts.Line)
	must.OK(t, err)
	if got, err := built(kernel, plain); got != nil || err != nil {
		t.Errorf("without: %v, %v", got, err)
	}
	x, err := experiment.Parse("t.toml", []byte(strings.Replace(testExperiment, `"libaio"`, `"aps"`, 1)))
	must.OK(t, err)
	if _, err := built(kernel, x); err == nil || !strings.Contains(err.Error(), "`make setup WITH=libaps KERNEL=6.1` makes it") {
		t.Errorf("not built: %v", err)
	}
	root, err := filepath.EvalSymlinks(filepath.Join(opts.Build, "kernel/6.1/root"))
	must.OK(t, err)
	out := filepath.Join(root, "isolio/libaps/out")
	for _, file := range []string{"fio-aps.so", "fio-compute.so"} {
		vmtest.ELF{Needed: []string{}}.Write(t, filepath.Join(out, file))
	}
	got, err := built(kernel, x)
	must.OK(t, err)
	if len(got) != 2 || got["/isolio/fio/fio-aps.so"] != filepath.Join(out, "fio-aps.so") {
		t.Errorf("engines %v", got)
	}
}

// What the disk said in the kernel's log is part of the engine's refusal.
func TestRunQuotesTheDisk(t *testing.T) {
	opts, x := fakeLab(t, `
		echo '[    1.0] modeldisk: loaded' >"$console"
		echo '[    2.0] modeldisk: isolio0/scale: 0 is not allowed; allowed: 1 to 1000' >>"$console"
		event '{"event":"data","data":{"error":"write \"0\" to scale: invalid argument"}}'
		event '{"event":"exit","code":2}'`)
	_, err := Experiment(context.Background(), opts, x, nil)
	const want = `lab: write "0" to scale: invalid argument; kernel log: modeldisk: isolio0/scale: 0 is not allowed; allowed: 1 to 1000`
	if err == nil || err.Error() != want || failure.Code(err) != failure.Usage {
		t.Errorf("error (code %d)\n got %v\nwant %s", failure.Code(err), err, want)
	}
}

func TestRunNeedsModules(t *testing.T) {
	opts, _ := fakeLab(t, goodRun)
	x, err := experiment.Parse("t.toml", []byte(strings.Replace(testExperiment, `"kyber"`, `"kyber-fairness"`, 1)))
	must.OK(t, err)
	must.OK(t, os.RemoveAll(filepath.Join(opts.Build, "modules")))
	if _, err := Experiment(context.Background(), opts, x, nil); err == nil || !strings.Contains(err.Error(), "make setup KERNEL=6.1") {
		t.Errorf("error %v does not say what to do", err)
	}
}

// What makes and knows a file system is there where a case has one.
func TestFilesystemsOfTheGuest(t *testing.T) {
	with := func(keys string) string {
		return strings.Replace(modelDiskCases, "memory_backed = true\n", "memory_backed = true\n"+keys+"\n", 1)
	}
	for _, tt := range []struct {
		text, programs, modules string
		mib                     int
		tree                    bool
	}{
		{modelDiskCases, "fio sh", "", 0, false},
		{with(`filesystem = "ext4"`), "fio sh mkfs.ext4", " ext4", cacheMiB, false},
		{with(`filesystem = "xfs"`), "fio sh mkfs.xfs", " helper xfs", cacheMiB, false},
		{with(`filesystem = "btrfs"`), "fio sh mkfs.btrfs", " helper btrfs", cacheMiB, true},
		{with("filesystem = \"ext4\"\nswap_mib = 64"), "fio sh mkfs.ext4 fallocate chmod mkswap swapon swapoff", " ext4", cacheMiB, true},
	} {
		x, err := experiment.Parse("t.toml", []byte(tt.text))
		must.OK(t, err)
		var helpers []string
		for _, kind := range x.FilesystemsUsed() {
			for range kind.Helpers {
				helpers = append(helpers, "helper")
			}
		}
		modules := strings.TrimPrefix(strings.Join(stock(x, helpers), " "), strings.Join(stockModules, " "))
		if got := strings.Join(programs(x), " "); got != tt.programs || modules != tt.modules || needsTree(x) != tt.tree {
			t.Errorf("programs %s, modules%s, of the tree: %v; want %s,%s and %v", got, modules, needsTree(x), tt.programs, tt.modules, tt.tree)
		}
		if got, want := workMiB(&x.Cases[1]), kernelMiB+processMiB+4*jobMiB+512+tt.mib; got != want {
			t.Errorf("%d MiB, want %d", got, want)
		}
	}
}

func TestWorkMiBOfMany(t *testing.T) {
	x, err := experiment.Parse("t.toml", []byte(testExperiment))
	must.OK(t, err)
	x.Cases[0].Containers[0].Count = 1024
	if got, want := workMiB(&x.Cases[0]), kernelMiB+processMiB+fewJobs*jobMiB+(1024-fewJobs)*manyMiB; got != want {
		t.Errorf("%d MiB, want %d", got, want)
	}
}

// A container's command must be in the tree of programs, which need not be there.
func TestRunWithoutItsPrograms(t *testing.T) {
	opts, _ := fakeLab(t, "exit 1")
	x, err := experiment.Parse("t.toml", []byte(strings.Replace(strings.Replace(testExperiment,
		"kind = \"null_blk\"\ncompletion_us = 1000\ntags = 32\nqueues = 1\n", "kind = \"modeldisk\"\nmodel = \"nvme\"\nmemory_backed = true\nfilesystem = \"ext4\"\n", 1),
		"weight = 100\n", "weight = 100\nsetup = [[\"initdb\"]]\ncommand = [\"pgbunch\", \"-c\", \"4\"]\n", 1)))
	must.OK(t, err)
	fails := func(want string) {
		t.Helper()
		_, err := Experiment(context.Background(), opts, x, nil)
		if err == nil || failure.Code(err) != failure.Failed || !strings.Contains(err.Error(), want) {
			t.Errorf("Run = %v, code %d; want %q and code %d", err, failure.Code(err), want, failure.Failed)
		}
	}
	fails("`make setup WITH=programs KERNEL=6.1` makes it")
	root := filepath.Join(opts.Build, "roots/6.1-programs")
	vmtest.ELF{}.Write(t, filepath.Join(root, "usr/bin/initdb"))
	must.OK(t, os.MkdirAll(filepath.Join(root, "isolio/programs"), 0o755))
	fails("lab: container a: command pgbunch: ")
	x.Cases[0].Containers[0].Program.Command[0] = "initdb"
	x.Programs = []string{"cat"}
	fails("lab: programs: cat: ")
}

// A command has memory, and its setup has time.
func TestVMOfPrograms(t *testing.T) {
	k := &experiment.Case{DurationS: 2, Containers: []experiment.Container{{Name: "a", Job: experiment.Job{"rw": "read"}}}}
	fio := workMiB(k)
	k.Containers[0].Job, k.Containers[0].Program = nil, &experiment.Program{Command: []string{"db"}, Setup: [][]string{{"init"}, {"start"}}}
	if got := workMiB(k); got != fio-processMiB-jobMiB+programMiB {
		t.Errorf("%d MiB with a command, %d with fio", got, fio)
	}
}

// References run after the contenders, once for those that are the same.
func TestContendersHaveOwnDisks(t *testing.T) {
	text := strings.Replace(modelDiskCases, "[device]", "own_disk = true\n[device]", 1)
	x, err := experiment.Parse("t.toml", []byte(strings.Replace(text, "[[case]]", "[[container]]\nname = \"b\"\nweight = 300\n[[case]]", 1)))
	must.OK(t, err)
	refs := x.OwnDisks()
	all := (&group{experiment: x}).contenders()
	if n := len(all) - len(refs); len(refs) != 4 || n != 4 || len(all) != x.Runs() {
		t.Fatalf("%d contenders, %d of them references; %d runs", len(all), len(refs), x.Runs())
	}
	for i, c := range all[4:] {
		if c.scheduler != "none" || c.of.Name != refs[i].Name {
			t.Errorf("reference %d is %s of %s, want %s", i, c.scheduler, c.of.Name, refs[i].Name)
		}
	}
}
