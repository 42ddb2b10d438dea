// SPDX-License-Identifier: MIT

// Package packaging has no code: these are tests of what packages install.
package packaging

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/host/history"
)

// setting are the values that the unit gives a key, in order.
func setting(t *testing.T, key string) []string {
	t.Helper()
	text, err := os.ReadFile("isolio.service")
	if err != nil {
		t.Fatal(err)
	}
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
const exposure = "23"

func TestExposure(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not here")
	}
	said, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold="+exposure, "isolio.service").CombinedOutput()
	if strings.Contains(string(said), "unrecognized option") {
		t.Skip("a systemd before 250")
	}
	if err != nil {
		t.Errorf("%v:\n%s", err, said)
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
	if got := setting(t, "StateDirectory"); len(got) != 1 || got[0] != "isolio" || !strings.HasPrefix(history.Dir, "var/lib/isolio/") {
		t.Errorf("StateDirectory=%s", got)
	}
	if got := setting(t, "RuntimeDirectoryPreserve"); len(got) != 1 || got[0] != "yes" {
		t.Errorf("RuntimeDirectoryPreserve=%s", got)
	}
}
