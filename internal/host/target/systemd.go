// SPDX-License-Identifier: MIT

package target

import (
	"context"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"isolio/internal/host/weight"
)

// Told is what a unit was given in systemd's own words, 0 and nothing for what it was not.
type Told struct {
	// IO is IOWeight=.
	IO int
	// BlockIO is BlockIOWeight=, of older units, which counts where there is no IOWeight=.
	BlockIO int
	// Devices are by the nodes that systemd was told.
	Devices map[string]int
}

// patience is how long systemd may take to answer all that it is asked. A weight must not wait for a hung one.
const patience = 5 * time.Second

// manager is systemd's name on the bus, and begins those of its interfaces.
const manager = "org.freedesktop.systemd1"

// buses are where systemd listens: itself, for root alone, and by the bus for all users.
var buses = []struct {
	socket string
	hello  bool
}{{"run/systemd/private", false}, {"run/dbus/system_bus_socket", true}}

// dial connects to systemd. All that is sent and received ends within patience.
func (m Systemd) dial() (conn *dbus.Conn, err error) {
	for _, bus := range buses {
		if conn, err = m.dialOne(bus.socket, bus.hello); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func (m Systemd) dialOne(socket string, hello bool) (*dbus.Conn, error) {
	raw, err := net.DialTimeout("unix", filepath.Join("/", m.root, socket), patience)
	if err != nil {
		return nil, err
	}
	if err := raw.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	conn, err := dbus.NewConn(raw)
	if err == nil {
		err = conn.Auth(nil)
	}
	if err == nil && hello {
		err = conn.Hello()
	}
	if err != nil {
		_ = raw.Close() // the error is of what was sent
		return nil, err
	}
	return conn, nil
}

// Weights asks systemd what its units were given. Each active one that has a cgroup, and whose name
// is one of the patterns, is in the answer; without a pattern all are.
func (m Systemd) Weights(patterns ...string) (map[string]Told, error) {
	conn, err := m.dial()
	if err != nil {
		return nil, fmt.Errorf("systemd: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if len(patterns) == 0 {
		for _, suffix := range unitSuffixes {
			patterns = append(patterns, "*"+suffix)
		}
	}
	var units []struct {
		Name, Description, Load, Active, Sub, Followed string
		Path                                           dbus.ObjectPath
		JobID                                          uint32
		JobType                                        string
		JobPath                                        dbus.ObjectPath
	}
	err = conn.Object(manager, "/org/freedesktop/systemd1").
		CallWithContext(ctx, manager+".Manager.ListUnitsByPatterns", 0, []string{"active", "activating", "reloading", "deactivating"}, patterns).Store(&units)
	if err != nil {
		return nil, fmt.Errorf("systemd: %w", err)
	}
	all := map[string]Told{}
	for _, unit := range units {
		if !IsUnitName(unit.Name) {
			continue
		}
		if told, ok := ask(ctx, conn.Object(manager, unit.Path), unit.Name); ok {
			all[unit.Name] = told
		}
	}
	return all, ctx.Err()
}

// ask is what one unit was given. It is not ok for a unit that went meanwhile.
func ask(ctx context.Context, object dbus.BusObject, unit string) (told Told, ok bool) {
	kind := strings.TrimPrefix(filepath.Ext(unit), ".")
	kind = strings.ToUpper(kind[:1]) + kind[1:]
	get := func(property string, into any) bool {
		return object.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, manager+"."+kind, property).Store(into) == nil
	}
	number := func(property string) int {
		var n uint64
		if !get(property, &n) || n > math.MaxInt32 { // the greatest is "not set"
			return 0
		}
		return int(n)
	}
	var devices []struct {
		Path   string
		Weight uint64
	}
	if !get("IODeviceWeight", &devices) {
		return told, false
	}
	for _, d := range devices {
		if told.Devices == nil {
			told.Devices = map[string]int{}
		}
		told.Devices[d.Path] = int(min(d.Weight, math.MaxInt32))
	}
	if told.IO = number("IOWeight"); told.IO == 0 {
		told.BlockIO = number("BlockIOWeight") // newer versions have none
	}
	return told, true
}

// InFile is what systemd writes to io.weight for it.
func (t Told) InFile() int {
	switch {
	case t.IO > 0:
		return t.IO
	case t.BlockIO > 0:
		return weight.IOFromBlockIO(t.BlockIO)
	}
	return weight.Default
}
