// SPDX-License-Identifier: MIT

package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"isolio/deploy/node/internal/volume"
	"isolio/internal/host/block"
	"isolio/internal/host/state"
)

// put makes files below root.
func put(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for file, text := range files {
		name := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDisks(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{
		"sys/block/nvme0n1/dev": "259:0", "sys/block/nvme0n1/size": "2097152", "sys/block/nvme0n1/queue/scheduler": "none [kyber-fairness]",
		"sys/block/nvme0n1/wwid": "eui.0025385b71b0a1c2", "sys/block/nvme0n1/device/model": "SAMSUNG MZ " + strings.Repeat("x", 80), "sys/block/nvme0n1/device/serial": "S4\xff",
		"sys/block/nvme0n1/queue/rotational": "0", "sys/block/nvme0n1/nvme0n1p1/dev": "259:1", "sys/block/nvme0n1/nvme0n1p1/partition": "1",
		"sys/block/sda/dev": "8:0", "sys/block/sda/size": "8", "sys/block/sda/queue/scheduler": "[none] mq-deadline", "sys/block/sda/queue/rotational": "1",
		"sys/block/vda/dev": "253:0", "sys/block/vda/size": "8", "sys/block/vda/queue/scheduler": "[kyber-fairness] none", // it has no identity
		"sys/block/loop0/dev": "7:0", "sys/block/loop0/size": "8", "sys/block/loop0/queue/scheduler": "[none] mq-deadline",
		"sys/block/dm-0/dev": "254:0", "sys/block/dm-0/size": "8",
		"sys/block/sr0/dev": "11:0", "sys/block/sr0/size": "0", "sys/block/sr0/queue/scheduler": "[none] mq-deadline",
	})
	table, err := volume.Parse([]byte("30 21 259:1 / / rw - xfs /dev/nvme0n1p1 rw\n"))
	if err != nil {
		t.Fatal(err)
	}
	disks, err := List(block.System{Root: root}, table, "/var/lib/kubelet")
	if err != nil || len(disks) != 3 {
		t.Fatalf("%+v, %v", disks, err)
	}
	nvme, sda, vda := disks[0], disks[1], disks[2]
	if nvme.Device != "wwid-eui-0025385b71b0a1c2" || !nvme.Kubelet || !nvme.Enabled() || sda.Kubelet || sda.Enabled() || vda.Device != "vda" {
		t.Errorf("%+v", disks)
	}
	all := Resources(disks)
	if len(all) != 2 {
		t.Fatalf("%d devices are offered", len(all))
	}
	a := all[0].Attributes
	if *a["name"].StringValue != "nvme0n1" || len(*a["model"].StringValue) != 64 || *a["serial"].StringValue != "S4" || *a["rotational"].BoolValue || !*a["kubelet"].BoolValue || *a["sizeBytes"].IntValue != 1<<30 {
		t.Errorf("%+v", a)
	}
	share := all[0].Capacity[Share]
	if share.Value.Value() != state.SharesForSale || share.RequestPolicy.ValidRange.Max.Value() != state.SharesForSale || share.RequestPolicy.Default.Value() != 100 || !*all[0].AllowMultipleAllocations {
		t.Errorf("%+v", share)
	}
	if _, ok := Find(disks, "sda"); !ok {
		t.Error("a disk is not found by its device")
	}
	if _, ok := Find(disks, ""); ok {
		t.Error("a disk is found by no name")
	}
}

// A disk of which little is known has each attribute, as a selector may ask for it, and the API
// server takes a text that is empty.
func TestAttributesOfADiskWithoutAny(t *testing.T) {
	one := Disk{Info: block.Info{Name: "vda"}, Device: "vda"}.Resource()
	for _, key := range []resourceapi.QualifiedName{"name", "kind", "scheduler", "model", "serial", "wwn"} {
		if a, ok := one.Attributes[key]; !ok || a.StringValue == nil {
			t.Errorf("%s: %+v", key, a)
		}
	}
	text, err := one.Marshal() // as clients and the API server send it
	if err != nil {
		t.Fatal(err)
	}
	var again resourceapi.Device
	if err := again.Unmarshal(text); err != nil || again.Attributes["model"].StringValue == nil {
		t.Errorf("%+v, %v", again.Attributes, err)
	}
	if wrong := resourceapi.Validate_Device(t.Context(), operation.Operation{}, field.NewPath("device"), &again, nil); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A disk that is reached by two paths has its shares once: what is offered is the multipath
// device, also where its paths have the scheduler from before it was made.
func TestMultipath(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{
		"sys/block/sda/dev": "8:0", "sys/block/sda/size": "8", "sys/block/sda/queue/scheduler": "[kyber-fairness] none", "sys/block/sda/device/wwid": "naa.600",
		"sys/block/sdb/dev": "8:16", "sys/block/sdb/size": "8", "sys/block/sdb/queue/scheduler": "[kyber-fairness] none", "sys/block/sdb/device/wwid": "naa.600",
		"sys/block/dm-0/dev": "254:0", "sys/block/dm-0/size": "8", "sys/block/dm-0/queue/scheduler": "[kyber-fairness] none", "sys/block/dm-0/dm/uuid": "mpath-3600",
		"sys/block/dm-0/slaves/sda/dev": "8:0", "sys/block/dm-0/slaves/sdb/dev": "8:16",
		"sys/block/sda/holders/dm-0/dev": "254:0", "sys/block/sdb/holders/dm-0/dev": "254:0",
		// What consists of a disk in another way takes nothing from it.
		"sys/block/sdc/dev": "8:32", "sys/block/sdc/size": "8", "sys/block/sdc/queue/scheduler": "[kyber-fairness] none",
		"sys/block/dm-1/dev": "254:1", "sys/block/dm-1/size": "8", "sys/block/dm-1/dm/uuid": "LVM-x", "sys/block/dm-1/slaves/sdc/dev": "8:32",
	})
	table, err := volume.Parse([]byte("30 21 254:0 / / rw - xfs /dev/dm-0 rw\n"))
	if err != nil {
		t.Fatal(err)
	}
	disks, err := List(block.System{Root: root}, table, "/var/lib/kubelet")
	if err != nil || len(disks) != 2 || disks[0].Name != "dm-0" || !disks[0].Kubelet || disks[1].Name != "sdc" {
		t.Errorf("%+v, %v", disks, err)
	}
}

// A look at a machine of many disks reads each once. Where it read all others for each, one of
// 400 took longer than the two seconds between two looks.
func TestManyDisks(t *testing.T) {
	const many = 400
	root, files := t.TempDir(), map[string]string{}
	for i := range many {
		dir := fmt.Sprintf("sys/block/sd%03d/", i)
		files[dir+"dev"], files[dir+"size"], files[dir+"queue/scheduler"], files[dir+"wwid"] = fmt.Sprintf("8:%d", i), "8", "[none] kyber-fairness", fmt.Sprintf("naa.%d", i)
	}
	put(t, root, files)
	begin := time.Now()
	disks, err := List(block.System{Root: root}, volume.Table{}, "/var/lib/kubelet")
	took := time.Since(begin)
	if err != nil || len(disks) != many || disks[7].Device != "wwid-naa-7" {
		t.Fatalf("%d disks, %v", len(disks), err)
	}
	t.Logf("%d disks: %s", many, took)
	if took > 2*time.Second {
		t.Errorf("a look at %d disks took %s", many, took)
	}
}

// Whatever an identity is, the name is one that Kubernetes takes, and two stay two.
func TestLabel(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{
		"wwid-eui.1", "wwid-eui-1", "wwid-eui_1", "wwid-EUI.1", "wwid-eui.1a", "wwid-eui.1A", "wwid-naa.1", "wwid-eui.-1", "wwid-eui.1-", "wwid-eui.1.2", "wwid-eui.1-2",
		"serial-a.b", "serial-a-b", "serial-a_b", "serial-a-_b", "serial-A.b", "serial-S4X", "serial-s4x", "WWN_0x5000", "wwn-0x5000",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 64) + "-", "...", "Ä", "-x-", "x", "X",
	} {
		// Another disk may have for its identity what this one has for its name.
		for _, text := range []string{text, label(text)} {
			name := label(text)
			if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
				t.Errorf("%q: %q: %v", text, name, wrong)
			}
			if other, ok := seen[name]; ok && other != text {
				t.Errorf("%q and %q are both %q", text, other, name)
			}
			seen[name] = text
		}
	}
	for text, want := range map[string]string{
		"wwid-eui.0025385b71b0a1c2": "wwid-eui-0025385b71b0a1c2", "wwid-naa.5000c500a1b2c3d4": "wwid-naa-5000c500a1b2c3d4", "wwid-nvme.144d-5334-00000001": "wwid-nvme-144d-5334-00000001",
		"wwn-0x5000c500a1b2c3d4": "wwn-0x5000c500a1b2c3d4", "serial-vol0abc": "serial-vol0abc", "vda": "vda",
	} {
		if got := label(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Two disks whose serial numbers differ in capitals or punctuation only are two devices, and
// neither has another name when the other one is not there.
func TestDisksThatDifferLittle(t *testing.T) {
	root, alone := t.TempDir(), map[string]string{}
	for i, serial := range []string{"Vol.1", "vol.1", "vol-1", "vol_1"} {
		dir := fmt.Sprintf("sys/block/vd%c/", 'a'+i)
		files := map[string]string{dir + "dev": fmt.Sprintf("253:%d", i), dir + "size": "8", dir + "queue/scheduler": "[kyber-fairness] none", dir + "serial": serial}
		put(t, root, files)
		one := t.TempDir()
		put(t, one, files)
		disks, err := List(block.System{Root: one}, volume.Table{}, "/var/lib/kubelet")
		if err != nil || len(disks) != 1 {
			t.Fatalf("%+v, %v", disks, err)
		}
		alone[disks[0].Name] = disks[0].Device
	}
	disks, err := List(block.System{Root: root}, volume.Table{}, "/var/lib/kubelet")
	if err != nil || len(disks) != len(alone) {
		t.Fatalf("%+v, %v", disks, err)
	}
	seen := map[string]bool{}
	for _, d := range disks {
		if seen[d.Device] || d.Device != alone[d.Name] {
			t.Errorf("%s: %q, alone %q", d.Name, d.Device, alone[d.Name])
		}
		seen[d.Device] = true
	}
}
