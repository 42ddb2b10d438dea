// SPDX-License-Identifier: MIT

package experiment

import (
	"reflect"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
)

const modelDisk = `name = "m"
question = "Is it a disk?"
schedulers = ["none", "iocost"]
duration_s = 2

[device]
kind = "modeldisk"
model = "nvme"
preset = "p4500-2tb"
scale = 16
memory_backed = true
size_mib = 1024
[device.params]
ncq_depth = 4
[device.iocost]
rbps = 3200
rseqiops = 31
rrandiops = 30
wbps = 1000
wseqiops = 20
wrandiops = 10
rlat_us = 170

[job]
rw = "randread"
[[container]]
name = "a"
weight = 100
`

// refuses changes one line of a valid file at a time and checks the whole
// message.
func refuses(t *testing.T, valid string, tests []struct{ name, old, new, want string }) {
	t.Helper()
	for _, tt := range tests {
		text := strings.Replace(valid, tt.old, tt.new, 1)
		if text == valid {
			t.Fatalf("%s: %q is not in the valid file", tt.name, tt.old)
		}
		_, err := Parse("x", []byte(text))
		if err == nil {
			t.Errorf("%s: Parse took it", tt.name)
		} else if err.Error() != tt.want || failure.Code(err) != failure.Usage {
			t.Errorf("%s (code %d):\n got %s\nwant %s", tt.name, failure.Code(err), err, tt.want)
		}
	}
}

func TestParseModelDisk(t *testing.T) {
	e, err := Parse("x", []byte(modelDisk))
	must.OK(t, err)
	d := e.Cases[0].Device
	want := Device{
		Kind: "modeldisk", Tags: 64, Queues: 1, SizeMiB: 1024,
		Model: Model{
			Name: "nvme", Preset: "p4500-2tb", Scale: 16, Seed: 1, MemoryBacked: true,
			Params: map[string]int64{"ncq_depth": 4},
			Iocost: &Iocost{RBPS: 3200, RSeqIOPS: 31, RRandIOPS: 30, WBPS: 1000, WSeqIOPS: 20, WRandIOPS: 10, RLatUS: 170},
		},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("device\n got %+v\nwant %+v", d, want)
	}
	// Nothing that the disk can do a little of becomes nothing.
	if got, want := d.Model.Iocost.Scaled(16), (Iocost{200, 1, 1, 62, 1, 1, 2720, 0}); got != want {
		t.Errorf("Scaled = %+v, want %+v", got, want)
	}
}

func TestDeviceString(t *testing.T) {
	for _, tt := range []struct {
		d    Device
		want string
	}{
		{Device{Kind: NullBlk, CompletionUS: 1000, Tags: 32, Queues: 1, SizeMiB: 4096},
			"null_blk, completion 1000 us, 1 queue of 32 tags, 4096 MiB"},
		{Device{Kind: ModelDisk, Tags: 64, Queues: 1, Model: Model{Name: "nvme", Preset: "p4500-2tb", Scale: 16}},
			"modeldisk nvme/p4500-2tb, scale 16, 1 queue of 64 tags"},
		{Device{Kind: ModelDisk, Tags: 8, Queues: 2, SizeMiB: 64, Model: Model{
			Name: "hdd", Scale: 1, PollQueues: 1, Params: map[string]int64{"rpm": 7200, "ncq_depth": 4},
			MemoryBacked: true, WriteCache: true, Discard: true}},
			"modeldisk hdd, ncq_depth 4, rpm 7200, scale 1, 2 queues of 8 tags, 1 poll queue, 64 MiB, memory-backed, write cache, discard"},
	} {
		if got := tt.d.String(); got != tt.want {
			t.Errorf("String\n got %s\nwant %s", got, tt.want)
		}
	}
}

func TestParseRefusesModelDisk(t *testing.T) {
	keys := "model, preset, scale, seed, tags, queues, poll_queues, size_mib, memory_backed, write_cache, discard, filesystem, swap_mib, params, iocost"
	refuses(t, modelDisk, []struct{ name, old, new, want string }{
		{"a key of another kind", `scale = 16`, `completion_us = 16`,
			"x:10: device.completion_us: is not a key of kind modeldisk; allowed: " + keys},
		{"no model", "model = \"nvme\"\n", "",
			"x:6: device.model: is missing; allowed: fixed, hdd, flash, nvme, ull"},
		{"unknown model", `model = "nvme"`, `model = "tape"`,
			`x:8: device.model: unknown model "tape"; allowed: fixed, hdd, flash, nvme, ull`},
		{"preset with a slash", `"p4500-2tb"`, `"../power"`,
			`x:9: device.preset: "../power" is not a preset's name; allowed: a preset of the model, or leave it out for the first`},
		{"scale", "scale = 16", "scale = 1001", "x:10: device.scale: 1001 is out of range; allowed: an integer 1..1000"},
		{"seed", "scale = 16", "seed = -1", "x:10: device.seed: -1 is out of range; allowed: an integer 0 and up"},
		{"memory without a size", "size_mib = 1024\n", "",
			"x:6: device.size_mib: is missing; allowed: how much memory a memory-backed disk may take"},
		{"bool", "memory_backed = true", "memory_backed = 1",
			"x:11: device.memory_backed: has the wrong type; allowed: true or false"},
		{"negative parameter", "ncq_depth = 4", "ncq_depth = -4",
			"x:14: device.params.ncq_depth: -4 is not allowed; allowed: an integer 0 and up"},
		{"text for a parameter", "ncq_depth = 4", `ncq_depth = "4"`,
			"x:14: device.params.ncq_depth: 4 is not allowed; allowed: an integer 0 and up"},
		{"parameter that leads elsewhere", "ncq_depth = 4", `"../power" = 1`,
			"x:14: device.params.../power: is not a parameter's name; allowed: the files in the model's directory in configfs"},
		{"unknown key of iocost", "rbps = 3200", "rbsp = 3200",
			"x:16: device.iocost.rbsp: unknown key; allowed: rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops, rlat_us, wlat_us"},
		{"no rate", "rbps = 3200\n", "",
			"x:15: device.iocost.rbps: is missing; allowed: what the disk does each second, unscaled"},
		{"latency", "rlat_us = 170", "rlat_us = -1",
			"x:22: device.iocost.rlat_us: -1 is out of range; allowed: an integer 0..10000000"},
		{"rate 0", "rbps = 3200", "rbps = 0",
			"x:16: device.iocost.rbps: 0 is out of range; allowed: an integer 1 and up"},
		{"iocost without its table", modelDisk[strings.Index(modelDisk, "[device.iocost]"):strings.Index(modelDisk, "[job]")], "",
			"x:3: schedulers: iocost needs to be told what the modeldisk can do; allowed: device.disk, or a [device.iocost] table with " +
				"rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops; or leave iocost out"},
	})
	refuses(t, valid, []struct{ name, old, new, want string }{
		{"a model's key for null_blk", "tags = 32", "tags = 32\nscale = 2",
			"x:13: device.scale: is not a key of kind null_blk; allowed: completion_us, tags, queues, size_mib"},
	})
}

