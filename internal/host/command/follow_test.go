// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"isolio/internal/host/enable"
	"isolio/internal/host/state"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// --follow gives each disk its scheduler once: one that comes later as well, and another that has
// the name of one that went. What failed is in the file until it is tried again.
func TestFollow(t *testing.T) {
	// A file of this root does not show a choice as the kernel's does, so the disks have the
	// scheduler. One has a note from before that enable cannot read.
	const after, note = "none [kyber-fairness]", "run/isolio/enabled/sdb.json"
	root := twoDisks(t, after, map[string]string{"sys/block/sda/diskseq": "1\n", "sys/block/sdb/diskseq": "2\n", note: "{"})
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		testtree.File(t, file, text+"\n")
	}
	var out, errs bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	f := &enableFlags{all: true, errorFile: filepath.Join(root, "run/failures.json"), request: enable.Request{Root: root}}
	w := newFollower(f, cmd)
	says := func(what string, lines ...string) {
		t.Helper()
		var got []string
		for line := range strings.Lines(out.String()) {
			name, _, _ := strings.Cut(line, ":")
			got = append(got, name)
		}
		out.Reset()
		if !slices.Equal(got, lines) {
			t.Errorf("%s: enabled %q, want %q", what, got, lines)
		}
	}
	failing := func(what string, want ...string) {
		t.Helper()
		disks, err := state.ReadEnableErrors(f.errorFile)
		if err != nil {
			t.Error(err)
		}
		var got []string
		for _, d := range disks {
			got = append(got, d.Device)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: failures of %q, want %q", what, got, want)
		}
	}

	w.look()
	says("at first", "sda")
	failing("at first", "sdb")
	if got := strings.Count(errs.String(), "\n"); got != 1 {
		t.Errorf("%d lines, want one:\n%s", got, &errs)
	}

	put("dev/sdc", "")
	put("sys/block/sdc/dev", "8:32")
	put("sys/block/sdc/size", "8")
	put("sys/block/sdc/queue/nr_requests", "64")
	put("sys/block/sdc/queue/scheduler", after)
	w.look()
	says("one came", "sdc")

	put("sys/block/sda/queue/scheduler", "[none] kyber-fairness")
	w.look()
	says("another scheduler was chosen")
	failing("another scheduler was chosen", "sdb")

	put("sys/block/sda/queue/scheduler", after)
	put("sys/block/sda/diskseq", "3")
	w.look()
	says("another disk has the name", "sda")

	// The file cannot be written where a directory has its name. It is once that is gone.
	must.OK(t, errors.Join(os.Remove(f.errorFile), os.Mkdir(f.errorFile, 0o755)))
	put("sys/block/sdb/diskseq", "4")
	put(note, "[")
	put("sys/block/sdd/dev", "8:48")
	put("dev/sdd", "")
	put("sys/block/sdd/size", "8")
	put("sys/block/sdd/queue/nr_requests", "64")
	put("sys/block/sdd/queue/scheduler", after)
	put("run/isolio/enabled/sdd.json", "{")
	w.look()
	must.OK(t, os.Remove(f.errorFile))
	w.look()
	failing("the file can be written again", "sdb", "sdd")
	put("run/isolio/enabled/sdd.json", `{"scheduler":"kyber-fairness","before":"none","nr_requests":64}`)

	put(note, `{"scheduler":"kyber-fairness","before":"none","nr_requests":64}`)
	for range retryLooks {
		w.look()
	}
	says("tried again", "sdb", "sdd")
	failing("tried again")

	put("etc/isolio.toml", "[[disk]]\n")
	w.look()
	w.look()
	if got := strings.Count(errs.String(), "isolio.toml"); got != 1 {
		t.Errorf("the mistake was said %d times:\n%s", got, &errs)
	}
}
