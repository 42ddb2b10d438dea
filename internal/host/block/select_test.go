// SPDX-License-Identifier: MIT

package block

import (
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// A disk is named by what it is, from what the kernel or udev knows of it.
func TestMatch(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"sys/block/nvme0n1/dev": "259:0", "sys/block/nvme0n1/size": "8", "sys/block/nvme0n1/wwid": "eui.0025385b61b0a3f1",
		"sys/block/nvme0n1/device/model": "INTEL SSDPE2KX020T8                     ", "sys/block/nvme0n1/device/serial": "PHLJ0001  ",
		"sys/block/nvme1n1/dev": "259:1", "sys/block/nvme1n1/size": "8", "sys/block/nvme1n1/device/model": "INTEL SSDPE2KX020T8", "sys/block/nvme1n1/device/serial": "PHLJ0002",
		"sys/block/sda/dev": "8:0", "sys/block/sda/size": "8", "sys/block/sda/device/wwid": "naa.5000C500A1B2C3D4", "sys/block/sda/device/model": "ST4000/NM",
		"sys/block/vda/dev": "254:0", "sys/block/vda/size": "8", "sys/block/vda/serial": "data",
		"sys/block/cciss!c0d0/dev": "104:0", "sys/block/cciss!c0d0/size": "8",
		"run/udev/data/b8:0":   "E:ID_SERIAL=ST4000_WD-1\nE:ID_SERIAL_SHORT=WD-1\nE:ID_WWN=0x5000c500a1b2c3d4\n",
		"run/udev/data/b104:0": "E:ID_MODEL=LOGICAL_VOLUME\nE:ID_WWN=0x600508b1\nE:ID_WWN_WITH_EXTENSION=0x600508b1001c\n",
		"dev/x":                "",
	} {
		file = filepath.Join(root, file)
		testtree.File(t, file, text+"\n")
	}
	sys := System{Root: root}
	for text, want := range map[string]string{
		"wwn:eui.0025385b61b0a3f1": "nvme0n1", "wwn:0025385B61B0A3F1": "nvme0n1", "wwn:0x5000c500a1b2c3d4": "sda", "wwn:naa.5000c500a1b2c3d4": "sda",
		"wwn:0x600508b1001c": "cciss!c0d0", "wwn:0x600508b1": "cciss!c0d0", "wwn:": "", "wwn:0x5000": "",
		"serial:PHLJ0001": "nvme0n1", "serial:WD-1": "sda", "serial:ST4000_WD-1": "sda", "serial:data": "vda", "serial:dat?": "", "serial:PHLJ000*": "",
		"model:INTEL SSDPE2KX020T8": "nvme0n1 nvme1n1", "model:INTEL_SSDPE2*": "nvme0n1 nvme1n1", "model:ST*": "sda", "model:LOGICAL_*": "cciss!c0d0", "model:*": "cciss!c0d0 nvme0n1 nvme1n1 sda", "model:": "",
		"sda": "sda", "/dev/sda": "sda", "cciss!c0d0": "cciss!c0d0", "sdz": "",
	} {
		found, err := sys.Match(text)
		var names []string
		for _, d := range found {
			names = append(names, d.Name)
		}
		if got := strings.Join(names, " "); got != want || err != nil {
			t.Errorf("%s is %q, %v, want %q", text, got, err, want)
		}
	}
	// A command wants one disk.
	if d, err := sys.Find("serial:WD-1"); err != nil || d.Name != "sda" || d.MajMin != "8:0" {
		t.Errorf("%+v, %v", d, err)
	}
	for text, want := range map[string]string{
		"model:INTEL*":  "device model:INTEL*: is 2 disks; name one: nvme0n1, nvme1n1",
		"serial:x":      "device serial:x: no disk is it; `isolio status -o wide` shows what disks are",
		"wwn:":          `device "wwn:": is not a disk; allowed: a name or path, ` + Selected,
		"model:[":       `device "model:[": is not a disk; allowed: a name or path, ` + Selected,
		"uuid:5":        "device uuid:5: there is no such disk; allowed: ",
		"serial:\x1b[2": "no disk is it",
	} {
		if _, err := sys.Find(text); err == nil || !strings.Contains(err.Error(), want) || failure.Code(err) != failure.Usage {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	d, err := sys.Find("nvme0n1")
	must.OK(t, err)
	if i, err := d.Info(); err != nil || i.WWN != "eui.0025385b61b0a3f1" || i.Serial != "PHLJ0001" || i.Model != "INTEL SSDPE2KX020T8" {
		t.Errorf("%+v, %v", i, err)
	}
}

// Only what can name a disk may stand in a file of rules.
func TestCheckSelector(t *testing.T) {
	for text, want := range map[string]bool{
		"nvme0n1": true, "cciss!c0d0": true, "wwn:0x1": true, "serial:a b": true, "model:*": true,
		"": false, ".": false, "..": false, "a/b": false, "disk/by-id/x": false, "uuid:5": false, "wwn:": false, "serial: ": false, "model:[": false,
	} {
		if CheckSelector(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
