// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// withStacks is the variable that says that the machine has what stacks take.
const withStacks = "ISOLIO_STACKS"

// stack is what people have between a file and their disks.
type stack struct {
	kind string
	make func(t *testing.T, parts []*disk) *disk
	// disks is how many it is on, and top whether its own requests wait in it.
	disks int
	top   bool
	// serial has one thread send requests that need not wait for each other: on to several disks, or for a loop device.
	// Where it waits for a tag, it sends nothing, and weights act once there are tags for all that is kept in flight.
	serial bool
}

const (
	// within is by how much of the share the weights may be missed.
	within = 0.03
	// enoughTags is twice the requests that a load keeps in flight.
	enoughTags = "128"
)

var stacks = []stack{
	{kind: "partition", disks: 1, make: func(_ *testing.T, parts []*disk) *disk { return parts[0] }},
	{kind: "LVM: linear", disks: 1, make: func(t *testing.T, parts []*disk) *disk { return linear(t, "linear", parts[0]) }},
	{kind: "LUKS", disks: 1, make: func(t *testing.T, parts []*disk) *disk { return luks(t, parts[0]) }},
	{kind: "LVM on LUKS", disks: 1, make: func(t *testing.T, parts []*disk) *disk { return linear(t, "onluks", luks(t, parts[0])) }},
	{kind: "LVM: thin", disks: 2, make: thin},
	{kind: "LVM: cache", disks: 2, make: dmCache},
	{kind: "multipath", disks: 1, top: true, make: func(t *testing.T, parts []*disk) *disk {
		return mapper(t, "multipath", fmt.Sprintf("0 %d multipath 0 0 1 1 round-robin 0 1 1 /dev/%s 1000", stackSectors, parts[0].wholeName()))
	}},
	{kind: "md: RAID 1", disks: 2, serial: true, make: func(t *testing.T, parts []*disk) *disk { return raid(t, "1", parts) }},
	{kind: "md: RAID 5", disks: 3, make: func(t *testing.T, parts []*disk) *disk { return raid(t, "5", parts) }},
	{kind: "md: RAID 10", disks: 4, serial: true, make: func(t *testing.T, parts []*disk) *disk { return raid(t, "10", parts) }},
	{kind: "loop file on ext4", disks: 1, serial: true, make: loopFile},
}

const (
	// stackSectors is what a stack has of a disk.
	stackSectors = 64 << 11
	partStart    = 2048
	// readMiB is how much of it is read.
	readMiB = 24
)

// wholeName is the disk that a partition is of.
func (d *disk) wholeName() string {
	if dir, err := filepath.EvalSymlinks(filepath.Join("/sys/class/block", d.name)); err == nil && exists(filepath.Join(dir, "partition")) {
		return filepath.Base(filepath.Dir(dir))
	}
	return d.name
}

