// SPDX-License-Identifier: MIT

package cgroup

import (
	"strings"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/testtree"
)

func fakeTree(t *testing.T, files map[string]string) Tree {
	t.Helper()
	return Tree{Root: testtree.New(t, files)}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string // part of the message, "" for none
	}{
		{"good", map[string]string{"cgroup.controllers": "cpuset cpu io memory pids\n"}, ""},
		{"not cgroup v2", nil, "is not a cgroup v2 tree"},
		{"cgroup v1", map[string]string{"blkio/blkio.weight": "500\n"}, "blkio is of cgroup v1, and isolio works with v2 only; boot with"},
		{"io in v1", map[string]string{"cgroup.controllers": "cpuset pids\n"}, "has no io controller (it has: cpuset pids)"},
		{"not quite io", map[string]string{"cgroup.controllers": "iox rdma\n"}, "has no io controller"},
	}
	for _, tt := range tests {
		err := fakeTree(t, tt.files).Check()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || failure.Code(err) != failure.Unsupported):
			t.Errorf("%s: %v (code %d), want %q", tt.name, err, failure.Code(err), tt.want)
		}
	}
}

// The stall of some task, in microseconds; below 0 where the kernel does not count it.
func TestStalled(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"some avg10=0.00 avg60=0.11 avg300=0.22 total=1234567\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n": 1234567 * time.Microsecond,
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n":                                                       -1,
		"":             -1,
		"some avg=1\n": -1,
	} {
		tree := Tree{Root: t.TempDir()}
		testtree.File(t, tree.Path("io.pressure"), text)
		if got, err := tree.Stalled(""); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	tree := Tree{Root: t.TempDir()}
	if got, err := tree.Stalled(""); err != nil || got != -1 {
		t.Errorf("no file: %s, %v", got, err)
	}
	testtree.File(t, tree.Path("io.pressure"), "some total=x\n")
	if got, err := tree.Stalled(""); err == nil {
		t.Errorf("no number: %s", got)
	}
}
