// SPDX-License-Identifier: MIT

package guest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/must"
)

// changing has two changes of the disk in its 0.4 s, not in the order of their times.
const changing = modelDisk + `
[[change]]
at_s = 0.3
device = { scale = 16 }
[[change]]
at_s = 0.2
device = { stall_us = 7, scale = 48 }
`

func changingRun(t *testing.T, text, device string) (*fakeMachine, error) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, "barrier; sleep 0.1; count 4096 0; stat 110 15 47 9; load; report; exit 128")
	if device == "" {
		e.Find = nil
	}
	x, err := experiment.Parse("x.toml", []byte(text))
	must.OK(t, err)
	began := time.Now()
	run, err := runOn(context.Background(), e, x, "none", nil)
	if err != nil {
		return m, err
	}
	want := []string{"after 300ms: modeldisk/scale = 16", "after 200ms: modeldisk/scale = 48", "after 200ms: modeldisk/stall_us = 7"}
	if n := len(run.Settings); n < 3 || !slices.Equal(run.Settings[n-3:], want) {
		t.Errorf("settings %q, want %q at the end", run.Settings, want)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("the run took %s", took)
	}
	return m, nil
}

// The disk changes under load, at the times that the file says.
func TestChange(t *testing.T) {
	m, err := changingRun(t, changing, "")
	must.OK(t, err)
	m.checkClean()
	log := strings.Join(m.log, "\n")
	const dir = "sys/kernel/config/modeldisk/isolio0/"
	power := strings.Index(log, dir+"power = 1\n")
	changes := strings.Index(log, dir+"scale = 48\n"+dir+"stall_us = 7\n"+dir+"scale = 16\n")
	off := strings.Index(log, dir+"power = 0\n")
	if power < 0 || changes < power || off < changes {
		t.Errorf("power on at %d, changes at %d, off at %d:\n%s", power, changes, off, log)
	}
}

// What the disk refuses ends the run, and the machine is as it was.
func TestChangeThatIsRefused(t *testing.T) {
	m, err := changingRun(t, strings.Replace(changing, "stall_us", "wobble_us", 1), "")
	if err == nil || !strings.Contains(err.Error(), "the change at 200ms: write \"7\" to ") || !strings.Contains(err.Error(), "isolio0/wobble_us: no such file") || failure.Code(err) != failure.Usage {
		t.Errorf("Run (code %d): %v", failure.Code(err), err)
	}
	m.checkClean()
}

// A disk of the machine is nothing that a file changes.
func TestChangeNeedsTheModelDisk(t *testing.T) {
	_, err := changingRun(t, changing, "nullb0")
	if err == nil || failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), `x.toml: case "one" changes its model disk under load, and nullb0 is none`) {
		t.Errorf("Run (code %d): %v", failure.Code(err), err)
	}
}

func TestPlanPrintsChanges(t *testing.T) {
	x, err := experiment.Parse("x.toml", []byte(changing))
	must.OK(t, err)
	_, e := newMachine(t, "")
	e.Find = nil
	changes, err := e.changes(x, &x.Cases[0], ownDevice)
	must.OK(t, err)
	var text bytes.Buffer
	must.OK(t, (&Plan{Scheduler: "none", Device: "d", Changes: changes}).Print(&text))
	if want := "# after 300ms\necho '16' > "; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, text.String())
	}
	// A disk that is a part of another is slower by as much after a change.
	x.Cases[0].Device.Share = 0.3
	if changes, err = e.changes(x, &x.Cases[0], ownDevice); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, c := range changes {
		for _, s := range c.Steps {
			steps = append(steps, c.At.String()+" "+s.Name+" "+s.Value)
		}
	}
	if want := []string{"0s modeldisk/scale_milli 53333", "300ms modeldisk/scale_milli 53333", "200ms modeldisk/scale_milli 160000", "200ms modeldisk/stall_us 7"}; !slices.Equal(steps, want) {
		t.Errorf("of 0.3 of the disk: %q, want %q", steps, want)
	}
}
