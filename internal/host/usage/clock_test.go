// SPDX-License-Identifier: MIT

package usage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"isolio/internal/host/block"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

const clockFile = "sys/kernel/debug/block/sda/sched/clock"

// The lines are those of kernel/kyber-fairness/debugfs.c.
func TestReadClock(t *testing.T) {
	for _, tt := range []struct {
		what, text string
		want       Clock
		err        string
	}{
		{"two", "vtime=18446744073709551615 lead_bytes=262144 age_us=12 step_us=50 walk_ns=900 active=2 shared=1 open=0 throttled=1\n" +
			"cgroup=77 weight=800 share_ppm=800000 ahead_bytes=-4096 awaited=0 outstanding=4 depth_milli=3900 owed_us=3100 alone_us=85\n" +
			"cgroup=18446744073709551615 weight=200 share_ppm=200000 ahead_bytes=300000 awaited=1 outstanding=128 depth_milli=127000 owed_us=-20 alone_us=85\n",
			Clock{262144, false, []Turn{{77, -4096, false, 4, 3900, 3100}, {1<<64 - 1, 300000, true, 128, 127000, -20}}}, ""},
		{"none is active", "vtime=0 lead_bytes=0 active=0 shared=0 open=1\n", Clock{IsOpen: true}, ""},
		{"a key of a later module", "vtime=0 lead_bytes=1 color=red\n", Clock{LeadBytes: 1}, ""},
		{"no number", "cgroup=77 owed_us=much\n", Clock{}, `"owed_us=much" is not a key and a number; `},
		{"a module that owes nothing", "cgroup=77 ahead_bytes=0 awaited=0 outstanding=4 depth_milli=3900\n", Clock{}, "cgroup=77 has no owed_us; "},
		{"no truth", "cgroup=77 awaited=2\n", Clock{}, `"awaited=2" is not`},
	} {
		t.Run(tt.what, func(t *testing.T) {
			root := testtree.New(t, map[string]string{clockFile: tt.text})
			got, err := ReadClock(block.System{Root: root}, "sda")
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), filepath.Join(root, clockFile)+": "+tt.err) {
					t.Errorf("%v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(*got, tt.want) {
				t.Errorf("%+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// The module prints each key that is read.
func TestClockKeys(t *testing.T) {
	text, err := os.ReadFile("../../../kernel/kyber-fairness/debugfs.c")
	must.OK(t, err)
	for _, key := range append([]string{"lead_bytes", "open", "cgroup"}, turnKeys...) {
		if !strings.Contains(string(text), " "+key+"=%") && !strings.Contains(string(text), `"`+key+"=%") {
			t.Errorf("debugfs.c prints no %s", key)
		}
	}
}

// A host without debugfs has no clock. The error without permission names root.
func TestNoClock(t *testing.T) {
	if c, err := ReadClock(block.System{Root: t.TempDir()}, "sda"); c != nil || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if os.Geteuid() == 0 {
		t.Skip("root may read all files")
	}
	root := testtree.New(t, map[string]string{clockFile: ""})
	must.OK(t, os.Chmod(filepath.Join(root, clockFile), 0))
	if _, err := ReadClock(block.System{Root: root}, "sda"); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "root may read it") {
		t.Error(err)
	}
}
