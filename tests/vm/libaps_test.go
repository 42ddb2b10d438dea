// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// libapsDir is where the guest finds what `make libaps` built.
const libapsDir = "/tests/libaps/"

// withLibaps skips a test where libaps was not built.
func withLibaps(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(libapsDir); errors.Is(err, fs.ErrNotExist) {
		t.Skip("libaps is not built for this kernel: make libaps")
	}
}

// Its own tests, under ASan and UBSan: every way of waiting on a disk with poll
// queues, on one without, on one that cannot be read; signals, closed files, ends.
func TestLibaps(t *testing.T) {
	withLibaps(t)
	withModelDisk(t)
	polled := newModelDisk(t, []string{"model=ull", "preset=z-ssd", "scale=8", "size_mib=16", "memory_backed=1", "poll_queues=1"})
	plain := newModelDisk(t, []string{"model=fixed", "size_mib=16"})
	bad := newDisk(t, []string{"size=16", "blocksize=4096", "irqmode=2", "completion_nsec=20000", "poll_queues=1", "badblocks=+0-255"})
	out, err := exec.Command(libapsDir+"ring-test", "/dev/"+polled.name, "/dev/"+plain.name, "/dev/"+bad.name).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if passed := strings.Count(string(out), "\nok ") + strings.Count(string(out), "# skipped"); passed < 10 {
		t.Errorf("%d tests passed:\n%s", passed, out)
	}
	if strings.Contains(string(out), "# skipped") {
		t.Errorf("a test was skipped:\n%s", out)
	}
}

// An instruction is a nanosecond here: what is decided and learnt for an I/O takes
// fewer than 300.
func TestLibapsCost(t *testing.T) {
	comparesRates(t)
	withLibaps(t)
	out, err := exec.Command(libapsDir + "cost").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	found := regexp.MustCompile(`(?m)^(\d+) ns a decision$`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no figure:\n%s", out)
	}
	if ns, err := strconv.Atoi(string(found[1])); err != nil || ns < 20 || ns >= 300 {
		t.Errorf("%d instructions a decision, want fewer than 300 (%v)", ns, err)
	}
}
