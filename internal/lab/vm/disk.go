// SPDX-License-Identifier: MIT

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// diskKind is one way to connect disks to a VM: a controller, and the disks
// behind it.
type diskKind struct {
	name    string
	modules []string // the guest's drivers
	disks   int
	// devices are QEMU's arguments for -device. %s is the kind's name, which
	// starts each id and serial number; %s-0 is the backing of the first disk.
	devices []string
}

// diskKinds are all kinds, in the order in which a VM gets them. A kind with
// several disks has them behind one controller, so that they share its tags.
var diskKinds = []diskKind{
	{
		name: "nvme", modules: []string{"nvme"}, disks: 1,
		devices: []string{"nvme,id=%s,serial=%s,max_ioqpairs=4", "nvme-ns,bus=%s,drive=%s-0,nsid=1"},
	},
	{
		name: "nvme-zoned", modules: []string{"nvme"}, disks: 1,
		devices: []string{
			"nvme,id=%s,serial=%s,max_ioqpairs=4",
			"nvme-ns,bus=%s,drive=%s-0,nsid=1,zoned=true,zoned.zone_size=4M,zoned.zone_capacity=4M",
		},
	},
	{
		name: "virtio-blk", modules: []string{"virtio_pci", "virtio_blk"}, disks: 2,
		devices: []string{
			"virtio-blk-pci,drive=%s-0,serial=%s-0,num-queues=4,discard=on,write-zeroes=on",
			"virtio-blk-pci,drive=%s-1,serial=%s-1,num-queues=1,discard=on,write-zeroes=on",
		},
	},
	{
		name: "virtio-scsi", modules: []string{"virtio_pci", "virtio_scsi", "sd_mod", "sg"}, disks: 2,
		devices: []string{
			"virtio-scsi-pci,id=%s,num_queues=4",
			"scsi-hd,bus=%s.0,scsi-id=0,lun=0,drive=%s-0",
			"scsi-hd,bus=%s.0,scsi-id=0,lun=1,drive=%s-1",
		},
	},
	{
		name: "ahci", modules: []string{"ahci", "sd_mod"}, disks: 1,
		devices: []string{"ich9-ahci,id=%s", "ide-hd,bus=%s.0,drive=%s-0"},
	},
	{
		name: "megasas", modules: []string{"megaraid_sas", "sd_mod"}, disks: 3,
		devices: []string{
			"megasas-gen2,id=%s",
			"scsi-hd,bus=%s.0,scsi-id=0,drive=%s-0",
			"scsi-hd,bus=%s.0,scsi-id=1,drive=%s-1",
			"scsi-hd,bus=%s.0,scsi-id=2,drive=%s-2",
		},
	},
	{
		name: "mptsas", modules: []string{"mptsas", "sd_mod"}, disks: 2,
		devices: []string{
			"mptsas1068,id=%s",
			"scsi-hd,bus=%s.0,scsi-id=0,wwn=0x5000c50000000001,drive=%s-0",
			"scsi-hd,bus=%s.0,scsi-id=1,wwn=0x5000c50000000002,drive=%s-1",
		},
	},
	{
		name: "sd-card", modules: []string{"sdhci_pci", "mmc_block"}, disks: 1,
		devices: []string{"sdhci-pci,id=%s", "sd-card,bus=sd-bus,drive=%s-0"},
	},
	{
		name: "usb-storage", modules: []string{"xhci_pci", "usb_storage", "sd_mod"}, disks: 1,
		devices: []string{"qemu-xhci,id=%s", "usb-storage,bus=%s.0,drive=%s-0"},
	},
	{
		name: "usb-uas", modules: []string{"xhci_pci", "uas", "sd_mod"}, disks: 1,
		devices: []string{
			"qemu-xhci,id=%s", "usb-uas,id=%s-bus,bus=%s.0",
			"scsi-hd,bus=%s-bus.0,scsi-id=0,lun=0,drive=%s-0",
		},
	},
}

// DiskKinds are the kinds of disks that VM.Disks can name.
func DiskKinds() []string {
	var names []string
	for _, kind := range diskKinds {
		names = append(names, kind.name)
	}
	return names
}

// findDisks returns the kinds of these names, in their own order.
func findDisks(names []string) ([]diskKind, error) {
	var found []diskKind
	for _, name := range names {
		i := slices.IndexFunc(diskKinds, func(k diskKind) bool { return k.name == name })
		if i < 0 {
			return nil, fmt.Errorf("lab: no kind of disk %q; there are %s", name, strings.Join(DiskKinds(), ", "))
		}
		found = append(found, diskKinds[i])
	}
	return found, nil
}

// diskModules are the drivers that the guest needs for these kinds.
func diskModules(names []string) ([]string, error) {
	kinds, err := findDisks(names)
	var modules []string
	for _, kind := range kinds {
		for _, name := range kind.modules {
			if !slices.Contains(modules, name) {
				modules = append(modules, name)
			}
		}
	}
	return modules, err
}

// diskMiB is the size of every disk: a power of two, as SD cards must have. The
// files that back disks are sparse.
const diskMiB = 256

// diskArgs makes the files that back the disks of these kinds, in dir, and
// returns QEMU's arguments. The host keeps what the guest flushes in its own page
// cache: no guest outlives the host here, and flushes stay quick.
func diskArgs(dir string, names []string) ([]string, error) {
	kinds, err := findDisks(names)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, kind := range kinds {
		for i := range kind.disks {
			id := fmt.Sprintf("%s-%d", kind.name, i)
			file := filepath.Join(dir, id+".raw")
			if err := sparseFile(file, diskMiB<<20); err != nil {
				return nil, fmt.Errorf("lab: disk: %w", err)
			}
			args = append(args, "-drive", fmt.Sprintf("if=none,id=%s,file=%s,format=raw,cache=unsafe,aio=threads,discard=unmap",
				id, strings.ReplaceAll(file, ",", ",,")))
		}
		for _, device := range kind.devices {
			args = append(args, "-device", strings.ReplaceAll(device, "%s", kind.name))
		}
	}
	return args, nil
}

// sparseFile makes a file of that size with nothing in it.
func sparseFile(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
