// SPDX-License-Identifier: MIT

package target

import (
	"strings"
	"testing"
)

func TestMachineOf(t *testing.T) {
	for group, want := range map[string]string{
		"lxc.payload.box": "box", "lxc/103": "103", "lxc.payload.prod_web": "prod_web",
		"lxc.monitor.box": "", "lxc/103/ns": "", "lxc": "", "user.slice/lxc.payload.box": "",
		`machine.slice/systemd-nspawn@my\x2dbox.service`:                                    "my-box",
		`machine.slice/machine-my\x2dbox.scope`:                                             "my-box",
		`machine.slice/machine-qemu\x2d12\x2dweb.scope`:                                     "web",
		`machine.slice/machine-qemu\x2d12\x2dweb.scope/libvirt`:                             "",
		"machine.slice/libpod-0a.scope":                                                     "",
		"nomad.slice/share.slice/8a05ff3e-0000-4000-8000-0123456789ab.redis.scope":          "redis",
		"nomad.slice/reserve.slice/8a05ff3e-0000-4000-8000-0123456789ab.redis.scope":        "redis",
		"system.slice/nomad.slice/share.slice/8a05ff3e-0000-4000-8000-0123456789ab.x.scope": "",
		"docker/lxc.payload.box":                                                            "", "machine.slice/systemd-nspawn@a.service/payload/b.scope": "",
	} {
		if got := machineOf(group); got != want {
			t.Errorf("%s: %q, want %q", group, got, want)
		}
	}
}

// Such a name finds its cgroup. One that a tenant makes inside of its own is none.
func TestFindMachine(t *testing.T) {
	world := World{Groups: []string{"lxc.payload.box", "lxc.payload.box/machine.slice/systemd-nspawn@db.service", "machine.slice",
		"machine.slice/systemd-nspawn@db.service", `machine.slice/machine-qemu\x2d1\x2dweb.scope`, "system.slice/box.service"}}
	for name, want := range map[string]string{"db": "machine.slice/systemd-nspawn@db.service", "web": `machine.slice/machine-qemu\x2d1\x2dweb.scope`} {
		if got, err := world.Find(name); err != nil || got.Group != want {
			t.Errorf("%s: %q, %v; want %q", name, got.Group, err, want)
		}
	}
	if _, err := world.Find("box"); err == nil || !strings.Contains(err.Error(), "matches more than one cgroup; give the path of one: /lxc.payload.box, /system.slice/box.service") {
		t.Errorf("box: %v", err)
	}
	if _, err := world.Find("wbe"); err == nil || !strings.Contains(err.Error(), "did you mean web?") {
		t.Errorf("wbe: %v", err)
	}
}
