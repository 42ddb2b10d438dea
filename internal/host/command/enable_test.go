// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"isolio/internal/host/enable"
	"isolio/internal/host/state"
	"isolio/internal/testtree"
)

// twoDisks is a root with sda and sdb, which have these schedulers.
func twoDisks(t *testing.T, scheduler string, more map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"dev/sda": "", "sys/block/sda/dev": "8:0\n", "sys/block/sda/size": "8\n", "sys/block/sda/queue/scheduler": scheduler + "\n", "sys/block/sda/queue/nr_requests": "64\n",
		"dev/sdb": "", "sys/block/sdb/dev": "8:16\n", "sys/block/sdb/size": "8\n", "sys/block/sdb/queue/scheduler": scheduler + "\n", "sys/block/sdb/queue/nr_requests": "64\n",
	}
	for _, all := range []map[string]string{files, more} {
		testtree.Write(t, root, all)
	}
	return root
}

// What is interrupted ends with the disk that it is at, and tells which it has left alone.
func TestEachIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	cmd.SetOut(&bytes.Buffer{})
	f := &enableFlags{request: enable.Request{Root: twoDisks(t, "[none] kyber-fairness", nil)}, dryRun: true}
	var asked []string
	err := f.each(cmd, []string{"sda", "sdb"}, func(r enable.Request) (*enable.Plan, error) {
		asked = append(asked, r.Device)
		cancel()
		return enable.Enable(r)
	})
	if !slices.Equal(asked, []string{"sda"}) {
		t.Errorf("it came to %q", asked)
	}
	if !errors.Is(err, context.Canceled) || !strings.HasSuffix(err.Error(), " before sdb: run the command again") {
		t.Errorf("%v", err)
	}
	if want := []state.EnableError{{Device: "sdb", Why: "interrupted before its turn"}}; !slices.Equal(f.failed, want) {
		t.Errorf("failed %v, want %v", f.failed, want)
	}
}

// --all takes back what there is of every disk, also of one that is not there.
func TestDisableAll(t *testing.T) {
	const rule = "# Written by: isolio enable sdx --persist. Removed by: isolio disable sdx\n# before: none\n" +
		`ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_WWN}=="0x9", ATTR{queue/scheduler}="kyber-fairness"` + "\n"
	const file, record = "etc/udev/rules.d/99-zz-isolio-0x9.rules", "run/isolio/enabled/sda.json"
	root := twoDisks(t, "none [kyber-fairness]", map[string]string{
		file: rule, record: `{"scheduler":"kyber-fairness","before":"none","nr_requests":64}`,
	})
	disable := func(ctx context.Context, args ...string) (stdout, stderr string, code int) {
		t.Helper()
		var out, errs bytes.Buffer
		code = Run(ctx, append([]string{"disable", "--all", "--root", root}, args...), nil, &out, &errs)
		return out.String(), errs.String(), code
	}
	stays := func() {
		t.Helper()
		for _, name := range []string{file, record} {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Error(err)
			}
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if stdout, stderr, code := disable(canceled); stdout != "" || stderr != "isolio: interrupted before sda: run the command again\n" || code != 1 {
		t.Errorf("interrupted: %q, %q, %d", stdout, stderr, code)
	}
	stays()
	if _, stderr, code := disable(t.Context(), "--json", "--dry-run"); code != 2 {
		t.Errorf("%q, %d", stderr, code)
	}
	if stdout, stderr, code := disable(t.Context(), "--dry-run"); code != 0 || !strings.HasSuffix(stdout, "rm "+filepath.Join(root, file)+"\n") {
		t.Errorf("%q, %q, %d", stdout, stderr, code)
	}
	stays()
	const note = "isolio: the rule /" + file + " goes: its disk is not there\n"
	if stdout, stderr, code := disable(t.Context()); stdout != "sda: scheduler none, was kyber-fairness\n" || stderr != note || code != 0 {
		t.Errorf("%q, %q, %d", stdout, stderr, code)
	}
	for _, name := range []string{file, record} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			t.Errorf("%s is left over", name)
		}
	}
}
