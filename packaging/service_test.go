// SPDX-License-Identifier: MIT

// Package packaging has no code: these are tests of what packages install.
package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/host/command"
	"isolio/internal/host/slo"
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
	for unit, most := range map[string]string{"isolio.service": "19", "isolio-disk@.service": "21"} {
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
