// SPDX-License-Identifier: MIT

package view

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/state"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

const installed = "lib/modules/6.1.0/updates/" + moduleName + ".ko"

// examine looks at a machine with these files, and returns the checks of a name.
func examine(t *testing.T, name string, files map[string]string) (*Diagnosis, []Check) {
	t.Helper()
	return examineAt(t, machineWith(t, files), name)
}

// machineWith is the root of a machine with these files.
func machineWith(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	all := map[string]string{"proc/sys/kernel/osrelease": "6.1.0\n", "sys/block/sda/dev": "8:0\n", "sys/block/sda/size": "8\n"}
	return testtree.New(t, all, files)
}

// examineAt looks at the machine below root.
func examineAt(t *testing.T, root, name string) (*Diagnosis, []Check) {
	t.Helper()
	d, err := Examine(root)
	must.OK(t, err)
	var found []Check
	for _, c := range d.Checks {
		if c.Name == name {
			found = append(found, c)
		}
	}
	return d, found
}

// Whether the kernel takes the module depends on more than Secure Boot.
func TestSecureBoot(t *testing.T) {
	const dep = "lib/modules/6.1.0/modules.dep"
	line := "updates/" + moduleName + ".ko:\n"
	for _, tt := range []struct {
		what    string
		files   map[string]string
		state   CheckState
		finding string
	}{
		{"no EFI", nil, OK, "none (no EFI); the kernel takes modules without a signature"},
		{"on, not locked down", map[string]string{secureBootVariable: "\x06\x00\x00\x00\x01"}, OK, "on; the kernel takes modules without a signature"},
		{"off", map[string]string{secureBootVariable: "\x06\x00\x00\x00\x00", lockdownFile: "[none] integrity confidentiality\n"}, OK, "off; "},
		{"locked down, no module yet", map[string]string{secureBootVariable: "\x06\x00\x00\x00\x01", lockdownFile: "none [integrity] confidentiality\n"},
			Warning, "on; the kernel takes signed modules only (lockdown: integrity)"},
		{"module not signed", map[string]string{enforceFile: "Y\n", dep: line, installed: "ELF"}, Fails, "signed modules only (module.sig_enforce), and /" + installed + " is not signed"},
		{"module signed", map[string]string{enforceFile: "Y\n", dep: line, installed: "ELF~Module signature appended~\n"}, OK, "and the module has a signature"},
		{"key not enrolled", map[string]string{enforceFile: "Y\n", dep: line, installed: "ELF~Module signature appended~\n", dkmsKey: "key", enrolledKeys: "others"},
			Warning, "and the key that DKMS signs with is not enrolled"},
		{"key enrolled", map[string]string{enforceFile: "Y\n", dep: line, installed: "ELF~Module signature appended~\n", dkmsKey: "key", enrolledKeys: "others, key"}, OK, "and the module has a signature"},
		{"loaded already", map[string]string{enforceFile: "Y\n", "sys/module/kyber_fairness_iosched/refcnt": "0\n"}, OK, "and has loaded"},
	} {
		_, got := examine(t, "Secure Boot", tt.files)
		if len(got) != 1 || got[0].State != tt.state || !strings.Contains(got[0].Finding, tt.finding) || (got[0].State != OK) != (got[0].Remedy != "") {
			t.Errorf("%s: %+v, want %s: %s", tt.what, got, tt.state, tt.finding)
		}
	}
}

// What brings a module that is missing depends on whether DKMS has its source, and the headers.
func TestModuleRemedy(t *testing.T) {
	const source, headers = "usr/src/isolio-1.0/dkms.conf", "lib/modules/6.1.0/build/Makefile"
	for _, tt := range []struct {
		files  map[string]string
		remedy string
	}{
		{nil, "sudo make install in isolio's source, or install isolio-dkms"},
		{map[string]string{source: ""}, "as for kernel headers: DKMS builds the module once they are there"},
		{map[string]string{source: "", headers: ""}, "sudo dkms autoinstall: it builds the module, or names the log that says why not"},
	} {
		if _, got := examine(t, "module", tt.files); len(got) != 1 || got[0].State != Fails || got[0].Remedy != tt.remedy {
			t.Errorf("with %v: %+v, want the remedy %q", tt.files, got, tt.remedy)
		}
	}
}

