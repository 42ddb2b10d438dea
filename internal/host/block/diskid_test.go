// SPDX-License-Identifier: MIT

package block

import (
	"maps"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// identityOf is the identity of a disk of a machine with two disks.
func identityOf(t *testing.T, more map[string]string, name string) (string, error) {
	t.Helper()
	files := map[string]string{
		"sys/block/nvme0n1/dev": "259:0\n", "sys/block/nvme0n1/size": "500118192\n", "dev/nvme0n1": "",
		"sys/block/nullb0/dev": "252:0\n", "sys/block/nullb0/size": "8388608\n", "dev/nullb0": "",
	}
	maps.Copy(files, more)
	sys := System{Root: t.TempDir()}
	testtree.Write(t, sys.Path(""), files)
	d, err := sys.Find(name)
	must.OK(t, err)
	id, err := DiskID(sys, d)
	// DiskIDs at once are what they are one by one.
	if all, failed := DiskIDs(sys); failed != nil || len(all) < 2 || all[d.Name] != id {
		t.Errorf("All: %q, %v; Of(%s) is %q", all, failed, d.Name, id)
	}
	return id, err
}

// A disk is known by the best number that it has, and by nothing where it has none.
func TestIdentity(t *testing.T) {
	udev := "I:123\nE:ID_SERIAL=Vendor_Stick_0123\nE:ID_PATH=pci-0\n"
	for _, c := range []struct {
		name string
		more map[string]string
		want string
	}{
		{"NVMe", map[string]string{"sys/block/nvme0n1/wwid": "eui.0025385b61b0a3f1\n", "sys/block/nvme0n1/serial": "S4\n"}, "wwid-eui.0025385b61b0a3f1"},
		{"SATA", map[string]string{"sys/block/nvme0n1/device/wwid": "t10.ATA     Samsung SSD 850 PRO 256GB   S39\n"}, "wwid-t10.ATA-Samsung-SSD-850-PRO-256GB-S39"},
		{"virtio", map[string]string{"sys/block/nvme0n1/serial": "../../x\n"}, "serial-..-..-x"},
		{"MMC", map[string]string{"sys/block/nvme0n1/device/cid": "1501004d4d43\n"}, "cid-1501004d4d43"},
		{"an empty number", map[string]string{"sys/block/nvme0n1/serial": "\n", "run/udev/data/b259:0": udev}, "serial-Vendor_Stick_0123"},
		{"a modeldisk of that name", modelDisk("nvme0n1", "nvme", "16"), "modeldisk-p4500-2tb-"},
		{"nothing", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := identityOf(t, c.more, "nvme0n1")
			if c.want == "" {
				if failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "device nvme0n1: has no identity that outlasts a boot; needed: one of wwid") {
					t.Errorf("%q, %v", got, err)
				}
				return
			}
			if err != nil || !strings.HasPrefix(got, c.want) || !strings.HasSuffix(c.want, "-") && got != c.want {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func modelDisk(name, model, scale string) map[string]string {
	dir := modelDiskTop + "/" + name + "/"
	files := map[string]string{dir + "model": model + "\n", dir + "preset": "p4500-2tb (changed)\n", dir + "scale": scale + "\n", dir + model + "/read_ns": "62000\n"}
	for _, s := range modelDiskSettings {
		if files[dir+s] == "" {
			files[dir+s] = "1\n"
		}
	}
	return files
}

// Two modeldisks are the same disk if, and only if, they are made alike.
func TestModelDiskIdentity(t *testing.T) {
	identity := func(more map[string]string) string {
		id, err := identityOf(t, more, "nullb0")
		must.OK(t, err)
		return id
	}
	one := identity(modelDisk("nullb0", "nvme", "16"))
	if again := identity(modelDisk("nullb0", "nvme", "16")); again != one {
		t.Errorf("%s, then %s", one, again)
	}
	slower := identity(modelDisk("nullb0", "nvme", "32"))
	changed := modelDisk("nullb0", "nvme", "16")
	changed[modelDiskTop+"/nullb0/nvme/read_ns"] = "62001\n"
	if slower == one || identity(changed) == one {
		t.Errorf("disks that differ are all %s", one)
	}
}

// A number that two disks have tells neither: a bridge that gives all disks one.
func TestIdentityOfTwo(t *testing.T) {
	_, err := identityOf(t, map[string]string{"sys/block/nvme0n1/serial": "0123", "sys/block/nullb0/serial": "0123"}, "nvme0n1")
	if failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "its identity serial-0123 is that of nullb0 as well") {
		t.Errorf("%v", err)
	}
}
