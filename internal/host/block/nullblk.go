// SPDX-License-Identifier: MIT

package block

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"isolio/internal/failure"
	"isolio/internal/plan"
)

// NullBlk describes a null_blk disk: it has no contents, and takes the same
// time for every request.
type NullBlk struct {
	Name         string // of the disk, not yet in use
	CompletionUS int    // microseconds until a request completes, by a timer; 0 for none
	Tags         int    // requests a hardware queue holds
	Queues       int    // hardware queues
	SizeMiB      int
}

// Values of null_blk's own attributes.
const (
	multiQueue     = "2" // queue_mode: blk-mq, the only one with schedulers
	timerComplete  = "2" // irqmode: a timer for each request
	inlineComplete = "0" // irqmode: none, requests complete as they are sent
)

// CreateNullBlk returns the steps that make the disk, through configfs; their
// undoing removes it.
func (s System) CreateNullBlk(n NullBlk) ([]plan.Step, error) {
	top := s.Path("sys/kernel/config/nullb")
	if _, err := os.Stat(top); errors.Is(err, fs.ErrNotExist) {
		return nil, failure.Unsupportedf("%s is not there: load null_blk with `modprobe null_blk nr_devices=0`, and mount configfs", top)
	} else if err != nil {
		return nil, err
	}
	dir := filepath.Join(top, n.Name)
	complete := timerComplete
	if n.CompletionUS == 0 {
		complete = inlineComplete
	}
	steps := []plan.Step{makeConfig(dir)}
	for _, attribute := range []struct{ name, value string }{
		{"queue_mode", multiQueue},
		{"irqmode", complete},
		{"completion_nsec", strconv.FormatInt(int64(n.CompletionUS)*1000, 10)},
		{"hw_queue_depth", strconv.Itoa(n.Tags)},
		{"submit_queues", strconv.Itoa(n.Queues)},
		{"size", strconv.Itoa(n.SizeMiB)},
	} {
		steps = append(steps, plan.Step{Path: filepath.Join(dir, attribute.name), Value: attribute.value, Name: "null_blk/" + attribute.name})
	}
	return append(steps, plan.Step{Path: filepath.Join(dir, "power"), Value: "1", Undo: "0", Name: "null_blk/power"}), nil
}

// majMin writes a device number as sysfs does.
func majMin(rdev uint64) string {
	return fmt.Sprintf("%d:%d", unix.Major(rdev), unix.Minor(rdev))
}
