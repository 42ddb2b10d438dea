// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"

	"isolio/internal/failure"
	"isolio/internal/lab/bench"
	"isolio/internal/lab/experiment"
)

// Guest paths that host and guest agree on.
const (
	guestExperiment = "/isolio/experiment.toml"
	guestEngines    = "/isolio/fio" // libaps' engines
)

// Engine is the payload of a contender's VM: the experiment in the
// initramfs, under the scheduler named by the first argument, in the case named
// by the second ("" where the experiment lists none).
func Engine(args []string) int {
	if len(args) != 3 {
		fmt.Fprintf(os.Stderr, "isolio: engine: got %d arguments, want the scheduler and the case\n", len(args)-1)
		return failure.Usage
	}
	return engine(args[1], args[2], json.NewEncoder(os.NewFile(3, "report")), os.Stderr)
}

// engine runs one contender, reports progress and result or error, and returns
// the exit code.
func engine(scheduler, name string, to *json.Encoder, stderr io.Writer) int {
	tell := func(r report) {
		if err := to.Encode(r); err != nil {
			fmt.Fprintln(stderr, "isolio: engine:", err)
		}
	}
	text, err := os.ReadFile(guestExperiment)
	if err != nil {
		tell(report{Error: err.Error()})
		return failure.Failed
	}
	x, err := experiment.Parse(guestExperiment, text)
	if err != nil {
		tell(report{Error: err.Error()})
		return failure.Code(err)
	}
	k := x.CaseNamed(name)
	if k == nil {
		tell(report{Error: fmt.Sprintf("%s: no case %q", guestExperiment, name)})
		return failure.Usage
	}
	// The timekeeper sleeps in the kernel; others go on meanwhile though there
	// is one CPU.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	env := bench.NewEnv("")
	env.Engines, env.Outrank = guestEngines, true
	run, err := bench.Run(context.Background(), env, x, k, scheduler,
		func(p bench.Progress) { tell(report{Progress: &p}) })
	if err != nil {
		tell(report{Error: err.Error()})
		return failure.Code(err)
	}
	tell(report{Run: &run})
	return failure.OK
}