// A kernel that no package has gets no headers from one: another kernel is booted, or headers are got for it.
func TestForeignKernel(t *testing.T) {
	const other = "lib/modules/6.12.0/"
	kernel := map[string]string{"var/lib/dpkg/info/x.list": "", "etc/os-release": "ID=debian\n", other + "modules.dep": "", other + "kernel/x": ""}
	has := func(name, remedy string, more map[string]string) {
		t.Helper()
		root := machineWith(t, kernel)
		for file, text := range more {
			testtree.File(t, root+"/"+file, text)
		}
		if _, got := examineAt(t, root, name); len(got) != 1 || !strings.HasPrefix(got[0].Remedy, remedy) {
			t.Errorf("with %v: %s: %+v, want the remedy %q", more, name, got, remedy)
		}
	}
	has("kernel headers", "apt-get install linux-image-"+runtime.GOARCH, nil)
	has("other kernels", "apt-get install linux-headers-6.12.0", nil)
	has("other kernels", "sudo dkms autoinstall -k 6.12.0", map[string]string{other + "build/Makefile": ""})
	module := "updates/" + moduleName + ".ko"
	has("kernel headers", "boot 6.12.0", map[string]string{other + "modules.dep": module + ":\n", other + module: ""})
	has("kernel headers", "apt-get install linux-headers-6.1.0", map[string]string{"var/lib/dpkg/info/linux-image-6.1.0.list": ""})
}

// The daemon may be a container's or run by hand: its lock tells.
func TestDaemonRuns(t *testing.T) {
	root := machineWith(t, map[string]string{"sys/fs/cgroup/cgroup.controllers": "io\n", "sys/fs/cgroup/cgroup.subtree_control": "io\n"})
	stands := func(want CheckState) {
		t.Helper()
		if _, got := examineAt(t, root, "daemon"); len(got) != 1 || got[0].State != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	stands(Warning)
	release, err := state.Lock(t.Context(), root, state.DaemonLock, 0)
	must.OK(t, err)
	defer release()
	stands(OK)
}

// A disk that too many cgroups use has too few requests.
func TestRoom(t *testing.T) {
	files := map[string]string{
		"sys/fs/cgroup/cgroup.controllers": "io\n", "sys/fs/cgroup/cgroup.subtree_control": "io\n",
		"sys/block/sda/queue/scheduler": "none [kyber-fairness]\n", "sys/block/sda/queue/nr_requests": "64\n",
	}
	for i := range 17 {
		share := 1000
		if i == 16 {
			share = 0
		}
		files[fmt.Sprintf("sys/fs/cgroup/c%d/io.kyber.stat", i)] = fmt.Sprintf("8:0 weight=100 share_ppm=%d\n", share)
	}
	if _, got := examine(t, "requests", files); len(got) != 0 {
		t.Errorf("16 cgroups, 64 requests: %+v", got)
	}
	files["sys/fs/cgroup/c16/io.kyber.stat"] = "8:0 weight=100 share_ppm=1\n"
	_, got := examine(t, "requests", files)
	if len(got) != 1 || got[0].State != Warning || !strings.HasPrefix(got[0].Finding, "17 cgroups use sda, which has 64 requests") || !strings.HasPrefix(got[0].Remedy, "echo 68 >/sys/block/sda/queue/nr_requests") {
		t.Errorf("17 cgroups, 64 requests: %+v", got)
	}
	files["sys/block/sda/queue/scheduler"] = "[none] kyber-fairness\n"
	if _, got := examine(t, "requests", files); len(got) != 0 {
		t.Errorf("another scheduler: %+v", got)
	}
}

// A module that is there but is none of ours, or fits another kernel, fails.
func TestModuleFits(t *testing.T) {
	d, got := examine(t, "module", map[string]string{
		"lib/modules/6.1.0/modules.dep": "updates/" + moduleName + ".ko:\n", installed: "not ELF", "sys/kernel/btf/vmlinux": "not BTF",
	})
	if len(got) != 1 || got[0].State != Fails || got[0].Remedy == "" {
		t.Errorf("%+v", got)
	}
	if err := d.Err(); failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "module") {
		t.Errorf("Err = %v", err)
	}
	if err := (&Diagnosis{Checks: []Check{{State: Warning}, {State: OK}}}).Err(); err != nil {
		t.Errorf("warnings only: %v", err)
	}
}

