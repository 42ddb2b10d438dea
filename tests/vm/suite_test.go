// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	suiteScript = "/tests/containers/run" // of vm-run's --carry
	suiteGroups = 4
	suiteLimit  = 30 * time.Minute // for a suite under one scheduler
)

// suiteContenders are compared: all but "iocost" are schedulers. The first is what the others
// are judged by. ISOLIO_SUITE_SCHEDULERS has others.
var suiteContenders = []string{"none", "mq-deadline", "bfq", "iocost", elevator}

// suiteResult is what a suite says of one of its tests: "passed", "failed" or "skipped", and a
// figure if it measures.
type suiteResult struct {
	test, result string
	figure       float64
	unit         string
}

// suiteRun tells what a suite came to under one scheduler.
type suiteRun struct {
	Kernel    string   `json:"kernel"`
	Suite     string   `json:"suite"`
	Disk      string   `json:"disk"`
	Scheduler string   `json:"scheduler"`
	Passed    int      `json:"passed"`
	Failed    []string `json:"failed"`
	Skipped   []string `json:"skipped"`
}

// suiteFigure tells what one of its tests measured.
type suiteFigure struct {
	Kernel    string  `json:"kernel"`
	Suite     string  `json:"suite"`
	Disk      string  `json:"disk"`
	Test      string  `json:"test"`
	Unit      string  `json:"unit"`
	Scheduler string  `json:"scheduler"`
	Figure    float64 `json:"figure"`
}

// TestSuite runs a test suite of others, on ext4 on disks of real drivers, under each scheduler. What
// fails, and fails not under none, is a fault. The VM fails if the kernel complains.
func TestSuite(t *testing.T) {
	suite := os.Getenv("ISOLIO_SUITE")
	if suite == "" {
		t.Skip("takes a suite of others: make suite S=stress-ng")
	}
	loaded(t)
	control := filepath.Join(cgroupRoot, "cgroup.subtree_control")
	write(t, control, "+memory")
	t.Cleanup(func() { write(t, control, "-memory") })
	kinds := strings.Fields(os.Getenv("ISOLIO_SUITE_DISKS"))
	disks := realDisks(t, kinds)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { compareSuite(t, suite, kind, disks[kind][0]) })
	}
}

// compareSuite runs a suite on a disk under each scheduler.
func compareSuite(t *testing.T, suite, kind string, d *disk) {
	failed := map[string][]string{} // tests by scheduler
	contenders := suiteContenders
	if text := os.Getenv("ISOLIO_SUITE_SCHEDULERS"); text != "" {
		contenders = strings.Fields(text)
	}
	for _, contender := range contenders {
		var results []suiteResult
		t.Run(contender, func(t *testing.T) {
			watchLog(t)
			results = runSuite(t, contender, d)
		})
		told := suiteRun{Kernel: kernelRelease(t), Suite: suite, Disk: kind, Scheduler: contender, Failed: []string{}, Skipped: []string{}}
		for _, r := range results {
			switch r.result {
			case "passed":
				told.Passed++
			case "failed":
				told.Failed = append(told.Failed, r.test)
			default:
				told.Skipped = append(told.Skipped, r.test)
			}
			if r.unit != "" {
				send(t, "figures", suiteFigure{told.Kernel, suite, kind, r.test, r.unit, contender, r.figure})
			}
		}
		slices.Sort(told.Failed)
		slices.Sort(told.Skipped)
		send(t, "suites", told)
		failed[contender] = told.Failed
		t.Logf("%s on %s under %s: %d passed, failed %v, skipped %v", suite, kind, contender, told.Passed, told.Failed, told.Skipped)
		if told.Passed == 0 {
			t.Errorf("%s: no test passed", contender)
		}
	}
	for _, contender := range contenders[1:] {
		for _, test := range failed[contender] {
			if !slices.Contains(failed[contenders[0]], test) {
				t.Errorf("%s fails under %s, and not under %s", test, contender, contenders[0])
			}
		}
	}
}

// runSuite runs a suite on a new ext4, with a file for swap, in cgroups of four weights. The file system
// has no fault afterwards.
func runSuite(t *testing.T, contender string, d *disk) (results []suiteResult) {
	t.Helper()
	scheduler := contender
	if contender == "iocost" {
		scheduler = "none"
		qos := filepath.Join(cgroupRoot, "io.cost.qos")
		write(t, qos, d.number+" enable=1")
		defer write(t, qos, d.number+" enable=0")
	}
	d.use(t, scheduler)
	defer d.use(t, "none")
	c := &cutDisk{disk: d, fs: fileSystem{kind: "ext4"}, at: t.TempDir()}
	c.program(t, []string{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"})
	must(t, c.mount())
	swap := filepath.Join(c.at, "swap")
	must(t, os.WriteFile(swap, make([]byte, 64<<20), 0o600))
	must(t, run("mkswap", swap))
	must(t, run("swapon", swap))
	args := []string{suiteScript, filepath.Join(c.at, "suite")}
	must(t, os.Mkdir(args[1], 0o777))
	for i := range suiteGroups {
		group := newGroup(t, fmt.Sprint("suite-", i))
		defer func() { must(t, removeGroup(group)) }()
		for file, value := range map[string]string{
			weightFile: fmt.Sprint(100 << i), "io.weight": fmt.Sprint("default ", 100<<i), "io.bfq.weight": fmt.Sprint(100 << i),
			"memory.max": "96M",
		} {
			if exists(filepath.Join(group, file)) {
				write(t, filepath.Join(group, file), value)
			}
		}
		args = append(args, group)
	}
	results = readSuite(t, args)
	must(t, run("swapoff", swap))
	must(t, unix.Unmount(c.at, 0))
	if out, err := c.try([]string{"e2fsck", "-f", "-n"}); err != nil {
		t.Errorf("%s: e2fsck: %v\n%s", contender, err, out)
	}
	return results
}

// readSuite runs a suite's script and reads its results. What it says besides is logged.
func readSuite(t *testing.T, args []string) (results []suiteResult) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	late := time.AfterFunc(suiteLimit, func() {
		t.Errorf("it hangs: %v", suiteLimit)
		logBusy(t)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	})
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %v", args, err)
	}
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || !slices.Contains([]string{"passed", "failed", "skipped"}, fields[1]) {
			t.Log(lines.Text())
			continue
		}
		r := suiteResult{test: fields[0], result: fields[1]}
		if len(fields) == 4 {
			r.figure, r.unit = number(t, fields[2]), fields[3]
		}
		results = append(results, r)
	}
	return results
}
