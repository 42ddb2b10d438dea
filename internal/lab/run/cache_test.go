// SPDX-License-Identifier: MIT

package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/guest"
	"isolio/internal/must"
)

// What finished before an interruption is not measured again, unless its VM would be
// another: in whatever experiment it stands. When all have finished nothing is booted.
func TestResume(t *testing.T) {
	state := t.TempDir()
	opts, x := fakeLab(t, `
		echo $scheduler >>`+state+`/boots
		if [ $scheduler = kyber ] && [ ! -e `+state+`/mended ]; then
			event '{"event":"data","data":{"error":"io.bfq.weight: no such file"}}'
			event '{"event":"exit","code":3}'
			exit
		fi`+goodRun)
	opts.Jobs, opts.Cache = 1, filepath.Join(state, "cache")
	run := func(x *experiment.Experiment) (boots string, done []string, err error) {
		_, err = Experiment(context.Background(), opts, x, func(p guest.Progress) {
			if p.Phase == guest.PhaseDone {
				done = append(done, p.Scheduler)
			}
		})
		text, readErr := os.ReadFile(filepath.Join(state, "boots"))
		if readErr != nil && !errors.Is(readErr, os.ErrNotExist) {
			t.Fatal(readErr)
		}
		_ = os.Remove(filepath.Join(state, "boots"))
		return strings.Join(strings.Fields(string(text)), " "), done, err
	}

	boots, _, err := run(x)
	var interrupted *Interrupted
	if !errors.As(err, &interrupted) || interrupted.Kept != 1 || interrupted.Total != 3 {
		t.Fatalf("error %v, want an interruption with 1 of 3 kept", err)
	}
	if failure.Code(err) != failure.Unsupported || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("error %v, code %d", err, failure.Code(err))
	}
	if boots != "none kyber" {
		t.Errorf("booted %s", boots)
	}

	other, err := experiment.Parse("t.toml", []byte(strings.Replace(testExperiment, "iodepth = 1", "iodepth = 2", 1)))
	must.OK(t, err)
	opts.Reuse = true
	if boots, done, err := run(other); boots != "none kyber" || len(done) != 0 || err == nil {
		t.Errorf("another experiment: booted %s, took %v; error %v", boots, done, err)
	}

	must.OK(t, os.WriteFile(filepath.Join(state, "mended"), nil, 0o644))
	boots, done, err := run(x)
	must.OK(t, err)
	if boots != "kyber bfq" || len(done) != 1 || done[0] != "none" {
		t.Errorf("resumed: booted %s, took %v", boots, done)
	}
	renamed, err := experiment.Parse("u.toml", []byte(strings.Replace(testExperiment, `name = "t"`, "# the same\nname = \"u\"", 1)))
	must.OK(t, err)
	for _, x := range []*experiment.Experiment{x, renamed} {
		if boots, done, err := run(x); boots != "" || len(done) != 3 || err != nil {
			t.Errorf("%s again: booted %q, took %v; error %v", x.Name, boots, done, err)
		}
	}
	opts.Reuse = false
	if boots, _, err := run(x); boots != "none kyber bfq" || err != nil {
		t.Errorf("without --resume: booted %q; error %v", boots, err)
	}
}

// A kept file that is no result stops the run, and is named.
func TestResumeFromBrokenFile(t *testing.T) {
	opts, x := fakeLab(t, `[ $scheduler = none ] || exit 1`+goodRun)
	opts.Jobs, opts.Cache = 1, filepath.Join(t.TempDir(), "cache")
	_, err := Experiment(context.Background(), opts, x, nil)
	if _, ok := errors.AsType[*Interrupted](err); !ok {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(opts.Cache, "*.json"))
	must.OK(t, err)
	if len(kept) != 1 {
		t.Fatalf("kept: %v", kept)
	}
	must.OK(t, os.WriteFile(kept[0], []byte("{"), 0o644))
	opts.Reuse = true
	if _, err = Experiment(context.Background(), opts, x, nil); err == nil || !strings.Contains(err.Error(), kept[0]) {
		t.Errorf("error %v, want one that names %s", err, kept[0])
	}
}
