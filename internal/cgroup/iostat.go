// SPDX-License-Identifier: MIT

package cgroup

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// IOStat counts what a group, and those below it, submitted to one disk since
// the group was made. A request that the kernel splits counts once for each
// of its parts; those that a scheduler merges count one by one.
type IOStat struct {
	ReadBytes, WriteBytes, ReadIOs, WriteIOs uint64
}

// IOStat reads a group's counters for the disk "MAJ:MIN". They are all 0
// until the group's first request.
func (t Tree) IOStat(group, majMin string) (IOStat, error) {
	file := t.Path(group, "io.stat")
	text, err := os.ReadFile(file)
	if err != nil {
		return IOStat{}, err
	}
	var s IOStat
	counters := map[string]*uint64{
		"rbytes": &s.ReadBytes, "wbytes": &s.WriteBytes, "rios": &s.ReadIOs, "wios": &s.WriteIOs,
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != majMin {
			continue
		}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			to, wanted := counters[name]
			if !wanted { // discards, and what schedulers and controllers add
				continue
			}
			if *to, err = strconv.ParseUint(value, 10, 64); err != nil {
				return IOStat{}, fmt.Errorf("%s: %s: %q is not a number", file, majMin, word)
			}
		}
	}
	return s, nil
}
