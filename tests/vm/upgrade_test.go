// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/lab/vm"
)

// buildID is the note of the loaded module.
func buildID(t *testing.T) []byte {
	t.Helper()
	note, err := os.ReadFile("/sys/module/" + moduleName + "/notes/.note.gnu.build-id")
	must(t, err)
	return note
}

// A module in use is replaced under load, and goes back: disks, tunables, weights and requests stay. One
// that does not fit the kernel is refused while the old one still serves.
func TestUpgrade(t *testing.T) {
	loaded(t)
	d, other := newDisk(t, fast), newDisk(t, fast)
	d.use(t, elevator)
	other.use(t, elevator)
	write(t, d.queue("iosched/max_wait_ms"), "700")
	write(t, d.queue("nr_requests"), "77")
	loads := startLoads(t, d)
	number := strings.TrimSpace(read(t, filepath.Join("/sys/block", other.name, "dev")))
	a, b, c := filepath.Join(cgroupRoot, "a"), filepath.Join(cgroupRoot, "b"), newGroup(t, "c")
	write(t, filepath.Join(a, "io.kyber.weight"), "300")
	write(t, filepath.Join(b, "io.kyber.weight"), "sum")
	write(t, filepath.Join(b, "io.kyber.weight"), number+" 40")
	same := func(when string) {
		t.Helper()
		for _, disk := range []*disk{d, other} {
			if _, active := disk.schedulers(t); active != elevator {
				t.Errorf("%s: %s has %s", when, disk.name, active)
			}
		}
		for group, want := range map[string][]string{a: {"default 300"}, b: {"default sum", number + " 40"}, c: {"default 100"}} {
			if got := weights(t, group); !slices.Equal(got, want) {
				t.Errorf("%s: %s has the weights %q, want %q", when, group, got, want)
			}
		}
		if wait, nr := strings.TrimSpace(read(t, d.queue("iosched/max_wait_ms"))), strings.TrimSpace(read(t, d.queue("nr_requests"))); wait != "700" || nr != "77" {
			t.Errorf("%s: max_wait_ms %s, nr_requests %s", when, wait, nr)
		}
		untilBusy(t, d)
	}

	file := filepath.Join(vm.ModuleDir, moduleFile)
	first := buildID(t)
	if stdout, stderr, code := isolio(t, "upgrade", "--module", file); code != 0 || stdout != "" || !strings.Contains(stderr, "is the one to load") {
		t.Errorf("the same module: exit status %d, %q, %q", code, stdout, stderr)
	}
	text, err := os.ReadFile(file)
	must(t, err)
	id := first[len(first)-20:]
	if bytes.Count(text, id) != 1 {
		t.Fatalf("the build ID is %d times in the module", bytes.Count(text, id))
	}
	next := slices.Clone(id)
	next[0] ^= 1
	newer := filepath.Join(t.TempDir(), moduleFile)
	must(t, os.WriteFile(newer, bytes.Replace(text, id, next, 1), 0o644))
	t.Logf("planned:\n%s", succeeds(t, "upgrade", "--module", newer, "--dry-run"))
	same("planned")
	for _, to := range []struct {
		what, file string
		id         []byte
	}{{"upgraded", newer, next}, {"rolled back", file, id}} {
		t.Logf("%s: %s", to.what, succeeds(t, "upgrade", "--module", to.file))
		if got := buildID(t); !bytes.HasSuffix(got, to.id) {
			t.Errorf("%s: the build ID is %x, want %x", to.what, got, to.id)
		}
		same(to.what)
	}

	unfit := filepath.Join(t.TempDir(), moduleFile)
	at := bytes.Index(text, []byte("elevator_type\x00"))
	bad := bytes.Replace(text, id, next, 1)
	copy(bad[at:], "elevator_typo")
	must(t, os.WriteFile(unfit, bad, 0o644))
	if _, stderr, code := isolio(t, "upgrade", "--module", unfit); code == 0 {
		t.Errorf("a module that does not fit: exit status 0, %s", stderr)
	} else {
		t.Logf("refused: %s", stderr)
	}
	same("refused")
	stopLoads(t, d, loads)
}