func TestParseRefusesFilesystems(t *testing.T) {
	with := func(lines string) string { return "model = \"nvme\"\n" + lines }
	const base = "name = \"x\"\nquestion = \"What?\"\nschedulers = [\"bfq\"]\nduration_s = 1.0\n[device]\nkind = \"modeldisk\"\nmodel = \"nvme\"\n" +
		"[job]\nrw = \"write\"\n[[container]]\nname = \"a\"\nweight = 1\n"
	refuses(t, base, []struct{ name, old, new, want string }{
		{"unknown", with(""), with("memory_backed = true\nsize_mib = 64\nfilesystem = \"fat\"\n"),
			`x:10: device.filesystem: unknown file system "fat"; allowed: ext4, xfs, btrfs`},
		{"too small", with(""), with("memory_backed = true\nsize_mib = 64\nfilesystem = \"xfs\"\n"),
			"x:9: device.size_mib: 64 is too small for xfs; allowed: 300 and up"},
		{"swap on nothing", with(""), with("memory_backed = true\nsize_mib = 64\nswap_mib = 8\n"),
			`x:10: device.swap_mib: needs a file system to be a file of; allowed: device.filesystem = "ext4" or "xfs"`},
		{"swap on btrfs", with(""), with("memory_backed = true\nsize_mib = 512\nfilesystem = \"btrfs\"\nswap_mib = 8\n"),
			`x:11: device.swap_mib: does not go with btrfs; allowed: device.filesystem = "ext4" or "xfs"`},
		{"swap on most of the disk", with(""), with("memory_backed = true\nsize_mib = 64\nfilesystem = \"ext4\"\nswap_mib = 33\n"),
			"x:11: device.swap_mib: 33 is out of range; allowed: an integer 1..32"},
		{"no memory", "weight = 1\n", "weight = 1\nmemory_mib = 0\n",
			"x:13: container.memory_mib: 0 is out of range; allowed: an integer 1..1048576"},
		{"nothing is kept", with(""), with("filesystem = \"ext4\"\n"),
			"x:8: device.filesystem: needs a disk that keeps what is written; allowed: memory_backed = true, with size_mib; or no filesystem"},
	})
	e, err := Parse("x", []byte(strings.Replace(base, with(""), with("memory_backed = true\nsize_mib = 64\nfilesystem = \"ext4\"\n"), 1)))
	must.OK(t, err)
	if d := e.Cases[0].Device; d.Filesystem != "ext4" || !strings.HasSuffix(d.String(), "memory-backed, ext4") {
		t.Errorf("device %s", d)
	}
	if e.Swaps() || e.Cases[0].Containers[0].MemoryMiB != 0 {
		t.Error("there is swap, or a limit, that the file does not have")
	}
}

// Each case has a file system of its own; memory and swap are as the file has them.
func TestParseFilesystems(t *testing.T) {
	const text = "name = \"x\"\nquestion = \"What?\"\nschedulers = [\"bfq\"]\nduration_s = 1.0\n" +
		"[device]\nkind = \"modeldisk\"\nmodel = \"nvme\"\nmemory_backed = true\nsize_mib = 512\nfilesystem = \"xfs\"\n" +
		"[job]\nrw = \"write\"\n[[container]]\nname = \"a\"\nweight = 1\nmemory_mib = 64\n" +
		"[[case]]\nname = \"swap\"\ndevice.swap_mib = 256\n[[case]]\nname = \"btrfs\"\ndevice.filesystem = \"btrfs\"\n[[case]]\nname = \"again\"\n"
	e, err := Parse("x", []byte(text))
	must.OK(t, err)
	var kinds []string
	for _, kind := range e.FilesystemsUsed() {
		kinds = append(kinds, kind.Name)
	}
	if got := strings.Join(kinds, " "); got != "xfs btrfs" || !e.Swaps() {
		t.Errorf("file systems %s, swaps: %v", got, e.Swaps())
	}
	if d := e.Cases[0].Device; d.SwapMiB != 256 || !strings.HasSuffix(d.String(), "memory-backed, xfs, swap 256 MiB") {
		t.Errorf("device %s", d)
	}
	if e.Cases[1].Device.SwapMiB != 0 || e.Cases[1].Containers[0].MemoryMiB != 64 {
		t.Errorf("case btrfs: %+v", e.Cases[1])
	}
}
