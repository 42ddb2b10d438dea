// SPDX-License-Identifier: MIT

package guest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/must"
	"isolio/internal/plan"
	"isolio/internal/testtree"
)

// modelDiskTree is a machine with the module, and with a disk nullb0 that is one
// of its.
func modelDiskTree(t *testing.T) System {
	t.Helper()
	return diskTree(t, map[string]string{
		"sys/kernel/config/modeldisk/models":               "fixed: ideal\nhdd: desktop laptop\n",
		"sys/kernel/config/modeldisk/nullb0/preset":        "desktop (changed)\n",
		"sys/kernel/config/modeldisk/nullb0/hdd/ncq_depth": "31\n",
		"sys/kernel/config/modeldisk/nullb0/hdd/rpm":       "7200\n",
		"sys/kernel/config/modeldisk/nullb0/stat":          "reads 12\ndepth_mean_milli 31000\n",
	})
}

// diskTree is a machine with two disks, nvme0n1 and nullb0.
func diskTree(t *testing.T, more map[string]string) System {
	t.Helper()
	files := map[string]string{
		"sys/block/nvme0n1/dev": "259:0\n", "sys/block/nvme0n1/size": "500118192\n", "sys/block/nvme0n1/queue/scheduler": "[none] mq-deadline kyber\n",
		"sys/block/nullb0/dev": "252:0\n", "sys/block/nullb0/size": "8388608\n", "sys/block/nullb0/queue/scheduler": "none mq-deadline [bfq]\n",
		"sys/block/nullb0/queue/nr_requests": "64\n", "sys/block/nullb0/stat": "1 0 8 0 1 0 8 0 0 0 0\n",
	}
	maps.Copy(files, more)
	return System{Root: testtree.New(t, files)}
}

func findDisk(t *testing.T, s System, name string) *Disk {
	t.Helper()
	d, err := s.disk(name)
	must.OK(t, err)
	return d
}

func TestCreateModelDisk(t *testing.T) {
	s := modelDiskTree(t)
	tests := []struct {
		name string
		disk experiment.Device
		want string
	}{
		{"all", experiment.Device{SizeMiB: 1024, Queues: 2, Tags: 64, Model: experiment.Model{
			Name: "hdd", Preset: "laptop", Params: map[string]int64{"rpm": 5400, "ncq_depth": 4},
			Scale: 16, Seed: 7, PollQueues: 1, MemoryBacked: true, WriteCache: true, Discard: true,
		}}, `mkdir X
echo 'hdd' > X/model
echo 'laptop' > X/preset
echo '4' > X/hdd/ncq_depth
echo '5400' > X/hdd/rpm
echo '1024' > X/size_mib
echo '16' > X/scale
echo '7' > X/seed
echo '2' > X/queues
echo '1' > X/poll_queues
echo '64' > X/tags
echo '1' > X/memory_backed
echo '1' > X/write_cache
echo '1' > X/discard
echo '1' > X/power
`},
		{"the preset's own", experiment.Device{Queues: 1, Tags: 32, Model: experiment.Model{Name: "fixed", Scale: 1, Seed: 1}}, `mkdir X
echo 'fixed' > X/model
echo '1' > X/scale
echo '1' > X/seed
echo '1' > X/queues
echo '0' > X/poll_queues
echo '32' > X/tags
echo '0' > X/memory_backed
echo '0' > X/write_cache
echo '0' > X/discard
echo '1' > X/power
`},
	}
	for _, tt := range tests {
		steps, err := s.createModelDisk("isolio0", tt.disk)
		must.OK(t, err)
		var b strings.Builder
		must.OK(t, plan.Print(&b, steps))
		if got := strings.ReplaceAll(b.String(), s.Path("sys/kernel/config/modeldisk/isolio0"), "X"); got != tt.want {
			t.Errorf("%s: steps:\n%swant\n%s", tt.name, got, tt.want)
		}
		if last := steps[len(steps)-1]; last.Undo != "0" {
			t.Errorf("%s: undo of power is %q, want 0", tt.name, last.Undo)
		}
	}
}

func TestCreateModelDiskWithoutTheModule(t *testing.T) {
	_, err := diskTree(t, nil).createModelDisk("x", experiment.Device{})
	if failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "load modeldisk.ko") {
		t.Errorf("createModelDisk = %v", err)
	}
}

