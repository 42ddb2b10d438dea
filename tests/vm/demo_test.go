// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"isolio/internal/lab/vm"
)

// The demo shows that a neighbour takes the disk, and that isolio gives it back; and leaves
// nothing, also where it fails.
func TestDemo(t *testing.T) {
	watchLog(t)
	if moduleLoaded(t) {
		must(t, unloadModule())
	}
	before := demoTraces(t)
	out := succeeds(t, "demo", "--time", "2s", "--modules", vm.ModuleDir)
	t.Log(out)
	found := regexp.MustCompile(`web had (\d+) % of its rate alone beside batch, and has (\d+) % with isolio`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("the demo has no end:\n%s", out)
	}
	without, _ := strconv.Atoi(found[1])
	with, _ := strconv.Atoi(found[2])
	if without > 50 || with < 70 || with < 2*without {
		t.Errorf("web has %d %% of its rate alone without isolio, %d %% with it", without, with)
	}
	if after := demoTraces(t); after != before {
		t.Errorf("the demo leaves %s; before it: %s", after, before)
	}
	if _, stderr, code := isolio(t, "demo", "--time", "100ms", "--modules", "/nowhere"); code == 0 || stderr == "" {
		t.Errorf("modules that are not there: exit status %d, %q", code, stderr)
	}
	if after := demoTraces(t); after != before {
		t.Errorf("a demo that fails leaves %s; before it: %s", after, before)
	}
	for _, at := range []string{"1. web is alone", "$ isolio enable"} {
		out := interruptedDemo(t, at)
		if after := demoTraces(t); after != before {
			t.Errorf("a demo that is interrupted at %q leaves %s; before it: %s\n%s", at, after, before, out)
		}
	}
}

// interruptedDemo runs the demo up to a line, and has Ctrl-C reach all that runs for it.
func interruptedDemo(t *testing.T, at string) string {
	t.Helper()
	cmd := exec.Command("isolio", "demo", "--time", "200ms", "--modules", vm.ModuleDir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = cmd.Stdout
	must(t, cmd.Start())
	var seen strings.Builder
	sent := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		seen.WriteString(lines.Text() + "\n")
		if !sent && strings.Contains(lines.Text(), at) {
			must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
			sent = true
		}
	}
	if err := cmd.Wait(); err == nil || !sent {
		t.Errorf("a demo that is interrupted at %q ends with %v:\n%s", at, err, seen.String())
	}
	return seen.String()
}

// demoTraces are what there is of what the demo makes.
func demoTraces(t *testing.T) string {
	t.Helper()
	var there []string
	for _, path := range []string{"/dev/isolio-demo", "/sys/kernel/config/modeldisk/isolio-demo", "/sys/fs/cgroup/isolio-demo", "/sys/module/modeldisk", "/sys/module/kyber_fairness_iosched", "/run/isolio/enabled/isolio-demo"} {
		if _, err := os.Stat(path); err == nil {
			there = append(there, path)
		}
	}
	return strings.Join(there, " ")
}