// partition makes one, as fdisk would, on a disk of a kernel without a table.
func partition(t *testing.T, d *disk) *disk {
	t.Helper()
	type blkpgPartition struct {
		start, length int64
		number        int32
		names         [128]byte
		_             [4]byte
	}
	type blkpg struct {
		op, flags, length int32
		_                 int32
		data              unsafe.Pointer
	}
	f, err := os.OpenFile("/dev/"+d.name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	p := blkpgPartition{start: partStart << 9, length: (stackSectors + 32<<11) << 9, number: 1}
	must(t, ioctl(f, unix.BLKPG, unsafe.Pointer(&blkpg{op: 1, length: int32(unsafe.Sizeof(p)), data: unsafe.Pointer(&p)})))
	name := d.name + "p1"
	return &disk{name: name, number: strings.TrimSpace(read(t, filepath.Join("/sys/block", d.name, name, "dev")))}
}

func linear(t *testing.T, name string, on *disk) *disk {
	t.Helper()
	return mapper(t, name, fmt.Sprintf("0 %d linear /dev/%s 0", stackSectors-4096, on.name))
}

// luks is the device that cryptsetup makes of a volume's key.
func luks(t *testing.T, on *disk) *disk {
	t.Helper()
	return mapper(t, "luks", fmt.Sprintf("0 %d crypt aes-xts-plain64 %s 0 /dev/%s 0", stackSectors-4096, strings.Repeat("0123456789abcdef", 4), on.name))
}

func thin(t *testing.T, parts []*disk) *disk {
	t.Helper()
	clear64K(t, parts[1])
	pool := mapper(t, "stackpool", fmt.Sprintf("0 %d thin-pool /dev/%s /dev/%s 128 0 1 skip_block_zeroing", stackSectors, parts[1].name, parts[0].name))
	must(t, run("dmsetup", "message", "stackpool", "0", "create_thin 0"))
	top := mapper(t, "stackthin", fmt.Sprintf("0 %d thin /dev/%s 0", stackSectors-4096, pool.name))
	f, err := os.OpenFile("/dev/"+top.name, os.O_RDWR|unix.O_DIRECT, 0)
	must(t, err)
	defer f.Close()
	buf := aligned(1<<20, 1)
	for i := range int64(readMiB) { // what was never written is read from no disk
		_, err := f.WriteAt(buf, i<<20)
		must(t, err)
	}
	return top
}

// dmCache has what is read often on another disk; here all reads go past it.
func dmCache(t *testing.T, parts []*disk) *disk {
	t.Helper()
	clear64K(t, parts[1])
	meta := mapper(t, "cachemeta", fmt.Sprintf("0 8192 linear /dev/%s 0", parts[1].name))
	data := mapper(t, "cachedata", fmt.Sprintf("0 16384 linear /dev/%s 8192", parts[1].name))
	return mapper(t, "cached", fmt.Sprintf("0 %d cache /dev/%s /dev/%s /dev/%s 512 1 passthrough smq 0", stackSectors-4096, meta.name, data.name, parts[0].name))
}

// clear64K has a pool or a cache make new metadata.
func clear64K(t *testing.T, d *disk) {
	t.Helper()
	f, err := os.OpenFile("/dev/"+d.name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	_, err = f.Write(make([]byte, 64<<10))
	must(t, err)
	must(t, f.Sync())
}

func raid(t *testing.T, level string, parts []*disk) *disk {
	t.Helper()
	args := []string{"--create", "/dev/md0", "--run", "--assume-clean", "--metadata=1.0", "--level=" + level, "--raid-devices=" + fmt.Sprint(len(parts))}
	var nodes []string
	for _, p := range parts {
		nodes = append(nodes, "/dev/"+p.name)
	}
	must(t, run("mdadm", append(args, nodes...)...))
	t.Cleanup(func() {
		must(t, run("mdadm", "--stop", "/dev/md0"))
		must(t, run("mdadm", append([]string{"--zero-superblock"}, nodes...)...))
	})
	return existing(t, "md0")
}

// loopFile is a loop device of a file on ext4, with direct I/O.
func loopFile(t *testing.T, parts []*disk) *disk {
	t.Helper()
	at := mountExt4(t, parts[0])
	file, err := os.OpenFile(filepath.Join(at, "image"), os.O_RDWR|os.O_CREATE|unix.O_DIRECT, 0o644)
	must(t, err)
	defer file.Close()
	buf := aligned(1<<20, 1)
	for i := range int64(32) {
		_, err := file.WriteAt(buf, i<<20)
		must(t, err)
	}
	must(t, file.Sync())
	d, f := attachLoop(t, file)
	const loopSetDirectIO = 0x4c08
	must(t, unix.IoctlSetInt(int(f.Fd()), loopSetDirectIO, 1))
	return d
}

// mountExt4 makes a file system, and mounts it until the test ends.
func mountExt4(t *testing.T, d *disk) (at string) {
	t.Helper()
	must(t, run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", "/dev/"+d.name))
	at = t.TempDir()
	must(t, unix.Mount("/dev/"+d.name, at, "ext4", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(at, 0)) })
	return at
}

// identity is a line of the data: what part of a container's writes through a stack its cgroup is charged for
// on the disks below.
type identity struct {
	Kernel string  `json:"kernel"`
	Stack  string  `json:"stack"`
	Share  float64 `json:"share_of_weight_300"`
	// Tagged is the share once the disks have tags for all.
	Tagged   float64 `json:"share_with_tags"`
	Direct   float64 `json:"direct_pct"`
	Buffered float64 `json:"buffered_pct"`
}

// On each stack, a name leads to the disks, weights act on reads, status and explain agree, and all goes back.
// Which cgroup is charged for writes is measured.
func TestStacks(t *testing.T) {
	if os.Getenv(withStacks) == "" {
		t.Skip("takes the kernel's stacks: vm-run --stacks")
	}
	comparesRates(t)
	loaded(t)
	withWriteback(t, "20", "50")
	for _, s := range stacks {
		t.Run(s.kind, func(t *testing.T) { s.check(t) })
	}
}

func (s *stack) check(t *testing.T) {
	var bases, parts []*disk
	for range s.disks {
		d := newDisk(t, []string{"irqmode=2", "completion_nsec=8000000", "hw_queue_depth=16", "submit_queues=1", "size=128", "memory_backed=1"})
		bases, parts = append(bases, d), append(parts, partition(t, d))
	}
	top := s.make(t, parts)
	want := []string{}
	for _, d := range bases {
		want = append(want, d.name)
	}
	acting := bases
	if s.top {
		want, acting = []string{top.name}, []*disk{top}
	}
	name := top.name
	if strings.HasPrefix(name, "loop") { // a loop device is one itself; what is on it leads below
		name = "/sys/block/" + name
		name = filepath.Dir(strings.TrimSpace(read(t, filepath.Join(name, "loop/backing_file"))))
	}
	succeeds(t, "enable", name)
	for _, d := range acting {
		if _, active := d.schedulers(t); active != elevator {
			t.Errorf("enable %s: %s has the scheduler %s", name, d.name, active)
		}
	}

	groups := []string{newGroup(t, "heavy"), newGroup(t, "light")}
	write(t, filepath.Join(groups[0], weightFile), "300")
	var loads []*load
	for _, group := range groups {
		loads = append(loads, startFio(t, top, group, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=64", fmt.Sprint("--size=", readMiB, "m")))
	}
	data := identity{Kernel: kernelLine(t), Stack: s.kind, Share: shareOn(t, acting, groups)}
	for _, d := range acting {
		write(t, filepath.Join("/sys/block", d.name, "queue/nr_requests"), enoughTags)
	}
	data.Tagged = shareOn(t, acting, groups)
	for what, share := range map[string]float64{"": data.Share, " with nr_requests " + enoughTags: data.Tagged} {
		if (what != "" || !s.serial) && math.Abs(share/0.75-1) > within {
			t.Errorf("the weights are 300 and 100, and the shares%s %.3f and %.3f", what, share, 1-share)
		}
	}
	s.agree(t, top, want)
	for _, l := range loads {
		l.stop(t)
	}

	at := mountExt4(t, top)
	data.Direct = s.charged(t, at, "direct", acting)
	data.Buffered = s.charged(t, at, "write+fsync", acting)
	send(t, "stacks", data)
	t.Logf("%+v", data)
	succeeds(t, "disable", name)
	for _, d := range acting {
		if _, active := d.schedulers(t); active == elevator {
			t.Errorf("disable %s: %s has the scheduler still", name, d.name)
		}
	}
}

// shareOn is the first group's part of what all read from disks.
func shareOn(t *testing.T, disks []*disk, groups []string) float64 {
	t.Helper()
	time.Sleep(3 * time.Second)
	first, all := 0.0, 0.0
	for _, d := range disks {
		on := ratesIn(t, 0, 2*time.Second, d, groups)
		t.Logf("%s: %.0f and %.0f bytes/s", d.name, on[0], on[1])
		first, all = first+on[0], all+on[0]+on[1]
	}
	return first / all
}

// agree has status and explain tell the same disks.
func (s *stack) agree(t *testing.T, top *disk, want []string) {
	t.Helper()
	var status struct {
		Disks []struct {
			Name      string   `json:"name"`
			On        []string `json:"on"`
			WeightsBy []string `json:"weights_by"`
		} `json:"disks"`
	}
	must(t, json.Unmarshal([]byte(succeeds(t, "status", "--interval", "0", "--json")), &status))
	var acts []string
	for _, d := range status.Disks {
		if len(d.WeightsBy) > 0 {
			acts = append(acts, d.Name)
		}
		if d.Name == top.name && len(d.On) > 0 && !slices.Equal(d.On, want) {
			t.Errorf("status: %s is on %q, want %q", d.Name, d.On, want)
		}
	}
	slices.Sort(want)
	slices.Sort(acts)
	if !slices.Equal(acts, want) {
		t.Errorf("status: weights act on %q, want %q", acts, want)
	}
	var explained struct {
		Reasons []struct {
			Code string `json:"code"`
			On   string `json:"on"`
		} `json:"reasons"`
	}
	must(t, json.Unmarshal([]byte(succeeds(t, "explain", "heavy", "--interval", "0", "--json")), &explained))
	var acting []string
	for _, r := range explained.Reasons {
		if r.Code == "acts" {
			acting = append(acting, r.On)
		}
	}
	slices.Sort(acting)
	if !slices.Equal(acting, want) {
		t.Errorf("explain: the weight acts on %q, want %q", acting, want)
	}
}

// charged is for what part of what a cgroup writes it is charged on the disks, in percent.
func (s *stack) charged(t *testing.T, at, work string, on []*disk) float64 {
	t.Helper()
	group := newGroup(t, "writer-"+work)
	own, all := 0, 0
	count := func(sign int) {
		for _, d := range on {
			own, all = own+sign*groupKiB(t, group, d, false), all+sign*d.kib(t, false)
		}
	}
	at = filepath.Join(at, work) // a file's pages are the cgroup's that wrote it first
	must(t, os.Mkdir(at, 0o755))
	must(t, syncAll(at))
	count(-1)
	must(t, startSelf(t, group, chargedOf+"="+work+" "+at, nil).Wait())
	must(t, syncAll(at))
	count(1)
	return 100 * float64(own) / float64(max(1, all))
}
