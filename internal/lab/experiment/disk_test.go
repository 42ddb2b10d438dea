// SPDX-License-Identifier: MIT

package experiment

import (
	"reflect"
	"strings"
	"testing"

	"isolio/internal/must"
)

const onDisks = `name = "d"
question = "Which disk?"
schedulers = ["none", "iocost"]
duration_s = 2
weights = [200, 100]

[device]
disk = "p4500-2tb"
scale = 64
iocost.rlat_us = 340

[job]
rw = "randread"

[[case]]
name = "top"

[[case]]
name = "changed"
device.tags = 8

[[case]]
name = "another"
device.disk = "emmc"

[[case]]
name = "small"
device = { disk = "sata-ssd", size_mib = 64 }
`

// A file says what differs from the disk; a disk in a case takes the place of all of the top's.
func TestDisks(t *testing.T) {
	e, err := Parse("x", []byte(onDisks))
	must.OK(t, err)
	p4500 := Device{Kind: ModelDisk, Tags: 1023, Queues: 1, Model: Model{
		Name: "nvme", Preset: "p4500-2tb", Scale: 64, Seed: 1,
		Iocost: &Iocost{RBPS: 3_200_000_000, RSeqIOPS: 490_000, RRandIOPS: 490_000, WBPS: 1_050_000_000, WSeqIOPS: 256_348, WRandIOPS: 38_000, RLatUS: 340},
	}}
	changed := p4500
	changed.Tags = 8
	for i, want := range []Device{p4500, changed} {
		if !reflect.DeepEqual(e.Cases[i].Device, want) {
			t.Errorf("case %s: %+v, want %+v", e.Cases[i].Name, e.Cases[i].Device, want)
		}
	}
	if d := e.Cases[2].Device; d.String() != "modeldisk flash/emmc, scale 1, 1 queue of 64 tags" || d.Model.Iocost.RLatUS != 0 {
		t.Errorf("case another: %s, %+v", d, d.Model.Iocost)
	}
	if d := e.Cases[3].Device; d.String() != "modeldisk flash/sata-ssd, scale 4, 1 queue of 32 tags, 64 MiB" {
		t.Errorf("case small: %s", d)
	}
}

// Only a contender iocost is told what the disk can do.
func TestDiskWithoutIocost(t *testing.T) {
	e, err := Parse("x", []byte(strings.Replace(onDisks, `"iocost"`, `"bfq"`, 1)))
	must.OK(t, err)
	for _, k := range e.Cases {
		if k.Device.Model.Iocost != nil {
			t.Errorf("case %s: nobody is told %+v", k.Name, k.Device.Model.Iocost)
		}
	}
}

// Each disk is a device without a word of the file's.
func TestEveryDisk(t *testing.T) {
	if len(diskNames()) == 0 {
		t.Fatal("there are no disks")
	}
	for _, name := range diskNames() {
		text := strings.Replace(onDisks, "disk = \"p4500-2tb\"\nscale = 64\niocost.rlat_us = 340\n", "disk = \""+name+"\"\n", 1)
		e, err := Parse("x", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if d := e.Cases[0].Device; d.Kind == ModelDisk && (d.Model.Preset != name || d.Model.Iocost == nil) {
			t.Errorf("%s: %s, iocost %v", name, d, d.Model.Iocost)
		}
	}
}

func TestParseRefusesDisks(t *testing.T) {
	names := strings.Join(diskNames(), ", ")
	refuses(t, onDisks, []struct{ name, old, new, want string }{
		{"unknown", `disk = "p4500-2tb"`, `disk = "p4501"`,
			`x:8: device.disk: unknown disk "p4501"; allowed: ` + names + "; or kind with that kind's keys"},
		{"unknown in a case", `disk = "emmc"`, `disk = "emc"`,
			`x:24: case.device.disk: unknown disk "emc"; allowed: ` + names + "; or kind with that kind's keys"},
		{"unknown in an inline table", `disk = "sata-ssd"`, `disk = ""`,
			`x:28: case.device.disk: unknown disk ""; allowed: ` + names + "; or kind with that kind's keys"},
		{"with a kind", "scale = 64", `kind = "null_blk"`,
			"x:9: device.kind: does not go with disk, which has it; allowed: one or the other"},
		{"with a model", "scale = 64", `model = "hdd"`,
			"x:9: device.model: does not go with disk, which has it; allowed: one or the other"},
		{"with a preset", "scale = 64", `preset = "emmc"`,
			"x:9: device.preset: does not go with disk, which has it; allowed: one or the other"},
		{"not a name", `disk = "p4500-2tb"`, `disk = 4500`,
			"x:8: device.disk: has the wrong type; allowed: a string"},
		{"no device at all", "[device]\ndisk = \"p4500-2tb\"\nscale = 64\niocost.rlat_us = 340\n", "",
			"x: device: is missing; allowed: a [device] table with disk (" + names + "), or with kind (null_blk, modeldisk) and that kind's keys"},
	})
}
