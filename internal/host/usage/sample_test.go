// SPDX-License-Identifier: MIT

package usage

import (
	"slices"
	"testing"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/policy"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

func TestTakeIOSample(t *testing.T) {
	root := testtree.New(t, map[string]string{
		"io.stat":     "259:0 rbytes=8192 wbytes=0 rios=2 wios=0 dbytes=0 dios=0\n",
		"a/io.stat":   "259:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n8:0 rbytes=0 wbytes=512 rios=0 wios=1\n",
		"a/b/io.stat": "",
		"c/pids.max":  "max\n", // a group without the io controller
	})
	s, err := TakeIOSample(cgroup.Tree{Root: root})
	must.OK(t, err)
	if want := []string{policy.RootGroup, "a", "a/b", "c"}; !slices.Equal(s.Groups, want) {
		t.Errorf("groups %v, want %v", s.Groups, want)
	}
	if got := s.Stats["a"]["8:0"]; got != (cgroup.IOStat{WriteBytes: 512, WriteIOs: 1}) {
		t.Errorf("a on 8:0: %+v", got)
	}
}
