// SPDX-License-Identifier: MIT

package experiment

import (
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
)

const changing = `name = "changing"
question = "Is it as fast as it was?"
schedulers = ["none", "bfq"]
ramp_s = 2
duration_s = 2
[device]
kind = "modeldisk"
model = "ull"
scale = 16
[job]
rw = "randread"
ioengine = "libaio"
iodepth = 8
[[change]]
at_s = 1
device = { scale = 48 }
[[container]]
name = "a"
weight = 100
[[case]]
name = "slower"
sharing_reference = true
[[case]]
name = "faster"
[[case.change]]
at_s = 1.5
device = { scale = 8, stall_every = 100 }
[[case.change]]
at_s = 3
device = { stall_every = 0 }
`

func TestChanges(t *testing.T) {
	e, err := Parse("c.toml", []byte(changing))
	must.OK(t, err)
	// The reference is of the same disk, with what happens to it.
	for _, name := range []string{"slower", "slower-reference"} {
		if got := e.CaseNamed(name).Changes; len(got) != 1 || got[0].AtS != 1 || got[0].Device["scale"] != 48 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// A case's own list is in place of the file's.
	if got := e.CaseNamed("faster").Changes; len(got) != 2 || got[0].Device["stall_every"] != 100 || got[1].AtS != 3 {
		t.Errorf("faster: %+v", got)
	}
}

func TestChangesRefuse(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"no time", "at_s = 1\n", "", "c.toml:14: change.at_s: is missing; allowed: seconds after the load's start, above 0 and below ramp_s + duration_s = 4"},
		{"too late", "at_s = 1\n", "at_s = 4\n", "c.toml:15: change.at_s: 4 is out of range"},
		{"at the start", "at_s = 1\n", "at_s = 0\n", "c.toml:15: change.at_s: 0 is out of range"},
		{"nothing", "device = { scale = 48 }\n", "", "change.device: is missing"},
		{"no number", "scale = 48", `scale = "fast"`, "change.device.scale: fast is not allowed; allowed: an integer 0 and up"},
		{"below 0", "scale = 48", "scale = -1", "change.device.scale: -1 is not allowed"},
		{"no file", "scale = 48", `"../x" = 48`, `is not a file's name`},
		{"another key", "at_s = 1\n", "at_s = 1\nqueue = 5\n", "change.queue: unknown key; allowed: at_s, device"},
		{"another disk", "kind = \"modeldisk\"\nmodel = \"ull\"\nscale = 16", "kind = \"null_blk\"\ncompletion_us = 10\ntags = 8", "change.device: is about a model disk; allowed: kind = \"modeldisk\" in [device]"},
	} {
		text := strings.Replace(changing, tt.old, tt.new, 1)
		if text == changing {
			t.Fatalf("%s: nothing replaced", tt.name)
		}
		if _, err := Parse("c.toml", []byte(text)); err == nil || failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}
