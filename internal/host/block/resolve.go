// SPDX-License-Identifier: MIT

package block

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"isolio/internal/failure"
)

// A user names what holds the data: a directory, a volume of LVM, a RAID. A weight acts where
// requests wait, on the disks at the bottom. Resolve is the one way from the former to the latter.

// Chosen is what a name stands for.
type Chosen struct {
	// Disks are those at the bottom, where requests wait.
	Disks []*Device
	// Through are the devices between the name and the disks, from the top.
	Through []string
	name    string
}

// String says where the name is, "" where it is a disk's own.
func (c Chosen) String() string {
	if len(c.Disks) == 1 && len(c.Through) == 0 && (c.Disks[0].Name == c.name || strings.HasPrefix(c.name, "/dev/") || !strings.HasPrefix(c.name, "/")) {
		return ""
	}
	text := c.name + " is on " + strings.Join(c.Names(), " and ")
	through := slices.DeleteFunc(slices.Clone(c.Through), func(name string) bool { return name == path.Base(c.name) })
	if len(through) > 0 {
		text += ", through " + strings.Join(through, ", ")
	}
	return text
}

// Names are the names of the disks.
func (c Chosen) Names() []string { return namesOf(c.Disks) }

func namesOf(disks []*Device) []string {
	var names []string
	for _, d := range disks {
		names = append(names, d.Name)
	}
	return names
}

// Resolve returns the disks that name is on: a disk itself, however Find or Selected names it, a partition, a device
// of LVM, LUKS, RAID or bcache, a path of a multipath device, a number, as fstab has it, or a file, directory or mount point.
func (s System) Resolve(name string) (Chosen, error) {
	c := Chosen{name: name}
	if Selects(name) {
		found, err := s.Match(name)
		w := s.descend(namesOf(found), false)
		if err == nil && CheckSelector(name) && (len(found) == 1 || len(w.disks) == 1) {
			return s.chosen(c, w)
		}
		_, err = s.only(name) // which says why none is meant, or several are
		return c, err
	}
	w, err := s.lies(name)
	if err != nil {
		return c, err
	}
	if len(w.disks) > 0 {
		return s.chosen(c, w)
	}
	d, err := s.Find(name) // which says why it is none
	if err != nil {
		return c, err
	}
	c.Disks = []*Device{d}
	return c, nil
}

// lies is the way down from a name, none where it is of no device and no file.
func (s System) lies(name string) (way, error) {
	if device := s.named(name); device != "" {
		return s.descend([]string{device}, true), nil
	}
	file := s.inside(name)
	if !strings.HasPrefix(file, "/") || Within(file, "/dev") || Within(file, "/sys") {
		return way{}, nil
	}
	devices, err := s.holding(file, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return way{}, failure.Usagef("device %s: there is no such file or directory; %s", name, s.allowed())
	}
	if err != nil {
		return way{}, failure.Usagef("device %s: %w; %s", name, err, s.allowed())
	}
	return s.descend(devices, false), nil
}

// notItself is why a name that leads to a disk is not the disk's own, nil where it leads to none.
func (s System) notItself(name string) error {
	w, err := s.lies(name)
	if err != nil {
		return err
	}
	c := Chosen{name: name, Through: w.through}
	for _, disk := range w.disks { // Find would ask here again
		c.Disks = append(c.Disks, &Device{sys: s, Name: disk})
	}
	if text := c.String(); len(w.disks) > 0 && text != "" {
		return failure.Usagef("device %s: %s; name the disk itself", name, strings.TrimPrefix(text, name+" "))
	}
	return nil
}

// One is the disk that a name is on, where there can be but one.
func (s System) One(name string) (*Device, error) {
	c, err := s.Resolve(name)
	if err != nil {
		return nil, err
	}
	if len(c.Disks) > 1 {
		return nil, failure.Usagef("device %s: is on %d disks; name one: %s", name, len(c.Disks), strings.Join(c.Names(), ", "))
	}
	return c.Disks[0], nil
}

// On are the disks that a name is on, none where it is not there now.
func (s System) On(name string) ([]*Device, error) {
	if Selects(name) {
		found, err := s.Match(name)
		if err != nil {
			return nil, err
		}
		c, err := s.chosen(Chosen{}, s.descend(namesOf(found), false))
		return c.Disks, err
	}
	c, err := s.Resolve(name)
	if failure.Code(err) == failure.Usage {
		return nil, nil
	}
	return c.Disks, err
}

// Beneath are all disks that a mount is on, those between as well.
func (s System) Beneath(m Mount) []string {
	devices, err := s.mounted(m, nil)
	if err != nil {
		return nil // memory, or a network
	}
	w := s.descend(devices, false)
	return append(slices.DeleteFunc(w.through, func(name string) bool { return s.diskOf(name) != "" }), w.disks...)
}

