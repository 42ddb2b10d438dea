// SPDX-License-Identifier: MIT

package block

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
)

func TestInfo(t *testing.T) {
	s := machine(t, map[string]string{
		"sys/block/nvme0n1/queue/rotational": "0\n",
		"sys/block/nvme0n1/queue/zoned":      "none\n",
		"sys/block/nvme0n1/mq/0/nr_tags":     "1023\n",
		"sys/block/nvme0n1/mq/1/nr_tags":     "1023\n",
		"sys/block/nvme0n1/holders/dm-0":     "",
		"sys/block/dm-0/dev":                 "253:0\n",
		"sys/block/dm-0/size":                "8388608\n",
		"sys/block/dm-0/dm/uuid":             "LVM-abc\n",
		"sys/block/dm-0/queue/scheduler":     "none\n",
		"sys/block/dm-0/slaves/nvme0n1":      "",
		"sys/block/dm-1/dev":                 "253:1\n",
		"sys/block/dm-1/size":                "8388608\n",
		"sys/block/dm-1/dm/uuid":             "mpath-3600\n",
		"sys/block/sda/dev":                  "8:0\n",
		"sys/block/sda/size":                 "0\n",
		"sys/block/sda/queue/scheduler":      "[mq-deadline] none\n",
		"sys/block/sda/queue/rotational":     "1\n",
		"sys/block/sda/queue/zoned":          "host-managed\n",
		"sys/block/loop0/dev":                "7:0\n",
		"sys/block/loop0/size":               "0\n",
		"sys/block/loop0/queue/scheduler":    "[none] mq-deadline\n",
		"sys/block/zram0/dev":                "254:0\n",
		"sys/block/zram0/size":               "0\n",
		"sys/block/md0/dev":                  "9:0\n",
		"sys/block/md0/size":                 "0\n",
		"sys/block/md0/md/level":             "raid1\n",
	})
	all, err := s.All()
	must.OK(t, err)
	var names []string
	kinds := map[string]Kind{}
	for _, i := range all {
		names = append(names, i.Name)
		kinds[i.Name] = i.Kind
		switch i.Name {
		case "nvme0n1":
			if i.Queues != 2 || i.NrRequests != 1023 || i.Rotational || i.Zoned || !i.TakesScheduler || !slices.Equal(i.Above, []string{"dm-0"}) ||
				i.Model != "INTEL SSDPEKKW256G8" || i.Scheduler != "none" || i.MajMin != "259:0" || i.SizeBytes != 500118192*512 {
				t.Errorf("%+v", i)
			}
		case "dm-0":
			if i.Queues != 0 || i.TakesScheduler || i.Scheduler != "none" || !slices.Equal(i.Below, []string{"nvme0n1"}) {
				t.Errorf("%+v", i)
			}
		case "sda":
			if !i.Rotational || !i.Zoned || i.Scheduler != "mq-deadline" {
				t.Errorf("%+v", i)
			}
		case "zram0":
			if i.TakesScheduler || i.Scheduler != "none" {
				t.Errorf("%+v", i)
			}
		}
	}
	if want := []string{"dm-0", "dm-1", "loop0", "md0", "nullb0", "nvme0n1", "sda", "zram0"}; !slices.Equal(names, want) {
		t.Errorf("disks %v, want %v", names, want)
	}
	for name, want := range map[string]Kind{"dm-0": DeviceMapper, "dm-1": Multipath, "md0": RAID, "loop0": Loop, "zram0": Memory, "nvme0n1": Disk, "nullb0": Disk} {
		if kinds[name] != want {
			t.Errorf("%s is %s, want %s", name, kinds[name], want)
		}
	}
}

// A disk that goes between the listing and a file of it is left out, and costs no command the other
// disks: sysfs says ENODEV then, or has no file any more.
func TestAllWithoutADiskThatGoes(t *testing.T) {
	defer func() { readFile = os.ReadFile }()
	for _, file := range []string{"dev", "size", "queue/scheduler"} {
		for _, cause := range []error{syscall.ENODEV, syscall.ENOENT} {
			s := machine(t, nil)
			readFile = func(name string) ([]byte, error) {
				if at := s.Path("sys/block/nullb0"); name == at+"/"+file {
					must.OK(t, os.RemoveAll(at))
					return nil, &fs.PathError{Op: "read", Path: name, Err: cause}
				}
				return os.ReadFile(name)
			}
			all, err := s.All()
			if err != nil || len(all) != 1 || all[0].Name != "nvme0n1" {
				t.Errorf("%s: %v: %+v, %v", file, cause, all, err)
			}
			if file == "queue/scheduler" {
				continue
			}
			s = machine(t, nil)
			if found, err := s.Match("nullb0"); err != nil || len(found) != 0 {
				t.Errorf("%s: %v: Match: %v, %v", file, cause, found, err)
			}
			s = machine(t, nil)
			if _, err := s.Find("nullb0"); failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), "there is no such disk") {
				t.Errorf("%s: %v: Find: %v", file, cause, err)
			}
		}
	}
	s := machine(t, nil)
	readFile = func(name string) ([]byte, error) {
		if strings.HasSuffix(name, "nullb0/queue/scheduler") {
			return nil, syscall.EIO
		}
		return os.ReadFile(name)
	}
	if _, err := s.All(); !errors.Is(err, syscall.EIO) {
		t.Errorf("another error: %v", err)
	}
}
