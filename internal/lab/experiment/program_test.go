// SPDX-License-Identifier: MIT

package experiment

import (
	"reflect"
	"regexp"
	"testing"

	"isolio/internal/must"
)

const withPrograms = `name = "p"
question = "How soon?"
schedulers = ["none", "bfq"]
duration_s = 3.5
programs = ["cat"]
[device]
kind = "modeldisk"
model = "nvme"
size_mib = 64
memory_backed = true
filesystem = "ext4"
[job]
rw = "randread"
[[program]]
name = "sqlite"
ends = true
setup = [["sqlite3", "x.db", "CREATE TABLE t (x)"]]
command = ["sh", "-c", "cat x.sql | sqlite3 x.db"]
output = { latency = '(?P<at>\d+) real ([\d.]+)', unit = "s" }
[[container]]
name = "a"
weight = 100
program = "sqlite"
[[container]]
name = "b"
weight = 300
command = ["pgbench"]
output = { per_s = 'tps = ([\d.]+)', p99 = 'p99 (\d+)' }
[[container]]
name = "c"
weight = 100
job.rw = "write"
`

func TestParsePrograms(t *testing.T) {
	e, err := Parse("x", []byte(withPrograms))
	must.OK(t, err)
	all := e.Cases[0].Containers
	want := &Program{
		Ends: true, Setup: [][]string{{"sqlite3", "x.db", "CREATE TABLE t (x)"}}, Command: []string{"sh", "-c", "cat x.sql | sqlite3 x.db"},
		Output: Output{Latency: `(?P<at>\d+) real ([\d.]+)`, Unit: "s"},
	}
	if !reflect.DeepEqual(all[0].Program, want) || all[0].Job != nil {
		t.Errorf("a: %+v, job %v; want %+v", all[0].Program, all[0].Job, want)
	}
	want = &Program{Command: []string{"pgbench"}, Output: Output{PerS: `tps = ([\d.]+)`, Statistics: map[string]string{"p99": `p99 (\d+)`}, Unit: "us"}}
	if !reflect.DeepEqual(all[1].Program, want) || all[1].Job != nil {
		t.Errorf("b: %+v, job %v; want %+v", all[1].Program, all[1].Job, want)
	}
	if all[2].Program != nil || all[2].Job["rw"] != "write" {
		t.Errorf("c: %+v", all[2])
	}
	if !e.UsesPrograms() || !e.Writes() || !reflect.DeepEqual(e.Programs, []string{"cat"}) {
		t.Errorf("uses programs: %v, writes: %v, programs %v", e.UsesPrograms(), e.Writes(), e.Programs)
	}
	number, at := Groups(regexp.MustCompile(all[0].Program.Output.Latency))
	if number != 2 || at != 1 {
		t.Errorf("the number is group %d, when it was group %d; want 2 and 1", number, at)
	}
	if solo, err := Parse("x", []byte(fsOnly)); err != nil || solo.UsesPrograms() {
		t.Errorf("an experiment without a command: %v, uses programs: %v", err, solo.UsesPrograms())
	}
}

const fsOnly = `name = "p"
question = "How soon?"
schedulers = ["none"]
duration_s = 3.5
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
[[container]]
name = "a"
weight = 100
`