func (s System) chosen(c Chosen, w way) (Chosen, error) {
	c.Through = w.through
	for _, name := range w.disks {
		d, err := s.Find(name)
		if err != nil {
			return c, err
		}
		c.Disks = append(c.Disks, d)
	}
	return c, nil
}

// tags are what fstab and blkid name a device by; udev has a directory for each.
var tags = []string{"UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID"}

// escape is how udev writes what a name cannot have.
var escape = strings.NewReplacer(" ", `\x20`, "/", `\x2f`)

// inside is a name as the machine itself has it: a path from where the user is or below the root, a tag,
// and what LVM and the kernel call a device without its /dev.
func (s System) inside(name string) string {
	if key, value, ok := strings.Cut(name, "="); ok && slices.Contains(tags, key) {
		return "/dev/disk/by-" + strings.ToLower(key) + "/" + escape.Replace(strings.Trim(value, `"`))
	}
	if at, err := filepath.Abs(name); err == nil && strings.HasPrefix(name, ".") {
		name = at
	}
	if !strings.HasPrefix(name, "/") && strings.Contains(name, "/") {
		return "/dev/" + name
	}
	if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(s.Path(), "/")+"/"); ok {
		name = "/" + rest
	}
	return name
}

// named is the disk or partition of a name or a node, as the kernel calls it, "" for none.
func (s System) named(name string) string {
	name = s.inside(name)
	switch {
	case Within(name, "/sys"):
		name = path.Base(name)
	case strings.HasPrefix(name, "/dev/"):
		if to, err := s.real(name, nil); err == nil {
			name = to
		}
		name = strings.TrimPrefix(name, "/dev/")
	case strings.Contains(name, "/"):
		return ""
	}
	kernels := strings.ReplaceAll(name, "/", "!")
	if name == "" {
		return ""
	}
	if s.isDisk(kernels) || s.diskOf(kernels) != "" {
		return kernels
	}
	if device := s.numbered(name); device != "" {
		return device
	}
	mapped := strings.TrimPrefix(name, "mapper/")
	if group, volume, ok := strings.Cut(mapped, "/"); ok { // as LVM writes it, wherever udev's links are
		mapped = strings.ReplaceAll(group, "-", "--") + "-" + strings.ReplaceAll(volume, "-", "--")
	}
	names, _ := filepath.Glob(s.Path("sys/block/dm-*/dm/name")) // the pattern is well formed
	for _, file := range names {
		if text, err := readFile(file); err == nil && strings.TrimSpace(string(text)) == mapped {
			return filepath.Base(filepath.Dir(filepath.Dir(file)))
		}
	}
	if strings.Contains(name, "/") {
		return s.linked(name)
	}
	return ""
}

// linked is the disk or partition to which udev made a link below /dev, "" for none. The packaged daemon has a
// /dev of its own, without links.
func (s System) linked(name string) string {
	known, _ := filepath.Glob(s.Path("run/udev/data/b*")) // the pattern is well formed
	for _, file := range known {
		if text, err := readFile(file); err == nil && slices.Contains(strings.Split(string(text), "\n"), "S:"+name) {
			return s.numbered(strings.TrimPrefix(filepath.Base(file), "b"))
		}
	}
	return ""
}

// isDisk takes the hidden paths of NVMe disks for disks too.
func (s System) isDisk(name string) bool {
	_, err := os.Stat(s.Path("sys/block", name))
	return err == nil && name != "." && name != ".."
}

// holding are the devices that a file is on. seen are files that led here.
func (s System) holding(file string, seen []string) ([]string, error) {
	mounts, err := s.Mounts()
	if err != nil {
		return nil, err
	}
	real, err := s.real(file, mounts)
	if err != nil {
		return nil, err
	}
	m, there := mounts.At(real)
	if !there {
		return nil, errors.New("nothing is mounted there")
	}
	return s.mounted(m, append(seen, real))
}

// mounted are the devices that a mount is on: names of disks and partitions.
func (s System) mounted(m Mount, seen []string) ([]string, error) {
	if m.Type == "devtmpfs" && m.Root != "/" { // a device node
		if name := s.named("/dev" + m.Root); name != "" {
			return []string{name}, nil
		}
	}
	if name := s.numbered(m.MajMin); name != "" {
		return []string{name}, nil
	}
	if upper, ok := option(m.Options, "upperdir"); m.Type == "overlay" && ok && !slices.Contains(seen, upper) {
		return s.holding(upper, append(seen, upper))
	}
	// Some file systems have a number of their own, and btrfs and bcachefs several disks.
	var names []string
	for node := range strings.SplitSeq(m.Source, ":") {
		if name := s.named(node); name != "" && strings.HasPrefix(node, "/dev/") {
			names = append(names, name)
		}
	}
	if m.Type == "btrfs" && len(names) > 0 {
		all, _ := filepath.Glob(s.Path("sys/fs/btrfs/*/devices", names[0])) // the pattern is well formed
		for _, one := range all {
			others, _ := os.ReadDir(filepath.Dir(one))
			for _, other := range others {
				if !slices.Contains(names, other.Name()) {
					names = append(names, other.Name())
				}
			}
		}
	}
	if len(names) > 0 {
		return names, nil
	}
	if m.Type == "zfs" {
		return nil, errors.New("is on the ZFS pool " + m.Source + ", whose disks `zpool status` names")
	}
	if !strings.HasPrefix(m.MajMin, "0:") {
		return nil, errors.New("is on " + m.Source + ", " + m.MajMin + ", which is gone")
	}
	return nil, errors.New("is on " + m.Type + ", which is no disk that isolio knows")
}

