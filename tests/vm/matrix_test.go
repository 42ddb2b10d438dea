// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// schedulers are all that a disk may have here.
var schedulers = []string{"none", "mq-deadline", "kyber", "bfq", "kyber-fairness", "rsd", "sfq"}

// operationLimit is how long an operation may take. The machine's time is the
// host's, which other work slows down; an operation takes milliseconds. QEMU's SD
// card does some twenty requests a second, and AES takes an emulated CPU long. A
// file system's operation is hundreds of requests, each of which may wait for all
// that a load has outstanding: with a scheduler that keeps their order.
const (
	operationLimit     = 45 * time.Second
	slowOperationLimit = 6 * time.Minute
)

// cell is one line of the matrix: what came of every operation on one drive under
// one scheduler.
type cell struct {
	Kernel    string             `json:"kernel"`
	Disk      string             `json:"disk"`
	Scheduler string             `json:"scheduler"`
	Load      bool               `json:"load"`
	Refused   string             `json:"refused,omitempty"` // why the disk does not take the scheduler
	MS        map[string]float64 `json:"ms"`                // of each operation that was done
	Without   []string           `json:"not_supported"`     // the disk or kernel has no such operation
	Failed    map[string]string  `json:"failed,omitempty"`
}

// rounds counts the cells.
var rounds int

// Every operation that a program, file system or administrator can ask of a disk
// ends, on every kind of disk, under every scheduler, on a disk that is idle and on
// one that two cgroups keep busy; what was written is there.
func TestOperations(t *testing.T) {
	wanted := strings.Split(os.Getenv("ISOLIO_DISKS"), ",")
	if wanted[0] == "" {
		t.Skip("takes real drivers' disks: make vm T=drivers")
	}
	loaded(t)
	for _, module := range []string{"rsd", "sfq"} {
		if !inserted(t, module+"_iosched") {
			must(t, insertModule(module+"-iosched.ko"))
		}
	}
	write(t, cgroupRoot+"/cgroup.subtree_control", "+memory")
	if exists("/sys/bus/pseudo/drivers/scsi_debug") {
		wanted = append(wanted, "scsi_debug")
	}
	disks := realDisks(t, wanted)
	var all []maker
	for _, kind := range wanted {
		all = append(all, realMaker(kind))
	}
	for _, m := range append(all, makers...) {
		if slices.ContainsFunc(m.needs, func(kind string) bool { return !slices.Contains(wanted, kind) }) {
			continue
		}
		t.Run(m.kind, func(t *testing.T) {
			watchLog(t)
			d := m.make(t, disks)
			d.kind = m.kind
			t.Cleanup(func() {
				for _, e := range d.elevators() {
					e.use(t, "none")
				}
			})
			t.Run("alone", func(t *testing.T) { d.underAll(t, false) })
			t.Run("busy", func(t *testing.T) {
				loads := d.startLoads(t)
				d.underAll(t, true)
				for _, l := range loads {
					l.stop(t)
				}
			})
		})
	}
}

// underAll does all operations under all schedulers.
func (d *drive) underAll(t *testing.T, load bool) {
	t.Helper()
	for _, scheduler := range schedulers {
		t.Run(scheduler, func(t *testing.T) {
			c := cell{Kernel: kernelRelease(t), Disk: d.kind, Scheduler: scheduler, Load: load}
			c.MS, c.Failed = map[string]float64{}, map[string]string{}
			defer c.send(t)
			for _, e := range d.elevators() {
				if err := put(e.queue("scheduler"), scheduler); err != nil {
					c.Refused = err.Error()
					return // the kernel does not let a zoned disk have any scheduler, for example
				}
				e.use(t, scheduler)
			}
			d.operate(t, &c)
		})
	}
}

// operate does each operation, and waits for it for a bounded time.
func (d *drive) operate(t *testing.T, c *cell) {
	t.Helper()
	f, err := os.OpenFile("/dev/"+d.name, os.O_RDWR|unix.O_DIRECT, 0)
	must(t, err)
	defer f.Close()
	size, err := sizeOf(f)
	must(t, err)
	rounds++
	g := &target{path: "/dev/" + d.name, name: d.name, file: f, area: size / 4 >> 20 << 20, round: rounds}
	list := operations
	if d.zoned {
		list = zoneOperations
	}
	for _, o := range list {
		if !o.isDone(c.Load) {
			continue
		}
		limit := operationLimit
		if d.slow || o.when == busy {
			limit = slowOperationLimit
		}
		took, done, err := bounded(limit, func() error { return o.do(g) })
		switch {
		case !done:
			c.Failed[o.name] = fmt.Sprint("hangs for ", limit)
			c.send(t)
			t.Errorf("%s hangs", o.name)
			for _, e := range append(d.elevators(), d.disk) {
				e.logState(t)
			}
			giveUp(t)
		case errors.Is(err, errUnsupported):
			c.Without = append(c.Without, o.name)
		case err != nil:
			c.Failed[o.name] = err.Error()
			t.Errorf("%s: %v", o.name, err)
		default:
			c.MS[o.name] = float64(took.Microseconds()) / 1000
		}
	}
}

// startLoads has two cgroups read and write behind the area of the operations.
func (d *drive) startLoads(t *testing.T) []*load {
	t.Helper()
	options := []string{"--time_based", "--runtime=3600", "--offset=25%", "--size=75%"}
	if d.zoned {
		options = append(options, "--rw=randread") // the zones' writes are the operations'
	}
	large := []string{"--bs=64k", "--iodepth=64"}
	if d.slow {
		options, large = append(options, "--iodepth=2"), nil
	}
	loads := []*load{
		startFio(t, d.disk, newGroup(t, "a"), options...),
		startFio(t, d.disk, newGroup(t, "b"), slices.Concat(options, large)...),
	}
	for _, l := range loads {
		l.untilBusy(t)
	}
	return loads
}

// giveUp ends the machine: neither this program nor a disk with a request that
// hangs can be got rid of.
func giveUp(t *testing.T) {
	t.Helper()
	write(t, "/proc/sysrq-trigger", "w") // where in the kernel everything waits
	fmt.Println("a request hangs: the machine stops here")
	time.Sleep(3 * time.Second) // what was printed gets out
	write(t, "/proc/sysrq-trigger", "b")
	select {}
}

// send writes the cell to the host.
func (c *cell) send(t *testing.T) {
	t.Helper()
	send(t, "operations", c)
}
