// SPDX-License-Identifier: MIT

// Package packaging has no code: these are tests of what packages install.
package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/host/command"
	"isolio/internal/host/enable"
	"isolio/internal/host/slo"
	"isolio/internal/host/state"
	"isolio/internal/host/view"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// setting are the values that the unit gives a key, in order.
func setting(t *testing.T, key string) []string {
	t.Helper()
	text, err := os.ReadFile("isolio.service")
	must.OK(t, err)
	var values []string
	for _, found := range regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(string(text), -1) {
		values = append(values, found[1])
	}
	return values
}

// TestMain crashes where a test below has it do so.
func TestMain(m *testing.M) {
	if os.Getenv("ISOLIO_CRASH") != "" {
		var none map[string]int
		none["crash"] = 1 //nolint:staticcheck // it is to crash
	}
	os.Exit(m.Run())
}

// A crash does not end with a status after which systemd leaves the daemon alone.
func TestACrashIsRestarted(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "ISOLIO_CRASH=1"), setting(t, "Environment")...)
	err := cmd.Run()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGABRT {
		t.Errorf("a crash ends with %v", err)
	}
	prevent := strings.Fields(strings.Join(setting(t, "RestartPreventExitStatus"), " "))
	if strings.Join(prevent, " ") != "78 3" || failure.Config != 78 || failure.Unsupported != 3 {
		t.Errorf("RestartPreventExitStatus=%s", prevent)
	}
}

// systemd's own measure of how much of the machine a unit may reach, in tenths.
func TestExposure(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not here")
	}
	for unit, most := range map[string]string{"isolio.service": "19", "isolio-disk@.service": "21", "isolio-boot.service": "13"} {
		said, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold="+most, unit).CombinedOutput()
		if strings.Contains(string(said), "unrecognized option") {
			t.Skip("a systemd before 250")
		}
		if err != nil {
			t.Errorf("%s: %v:\n%s", unit, err, said)
		}
	}
}

// What the daemon needs, it may do: it writes to cgroups, to /run/isolio and to /var/lib/isolio.
func TestTheUnitMayWrite(t *testing.T) {
	if got := setting(t, "ReadWritePaths"); len(got) != 1 || got[0] != "/sys/fs/cgroup" {
		t.Errorf("ReadWritePaths=%s", got)
	}
	if got := setting(t, "RuntimeDirectory"); len(got) != 1 || got[0] != "isolio" {
		t.Errorf("RuntimeDirectory=%s", got)
	}
	if got := setting(t, "StateDirectory"); len(got) != 1 || got[0] != "isolio" || !strings.HasPrefix(slo.HistoryDir, "var/lib/isolio/") {
		t.Errorf("StateDirectory=%s", got)
	}
	if got := setting(t, "RuntimeDirectoryPreserve"); len(got) != 1 || got[0] != "yes" {
		t.Errorf("RuntimeDirectoryPreserve=%s", got)
	}
}