// option is the value of an option of a mount.
func option(options, key string) (string, bool) {
	for word := range strings.SplitSeq(options, ",") {
		if k, value, _ := strings.Cut(word, "="); k == key {
			return unescape(value), true
		}
	}
	return "", false
}

// numbered is the disk or partition that has a number, "" for none.
func (s System) numbered(majMin string) string {
	disks, _ := filepath.Glob(s.Path("sys/block/*/dev"))         // the patterns are well formed, and
	parts, _ := filepath.Glob(s.Path("sys/block/*/*/partition")) // the device of an NVMe disk has a dev too
	for _, file := range append(disks, parts...) {
		dir := filepath.Dir(file)
		if text, err := readFile(filepath.Join(dir, "dev")); err == nil && strings.TrimSpace(string(text)) == majMin {
			return filepath.Base(dir)
		}
	}
	return ""
}

// way is what lies below a device: the disks at the bottom, and what is between.
type way struct{ through, disks []string }

// descend goes down from devices to the disks on which requests wait. exact is whether the devices
// were named themselves: then a loop device is meant, and not the disk that its file is on.
func (s System) descend(devices []string, exact bool) way {
	var w way
	var seen []string
	for level := devices; len(level) > 0; exact = false {
		var next []string
		for _, name := range level {
			if slices.Contains(seen, name) {
				continue
			}
			seen = append(seen, name)
			below := s.below(name, exact)
			if len(below) == 0 {
				w.disks = append(w.disks, name)
				continue
			}
			w.through = append(w.through, name)
			next = append(next, below...)
		}
		level = next
	}
	return w
}

// nvmePath is the name of a path to an NVMe disk. Where the kernel puts several together to
// nvme0n1, each is there with the number of its controller, such as nvme0c1n1, and without a node.
var nvmePath = regexp.MustCompile(`^(nvme[0-9]+)c[0-9]+(n[0-9]+)$`)

// hiddenPaths are the paths that the kernel's own multipath has put together to an NVMe disk.
func (s System) hiddenPaths(name string) []string {
	names, _ := s.List() // without it there are none to tell of
	return slices.DeleteFunc(names, func(path string) bool {
		parts := nvmePath.FindStringSubmatch(path)
		return parts == nil || parts[1]+parts[2] != name
	})
}

// below are the devices to which one passes its requests on, none where they wait in it. A path of a
// multipath device counts as on top of that: requests wait there.
func (s System) below(name string, exact bool) []string {
	if !s.isDisk(name) {
		if disk := s.diskOf(name); disk != "" {
			return []string{disk}
		}
	}
	if parts := nvmePath.FindStringSubmatch(name); parts != nil && s.isDisk(parts[1]+parts[2]) {
		return []string{parts[1] + parts[2]}
	}
	d := &Device{sys: s, Name: name}
	for _, above := range d.entries("holders") {
		if (&Device{sys: s, Name: above}).kind() == Multipath {
			return []string{above}
		}
	}
	text, _ := d.read("queue/scheduler")
	if strings.Contains(text, "[") {
		if d.kind() != Loop || exact {
			return nil
		}
		file, err := d.read("loop/backing_file")
		if err != nil {
			return nil
		}
		file, deleted := strings.CutSuffix(file, " (deleted)")
		if deleted {
			file = path.Dir(file) // it was there, on the same disk
		}
		on, err := s.holding(file, nil)
		if err != nil {
			return nil // in memory, or in another namespace
		}
		return on
	}
	if d.kind() == Multipath {
		return nil
	}
	below := slices.DeleteFunc(d.entries("slaves"), func(name string) bool { return !s.isDisk(name) && s.diskOf(name) == "" })
	caches, _ := filepath.Glob(d.path("bcache/cache/cache[0-9]*")) // the pattern is well formed
	for _, cache := range caches {
		// The link leads to .../block/nvme0n1/bcache, or to that of a partition.
		if to, err := filepath.EvalSymlinks(cache); err == nil {
			below = append(below, filepath.Base(filepath.Dir(to)))
		}
	}
	return below
}
