// SPDX-License-Identifier: MIT

package block

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"isolio/internal/failure"
)

// Info is what a reader wants to know about a disk.
type Info struct {
	Name   string `json:"name"`
	MajMin string `json:"maj_min"`
	Kind   Kind   `json:"kind"`
	Model  string `json:"model,omitempty"`
	// WWN and Serial are the best of those that the disk has.
	WWN    string `json:"wwn,omitempty"`
	Serial string `json:"serial,omitempty"`
	// SizeBytes is 0 for a drive without a medium and an unused loop device.
	SizeBytes int64 `json:"size_bytes"`
	// Scheduler is the active one; Available are those that are loaded.
	Scheduler string   `json:"scheduler"`
	Available []string `json:"available"`
	// TakesScheduler is false for a device that can only have none.
	TakesScheduler bool `json:"takes_scheduler"`
	// Queues are the hardware queues, 0 for a device that has none because it
	// passes requests on to others.
	Queues     int  `json:"queues"`
	NrRequests int  `json:"nr_requests"`
	Rotational bool `json:"rotational"`
	Zoned      bool `json:"zoned,omitempty"`
	// Below are the disks that this one consists of, Above those that are made of it.
	Below []string `json:"below,omitempty"`
	Above []string `json:"above,omitempty"`
	// On are the disks below where its requests wait, none where they wait in itself.
	On []string `json:"on,omitempty"`
	// Hidden are the paths that the kernel's own multipath has put together to an NVMe disk.
	Hidden []string `json:"-"`

	readOnly bool
}

// media are drivers, by the names of their devices, whose media are not for several containers.
var media = map[string]string{"sr": "an optical drive", "fd": "a floppy drive", "mtdblock": "raw flash"}

// Unfit says why a device is none to share by weight unless it is named, "" where it is one.
func (i Info) Unfit() string {
	medium := media[strings.TrimRight(i.Name, "0123456789")]
	switch {
	case len(i.On) > 0:
		return "its requests wait on " + strings.Join(i.On, " and ")
	case i.Kind == Memory:
		return "it is memory"
	case !i.TakesScheduler && len(i.Hidden) > 0:
		return "native multipath of NVMe hides the queues of its paths, " + strings.Join(i.Hidden, ", ")
	case !i.TakesScheduler:
		return "its driver takes no scheduler"
	case i.SizeBytes == 0:
		return "it has no medium"
	case medium != "":
		return "it is " + medium
	case i.readOnly:
		return "it is read-only"
	case i.Kind == Loop:
		return "its requests wait on the disk that its file is on"
	}
	return ""
}

// ShowPaths is what to do about hidden paths.
const ShowPaths = "boot with nvme_core.multipath=N, so that each path is a disk that takes one; several paths need dm-multipath then"

// Fit is a disk to share by weight, for a command in a message: the first of those that are used, else
// the first; "" for none.
func Fit(all []Info, used func(majMin string) bool) (first string) {
	for _, i := range all {
		switch {
		case i.Unfit() != "" || i.Zoned:
		case used(i.MajMin):
			return i.Name
		case first == "":
			first = i.Name
		}
	}
	return first
}

// Kind is what a device is, as far as schedulers care.
type Kind string

// Kinds of devices.
const (
	Disk         Kind = "disk"
	DeviceMapper Kind = "device-mapper"
	Multipath    Kind = "multipath"
	RAID         Kind = "md-raid"
	Loop         Kind = "loop"
	Memory       Kind = "memory"
)

// Release is the version of the kernel that runs, "" if it does not tell.
func (s System) Release() string {
	text, _ := os.ReadFile(s.Path("proc/sys/kernel/osrelease"))
	return strings.TrimSpace(string(text))
}

// Info reads what there is to know about the disk.
func (d *Device) Info() (Info, error) {
	i := Info{Name: d.Name, MajMin: d.MajMin, SizeBytes: d.SizeBytes, Kind: d.kind()}
	var err error
	if i.Scheduler, i.Available, err = d.Schedulers(); err != nil {
		if _, gone := d.read("dev"); gone != nil || !errors.Is(err, fs.ErrNotExist) {
			return i, err
		}
		i.Scheduler, i.Available = "none", []string{} // a device whose driver has no queue at all
	}
	// The kernel puts brackets around the active one only where there is a choice.
	text, _ := d.read("queue/scheduler")
	i.TakesScheduler = strings.Contains(text, "[")
	// Not every driver tells.
	i.Model, i.WWN, i.Serial = first(d.models()), first(d.WWNs()), first(d.Serials())
	i.NrRequests, _ = d.NrRequests()
	i.Queues = len(d.entries("mq"))
	rotational, err := d.read("queue/rotational")
	i.Rotational = err == nil && rotational == "1"
	zoned, err := d.read("queue/zoned")
	i.Zoned = err == nil && zoned != "none"
	readOnly, err := d.read("ro")
	i.readOnly = err == nil && readOnly == "1"
	i.Below, i.Above = d.entries("slaves"), d.entries("holders")
	if on := d.sys.descend([]string{d.Name}, true).disks; len(on) != 1 || on[0] != d.Name {
		i.On = on
	}
	i.Hidden = d.sys.hiddenPaths(d.Name)
	return i, nil
}

// first is the first of all, "" for none.
func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// kind tells by what the driver has in sysfs.
func (d *Device) kind() Kind {
	if uuid, err := d.read("dm/uuid"); err == nil {
		if strings.HasPrefix(uuid, "mpath-") {
			return Multipath
		}
		return DeviceMapper
	}
	if _, err := os.Stat(d.path("md")); err == nil {
		return RAID
	}
	switch strings.TrimRight(d.Name, "0123456789") {
	case "loop":
		return Loop
	case "zram", "ram", "pmem":
		return Memory
	}
	return Disk
}

// entries are the names in a directory of the disk, none if it is not there.
func (d *Device) entries(dir string) []string {
	found, _ := filepath.Glob(d.path(dir, "*")) // the pattern is well formed
	var names []string
	for _, path := range found {
		names = append(names, filepath.Base(path))
	}
	return names
}

// All reads every disk of the machine, sorted by name. One that goes meanwhile
// is left out.
func (s System) All() ([]Info, error) {
	names, err := s.List()
	if err != nil {
		return nil, err
	}
	var all []Info
	for _, name := range names {
		d, err := s.Find(name)
		if err != nil {
			continue
		}
		i, err := d.Info()
		if failure.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, nil
}
