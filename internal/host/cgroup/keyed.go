// SPDX-License-Identifier: MIT

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"isolio/internal/failure"
)

// Keyed is the numbers of a nested keyed file, such as io.stat, by disk
// "MAJ:MIN" and key.
type Keyed map[string]map[string]uint64

// Keyed reads a group's file of lines "MAJ:MIN KEY=NUMBER ...". What is no
// number is left out; a file that is not there has no line. Older kernels leave the numbers of
// idle disks on the line of the next disk: the last one before the keys is the disk's.
func (t Tree) Keyed(group, file string) (Keyed, error) {
	text, err := os.ReadFile(t.Path(group, file))
	if failure.IsGone(err) {
		return Keyed{}, nil
	}
	if err != nil {
		return nil, err
	}
	all := Keyed{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		first := slices.IndexFunc(words, func(word string) bool { return strings.Contains(word, "=") })
		if first < 1 {
			continue
		}
		numbers := map[string]uint64{}
		for _, word := range words[first:] {
			key, value, _ := strings.Cut(word, "=")
			if n, err := strconv.ParseUint(value, 10, 64); err == nil {
				numbers[key] = n
			}
		}
		all[words[first-1]] = numbers
	}
	return all, nil
}

// IOStats reads a group's io.stat for all disks, by "MAJ:MIN".
func (t Tree) IOStats(group string) (map[string]IOStat, error) {
	keyed, err := t.Keyed(group, "io.stat")
	if err != nil {
		return nil, err
	}
	stats := make(map[string]IOStat, len(keyed))
	for majMin, n := range keyed {
		stats[majMin] = IOStat{ReadBytes: n["rbytes"], WriteBytes: n["wbytes"], ReadIOs: n["rios"], WriteIOs: n["wios"]}
	}
	return stats, nil
}

// Stalled is how long some task of a group, or of those below it, has waited for I/O: the
// total of "some" in io.pressure. It is below 0 where the kernel does not count that.
func (t Tree) Stalled(group string) (time.Duration, error) {
	text, err := os.ReadFile(t.Path(group, "io.pressure"))
	if failure.IsGone(err) || errors.Is(err, syscall.EOPNOTSUPP) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "some" {
			continue
		}
		for _, word := range words[1:] {
			if value, ok := strings.CutPrefix(word, "total="); ok {
				us, err := strconv.ParseInt(value, 10, 64)
				if err != nil {
					return 0, fmt.Errorf("%s: %q is not a number", t.Path(group, "io.pressure"), word)
				}
				return time.Duration(us) * time.Microsecond, nil
			}
		}
	}
	return -1, nil
}
