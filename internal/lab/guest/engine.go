// SPDX-License-Identifier: MIT

package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"

	"isolio/internal/failure"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// Paths in a VM that host and guest agree on.
const (
	PlanFile   = "/isolio/plan.json"
	EnginesDir = "/isolio/fio" // libaps' engines for fio
)

// Report is what the engine writes to file 3 in a VM, one member a line.
type Report struct {
	Progress *Progress   `json:"progress,omitempty"`
	Run      *result.Run `json:"run,omitempty"`
	Error    string      `json:"error,omitempty"`
}

// Engine is the payload of a contender's VM: it runs the plan in the initramfs, which has
// one contender in one case.
func Engine() int {
	return engine(PlanFile, json.NewEncoder(os.NewFile(3, "report")), os.Stderr)
}

// engine runs the plan in a file, reports progress and result or error, and returns the
// exit code.
func engine(file string, to *json.Encoder, stderr io.Writer) int {
	tell := func(r Report) {
		if err := to.Encode(r); err != nil {
			fmt.Fprintln(stderr, "isolio: engine:", err)
		}
	}
	x, err := readPlan(file)
	if err != nil {
		tell(Report{Error: err.Error()})
		return failure.Failed
	}
	// The timekeeper sleeps in the kernel; others go on meanwhile though there
	// is one CPU.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	env := NewEnv("")
	env.Engines, env.Outrank = EnginesDir, true
	run, err := Run(context.Background(), env, x, &x.Cases[0], x.Schedulers[0],
		func(p Progress) { tell(Report{Progress: &p}) })
	if err != nil {
		tell(Report{Error: err.Error()})
		return failure.Code(err)
	}
	tell(Report{Run: &run})
	return failure.OK
}

// readPlan reads a plan of one contender in one case.
func readPlan(file string) (*experiment.Experiment, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	x, err := experiment.FromPlan(file, text)
	if err == nil && (len(x.Cases) != 1 || len(x.Schedulers) != 1) {
		err = fmt.Errorf("%s: has %d cases and %d contenders, want one of each", file, len(x.Cases), len(x.Schedulers))
	}
	return x, err
}
