// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"os"
	"regexp"
	"strconv"
	"strings"
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
