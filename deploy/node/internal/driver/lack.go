// SPDX-License-Identifier: MIT

package driver

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"isolio/deploy/node/internal/disk"
	"isolio/internal/host/state"
)

// toldEvery is how often the node's events are written again. The API server keeps an event for
// an hour, and refuses a second one of the same name until then.
const toldEvery = 10 * time.Minute

// Lacking is how the event begins of a disk that could not be enabled.
func Lacking(device string) string { return "disk " + device + " is not shared by weight: " }

// lacks tells of disks that enable could not enable, before this program or beside it. A disk
// that was enabled later is none of them.
func (d *Driver) lacks(ctx context.Context, disks []disk.Disk) {
	var all []state.EnableError
	for _, file := range d.Failures {
		some, err := state.ReadEnableErrors(filepath.Join("/", d.Root, file))
		if err != nil {
			some = []state.EnableError{{Why: err.Error()}}
		}
		all = append(all, some...)
	}
	for i := range all {
		if on, err := d.system().Find(all[i].Device); err == nil {
			all[i].Device = on.Name // where the chart has a serial number, such as serial:S4EMNX0
		}
	}
	all = slices.DeleteFunc(all, func(s state.EnableError) bool {
		return slices.ContainsFunc(disks, func(one disk.Disk) bool { return one.Name == s.Device && one.Enabled() })
	})
	d.Metrics.lacks(len(all))
	node := d.itself()
	d.mu.Lock()
	if time.Since(d.toldNode) > toldEvery {
		delete(d.told, node.uid)
		d.toldNode = time.Now()
	}
	d.mu.Unlock()
	unseen := d.sight().Unseen
	d.Metrics.sees(unseen)
	if unseen != "" {
		d.tell(ctx, node, NotEnforced, "no shares of disks are for sale: "+unseen)
	}
	for _, s := range all {
		text := "disks are not shared by weight: " + s.Why
		if s.Device != "" {
			text = fmt.Sprintf("%s%s; to do once that is mended: kubectl isolio enable %s %s", Lacking(s.Device), s.Why, d.Node, s.Device)
		}
		d.tell(ctx, node, NotEnabled, text)
	}
}
