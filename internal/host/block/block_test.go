// SPDX-License-Identifier: MIT

package block

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
	"isolio/internal/plan"
	"isolio/internal/testtree"
)

// machine is a root directory with two disks: nvme0n1, whose partition is
// mounted, and nullb0, which nothing uses.
func machine(t *testing.T, more map[string]string) System {
	t.Helper()
	files := map[string]string{
		"sys/block/nvme0n1/dev":                 "259:0\n",
		"sys/block/nvme0n1/size":                "500118192\n",
		"sys/block/nvme0n1/device/model":        "INTEL SSDPEKKW256G8                     \n",
		"sys/block/nvme0n1/queue/scheduler":     "[none] mq-deadline kyber\n",
		"sys/block/nvme0n1/queue/nr_requests":   "1023\n",
		"sys/block/nvme0n1/nvme0n1p1/dev":       "259:1\n",
		"sys/block/nvme0n1/nvme0n1p1/partition": "1\n",
		"sys/block/nullb0/dev":                  "252:0\n",
		"sys/block/nullb0/size":                 "8388608\n",
		"sys/block/nullb0/queue/scheduler":      "none mq-deadline [bfq]\n",
		"sys/block/nullb0/queue/nr_requests":    "64\n",
		"dev/nvme0n1":                           "",
		"dev/nvme0n1p1":                         "",
		"dev/nullb0":                            "",
		"proc/swaps":                            "Filename\tType\tSize\tUsed\tPriority\n/swapfile file 1 0 -2\n",
		"proc/self/mountinfo": "22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw\n" +
			"30 22 0:26 / /sys rw - sysfs sysfs rw\n",
	}
	return System{Root: testtree.New(t, files, more)}
}

func find(t *testing.T, s System, name string) *Device {
	t.Helper()
	d, err := s.Find(name)
	must.OK(t, err)
	return d
}

func TestFind(t *testing.T) {
	s := machine(t, nil)
	must.OK(t, os.MkdirAll(s.Path("dev/disk/by-id"), 0o755))
	must.OK(t, os.Symlink("../../nullb0", s.Path("dev/disk/by-id/test")))
	for _, name := range []string{"nullb0", "/dev/nullb0", "/dev/disk/by-id/test", s.Path("dev/nullb0")} {
		d, err := s.Find(name)
		if err != nil {
			t.Errorf("Find(%s): %v", name, err)
			continue
		}
		if d.Name != "nullb0" || d.MajMin != "252:0" || d.SizeBytes != 4<<30 || d.Node != s.Path("dev/nullb0") {
			t.Errorf("Find(%s) = %+v", name, d)
		}
	}
	if got, want := find(t, s, "nvme0n1").String(), "nvme0n1 (INTEL SSDPEKKW256G8), 244198 MiB, nr_requests 1023"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
}

