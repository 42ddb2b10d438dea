// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"isolio/internal/lab/vm"
	"isolio/tests/guest"
)

// The scheduler under test.
const (
	elevator   = "kyber-fairness"
	weightFile = "io.kyber.weight"
	weightMax  = 10000
	moduleName = "kyber_fairness_iosched"
	moduleFile = "kyber-fairness-iosched.ko"
)

// others are the stock schedulers to switch to and from.
var others = []string{"none", "mq-deadline", "bfq", "kyber"}

const cgroupRoot = "/sys/fs/cgroup"

// programs are those that tests have this binary run as, by the variable that holds their argument.
// The first that is set counts: a program that runs another one passes on its own variable.
var programs = []struct {
	variable string
	run      func(argument string) error
}{
	{readAheadOf, readAhead}, {askMebibyteOf, askMebibyte}, {readMebibyteOf, readMebibyte}, {readMuchOf, readMuch},
	{cutWriterOf, func(what string) error {
		kind, dir, _ := strings.Cut(what, " ")
		println(writeUntilCut(kind, dir).Error()) // the call that failed ends it, as it is to
		return nil
	}},
	{treeWalkerOf, walkTree}, {chargedOf, workCharged}, {dirtierOf, dirtyPages}, {soakProbeOf, probeSoak}, {tenantOf, isTenant},
	{swapper, func(string) error { return swapPages() }},
}

// TestMain refuses to run on anything but a lab VM: the tests load modules and
// remove disks.
func TestMain(m *testing.M) {
	for _, p := range programs {
		if argument := os.Getenv(p.variable); argument != "" {
			if err := p.run(argument); err != nil {
				println(err.Error())
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	flag.Parse()
	if flag.Lookup("test.list").Value.String() != "" {
		os.Exit(m.Run()) // runs none
	}
	if exists(packages) || exists(kubernetes) {
		os.Exit(m.Run()) // a distribution, whose systemd sets cgroups up
	}
	if os.Getppid() != 1 || !inLab() {
		println("these tests run in a lab VM only: make vm")
		os.Exit(1)
	}
	// A collection takes the machine's one CPU from the loads for some 50 ms, which
	// shares of a second show; watchLog collects before each test instead.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(64 << 20)
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // watchHangs' thread may have to wait
	err := os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), []byte("+io"), 0o644)
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	if os.Getenv(hangEnv) != "kernel" {
		go watchHangs()
	}
	os.Exit(m.Run())
}

func inLab() bool {
	_, err := os.Stat(vm.ModuleDir)
	return err == nil
}

// loaded starts a test: the module is loaded, and at the end of the test, when
// all its disks and groups are gone, the kernel's log must be clean.
func loaded(t *testing.T) {
	t.Helper()
	watchLog(t)
	if !moduleLoaded(t) {
		must(t, loadModule())
	}
}

// watchLog fails the test if the kernel complains while it runs, or if a task is
// blocked when it has ended.
func watchLog(t *testing.T) {
	t.Helper()
	runtime.GC()
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer unix.Close(fd)
		noneBlocked(t)
		var log strings.Builder
		buf := make([]byte, 8192)
		for {
			n, err := unix.Read(fd, buf) // one record: prefix;message\n
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if errors.Is(err, unix.EPIPE) { // the oldest are gone; the VM's runner has seen them
				continue
			}
			if err != nil {
				t.Errorf("/dev/kmsg: %v", err)
				break
			}
			_, message, _ := strings.Cut(string(buf[:n]), ";")
			log.WriteString("[    0.000000] " + message)
		}
		for _, line := range vm.Complaints(log.String()) {
			t.Errorf("kernel log: %s", line)
		}
	})
}

func loadModule() error { return insertModule(moduleFile) }

func insertModule(file string) error { return guest.LoadModule(filepath.Join(vm.ModuleDir, file)) }

// unloadModule does not wait: it fails at once if the module is in use.
func unloadModule() error { return unix.DeleteModule(moduleName, unix.O_NONBLOCK) }

func moduleLoaded(t *testing.T) bool {
	t.Helper()
	return inserted(t, moduleName)
}

func inserted(t *testing.T, name string) bool {
	t.Helper()
	for line := range strings.Lines(read(t, "/proc/modules")) {
		if strings.HasPrefix(line, name+" ") {
			return true
		}
	}
	return false
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	return string(b)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must(t, put(file, text))
}

func put(file, text string) error { return guest.Put(file, text) }

func exists(file string) bool { return guest.Exists(file) }

// expectErrno checks that err is one of the allowed error numbers.
func expectErrno(t *testing.T, what string, err error, allowed ...unix.Errno) {
	t.Helper()
	var errno unix.Errno
	if !errors.As(err, &errno) || !slices.Contains(allowed, errno) {
		t.Errorf("%s: %v; want one of %v", what, err, allowed)
	}
}

// kernelLog returns the kernel's log, without the prefixes of its lines.
func kernelLog(t *testing.T) string {
	t.Helper()
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	defer unix.Close(fd)
	var log strings.Builder
	for buf := make([]byte, 8192); ; {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return log.String()
		}
		if errors.Is(err, unix.EPIPE) {
			continue // the oldest are gone
		}
		must(t, err)
		_, message, _ := strings.Cut(string(buf[:n]), ";")
		log.WriteString(message)
	}
}
