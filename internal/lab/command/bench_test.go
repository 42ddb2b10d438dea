// SPDX-License-Identifier: MIT

package command

import (
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/testtree"
)

// A disk is measured that nothing uses, on a machine with the io controller.
func TestFreeDisk(t *testing.T) {
	for _, tt := range []struct {
		name, disk, file, text, want string
		code                         int
	}{
		{"free", "nullb0", "", "", "", failure.OK},
		{"no such disk", "/dev/none", "", "", "device /dev/none: there is no such disk; allowed: nullb0", failure.Usage},
		{"mounted", "nullb0", "proc/self/mountinfo", "1 1 252:0 / /data rw - ext4 x rw\n", "nullb0 is mounted at /data", failure.Usage},
		{"no controller", "nullb0", "sys/fs/cgroup/cgroup.controllers", "cpu\n", "has no io controller", failure.Unsupported},
	} {
		sys := block.System{Root: t.TempDir()}
		files := map[string]string{
			"sys/block/nullb0/dev": "252:0\n", "sys/block/nullb0/size": "8388608\n", "sys/block/nullb0/queue/nr_requests": "64\n", "dev/nullb0": "",
			"proc/swaps": "", "proc/self/mountinfo": "", "sys/fs/cgroup/cgroup.controllers": "cpu io\n",
		}
		if tt.file != "" {
			files[tt.file] = tt.text
		}
		testtree.Write(t, sys.Path(""), files)
		d, err := freeDisk(sys, tt.disk)
		switch {
		case tt.want == "" && (err != nil || d.MajMin != "252:0" || d.SizeBytes != 4<<30 || d.Node != sys.Path("dev/nullb0") || d.About != "nullb0, 4096 MiB, nr_requests 64" || d.Check() == nil):
			t.Errorf("%s: %+v, %v", tt.name, d, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || failure.Code(err) != tt.code):
			t.Errorf("%s: %v, code %d; want %q, code %d", tt.name, err, failure.Code(err), tt.want, tt.code)
		}
	}
}
