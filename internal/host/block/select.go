// SPDX-License-Identifier: MIT

package block

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"isolio/internal/failure"
)

// Selected says how a disk is named by what it is, for messages. The kernel numbers
// disks in the order in which it finds them, so a name may be another disk's after a boot.
const Selected = `"wwn:NUMBER", "serial:NUMBER" or "model:PATTERN"`

// selectors are the words before the colon, with the properties of a disk that they are about.
var selectors = map[string]func(d *Device) []string{
	"wwn":    (*Device).WWNs,
	"serial": (*Device).Serials,
	"model":  (*Device).models,
}

// selector takes "KEY:VALUE" apart; there is false for a name or a path.
func selector(text string) (key, value string, there bool) {
	key, value, there = strings.Cut(text, ":")
	return key, value, there && selectors[key] != nil
}

// Selects reports whether text names a disk by what it is, as Selected says.
func Selects(text string) bool {
	_, _, there := selector(text)
	return there
}

// CheckSelector tells whether text may stand for a disk where paths are of no use: a
// name as in /sys/block, or what Selected says.
func CheckSelector(text string) bool {
	key, value, there := selector(text)
	if !there {
		return text != "" && !strings.ContainsAny(text, "/:") && text != "." && text != ".."
	}
	_, err := path.Match(value, "")
	return strings.TrimSpace(value) != "" && (key != "model" || err == nil)
}

// Match returns the disks that text selects, sorted by name: none is no error.
func (s System) Match(text string) ([]*Device, error) {
	key, value, there := selector(text)
	if !there {
		d, err := s.Find(text)
		if failure.Code(err) == failure.Usage {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []*Device{d}, nil
	}
	names, err := s.List()
	if err != nil {
		return nil, err
	}
	var found []*Device
	for _, name := range names {
		d, err := s.Find(name)
		if err != nil {
			continue // it went meanwhile
		}
		if slices.ContainsFunc(selectors[key](d), func(of string) bool { return selects(key, value, of) }) {
			found = append(found, d)
		}
	}
	return found, nil
}

// selects compares one property of a disk with what was asked for.
func selects(key, value, of string) bool {
	switch key {
	case "wwn":
		return bareWWN(value) == bareWWN(of)
	case "model":
		return matches(value, of) || matches(value, strings.ReplaceAll(of, " ", "_"))
	}
	return strings.TrimSpace(value) == of
}

// matches has * stand for slashes as well, which models may have.
func matches(pattern, text string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(text, "/", "\x00"))
	return ok && err == nil
}

// bareWWN is the number without the word for its kind: the kernel writes naa.5000c500...
// where udev writes 0x5000c500...
func bareWWN(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	for _, kind := range []string{"naa.", "eui.", "0x"} {
		if bare, ok := strings.CutPrefix(text, kind); ok {
			return bare
		}
	}
	return text
}

// only is the one disk that a selector is to name.
func (s System) only(text string) (*Device, error) {
	if !CheckSelector(text) {
		return nil, failure.Usagef("device %q: is not a disk; allowed: a name or path, %s", text, Selected)
	}
	found, err := s.Match(text)
	if err != nil {
		return nil, err
	}
	switch len(found) {
	case 0:
		return nil, failure.Usagef("device %s: no disk is it; `isolio status -o wide` shows what disks are", text)
	case 1:
		return found[0], nil
	}
	var names []string
	for _, d := range found {
		names = append(names, d.Name)
	}
	return nil, failure.Usagef("device %s: is %d disks; name one: %s", text, len(found), strings.Join(names, ", "))
}

// WWNs are the world wide names that the kernel or udev has of the disk, best first.
func (d *Device) WWNs() []string {
	return d.properties([]string{"wwid", "device/wwid"}, []string{"ID_WWN_WITH_EXTENSION", "ID_WWN", "DM_WWN"})
}

// Serials are its serial numbers, best first.
func (d *Device) Serials() []string {
	return d.properties([]string{"serial", "device/serial"}, []string{"ID_SERIAL_SHORT", "ID_SCSI_SERIAL", "DM_SERIAL", "ID_SERIAL"})
}

func (d *Device) models() []string {
	return d.properties([]string{"device/model"}, []string{"ID_MODEL"})
}

// properties are what the disk's files in sysfs and udev's database have, without those
// that are empty.
func (d *Device) properties(files, keys []string) []string {
	var all []string
	for _, file := range files {
		if text, err := d.read(file); err == nil && text != "" {
			all = append(all, text)
		}
	}
	known, err := d.sys.Udev(d.MajMin)
	if err != nil {
		return all // what the kernel says is as good
	}
	for _, key := range keys {
		if known[key] != "" {
			all = append(all, known[key])
		}
	}
	return all
}

// Udev is what udev's database has of a device, nothing where it knows none.
func (s System) Udev(majMin string) (map[string]string, error) {
	text, err := os.ReadFile(s.Path("run/udev/data/b" + majMin))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("udev's database: %w", err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if property, ok := strings.CutPrefix(strings.TrimSpace(line), "E:"); ok {
			key, value, _ := strings.Cut(property, "=")
			all[key] = value
		}
	}
	return all, nil
}
