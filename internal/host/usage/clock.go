// SPDX-License-Identifier: MIT

package usage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"isolio/internal/failure"
	"isolio/internal/host/block"
)

// Clock is how the cgroups that are active on a disk take turns.
type Clock struct {
	// LeadBytes is how far a cgroup may be ahead of the clock.
	LeadBytes int64
	// IsOpen: no cgroup is throttled now.
	IsOpen bool
	Turns  []Turn
}

// Turn is where one cgroup is.
type Turn struct {
	// ID is the kernel's number of the cgroup.
	ID         uint64
	AheadBytes int64
	// Awaited: the others wait for it.
	Awaited     bool
	Outstanding int64
	// DepthMilli is how many requests it keeps outstanding on average, in thousandths.
	DepthMilli int64
	// OwedUS is how much longer its requests took than on a disk of its own, together. Below
	// 0 they took less.
	OwedUS int64
}

// ReadClock reads a disk's clock from debugfs. It is nil where there is none: debugfs is not
// mounted, or the disk has another scheduler.
func ReadClock(sys block.System, disk string) (*Clock, error) {
	file := sys.Path("sys/kernel/debug/block", disk, "sched/clock")
	text, err := os.ReadFile(file)
	switch {
	case failure.IsGone(err):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w; root may read it, where the kernel is not locked down", err)
	case errors.Is(err, syscall.EBUSY):
		return nil, fmt.Errorf("%w; try again when the disk's scheduler has changed", err)
	case err != nil:
		return nil, err
	}
	c := &Clock{}
	for line := range bytes.Lines(text) {
		if err := c.add(line); err != nil {
			return nil, fmt.Errorf("%s: %w; `isolio doctor` tells whether the module is of another version", file, err)
		}
	}
	return c, nil
}

// add reads a line: the first is of the disk, each other one of a cgroup.
func (c *Clock) add(line []byte) error {
	var t Turn
	found := map[string]bool{}
	for word := range bytes.FieldsSeq(line) {
		key, value, _ := bytes.Cut(word, []byte{'='})
		var err error
		found[string(key)] = true
		switch string(key) {
		case "cgroup":
			t.ID, err = strconv.ParseUint(string(value), 10, 64)
		case "lead_bytes":
			err = number(value, &c.LeadBytes)
		case "open":
			err = truth(value, &c.IsOpen)
		case "ahead_bytes":
			err = number(value, &t.AheadBytes)
		case "awaited":
			err = truth(value, &t.Awaited)
		case "outstanding":
			err = number(value, &t.Outstanding)
		case "depth_milli":
			err = number(value, &t.DepthMilli)
		case "owed_us":
			err = number(value, &t.OwedUS)
		}
		if err != nil {
			return fmt.Errorf("%q is not a key and a number", word)
		}
	}
	if !found["cgroup"] {
		return nil
	}
	for _, key := range turnKeys {
		if !found[key] { // 0 would mean something
			return fmt.Errorf("cgroup=%d has no %s", t.ID, key)
		}
	}
	c.Turns = append(c.Turns, t)
	return nil
}

// turnKeys are what the line of each cgroup has.
var turnKeys = []string{"ahead_bytes", "awaited", "outstanding", "depth_milli", "owed_us"}

func number(text []byte, to *int64) (err error) {
	*to, err = strconv.ParseInt(string(text), 10, 64)
	return err
}

func truth(text []byte, to *bool) (err error) {
	*to, err = strconv.ParseBool(string(text))
	return err
}