// The unit of disks is one that systemd takes, and calls what there is. The rule of udev
// names it.
func TestTheUnitOfDisks(t *testing.T) {
	text, err := os.ReadFile("isolio-disk@.service")
	must.OK(t, err)
	rules, err := os.ReadFile("isolio-disk.rules")
	must.OK(t, err)
	if !strings.Contains(string(rules), `ENV{SYSTEMD_WANTS}+="isolio-disk@.service"`) {
		t.Errorf("the rule wants another unit:\n%s", rules)
	}
	call := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/isolio enable --([a-z]+) %f$`).FindStringSubmatch(string(text))
	if call == nil {
		t.Fatalf("the unit calls something else:\n%s", text)
	}
	enable, _, err := command.Root().Find([]string{"enable"})
	if err != nil || enable.Flags().Lookup(call[1]) == nil {
		t.Errorf("enable has no --%s: %v", call[1], err)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not here")
	}
	// The program need not be installed where this runs, and the disk not be there.
	dir := t.TempDir()
	unit := filepath.Join(dir, "isolio-disk@sys-block-sda.service")
	testtree.File(t, unit, strings.ReplaceAll(string(text), "/usr/bin/isolio", "/bin/true"))
	said, err := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit).CombinedOutput()
	if strings.Contains(string(said), "unrecognized option") {
		t.Skip("a systemd before 250")
	}
	if err != nil || strings.Contains(string(said), filepath.Base(unit)+":") {
		t.Errorf("%v:\n%s", err, said)
	}
}

// startsBoot is what isolio-boot.service runs at a boot, as the machine below root has it. The rest of the boot hangs
// or finishes.
func startsBoot(t *testing.T, root string, hangs bool) (ok bool, said string) {
	t.Helper()
	text, err := os.ReadFile("isolio-boot.service")
	must.OK(t, err)
	script := regexp.MustCompile(`(?s)\nExecStart=sh -c '(.*?)'\n`).FindSubmatch(text)
	if script == nil {
		t.Fatalf("the unit runs no script:\n%s", text)
	}
	line := strings.ReplaceAll(string(script[1]), "\\\n", "")
	for _, dir := range []string{"/var/lib/isolio", "/run/isolio"} {
		testtree.File(t, filepath.Join(root, dir, ".keep"), "")
		line = strings.ReplaceAll(line, dir, root+dir)
	}
	// A machine that hangs ends nothing in order.
	wait := map[bool]string{true: "kill -KILL $PPID"}[hangs]
	programs := testtree.New(t, nil)
	for name, does := range map[string]string{"systemd-notify": "", "sleep": "", "systemctl": wait} {
		testtree.File(t, filepath.Join(programs, name), "#!/bin/sh\n"+does+"\n")
		must.OK(t, os.Chmod(filepath.Join(programs, name), 0o755))
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	must.OK(t, os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755))
	_, tried := os.Stat(filepath.Join(root, state.BootTried))
	if (err == nil) != (tried == nil && !hangs) {
		t.Errorf("the unit: %v: %s", err, out)
	}
	return tried == nil, string(out)
}

// A boot that did not finish is the last one at which disks get schedulers, until enable is told so.
func TestABootThatDidNotFinish(t *testing.T) {
	root := testtree.New(t, map[string]string{
		"sys/block/sda/dev": "8:0\n", "sys/block/sda/size": "8\n", "sys/block/sda/queue/scheduler": "[kyber-fairness] none\n",
		"sys/block/sda/queue/nr_requests": "64\n", "run/udev/data/b8:0": "E:ID_WWN=0x1\n",
	})
	boots := func(hangs, want bool) {
		t.Helper()
		must.OK(t, os.RemoveAll(filepath.Join(root, "run/isolio")))
		ok, said := startsBoot(t, root, hangs)
		if ok != want || want == strings.Contains(said, "isolio doctor says") {
			t.Errorf("disks get schedulers: %v, want %v: %s", ok, want, said)
		}
		if got := state.BootFailed(root); got == want {
			t.Errorf("the boot before failed: %v", got)
		}
	}
	boots(false, true)
	boots(false, true)
	boots(true, true)
	boots(false, false)
	boots(false, false)
	d, err := view.Examine(root)
	must.OK(t, err)
	if !slices.ContainsFunc(d.Checks, func(c view.Check) bool { return c.Name == "boot" && strings.Contains(c.Remedy, "isolio enable") }) {
		t.Errorf("doctor does not tell: %+v", d.Checks)
	}
	enables := func(r enable.Request) *enable.Plan {
		t.Helper()
		r.Root, r.Device = root, "sda"
		p, err := enable.Enable(r)
		must.OK(t, err)
		return p
	}
	if p := enables(enable.Request{}); len(p.Steps) != 0 {
		t.Errorf("enable for this boot alone plans %v", p.Steps)
	}
	p := enables(enable.Request{Persist: true})
	for _, s := range p.Steps {
		switch {
		case s.Create:
			testtree.File(t, s.Path, s.Value)
		case s.Remove:
			must.OK(t, os.Remove(s.Path))
		default:
			t.Errorf("it plans %v", s)
		}
	}
	if state.BootFailed(root) || len(p.Notes) != 1 {
		t.Errorf("it stays so after %v: %q", p.Steps, p.Notes)
	}
	boots(false, true)
}

// A disk that cannot be noted as tried is no reason for a machine to do without schedulers.
func TestABootThatCannotBeNoted(t *testing.T) {
	root := testtree.New(t, map[string]string{"var/lib/isolio/.keep": ""})
	full := filepath.Join(root, "var/lib/isolio/boot")
	must.OK(t, os.Symlink("/dev/full/none", full))
	if ok, said := startsBoot(t, root, false); !ok {
		t.Error(said)
	}
}

// Both ways by which a disk gets its scheduler at a boot wait for isolio-boot.service.
func TestBootsAreTriedFirst(t *testing.T) {
	text, err := os.ReadFile("isolio-disk@.service")
	must.OK(t, err)
	for _, want := range []string{`(?m)^Requires=isolio-boot\.service$`, `(?m)^After=.* isolio-boot\.service$`} {
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("isolio-disk@.service has no %s", want)
		}
	}
	example, err := os.ReadFile("isolio.rules")
	must.OK(t, err)
	if want := `TEST!="/run/isolio/boot", ENV{isolio}="off"`; !strings.Contains(string(example), want) || state.BootTried != "run/isolio/boot" {
		t.Errorf("isolio.rules has no %s", want)
	}
}
