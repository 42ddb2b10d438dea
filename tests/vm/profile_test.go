// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// promiseDisks are the disks of experiments/promises, as its files have them.
var promiseDisks = []struct {
	name     string
	settings []string
	// args are those of measure. Slowed down as it is here, the SATA SSD collects garbage for longer than measure
	// waits for one request, so its profile has no writes.
	args []string
}{
	{"sata-ssd", []string{"model=flash", "preset=sata-ssd", "scale=32", "tags=32"}, []string{"--loads", "randread-4k,read-128k", "--depths", "1,4,8,16,32,64"}},
	{"p4500-2tb", []string{"model=nvme", "preset=p4500-2tb", "scale=128", "tags=1023"},
		[]string{"--allow-writes", "--loads", "randread-4k,read-128k,randwrite-4k,write-128k", "--depths", "1,16,64,128,256"}},
	{"emmc", []string{"model=flash", "preset=emmc", "scale=1", "tags=64"}, []string{"--allow-writes", "--loads", "randread-4k,randwrite-4k", "--depths", "1,2,4", "--time", "4s"}},
}

// profilesVariable has TestProfiles measure.
const profilesVariable = "ISOLIO_PROFILES"

// The profiles in experiments/promises/profiles, which its weights are made of. It tests that each disk can be
// measured, and hands the profiles out.
func TestProfiles(t *testing.T) {
	if os.Getenv(profilesVariable) == "" {
		t.Skipf("it takes some minutes: vm-run --env %s=1 --data FILE measures", profilesVariable)
	}
	withModelDisk(t)
	for _, c := range promiseDisks {
		d := newModelDisk(t, c.settings)
		text := succeeds(t, append([]string{"measure", d.name, "--scheduler", "none", "--json"}, c.args...)...)
		t.Logf("%s\n%s", c.name, succeeds(t, "measure", d.name, "--show"))
		var line bytes.Buffer
		must(t, json.Compact(&line, []byte(text)))
		_, err := fmt.Fprintf(dataOut, "{\"name\": %q, \"profile\": %s}\n", c.name, line.String())
		must(t, err)
	}
}