// What the kernel refuses is named, with what is allowed as far as it is known.
func TestModelDiskExplains(t *testing.T) {
	s := modelDiskTree(t)
	top := s.Path("sys/kernel/config/modeldisk")
	tests := []struct {
		attribute string
		err       error
		want      string
	}{
		{"hdd/ncq", syscall.ENOENT, "no such file or directory; allowed in " + top + "/nullb0/hdd/: ncq_depth, rpm"},
		{"nvme/dies", syscall.ENOENT, "no such file or directory; allowed in " + top + "/nullb0/nvme/: nothing: open "},
		{"hdd/ncq_depth", syscall.EINVAL, "invalid argument; the kernel log says what is allowed"},
		{"preset", syscall.EINVAL, "invalid argument; allowed: fixed: ideal; hdd: desktop laptop"},
		{"power", syscall.ENOMEM, "cannot allocate memory"},
	}
	for _, tt := range tests {
		path := top + "/nullb0/" + tt.attribute
		err := explainAttribute(top, path, fmt.Errorf("write %q to %s: %w", "5", path, tt.err))
		if want := `write "5" to ` + path + ": " + tt.want; !strings.HasPrefix(err.Error(), want) || !errors.Is(err, tt.err) {
			t.Errorf("%s:\n got %s\nwant %s", tt.attribute, err, want)
		}
		code := failure.Usage
		if errors.Is(tt.err, syscall.ENOMEM) {
			code = failure.Failed
		}
		if failure.Code(err) != code {
			t.Errorf("%s: code %d, want %d", tt.attribute, failure.Code(err), code)
		}
	}
}

func TestModelDiskSays(t *testing.T) {
	s := modelDiskTree(t)
	if preset, err := s.preset("nullb0"); preset != "desktop" || err != nil {
		t.Errorf("preset %q, %v", preset, err)
	}
	stat, err := findDisk(t, s, "nullb0").Stat()
	if want := map[string]uint64{"reads": 12, "depth_mean_milli": 31000}; err != nil || !maps.Equal(stat, want) {
		t.Errorf("stat %v, %v; want %v", stat, err, want)
	}
	if stat, err = findDisk(t, s, "nvme0n1").Stat(); stat != nil || err != nil {
		t.Errorf("another kind of disk: stat %v, %v", stat, err)
	}
	told := diskTree(t, map[string]string{
		"sys/kernel/config/modeldisk/nullb0/overtaken": "0 900\n16 7\n", "sys/block/nullb0/queue/iosched/guard_stat": "closings 3\ndelay 0 900\ndelay 16 7\n",
	})
	for _, file := range []struct {
		read func() (map[string]uint64, error)
		want map[string]uint64
	}{
		{findDisk(t, told, "nullb0").Overtaken, map[string]uint64{"0": 900, "16": 7}},
		{findDisk(t, told, "nullb0").GuardStat, map[string]uint64{"closings": 3}},
		{findDisk(t, s, "nvme0n1").Overtaken, nil},
		{findDisk(t, s, "nvme0n1").GuardStat, nil},
	} {
		if got, err := file.read(); err != nil || !maps.Equal(got, file.want) || (got == nil) != (file.want == nil) {
			t.Errorf("%v, %v; want %v", got, err, file.want)
		}
	}
	bad := diskTree(t, map[string]string{"sys/kernel/config/modeldisk/nullb0/stat": "reads 12\nnews\n"})
	if _, err = findDisk(t, bad, "nullb0").Stat(); err == nil || !strings.Contains(err.Error(), `"news" is not a name and a number`) {
		t.Errorf("bad stat: %v", err)
	}
}

func TestCreateNullBlk(t *testing.T) {
	s := diskTree(t, map[string]string{"sys/kernel/config/nullb/features": "x\n"})
	steps, err := s.createNullBlk("isolio0", experiment.Device{CompletionUS: 1000, Tags: 32, Queues: 2, SizeMiB: 4096})
	must.OK(t, err)
	var b strings.Builder
	must.OK(t, plan.Print(&b, steps))
	want := `mkdir X
echo '2' > X/queue_mode
echo '2' > X/irqmode
echo '1000000' > X/completion_nsec
echo '32' > X/hw_queue_depth
echo '2' > X/submit_queues
echo '4096' > X/size
echo '1' > X/power
`
	if got := strings.ReplaceAll(b.String(), s.Path("sys/kernel/config/nullb/isolio0"), "X"); got != want {
		t.Errorf("steps:\n%swant\n%s", got, want)
	}
	if last := steps[len(steps)-1]; last.Undo != "0" {
		t.Errorf("undo of power is %q, want 0", last.Undo)
	}
}

func TestCreateNullBlkWithoutTheModule(t *testing.T) {
	_, err := diskTree(t, nil).createNullBlk("x", experiment.Device{})
	if failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "modprobe null_blk nr_devices=0") {
		t.Errorf("createNullBlk = %v", err)
	}
}