func TestMovedBytes(t *testing.T) {
	for text, want := range map[string]string{
		"5 1 80 7 2 0 16 9 0 8 8 0 0 0 0 0 0\n": "",
		"5 1 80 7 2 0\n":                        "sys/block/nullb0/stat: 6 numbers, want 7 or more",
		"5 1 80 7 2 0 many\n":                   `sys/block/nullb0/stat: "many" is not a number`,
	} {
		s := machine(t, map[string]string{"sys/block/nullb0/stat": text})
		got, err := find(t, s, "nullb0").MovedBytes()
		switch {
		case want == "" && (err != nil || got != (80+16)*512):
			t.Errorf("%q: %d bytes, %v", text, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestFindRefuses(t *testing.T) {
	s := machine(t, nil)
	for name, want := range map[string]string{
		"/dev/none":      "device /dev/none: there is no such disk; allowed: nullb0, nvme0n1",
		"none":           "device none: there is no such disk; allowed: nullb0, nvme0n1",
		"":               "device \"\": it is empty; allowed: nullb0, nvme0n1",
		"/dev/nvme0n1p1": "device /dev/nvme0n1p1: is on nvme0n1; name the disk itself",
		"/etc/passwd":    "device /etc/passwd: there is no such file or directory; allowed: nullb0, nvme0n1",
		"/dev/../etc/x":  "device /dev/../etc/x: not below /dev; allowed: nullb0, nvme0n1",
		"../sys/block":   "device ../sys/block: there is no such file or directory; allowed: nullb0, nvme0n1",
	} {
		_, err := s.Find(name)
		if err == nil || err.Error() != want || failure.Code(err) != failure.Usage {
			t.Errorf("Find(%s):\n got %v\nwant %s", name, err, want)
		}
	}
}

func TestSchedulers(t *testing.T) {
	tests := []struct {
		text, active string
		loaded       []string
	}{
		{"none mq-deadline [bfq]\n", "bfq", []string{"none", "mq-deadline", "bfq"}},
		{"[none]\n", "none", []string{"none"}},
		{"none\n", "none", []string{"none"}},
	}
	for _, tt := range tests {
		d := find(t, machine(t, map[string]string{"sys/block/nullb0/queue/scheduler": tt.text}), "nullb0")
		active, loaded, err := d.Schedulers()
		if err != nil || active != tt.active || !slices.Equal(loaded, tt.loaded) {
			t.Errorf("%q: %s, %v, %v", tt.text, active, loaded, err)
		}
	}
}

func TestSetScheduler(t *testing.T) {
	d := find(t, machine(t, nil), "nullb0")
	if steps, err := d.SetScheduler("bfq"); err != nil || len(steps) != 0 {
		t.Errorf("bfq is active: SetScheduler = %v, %v", steps, err)
	}
	steps, err := d.SetScheduler("mq-deadline")
	if err != nil || len(steps) != 1 || steps[0].Value != "mq-deadline" || steps[0].Undo != "bfq" {
		t.Fatalf("SetScheduler = %+v, %v", steps, err)
	}
	must.OK(t, plan.On(plan.OS{}).Apply(steps))
	if got, _ := os.ReadFile(d.path("queue/scheduler")); string(got) != "mq-deadline\n" {
		t.Errorf("queue/scheduler holds %q", got)
	}
}

func TestNrRequestsComesBack(t *testing.T) {
	d := find(t, machine(t, nil), "nullb0")
	keep, err := d.KeepNrRequests()
	must.OK(t, err)
	a := plan.On(plan.OS{})
	must.OK(t, a.Apply([]plan.Step{keep, d.SetNrRequests(256)}))
	if n, err := d.NrRequests(); err != nil || n != 256 {
		t.Errorf("NrRequests = %d, %v; want 256", n, err)
	}
	must.OK(t, a.Undo())
	if n, err := d.NrRequests(); err != nil || n != 64 {
		t.Errorf("after Undo NrRequests = %d, %v; want 64", n, err)
	}
}

func TestTunableComesBackWhereItWas(t *testing.T) {
	d := find(t, machine(t, map[string]string{"sys/block/nullb0/queue/iosched/low_latency": "1\n"}), "nullb0")
	active, err := d.SetTunable("bfq", "low_latency", "0")
	if err != nil || active.Value != "0" || active.Undo != "1" || active.Name != "queue/iosched/low_latency" {
		t.Errorf("bfq is active: SetTunable = %+v, %v", active, err)
	}
	later, err := d.SetTunable("mq-deadline", "fifo_batch", "1")
	if err != nil || later.Value != "1" || later.Undo != "" {
		t.Errorf("mq-deadline is not active: SetTunable = %+v, %v", later, err)
	}
}

func TestSetTunableExplains(t *testing.T) {
	d := find(t, machine(t, map[string]string{"sys/block/nullb0/queue/iosched/low_latency": "1\n", "sys/block/nullb0/queue/iosched/back_seek_max": "1\n"}), "nullb0")
	const missing = "scheduler bfq has no tunable latency; allowed: back_seek_max, low_latency"
	if _, err := d.SetTunable("bfq", "latency", "0"); err == nil || err.Error() != missing || failure.Code(err) != failure.Usage {
		t.Errorf("SetTunable = %v, want %s", err, missing)
	}
	s, err := d.SetTunable("kyber", "read_lat_nsec", "0")
	must.OK(t, err)
	err = s.Explain(syscall.ERANGE)
	if failure.Code(err) != failure.Usage || !strings.HasPrefix(err.Error(), `scheduler kyber refuses "0" for its tunable read_lat_nsec: `) {
		t.Errorf("a value that is out of range: %v", err)
	}
	if err = s.Explain(syscall.EIO); !errors.Is(err, syscall.EIO) || failure.Code(err) == failure.Usage {
		t.Errorf("another error: %v", err)
	}
}

func TestSetSchedulerExplains(t *testing.T) {
	d := find(t, machine(t, nil), "nullb0")
	steps, err := d.SetScheduler("kyber-fairness")
	must.OK(t, err)
	err = steps[0].Explain(syscall.EINVAL)
	want := "device nullb0: scheduler kyber-fairness is not there (available: none, mq-deadline, bfq); " +
		"load it with `modprobe kyber-fairness-iosched`, or `modprobe bfq` for bfq: invalid argument"
	if err.Error() != want || failure.Code(err) != failure.Unsupported {
		t.Errorf("Explain:\n got %v\nwant %s", err, want)
	}
	if steps, err = d.SetScheduler("none"); err != nil {
		t.Fatal(err)
	}
	if err = steps[0].Explain(syscall.EBUSY); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a scheduler that is there: Explain = %v", err)
	}
}

func TestCheckFree(t *testing.T) {
	tests := []struct {
		name, device string
		more         map[string]string
		want         string // "" if free
	}{
		{"free", "nullb0", nil, ""},
		{"mounted partition", "nvme0n1", nil, "nvme0n1p1 is mounted at /"},
		{"mounted disk", "nullb0", map[string]string{
			"proc/self/mountinfo": "40 22 252:0 / /data rw - xfs /dev/nullb0 rw\n41 22 252:0 /sub /data rw - xfs /dev/nullb0 rw\n"},
			"nullb0 is mounted at /data"},
		{"another device's mount", "nullb0", map[string]string{
			"proc/self/mountinfo": "40 22 252:01 / /data rw - xfs /dev/x rw\n"}, ""},
		{"under LVM", "nullb0", map[string]string{"sys/block/nullb0/holders/dm-0": ""}, "nullb0 is part of dm-0"},
		{"swap", "nullb0", map[string]string{"proc/swaps": "Filename Type\n/dev/nullb0 partition 1 0 -2\n"}, "nullb0 is swap space"},
	}
	for _, tt := range tests {
		err := find(t, machine(t, tt.more), tt.device).CheckFree()
		switch {
		case tt.want == "":
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		case err == nil || err.Error() != "device "+tt.device+": in use: "+tt.want+"; allowed: a disk that nothing uses" ||
			failure.Code(err) != failure.Usage:
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// A VM that has the disk open does not hold it for itself; a disk that cannot be
// opened is not free.
func TestCheckFreeFindsOpeners(t *testing.T) {
	s := machine(t, map[string]string{"proc/41/comm": "qemu\n", "proc/41/fd/info": "", "proc/42/comm": "sh\n", "proc/42/fd/info": ""})
	must.OK(t, find(t, s, "nullb0").CheckFree())
	must.OK(t, os.Symlink(s.Path("dev/nullb0"), s.Path("proc/41/fd/7")))
	must.OK(t, os.Symlink(s.Path("dev/nvme0n1"), s.Path("proc/42/fd/7")))
	if err := find(t, s, "nullb0").CheckFree(); err == nil || !strings.Contains(err.Error(), "in use: process 41 (qemu) has it open; allowed") {
		t.Errorf("open in a VM: %v", err)
	}
	d := find(t, s, "nullb0")
	must.OK(t, os.Remove(d.Node))
	if err := d.CheckFree(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a node: %v", err)
	}
}

func TestCheckNodeWantsABlockDevice(t *testing.T) {
	d := find(t, machine(t, nil), "nullb0")
	if err := d.CheckNode(); err == nil || !strings.Contains(err.Error(), "is not a block device's node") {
		t.Errorf("a file: %v", err)
	}
	d.Node = "/dev/null"
	if err := d.CheckNode(); err == nil || !strings.Contains(err.Error(), "is not a block device's node") {
		t.Errorf("a character device: %v", err)
	}
}

func TestMajMin(t *testing.T) {
	// Linux packs 12 bits of major and 8 of minor low, the rest above.
	for rdev, want := range map[uint64]string{0x0801: "8:1", 0xfc00: "252:0", 0x10300: "259:0", 0x110312: "259:274"} {
		if got := majMin(rdev); got != want {
			t.Errorf("majMin(%#x) = %s, want %s", rdev, got, want)
		}
	}
}

func TestListIsSorted(t *testing.T) {
	names, err := machine(t, nil).List()
	if err != nil || !slices.Equal(names, []string{"nullb0", "nvme0n1"}) {
		t.Errorf("List = %v, %v", names, err)
	}
}
