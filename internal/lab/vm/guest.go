// SPDX-License-Identifier: MIT

package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// EngineEnv marks the process that is the engine in a guest, with any value but
// engineTree: with that one it is the one that runs the payload beside a distribution's
// init.
const (
	EngineEnv  = "ISOLIO_GUEST_ENGINE"
	engineTree = "tree"
)

// InGuest reports whether this process is a lab VM's init, or the engine that
// init started. If so, main does nothing but exit with GuestMain's value.
func InGuest() bool {
	return inGuest("/", os.Getpid(), os.Args[0], os.Getenv(EngineEnv))
}

// inGuest wants the name that the kernel and init give the program, and the
// initramfs's manifest below root. Being process 1 is not enough: in a
// container any program is that, and must not turn a machine off.
func inGuest(root string, pid int, name, engine string) bool {
	if name != guestInit || pid != 1 && engine == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(root, guestManifest))
	return err == nil
}

// GuestMain is the whole program in a lab VM. As init it sets the machine up,
// runs the payload, reports to the host, and turns the machine off. The
// payload is another process, so that init can reap whatever it is left with
// and survives whatever goes wrong there. Where the payload is this program too, with
// EngineEnv, it is engine that runs there.
func GuestMain(engine func() int) int {
	asInit := os.Getpid() == 1
	if !asInit && os.Getenv(EngineEnv) != engineTree {
		return engine()
	}
	ch, err := openChannel("/dev/ttyS1", asInit)
	if err != nil {
		fmt.Println("isolio: init:", err) // stands in the kernel log's file
		powerOff()
	}
	code, err := mainOf(ch, asInit)
	if err != nil {
		ch.send(Event{Kind: EventError, Line: err.Error()})
	} else {
		ch.send(Event{Kind: EventExit, Code: code})
	}
	ch.drain()
	powerOff()
	return 1
}

// mainOf returns the payload's exit status. A panic comes back as an error:
// init must live to turn the machine off.
func mainOf(ch *channel, asInit bool) (code int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("init: panic: %v", p)
		}
	}()
	text, err := os.ReadFile(guestManifest)
	if err != nil {
		return 0, fmt.Errorf("init: %w", err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return 0, fmt.Errorf("init: %s: %w", guestManifest, err)
	}
	if asInit {
		return initMain(ch, m)
	}
	ch.send(Event{Kind: EventStart})
	return runPayload(ch, m)
}

// initMain sets the machine up.
func initMain(ch *channel, m manifest) (code int, err error) {
	ch.send(Event{Kind: EventBoot, Line: release()})
	if m.Tree {
		return 0, bootTree()
	}
	if err := mountAll(earlyMounts); err != nil {
		return 0, err
	}
	for _, mod := range m.Modules {
		if err := loadModule(mod); err != nil {
			return 0, err
		}
	}
	if err := mountAll(lateMounts); err != nil {
		return 0, err
	}
	// fio's libaio queues count against this; the default is 65536.
	if err := os.WriteFile("/proc/sys/fs/aio-max-nr", []byte("1048576"), 0o644); err != nil {
		return 0, fmt.Errorf("init: %w", err)
	}
	ch.send(Event{Kind: EventStart})
	return runPayload(ch, m)
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

func powerOff() {
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Println("isolio: init: power off:", err)
	os.Exit(1) // the kernel panics at init's end, and -no-reboot ends QEMU
}

type mount struct {
	kind, at string
	optional bool // the kernel may lack this file system
}

// earlyMounts are needed to load modules and by most programs; lateMounts may
// come from modules.
var (
	earlyMounts = []mount{
		{kind: "proc", at: "/proc"},
		{kind: "sysfs", at: "/sys"},
		{kind: "tmpfs", at: "/tmp"},
		{kind: "tmpfs", at: "/run"},
		{kind: "tmpfs", at: "/dev/shm"},
		{kind: "cgroup2", at: "/sys/fs/cgroup"},
	}
	lateMounts = []mount{
		{kind: "configfs", at: "/sys/kernel/config", optional: true},
		{kind: "debugfs", at: "/sys/kernel/debug", optional: true},
		{kind: "tracefs", at: "/sys/kernel/tracing", optional: true},
		{kind: "securityfs", at: "/sys/kernel/security", optional: true},
	}
)

func mountAll(list []mount) error {
	for _, m := range list {
		if m.optional {
			if _, err := os.Stat(m.at); err != nil {
				continue
			}
		} else if err := os.MkdirAll(m.at, 0o755); err != nil {
			return fmt.Errorf("init: %w", err)
		}
		err := unix.Mount(m.kind, m.at, m.kind, 0, "")
		if err != nil && (!m.optional || !errors.Is(err, unix.ENODEV)) {
			return fmt.Errorf("init: mount %s at %s: %w", m.kind, m.at, err)
		}
	}
	return nil
}

func loadModule(mod Module) error {
	f, err := os.Open(mod.Path)
	if err != nil {
		return fmt.Errorf("init: module: %w", err)
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(mod.Path, ".ko") { // .ko.xz and the like
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	err = unix.FinitModule(int(f.Fd()), mod.Params, flags)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("init: module %s does not load: %w (the kernel log may say why)", filepath.Base(mod.Path), err)
	}
	return nil
}

// channel is the way to the host: one JSON object a line.
type channel struct {
	mu sync.Mutex
	w  io.Writer
	fd int
}

// openChannel opens a serial port and makes it pass bytes as they are. With
// mount it mounts /dev, which holds the port, before.
func openChannel(name string, mount bool) (*channel, error) {
	if mount {
		if err := unix.Mount("devtmpfs", "/dev", "devtmpfs", 0, ""); err != nil {
			return nil, fmt.Errorf("mount /dev: %w", err)
		}
	}
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	tio, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	tio.Iflag, tio.Oflag, tio.Lflag = 0, 0, 0
	tio.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, tio); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &channel{w: fdWriter(fd), fd: fd}, nil
}

// fdWriter writes to a file descriptor without the runtime's poller.
type fdWriter int

func (fd fdWriter) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Write(int(fd), p[n:])
		if err != nil && !errors.Is(err, unix.EINTR) {
			return n, err
		}
		n += max(m, 0)
	}
	return n, nil
}

// send stamps the event and writes it. Only the console can have an error of that.
func (c *channel) send(ev Event) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err == nil {
		ev.UptimeMS = time.Duration(now.Nano()).Milliseconds()
	}
	line, err := json.Marshal(ev)
	if err != nil {
		line, _ = json.Marshal(Event{Kind: EventError, Line: "event: " + err.Error()})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.w.Write(append(line, '\n')); err != nil {
		fmt.Println("isolio: init: event:", err)
	}
}

// drain waits until the port has sent everything.
func (c *channel) drain() {
	_ = unix.IoctlSetInt(c.fd, unix.TCSBRK, 1)
}
