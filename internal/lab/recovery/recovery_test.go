// SPDX-License-Identifier: MIT

package recovery

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/must"
	"isolio/internal/plan"
)

// host is a tree of files with a disk, and the steps of a bench on it.
type host struct {
	t    *testing.T
	root string
	tmp  string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t, t.TempDir(), t.TempDir()}
	for file, text := range map[string]string{
		"sys/block/sdb/dev": "8:16", "sys/block/sdb/size": "8388608", "sys/block/sdb/diskseq": "7",
		"sys/block/sdb/queue/scheduler": "none mq-deadline [kyber-fairness]", "sys/block/sdb/queue/nr_requests": "256",
		"sys/block/sdb/queue/read_ahead_kb": "128", "sys/block/sdb/queue/iosched/share_by": "bytes iops [time]",
		"sys/fs/cgroup/io.cost.qos": "8:0 enable=1", "proc/self/mountinfo": "", "dev/sdb": "",
	} {
		h.put(file, text)
	}
	return h
}

func (h *host) path(name string) string { return filepath.Join(h.root, name) }

func (h *host) put(name, text string) {
	h.t.Helper()
	must.OK(h.t, os.MkdirAll(filepath.Dir(h.path(name)), 0o755))
	must.OK(h.t, os.WriteFile(h.path(name), []byte(text+"\n"), 0o644))
}

func (h *host) get(name string) string {
	h.t.Helper()
	text, err := os.ReadFile(h.path(name))
	must.OK(h.t, err)
	return strings.TrimSpace(string(text))
}

func (h *host) keep() (*Kept, error) {
	h.t.Helper()
	d, err := block.System{Root: h.root}.Find("sdb")
	must.OK(h.t, err)
	return Keep(h.root, d, "x", []plan.Step{
		{Path: h.path("sys/block/sdb/queue/scheduler"), Value: "bfq", Undo: "kyber-fairness"},
		{Path: h.path("sys/fs/cgroup/io.cost.qos"), Value: "8:16 enable=1", Undo: "8:16 enable=0"},
		{Mkdir: true, Path: h.path("sys/fs/cgroup/isolio-x")},
		{Mkdir: true, Path: h.path("sys/fs/cgroup/isolio-x/a")},
		{Path: h.path("sys/fs/cgroup/isolio-x/a/io.bfq.weight"), Value: "100"},
		{Mkdir: true, Path: filepath.Join(h.tmp, "work/at")},
	}, filepath.Join(h.tmp, "work"))
}

// change does to the machine what the bench does.
func (h *host) change() {
	h.t.Helper()
	h.put("sys/block/sdb/queue/scheduler", "none mq-deadline kyber-fairness [bfq]")
	h.put("sys/block/sdb/queue/nr_requests", "64")
	h.put("sys/fs/cgroup/io.cost.qos", "8:0 enable=1\n8:16 enable=1")
	for _, dir := range []string{h.path("sys/fs/cgroup/isolio-x/a"), filepath.Join(h.tmp, "work/at")} {
		must.OK(h.t, os.MkdirAll(dir, 0o755))
	}
	must.OK(h.t, os.RemoveAll(h.path("sys/block/sdb/queue/iosched")))
	h.put("sys/block/sdb/queue/iosched/low_latency", "0")
}

// killed is what a process leaves that ends without a word: its lock goes with it.
func (h *host) killed(k *Kept) *Kept {
	h.t.Helper()
	k.file.Close()
	found, running, err := Find(h.root)
	if err != nil || len(found) != 1 || len(running) != 0 {
		h.t.Fatalf("Find = %v, %v, %v", found, running, err)
	}
	return found[0]
}

func says(actions []Action) (all []string) {
	for _, a := range actions {
		all = append(all, a.Says)
	}
	return all
}