// A profile of tuned may get its scheduler from one that it includes, and may
// include itself.
func TestTuned(t *testing.T) {
	for want, files := range map[CheckState]map[string]string{
		Warning: {"etc/tuned/active_profile": "mine\n", "etc/tuned/mine/tuned.conf": "[main]\ninclude=base, mine\n", "usr/lib/tuned/base/tuned.conf": "[disk]\nelevator = bfq\n"},
		OK:      {"etc/tuned/active_profile": "mine\n", "etc/tuned/mine/tuned.conf": "[main]\ninclude=mine\n[disk]\nreadahead=>4096\n"},
	} {
		if _, got := examine(t, "tuned", files); len(got) != 1 || got[0].State != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// A backup under ionice was harmless before, and is not any more.
func TestDoctorTellsOfIOClasses(t *testing.T) {
	classOfTree = func(pid int) block.IOClass { return map[int]block.IOClass{41: block.Idle, 43: block.RealTime}[pid] }
	t.Cleanup(func() { classOfTree = nil })
	files := map[string]string{
		"sys/block/sda/queue/scheduler": "none [kyber-fairness]\n", "sys/fs/cgroup/cgroup.controllers": "io\n",
		"sys/fs/cgroup/system.slice/backup.service/cgroup.procs": "41\n42\n43\n", "proc/41/comm": "rsync\n",
	}
	_, found := examine(t, "I/O classes", files)
	if len(found) != 1 || found[0].State != Warning || !strings.HasPrefix(found[0].Finding, "2 processes have one, which counts within their cgroups only, such as idle of 41 (rsync) in backup.service") {
		t.Errorf("%+v", found)
	}
	files["sys/block/sda/queue/scheduler"] = "[none] kyber-fairness\n"
	if _, found = examine(t, "I/O classes", files); len(found) != 0 {
		t.Errorf("nothing shares: %+v", found)
	}
}

// The class that the kernel has of this process is none, and it takes one as ionice gives it.
func TestIOClassOfAProcess(t *testing.T) {
	if class := block.IOClassOf(os.Getpid()); class != "" {
		t.Skipf("the test itself runs with the class %s", class)
	}
	child := exec.Command("ionice", "-c3", "sleep", "60")
	if err := child.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	for range 500 {
		if block.IOClassOf(child.Process.Pid) == block.Idle {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("a process under ionice -c3 is not idle")
}

// A package that was updated replaces the file of a module, and not what the kernel runs.
func TestAnotherBuildIsLoaded(t *testing.T) {
	dir := t.TempDir()
	source, ko := dir+"/x.c", dir+"/x.ko"
	must.OK(t, os.WriteFile(source, []byte(`char info[] __attribute__((section(".modinfo"))) = "version=0.2.0";`), 0o644))
	if said, err := exec.Command("gcc", "-r", "-nostdlib", "-Wl,--build-id=0x0102", "-o", ko, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	text, err := os.ReadFile(ko)
	must.OK(t, err)
	file, err := elf.Open(ko)
	must.OK(t, err)
	defer file.Close()
	note, err := file.Section(".note.gnu.build-id").Data()
	must.OK(t, err)
	other := strings.Replace(string(note), "\x01\x02", "\x01\x03", 1)
	for _, tt := range []struct{ version, note, want string }{
		{"0.2.0", string(note), ""},
		{"0.2.0", other, "one build of 0.2.0 is loaded, and another is installed"},
		{"0.1.0", other, "0.1.0 is loaded, and 0.2.0 is installed"},
	} {
		_, got := examine(t, "loaded module", map[string]string{
			"lib/modules/6.1.0/modules.dep": "updates/" + moduleName + ".ko:\n", installed: string(text),
			"sys/module/kyber_fairness_iosched/version": tt.version + "\n", "sys/module/kyber_fairness_iosched/notes/.note.gnu.build-id": tt.note,
		})
		if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) != 1 || got[0].Finding != tt.want || got[0].State != Warning || !strings.Contains(got[0].Remedy, "isolio upgrade")) {
			t.Errorf("%s: %+v, want %q", tt.version, got, tt.want)
		}
	}
}

// Each installed kernel has the module, or doctor tells before it is booted.
func TestOtherKernels(t *testing.T) {
	files := map[string]string{
		"lib/modules/6.1.0/modules.dep": "updates/" + moduleName + ".ko:\n", installed: "",
		"lib/modules/6.1.1/modules.dep": "updates/" + moduleName + ".ko:\n", "lib/modules/6.1.1/kernel/x": "",
		"lib/modules/5.9.0/modules.dep": "updates/" + moduleName + ".ko:\n", // removed
	}
	if _, got := examine(t, "other kernels", files); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	files["lib/modules/6.12.0/modules.dep"], files["lib/modules/6.12.0/kernel/x"], files["lib/modules/6.12.0/build/Makefile"] = "kernel/x.ko:\n", "", ""
	_, got := examine(t, "other kernels", files)
	if len(got) != 1 || got[0].State != Warning || !strings.Contains(got[0].Finding, "is not installed for 6.12.0: after a boot") || !strings.HasPrefix(got[0].Remedy, "sudo dkms autoinstall -k 6.12.0") {
		t.Errorf("%+v", got)
	}
}