func TestParseRefusesPrograms(t *testing.T) {
	const pattern = "a regular expression of Go with one group, which is a number"
	refuses(t, withPrograms, []struct{ name, old, new, want string }{
		{"job and command", "command = [\"pgbench\"]\n", "command = [\"pgbench\"]\njob.rw = \"read\"\n",
			"x:27: container.command: does not go with job; allowed: a command, or fio's options in job"},
		{"job and program", "program = \"sqlite\"\n", "program = \"sqlite\"\njob.rw = \"read\"\n",
			"x:23: container.program: does not go with job; allowed: a command, or fio's options in job"},
		{"program and command", "program = \"sqlite\"\n", "program = \"sqlite\"\ncommand = [\"find\"]\n",
			"x:23: container.program: does not go with command; allowed: one or the other"},
		{"unknown program", "program = \"sqlite\"\n", "program = \"mysql\"\n",
			`x:23: container.program: there is no program "mysql"; allowed: sqlite`},
		{"count", "command = [\"pgbench\"]\n", "command = [\"pgbench\"]\ncount = 4\n",
			"x:27: container.command: does not go with count; allowed: one container for each command"},
		{"nothing to run", "command = [\"pgbench\"]\n", "command = []\n",
			"x:27: container.command: names no program; allowed: a program and its arguments"},
		{"nothing to set up", "setup = [[\"sqlite3\", \"x.db\", \"CREATE TABLE t (x)\"]]", "setup = [[]]",
			"x:17: program.setup: names no program; allowed: a program and its arguments"},
		{"setup of a job", "job.rw = \"write\"\n", "setup = [[\"true\"]]\n",
			`x:32: container.setup: goes with command; allowed: command = ["PROGRAM", "ARGUMENT", ...]`},
		{"no command", "command = [\"sh\", \"-c\", \"cat x.sql | sqlite3 x.db\"]\n", "",
			"x:14: program.command: is missing; allowed: a program and its arguments"},
		{"no file system", "filesystem = \"ext4\"\n", "",
			"x:22: container.program: needs a file system to run on; allowed: device.filesystem, one of ext4, xfs, btrfs"},
		{"no expression", `'tps = ([\d.]+)'`, `'tps = ('`,
			`x:28: container.output.per_s: "tps = (" is no regular expression; allowed: ` + pattern},
		{"no group", `'tps = ([\d.]+)'`, `'tps'`,
			`x:28: container.output.per_s: "tps" has 0 groups; allowed: ` + pattern + "; (?:...) is none"},
		{"when of a rate", `'tps = ([\d.]+)'`, `'(?P<at>\d+) tps = ([\d.]+)'`,
			`x:28: container.output.per_s: "(?P<at>\\d+) tps = ([\\d.]+)" has 2 groups; allowed: ` + pattern + "; (?:...) is none"},
		{"unknown statistic", `p99 = 'p99`, `p98 = 'p99`,
			"x:28: container.output.p98: unknown key; allowed: per_s, latency, unit, mean, p10, p30, p50, p70, p90, p95, p99, p99_9, p99_99, max"},
		{"unknown unit", `unit = "s"`, `unit = "h"`,
			`x:19: program.output.unit: unknown unit "h"; allowed: ns, us, ms, s`},
		{"its percentiles and ours", `unit = "s"`, `p99 = 'p99 (\d+)'`,
			"x:19: program.output.latency: does not go with statistics that the program computes itself; allowed: latency, or mean, p10, p30, p50, p70, p90, p95, p99, p99_9, p99_99, max"},
		{"a path among programs", `programs = ["cat"]`, `programs = ["bin/cat"]`,
			`x:5: programs: "bin/cat" is not a program's name; allowed: names without a directory, such as "postgres"`},
		{"operations of fio", "duration_s = 3.5\n", "duration_s = 3.5\nshare_unit = \"operations\"\n",
			"x:5: share_unit: container c does not say how many operations it did; allowed: for operations: containers with a command, and output.per_s or output.latency"},
		{"fair latency", "[[program]]", "[[expect]]\nscheduler = \"bfq\"\nmetric = \"p99_vs_fair\"\nmax = 2\n[[program]]",
			"x:16: expect.metric: needs to know how many requests each container keeps outstanding, which a command does not say; allowed: another metric, or containers with a job alone"},
		{"a contender's job", "[[program]]", "[[contender]]\nname = \"v\"\nscheduler = \"bfq\"\njob.a.bs = \"4k\"\n[[program]]",
			`x:14: contender.job.a: container "a" has a command, and no fio; allowed: containers with a job`},
	})
	refuses(t, fsOnly, []struct{ name, old, new, want string }{
		{"programs for nobody", "duration_s = 3.5\n", "duration_s = 3.5\nprograms = [\"cat\"]\n",
			"x:5: programs: goes with containers that have a command; allowed: leave it out"},
	})
}
