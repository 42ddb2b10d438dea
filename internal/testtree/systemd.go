// SPDX-License-Identifier: MIT

package testtree

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// ServeSystemd answers below root as systemd does on its own socket, of units as `systemctl show` prints them: a
// block of KEY=VALUE for each, an empty line between. It reads them anew for each connection.
func ServeSystemd(root string, show func() string) (stop func(), err error) {
	socket := filepath.Join(root, "run/systemd/private")
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket) //nolint:noctx // it listens at once
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_ = answer(conn, units(show())) // the client sees what became of it
			}()
		}
	}()
	return func() { _ = listener.Close() }, nil
}

// units are the values of each unit's properties.
func units(text string) map[string]map[string][]string {
	all := map[string]map[string][]string{}
	for block := range strings.SplitSeq(text, "\n\n") {
		values := map[string][]string{}
		for line := range strings.Lines(block) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				values[key] = append(values[key], value)
			}
		}
		if id := values["Id"]; id != nil {
			all[id[0]] = values
		}
	}
	return all
}

// answer serves one connection.
func answer(conn io.ReadWriter, all map[string]map[string][]string) error {
	in := bufio.NewReader(conn)
	for begun := false; !begun; {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		reply := ""
		switch words := strings.Fields(strings.TrimPrefix(line, "\x00")); {
		case words[0] == "BEGIN":
			begun = true
		case words[0] == "AUTH" && len(words) == 1:
			reply = "REJECTED EXTERNAL\r\n"
		case words[0] == "AUTH":
			reply = "OK 0123456789abcdef0123456789abcdef\r\n"
		default:
			reply = "ERROR\r\n"
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return err
		}
	}
	for {
		call, err := dbus.DecodeMessage(in)
		if err != nil {
			return err
		}
		reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{dbus.FieldReplySerial: dbus.MakeVariant(call.Serial())}}
		if body, err := called(call, all); err == nil {
			reply.Body = []any{body}
			reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body))
		} else {
			reply.Type = dbus.TypeError
			reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant(err.Error())
		}
		if err := reply.EncodeTo(conn, binary.LittleEndian); err != nil {
			return err
		}
	}
}

var (
	errMethod   = errors.New("org.freedesktop.DBus.Error.UnknownMethod")
	errProperty = errors.New("org.freedesktop.DBus.Error.UnknownProperty")
)

// notSet is a number that no unit was given.
const notSet = ^uint64(0)

type deviceWeight struct {
	Path   string
	Weight uint64
}

// called is what a call returns.
func called(call *dbus.Message, all map[string]map[string][]string) (any, error) {
	object, _ := call.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	switch call.Headers[dbus.FieldMember].Value() {
	case "ListUnitsByPatterns":
		patterns, _ := call.Body[1].([]string)
		list := []systemd.UnitStatus{}
		for name := range all {
			if slices.ContainsFunc(patterns, func(pattern string) bool { ok, err := path.Match(pattern, name); return ok && err == nil }) {
				list = append(list, systemd.UnitStatus{Name: name, Path: dbus.ObjectPath("/org/freedesktop/systemd1/unit/" + systemd.PathBusEscape(name)), JobPath: "/"})
			}
		}
		return list, nil
	case "Get":
		for name, values := range all {
			if path.Base(string(object)) != systemd.PathBusEscape(name) {
				continue
			}
			kind, _ := call.Body[0].(string)
			if !strings.EqualFold(path.Ext(kind), path.Ext(name)) {
				return nil, errProperty
			}
			property, _ := call.Body[1].(string)
			return value(property, values[property])
		}
	}
	return nil, errMethod
}

// value is a property as systemd sends it.
func value(property string, said []string) (any, error) {
	switch property {
	case "IODeviceWeight":
		list := []deviceWeight{}
		for _, one := range said {
			if node, number, ok := strings.Cut(one, " "); ok {
				n, err := strconv.ParseUint(number, 10, 64)
				if err != nil {
					return nil, err
				}
				list = append(list, deviceWeight{node, n})
			}
		}
		return dbus.MakeVariant(list), nil
	case "IOWeight", "BlockIOWeight":
		if len(said) == 0 {
			if property == "BlockIOWeight" {
				return nil, errProperty
			}
			return dbus.MakeVariant(notSet), nil
		}
		n, err := strconv.ParseUint(said[0], 10, 64)
		if err != nil {
			n = notSet // "[not set]"
		}
		return dbus.MakeVariant(n), nil
	}
	return nil, errProperty
}