// What a killed bench left is taken back, and all else is left as it is.
func TestWhatAKilledBenchLeft(t *testing.T) {
	h := newHost(t)
	k, err := h.keep()
	must.OK(t, err)
	h.change()
	k = h.killed(k)
	want := []string{
		"removed the cgroup " + h.path("sys/fs/cgroup/isolio-x/a"),
		"removed the cgroup " + h.path("sys/fs/cgroup/isolio-x"),
		h.path("sys/fs/cgroup/io.cost.qos") + `: wrote "8:16 enable=0", as it was "8:0 enable=1"`,
		"sdb: scheduler kyber-fairness, was bfq", "sdb: nr_requests 256, was 64", "sdb: iosched/share_by time",
		"removed " + filepath.Join(h.tmp, "work"),
	}
	actions := k.Decide(h.root)
	if got := says(actions); !slices.Equal(got, want) {
		t.Errorf("decided\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	h.put("sys/block/sdb/queue/iosched/share_by", "[bytes] iops time") // as the scheduler has it when it comes
	for _, a := range actions {
		if err := a.Do(); err != nil {
			t.Errorf("%s: %v", a.Says, err)
		}
	}
	for file, want := range map[string]string{
		"sys/block/sdb/queue/scheduler": "kyber-fairness", "sys/block/sdb/queue/nr_requests": "256", "sys/block/sdb/queue/read_ahead_kb": "128",
		"sys/block/sdb/queue/iosched/share_by": "time", "sys/fs/cgroup/io.cost.qos": "8:16 enable=0",
	} {
		if got := h.get(file); got != want {
			t.Errorf("%s holds %q, want %q", file, got, want)
		}
	}
	for _, gone := range []string{h.path("sys/fs/cgroup/isolio-x"), filepath.Join(h.tmp, "work")} {
		if _, err := os.Stat(gone); err == nil {
			t.Errorf("%s is there still", gone)
		}
	}
}

// A bench that ends by itself has taken everything back, and leaves no record.
func TestABenchThatEnds(t *testing.T) {
	h := newHost(t)
	k, err := h.keep()
	must.OK(t, err)
	if actions := k.Decide(h.root); len(actions) > 0 {
		t.Errorf("with nothing changed: %q", says(actions))
	}
	must.OK(t, k.End())
	if found, running, err := Find(h.root); err != nil || len(found)+len(running) > 0 {
		t.Errorf("Find = %v, %v, %v", found, running, err)
	}
}

// While one runs, and after one was killed, no other one may begin on that disk.
func TestOneAtATime(t *testing.T) {
	h := newHost(t)
	k, err := h.keep()
	must.OK(t, err)
	if _, err := h.keep(); failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), "device sdb: another `isolio bench` uses it") {
		t.Errorf("beside a running one: %v", err)
	}
	if found, running, err := Find(h.root); err != nil || len(found) > 0 || !slices.Equal(running, []string{"sdb"}) {
		t.Errorf("Find = %v, %v, %v", found, running, err)
	}
	k.file.Close()
	if _, err := h.keep(); failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), "a bench of x was killed") || !strings.Contains(err.Error(), Command) {
		t.Errorf("after one that was killed: %v", err)
	}
}

// A record that was cut short is of a bench that had changed nothing.
func TestHalfARecord(t *testing.T) {
	h := newHost(t)
	h.put("run/isolio/bench/sdb.json", `{"schema": 1, "disk": "sd`)
	if found, running, err := Find(h.root); err != nil || len(found)+len(running) > 0 {
		t.Errorf("Find = %v, %v, %v", found, running, err)
	}
	k, err := h.keep()
	must.OK(t, err)
	if err := k.End(); err != nil {
		t.Error(err)
	}
}

// Another disk that has the name now is left alone.
func TestAnotherDisk(t *testing.T) {
	h := newHost(t)
	k, err := h.keep()
	must.OK(t, err)
	h.change()
	h.put("sys/block/sdb/diskseq", "9")
	for _, line := range says(h.killed(k).Decide(h.root)) {
		if strings.HasPrefix(line, "sdb: ") {
			t.Errorf("%s, of a disk that is another one", line)
		}
	}
}

// A file system that is mounted still keeps its directory from being removed.
func TestNothingMountedIsRemoved(t *testing.T) {
	h := newHost(t)
	k, err := h.keep()
	must.OK(t, err)
	h.change()
	at := filepath.Join(h.tmp, "work/at")
	k.Mounts = []string{at}
	h.put("proc/self/mountinfo", "36 35 8:16 / "+at+" rw - ext4 /dev/sdb rw")
	if err := k.removeDir(h.root); err == nil || !strings.Contains(err.Error(), at+" is still mounted") {
		t.Errorf("removeDir = %v", err)
	}
	if _, err := os.Stat(at); err != nil {
		t.Error(err)
	}
}
