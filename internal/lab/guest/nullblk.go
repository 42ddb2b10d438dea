// SPDX-License-Identifier: MIT

package guest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/plan"
)

// Values of null_blk's own attributes.
const (
	multiQueue     = "2" // queue_mode: blk-mq, the only one with schedulers
	timerComplete  = "2" // irqmode: a timer for each request
	inlineComplete = "0" // irqmode: none, requests complete as they are sent
)

// createNullBlk returns the steps that make a null_blk disk, through configfs; their undoing
// removes it. It has no contents, and takes the same time for every request.
func (s System) createNullBlk(name string, n experiment.Device) ([]plan.Step, error) {
	top := s.Path("sys/kernel/config/nullb")
	if _, err := os.Stat(top); errors.Is(err, fs.ErrNotExist) {
		return nil, failure.Unsupportedf("%s is not there: load null_blk with `modprobe null_blk nr_devices=0`, and mount configfs", top)
	} else if err != nil {
		return nil, err
	}
	dir := filepath.Join(top, name)
	complete := timerComplete
	if n.CompletionUS == 0 {
		complete = inlineComplete
	}
	steps := []plan.Step{makeConfig(dir)}
	for _, attribute := range []struct{ name, value string }{
		{"queue_mode", multiQueue},
		{"irqmode", complete},
		{"completion_nsec", strconv.FormatInt(n.CompletionNS(), 10)},
		{"hw_queue_depth", strconv.Itoa(n.Tags)},
		{"submit_queues", strconv.Itoa(n.Queues)},
		{"size", strconv.Itoa(n.SizeMiB)},
	} {
		steps = append(steps, plan.Step{Path: filepath.Join(dir, attribute.name), Value: attribute.value, Name: "null_blk/" + attribute.name})
	}
	return append(steps, plan.Step{Path: filepath.Join(dir, "power"), Value: "1", Undo: "0", Name: "null_blk/power"}), nil
}
