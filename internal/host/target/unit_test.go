// SPDX-License-Identifier: MIT

package target

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/must"
	"isolio/internal/plan/shell"
	"isolio/internal/testtree"
)

func TestOf(t *testing.T) {
	for group, want := range map[string]string{
		"system.slice":                                  "system.slice",
		"system.slice/nginx.service":                    "nginx.service",
		"machine.slice/libpod-0a.scope":                 "libpod-0a.scope",
		"a.slice/a-b.slice/a-b-c.slice":                 "a-b-c.slice",
		"system.slice/_cpu.service":                     "cpu.service",
		"machine.slice/libpod-0a.scope/container":       "",
		"user.slice/user@0.service/app.slice/x.service": "", // another manager's
		"docker/0a": "",
		"machine.slice/libpod-0a.scope/system.slice":      "",
		"kubepods.slice/kubepods-pod0a.slice/cri-0.scope": "cri-0.scope",
		".slice": "",
	} {
		if got := UnitOf(group); got != want {
			t.Errorf("Of(%s) = %q, want %q", group, got, want)
		}
	}
}

func TestSetWeight(t *testing.T) {
	root := t.TempDir()
	if _, there := SystemdOn(root); there {
		t.Error("systemd is there in an empty tree")
	}
	must.OK(t, os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755))
	if _, there := SystemdOn(root); !there {
		t.Error("systemd is not there")
	}
	m := Systemd{}
	for want, w := range map[string]UnitWeight{
		"systemctl set-property nginx.service IOWeight=500":           {Unit: "nginx.service", N: 500},
		"systemctl set-property --runtime nginx.service IOWeight=500": {Unit: "nginx.service", N: 500, Runtime: true},
		"systemctl set-property --runtime docker-0a.scope IOWeight=":  {Unit: "docker-0a.scope"},
		"systemctl set-property a.slice 'IODeviceWeight=/dev/sda 20'": {Unit: "a.slice", N: 20, Device: "/dev/sda"},
		"systemctl set-property a.slice IODeviceWeight=":              {Unit: "a.slice", Device: "/dev/sda"},
		`systemctl set-property 'dev-disk\x2dby.service' IOWeight=1`:  {Unit: `dev-disk\x2dby.service`, N: 1},
	} {
		if step, err := m.SetWeight(w); err != nil || step.String() != want {
			t.Errorf("%+v: %q, %v; want %q", w, step, err, want)
		}
	}
	if _, err := m.SetWeight(UnitWeight{Unit: "a b.service", N: 1}); failure.Code(err) != failure.Usage {
		t.Errorf("a name with a space: %v", err)
	}
}

// What a unit was told before is told again when the step is taken back.
func TestWeightIsTakenBack(t *testing.T) {
	for _, tt := range []struct {
		said string
		w    UnitWeight
		want string
	}{
		{"Id=a.service\nIOWeight=[not set]", UnitWeight{Unit: "a.service", N: 5}, "set-property a.service IOWeight="},
		{"Id=a.service\nIOWeight=300", UnitWeight{Unit: "a.service", N: 5, Runtime: true}, "set-property --runtime a.service IOWeight=300"},
		{"Id=a.slice\nIODeviceWeight=/dev/sda 7\nIODeviceWeight=/dev/sdb 8", UnitWeight{Unit: "a.slice", N: 5, Device: "/dev/sda"},
			"set-property a.slice IODeviceWeight= 'IODeviceWeight=/dev/sda 7' 'IODeviceWeight=/dev/sdb 8'"},
		{"Id=a.slice\nIODeviceWeight=", UnitWeight{Unit: "a.slice", N: 5, Device: "/dev/sda"}, "set-property a.slice IODeviceWeight="},
		{"Id=other.service", UnitWeight{Unit: "a.service", N: 5}, ""},
		{"", UnitWeight{Unit: "a.service", N: 5}, ""},
		{"Id=a.service\nIOWeight=300", UnitWeight{Unit: "a.service", JustController: true}, ""},
	} {
		root := t.TempDir()
		if tt.said != "" {
			stop, err := testtree.ServeSystemd(root, func() string { return tt.said })
			must.OK(t, err)
			t.Cleanup(stop)
		}
		step, err := Systemd{root}.SetWeight(tt.w)
		must.OK(t, err)
		got := ""
		if step.UndoCommand != nil {
			got = shell.Join(step.UndoCommand[1:]...)
		}
		if got != tt.want {
			t.Errorf("%q, %+v: %q, want %q", tt.said, tt.w, got, tt.want)
		}
	}
}

// A systemd that does not answer, and one that is not there, cost a bounded time.
func TestSystemdIsHung(t *testing.T) {
	root := t.TempDir()
	_, err := Systemd{root}.Weights()
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without systemd: %v", err)
	}
	must.OK(t, os.MkdirAll(filepath.Join(root, "run/systemd"), 0o755))
	listener, err := net.Listen("unix", filepath.Join(root, "run/systemd/private"))
	must.OK(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	begun := time.Now()
	if all, err := (Systemd{root}).Weights(); err == nil {
		t.Errorf("a systemd that says nothing: %v", all)
	}
	if took := time.Since(begun); took > 2*patience {
		t.Errorf("it took %v", took)
	}
}
