// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"isolio/tests/hostile/script"
)

// world is all there is in one run.
type world struct {
	choice  script.Choice
	disks   []*disk
	keepers []*keeper
	loads   sync.WaitGroup
	actors  []*actor
	ending  atomic.Bool // loads start no more
	calm    atomic.Bool // actors do nothing for a while
	over    atomic.Bool // actors end
	// loading is held for reading by a switch, and for writing by what a kernel cannot do
	// meanwhile: load a scheduler's module (looksUpTwice), or change the number of
	// hardware queues (changesMeetSwitches).
	loading sync.RWMutex
	// unloading is held for writing while a module is unloaded; see unload.
	unloading sync.RWMutex
	// away is held while a CPU is, where the number of hardware queues must not change
	// meanwhile (staysInactive); taken after loading.
	away sync.Mutex
	// swapping is set during swapoff.
	swapping atomic.Bool

	mu       sync.Mutex
	counts   map[string]int
	defaults map[string]string // scheduler/tunable to its value when chosen
	log      []string          // kernel log, its last lines
	odd      []string          // lines of it that nothing explains
	recent   []string          // the last operations of all actors, as they ended
}

// note keeps what an operation did, for a dump.
func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recent = append(w.recent, what)
	w.recent = w.recent[max(0, len(w.recent)-100):]
}

// count adds to one of the counts that the report names.
func (w *world) count(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what] += n
}

// failing is held by the first failure, for ever.
var failing sync.Mutex

// fail ends the run: it prints what is wrong and the state of all, and turns the
// VM off. A task that hangs in the kernel could not be waited for.
func (w *world) fail(format string, args ...any) {
	failing.Lock()
	w.calm.Store(true)
	fmt.Printf("HOSTILE FAIL %s\n", fmt.Sprintf(format, args...))
	w.progress()
	dumped := make(chan struct{})
	go func() { w.dump(); close(dumped) }()
	select {
	case <-dumped:
	case <-time.After(20 * time.Second): // a file of the kernel's blocks
	}
	fmt.Printf("HOSTILE END failed, seed %d\n", w.choice.Seed)
	time.Sleep(2 * time.Second) // what was printed is on its way to the host
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// progress prints how far each actor is: a kernel that dies says nothing more.
func (w *world) progress() {
	var b strings.Builder
	for _, a := range w.actors {
		fmt.Fprintf(&b, " %s=%d", a.Name, a.index.Load())
	}
	fmt.Printf("HOSTILE progress%s\n", b.String())
}

// report prints all counts on one line.
func (w *world) report() {
	done, failed := w.operations()
	var requests uint64
	for _, d := range w.disks {
		requests += d.requests()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.counts)) {
		fmt.Fprintf(&b, " %s=%d", name, w.counts[name])
	}
	fmt.Printf("HOSTILE counts worker-operations=%d worker-errors=%d requests=%d%s\n", done, failed, requests, b.String())
}

// Where the suite's cgroups are: "base" and "memory" stay, the others come and go.
const (
	cgroupRoot = "/sys/fs/cgroup"
	groupRoot  = cgroupRoot + "/hostile"
)

var (
	groupNames = []string{"a", "b", "c", "d", "deep/e", "deep/f", "deep/g"}
	lasting    = []string{"base", "memory"}
)

func makeGroups() error {
	if err := put(cgroupRoot+"/cgroup.subtree_control", "+io +memory"); err != nil {
		return err
	}
	for _, parent := range []string{"", "deep"} {
		dir := filepath.Join(groupRoot, parent)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := put(filepath.Join(dir, "cgroup.subtree_control"), "+io +memory"); err != nil {
			return err
		}
	}
	for _, name := range slices.Concat(lasting, groupNames) {
		if err := os.Mkdir(filepath.Join(groupRoot, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// anyGroup is a group for a load that starts: one of those that come and go, if
// it is there.
func (w *world) anyGroup(n uint32) string {
	name := groupNames[n%uint32(len(groupNames))]
	if dir := filepath.Join(groupRoot, name); exists(dir) {
		return dir
	}
	return filepath.Join(groupRoot, "base")
}

// removeGroup moves a group's processes away and removes it.
func (w *world) removeGroup(dir string) error {
	for try := 0; ; try++ {
		for pid := range strings.FieldsSeq(get(filepath.Join(dir, "cgroup.procs"))) {
			_ = put(filepath.Join(groupRoot, "base/cgroup.procs"), pid) // it may just have ended
		}
		err := os.Remove(dir)
		if err == nil || os.IsNotExist(err) || try == 20 {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// everyGroup are the groups that are there.
func everyGroup() (dirs []string) {
	for _, name := range slices.Concat(lasting, groupNames, []string{"", "deep"}) {
		if dir := filepath.Join(groupRoot, name); exists(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// relief undoes what may lawfully make a request wait for long: limits, freezing,
// extreme weights and tunables, faults.
func (w *world) relief() {
	for _, dir := range everyGroup() {
		_ = put(filepath.Join(dir, "cgroup.freeze"), "0")
		for _, file := range weightFiles {
			_ = put(filepath.Join(dir, file), "default 100")
			_ = put(filepath.Join(dir, file), "100")
			for _, d := range w.disks {
				_ = put(filepath.Join(dir, file), d.number()+" default")
			}
		}
		for _, file := range []string{"memory.max", "memory.high"} {
			_ = put(filepath.Join(dir, file), "max")
		}
	}
	for _, d := range w.disks {
		liftMax(d)
		_ = put(filepath.Join(cgroupRoot, "io.cost.qos"), d.number()+" enable=0")
		for _, fault := range modelFaults {
			if d.config != "" {
				_ = put(filepath.Join(d.config, fault), "0")
			}
		}
		_, active := d.schedulers()
		w.mu.Lock()
		for key, value := range w.defaults {
			if name, file, _ := strings.Cut(key, "/"); name == active {
				_ = put(d.queue("iosched/"+file), value)
			}
		}
		w.mu.Unlock()
	}
	_ = put(scsiDebug+"/every_nth", "0")
	onlineAll()
}

func onlineAll() {
	cpus, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/online") // the pattern is right
	for _, file := range cpus {
		_ = put(file, "1")
	}
}

// learnDefaults notes what every scheduler's tunables are when it is chosen.
func (w *world) learnDefaults(d *disk) error {
	offered, before := d.schedulers()
	for _, name := range offered {
		if err := put(d.queue("scheduler"), name); err != nil {
			return fmt.Errorf("%s: %s: %w", d.name, name, err)
		}
		files, _ := os.ReadDir(d.queue("iosched")) // "none" has no such directory
		for _, file := range files {
			w.defaults[name+"/"+file.Name()] = get(d.queue("iosched/" + file.Name()))
		}
	}
	return put(d.queue("scheduler"), before)
}
