// SPDX-License-Identifier: MIT

package block

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"isolio/internal/failure"
)

// An ID tells which disk a disk is, whatever it is called.

// idFiles are the files of a disk in sysfs that tell it from all others, best first:
// of NVMe, SCSI and ATA, virtio, MMC, device mapper and MD.
var idFiles = []string{"wwid", "device/wwid", "serial", "device/cid", "dm/uuid", "md/uuid"}

// udevIDs are the properties of udev's database that do, where the driver has no
// such file.
var udevIDs = []string{"ID_WWN", "ID_SERIAL"}

// DiskID is a name of the disk that lasts over boots and changes of what it is called, and
// that no other disk of the machine has. It is fit to be a file's name.
func DiskID(sys System, d *Device) (string, error) {
	id, err := diskID(sys, d)
	if err != nil {
		return "", fmt.Errorf("device %s: %w", d.Name, err)
	}
	if id == "" {
		return "", failure.Unsupportedf("device %s: has no identity that outlasts a boot; needed: one of %s in sysfs, or %s in udev's database",
			d.Name, strings.Join(idFiles, ", "), strings.Join(udevIDs, " or "))
	}
	others, err := sys.List()
	if err != nil {
		return "", err
	}
	for _, name := range others {
		if name == d.Name {
			continue
		}
		other, err := sys.Find(name)
		if err != nil {
			continue // it went meanwhile
		}
		if theirs, err := diskID(sys, other); err == nil && theirs == id {
			return "", failure.Unsupportedf("device %s: its identity %s is that of %s as well; needed: a number of its own, or, of a multipath device, the device above its paths", d.Name, id, name)
		}
	}
	return id, nil
}

// DiskIDs are the identities of all disks of the machine, by the names of these, and "" for a disk
// without one: Of would refuse it. Each disk is read once.
func DiskIDs(sys System) (map[string]string, error) {
	names, err := sys.List()
	if err != nil {
		return nil, err
	}
	all, first := map[string]string{}, map[string]string{}
	for _, name := range names {
		d, err := sys.Find(name)
		if err != nil {
			continue // it went meanwhile
		}
		id, err := diskID(sys, d)
		if err != nil {
			id = ""
		}
		all[name] = id
		if id == "" {
			continue
		}
		if other, twice := first[id]; twice {
			all[name], all[other] = "", ""
			continue
		}
		first[id] = name
	}
	return all, nil
}

// diskID is DiskID without a look at other disks, "" for none.
func diskID(sys System, d *Device) (string, error) {
	for _, file := range idFiles {
		text, err := os.ReadFile(sys.Path("sys/block", d.Name, file))
		if number := strings.TrimSpace(string(text)); err == nil && number != "" {
			return fileName(filepath.Base(file) + "-" + number), nil
		}
	}
	properties, err := sys.Udev(d.MajMin)
	if err != nil {
		return "", err
	}
	for _, key := range udevIDs {
		if properties[key] != "" {
			return fileName(strings.ToLower(strings.TrimPrefix(key, "ID_")) + "-" + properties[key]), nil
		}
	}
	return ofModelDisk(sys, d)
}

// notInFile is what the name of a file has "-" for.
var notInFile = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// longestIdentity leaves room for a suffix in the 255 bytes of a file's name.
const longestIdentity = 200

func fileName(identity string) string {
	name := strings.Trim(notInFile.ReplaceAllString(identity, "-"), "-.")
	return name[:min(len(name), longestIdentity)]
}

// modelDiskSettings say how fast a modeldisk is, beside its model's own.
var modelDiskSettings = []string{"model", "size_mib", "scale", "seed", "queues", "poll_queues", "tags"}

// ofModelDisk is what a modeldisk is made of: two that are made alike are the
// same disk. "" for another kind of disk.
func ofModelDisk(sys System, d *Device) (string, error) {
	dir := sys.Path(modelDiskTop, d.Name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	preset, err := sys.ModelDiskPreset(d.Name)
	if err != nil {
		return "", err
	}
	made := sha256.New()
	add := func(file string) (string, error) {
		text, err := os.ReadFile(filepath.Join(dir, file))
		fmt.Fprintf(made, "%s=%s\n", file, strings.TrimSpace(string(text)))
		return strings.TrimSpace(string(text)), err
	}
	for _, name := range modelDiskSettings {
		if _, err := add(name); err != nil {
			return "", err
		}
	}
	model, err := add("model")
	if err != nil {
		return "", err
	}
	params, err := filepath.Glob(filepath.Join(dir, model, "*"))
	if err != nil {
		return "", err
	}
	slices.Sort(params)
	for _, file := range params {
		if _, err := add(filepath.Join(model, filepath.Base(file))); err != nil {
			return "", err
		}
	}
	return fileName(fmt.Sprintf("modeldisk-%s-%x", preset, made.Sum(nil)[:6])), nil
}
