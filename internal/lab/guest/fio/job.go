// SPDX-License-Identifier: MIT

// Package fio writes fio's command line for one container and reads fio's
// JSON output. It starts nothing itself.
package fio

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"isolio/internal/lab/experiment"
)

// Job is one fio process: a container's load on its own part of the device.
type Job struct {
	Name     string // also of the job in fio's output
	Filename string // the device's node, or a file that fio makes
	Files    bool   // it is a file
	// OffsetBytes and SizeBytes bound the part of the device that is used.
	OffsetBytes, SizeBytes int64
	// Ramp is how long fio runs before it counts, Runtime how long it counts.
	Ramp, Runtime time.Duration
	// Seed makes the sequence of offsets and directions repeatable.
	Seed int
	// Members are the jobs that one fio runs with the same options, each on
	// an equal part of the device's part; none for one that is just itself.
	Members []Member
	// Prerun is a shell command that each of fio's jobs runs, when it is set
	// up and before its clock starts. fio adds a redirection of its output to
	// NAME.prerun.txt in the working directory, and expands "$" itself.
	Prerun string
	// Options are the experiment's.
	Options experiment.Job
	// Engines is the directory with libaps' engines.
	Engines string
}

// EngineFile is the file of one of libaps' engines.
func EngineFile(name string) string { return "fio-" + name + ".so" }

// Member is one of several jobs of a fio.
type Member struct {
	Name   string
	Seed   int
	Prerun string
}

// percentiles are what a result shows, as fio lists them.
const percentiles = "10:30:50:70:90:95:99:99.9:99.99"

// Args is fio's command line without the program. fio writes its JSON to the
// file output. A job that only reads cannot write: fio itself refuses.
func (j Job) Args(output string) []string {
	var args []string
	if j.Members == nil {
		args = append(args, "--name="+j.Name)
	}
	args = append(args,
		"--filename="+j.Filename,
		fmt.Sprintf("--offset=%d", j.OffsetBytes),
		fmt.Sprintf("--size=%d", j.partBytes()),
	)
	// One that ends by itself is measured as a whole.
	if !j.Options.Ends() {
		args = append(args, "--time_based", "--ramp_time="+microseconds(j.Ramp))
	}
	args = append(args,
		"--runtime="+microseconds(j.Runtime),
		// With randrepeat fio takes random offsets from a constant of its own
		// and not from the seed: all containers would read the same sequence.
		"--randrepeat=0",
		fmt.Sprintf("--randseed=%d", j.Seed),
		// fio would remember which blocks it has used, with a bit each: that is
		// memory and CPU time, and no random load uses each block once.
		"--norandommap=1",
		"--lat_percentiles=1",
		"--clat_percentiles=0",
		"--percentile_list="+percentiles,
		"--unified_rw_reporting=both", // reads, writes, and all of them
		"--group_reporting",           // several processes (numjobs) are one job in the output
		"--disk_util=0",
		"--eta=never",
		"--output-format=json",
		"--output="+output,
	)
	external := j.Options.UsesLibaps()
	if external { // first: only after it its own options mean something
		args = append(args, "--ioengine=external:"+filepath.Join(j.Engines, EngineFile(j.Options["ioengine"])))
	}
	for _, name := range slices.Sorted(maps.Keys(j.Options)) {
		if name != "offset" && name != "size" && (name != "ioengine" || !external) {
			args = append(args, "--"+name+"="+j.Options[name])
		}
	}
	if j.Prerun != "" {
		args = append(args, "--exec_prerun="+j.Prerun)
	}
	if !j.Options.Writes() && !j.Files {
		args = append(args, "--readonly")
	}
	// What is said before the first name is said of all. Of a thousand jobs each
	// would first have the kernel drop the whole disk's pages, one after another.
	if j.Members != nil {
		args = append(args, "--invalidate=0")
	}
	for i, m := range j.Members {
		args = append(args, "--name="+m.Name,
			fmt.Sprintf("--offset=%d", j.OffsetBytes+int64(i)*j.partBytes()),
			fmt.Sprintf("--randseed=%d", m.Seed),
			"--exec_prerun="+m.Prerun)
	}
	return args
}

// partAlign keeps the members' parts of the device on round offsets.
const partAlign = 4096

// partBytes is how much of the device each member has.
func (j Job) partBytes() int64 {
	if j.Members == nil {
		return j.SizeBytes
	}
	return j.SizeBytes / int64(len(j.Members)) / partAlign * partAlign
}

// microseconds writes a duration in the finest unit that fio takes.
func microseconds(d time.Duration) string {
	return fmt.Sprintf("%dus", int64(math.Round(float64(d)/float64(time.Microsecond))))
}

// Processes is how many processes of the job run the prerun command.
func (j Job) Processes() int {
	return j.Options.Count("numjobs", 1) * max(1, len(j.Members))
}
