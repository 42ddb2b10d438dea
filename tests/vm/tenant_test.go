// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A tenant is this program once more, as root of a user namespace of its own, in
// its own cgroup, which is delegated to it. It does what it is told, a line at a
// time, and answers each with one line.

// tenantOf names the tenant's own cgroup; the process is a tenant's then.
const tenantOf = "ISOLIO_TENANT"

// tenantID is the first of the user IDs on the host that a tenant has.
const tenantID = 100000

// What a tenant of these tests attacks, below cgroupRoot.
var (
	idNeighbour = strings.Repeat("b", 64)
	idTenant    = strings.Repeat("a", 64)
	idPodDB     = strings.Repeat("c", 64)
	idPodJob    = strings.Repeat("d", 64)
	idPodman    = strings.Repeat("e", 64)

	dockerNeighbour = "system.slice/docker-" + idNeighbour + ".scope"
	dockerTenant    = "system.slice/docker-" + idTenant + ".scope"
	podmanNeighbour = "machine.slice/libpod-" + idPodman + ".scope"
	podDB           = "kubepods.slice/kubepods-pod0a0a0a0a_1b1b_2c2c_3d3d_4e4e4e4e4e4e.slice"
	podJob          = "kubepods.slice/kubepods-pod5f5f5f5f_1b1b_2c2c_3d3d_4e4e4e4e4e4e.slice"
	crioDB          = podDB + "/crio-" + idPodDB + ".scope"
	crioJob         = podJob + "/crio-" + idPodJob + ".scope"
)

const (
	unitShop    = "system.slice/shop.service"
	unitTenant  = "system.slice/tenant.service"
	attackRules = "/etc/isolio.toml"
	attackPort  = "127.0.0.1:9188"
)

// hostileNames are names of cgroups that a tenant chooses. The kernel takes all of
// them but those with a line break or a slash.
var hostileNames = []string{
	"x;touch HACKED;", "$(touch HACKED)", "`touch HACKED`", "';touch HACKED;'", `";touch HACKED;"`, "-rf", "--help", "&& touch HACKED",
	"\x1b]0;owned\a", "\x1b[2J\x1b[31m", "c1-\u009b31m", "\u202egnp.scope", "bytes-\xff\xfe", "half-\xc3", "nul-\\x00", "cr\rlf", "tab\tname",
	strings.Repeat("n", 255), "default 10000", "8:0 10000", `"} 1`, `\"},\n`, "%s%n%x", "..service", ".scope",
}

// tries are what a tenant can be told to do in its own cgroup.
var tries = map[string]func(own string) error{
	"reach":  reachOut,
	"inside": weighInside,
	"fakes":  makeFakes,
	"names":  makeHostile,
	"marks":  forgeMarks,
	"fill":   fillMarks,
	"deep":   goDeep,
	"many":   makeMany,
	"storm":  makeStorm,
	"shift":  changeType,
	"stall":  stallMetrics,
}

// isTenant does what standard input says until it ends.
func isTenant(own string) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cgroup namespace: %w", err)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		err := errors.New("unknown")
		if try := tries[in.Text()]; try != nil {
			err = try(own)
		}
		answer := "done"
		if err != nil {
			answer = fmt.Sprintf("%q", err.Error())
		}
		if _, err := fmt.Println(answer); err != nil {
			return err
		}
	}
	return in.Err()
}

// refused wants the kernel to have refused something.
func refused(what string, err error) error {
	for _, want := range []error{unix.EACCES, unix.EPERM, unix.EROFS} {
		if errors.Is(err, want) {
			return nil
		}
	}
	return fmt.Errorf("%s: %s, want that it is refused", what, fmt.Sprint(err))
}

// reachOut tries all that is not the tenant's.
func reachOut(own string) error {
	neighbour := filepath.Join(cgroupRoot, dockerNeighbour)
	create := func(file string) error {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
		if err == nil {
			f.Close()
		}
		return err
	}
	return errors.Join(
		refused("the neighbour's weight", put(filepath.Join(neighbour, weightFile), "1")),
		refused("its own weight", put(filepath.Join(own, weightFile), "10000")),
		refused("its own io.weight", put(filepath.Join(own, "io.weight"), "10000")),
		refused("a place in the neighbour's cgroup", put(filepath.Join(neighbour, "cgroup.procs"), "0")),
		refused("a cgroup in the neighbour's", os.Mkdir(filepath.Join(neighbour, "in"), 0o755)),
		refused("a cgroup beside the neighbour's", os.Mkdir(filepath.Join(cgroupRoot, "system.slice/x.service"), 0o755)),
		refused("the neighbour's end", os.Remove(neighbour)),
		refused("the neighbour's attributes", unix.Setxattr(neighbour, "user.isolio.weight", []byte("1"), 0)),
		refused("attributes that only root sets", unix.Setxattr(own, "trusted.isolio.weight", []byte("1"), 0)),
		refused("the daemon's marks", create("/run/isolio/marks/1.json")),
		refused("the daemon's directory", create("/run/isolio/pods.json")),
		refused("the rules", create(attackRules)),
		refused("an engine's files", create("/var/lib/docker/containers/"+idTenant+"/config.v2.json")),
	)
}

// leave moves the tenant's process to a cgroup below its own, so that the own one
// can have controllers for its children.
func leave(own string) error {
	leaf := filepath.Join(own, "leaf")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return errors.Join(put(filepath.Join(leaf, "cgroup.procs"), "0"), put(filepath.Join(own, "cgroup.subtree_control"), "+io"))
}

// weighInside has a cgroup of the tenant's own with as much weight as there is.
func weighInside(own string) error {
	if err := leave(own); err != nil {
		return err
	}
	leaf := filepath.Join(own, "leaf")
	return errors.Join(put(filepath.Join(leaf, weightFile), "10000"), put(filepath.Join(leaf, "io.weight"), "10000"))
}

// makeFakes makes cgroups with the names of neighbours' containers, pods and units.
func makeFakes(own string) error {
	var errs []error
	for _, name := range []string{
		dockerNeighbour, podmanNeighbour, crioDB, unitShop, idNeighbour, "docker/" + idNeighbour, filepath.Base(dockerNeighbour), filepath.Base(crioDB),
	} {
		for dir := own; name != ""; {
			first, rest, _ := strings.Cut(name, "/")
			dir, name = filepath.Join(dir, first), rest
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				errs = append(errs, err)
			}
			if rest == "" {
				errs = append(errs, put(filepath.Join(dir, "io.weight"), "7000"), put(filepath.Join(dir, weightFile), "9999"))
			} else {
				errs = append(errs, put(filepath.Join(dir, "cgroup.subtree_control"), "+io"))
			}
		}
	}
	return errors.Join(errs...)
}

func makeHostile(own string) error {
	var errs []error
	for _, name := range hostileNames {
		dir := own + "/" + name
		if err := os.Mkdir(dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, put(dir+"/io.weight", "300"))
	}
	if err := os.Mkdir(own+"/line\nbreak", 0o755); !errors.Is(err, unix.EINVAL) {
		errs = append(errs, fmt.Errorf("a name with a line break: %s, want EINVAL", fmt.Sprint(err)))
	}
	return errors.Join(errs...)
}

const forgedMark = `{"cgroup":"system.slice/tenant.service","weights":{"default":{"weight":20,"before":1}}}`

// forgeMarks has what passes for the daemon's marks in its own cgroups.
func forgeMarks(own string) error {
	unit := filepath.Join(cgroupRoot, unitTenant)
	return errors.Join(
		unix.Setxattr(own, "user.isolio.weight", []byte(forgedMark), 0),
		unix.Setxattr(unit, "user.isolio.weight", []byte(`{"default":{"weight":20,"before":1}}`), 0),
		unix.Setxattr(unit, "user.isolio.mark", []byte(forgedMark), 0),
	)
}

// fillMarks uses up the room for attributes in its own cgroups.
func fillMarks(own string) error {
	for _, dir := range []string{own, filepath.Join(cgroupRoot, unitTenant)} {
		full := false
		for i := 0; i < 1000 && !full; i++ {
			err := unix.Setxattr(dir, fmt.Sprintf("user.fill%d", i), []byte(strings.Repeat("x", 1000)), 0)
			if full = errors.Is(err, unix.ENOSPC); err != nil && !full {
				return err
			}
		}
		if !full {
			return fmt.Errorf("%s: takes 1000 attributes", dir)
		}
	}
	return nil
}

// goDeep makes a chain of cgroups whose path is longer than the kernel takes.
func goDeep(own string) error {
	at, err := unix.Open(own, unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	name := strings.Repeat("d", 200)
	for range 24 {
		if err := unix.Mkdirat(at, name, 0o755); err != nil {
			return err
		}
		next, err := unix.Openat(at, name, unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		unix.Close(at)
		at = next
	}
	return nil
}

// manyInside is more than the daemon looks at inside of a container.
const manyInside = 1100

func makeMany(own string) error {
	dir := filepath.Join(own, "many")
	if err := errors.Join(os.Mkdir(dir, 0o755), put(filepath.Join(dir, "cgroup.subtree_control"), "+io")); err != nil {
		return err
	}
	for i := range manyInside {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("c%04d", i)), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// stormTime is how long a tenant makes and removes cgroups without a pause.
const stormTime = 500 * time.Millisecond

func makeStorm(own string) error {
	dir := filepath.Join(own, "docker-"+strings.Repeat("f", 64)+".scope")
	for begin := time.Now(); time.Since(begin) < stormTime; {
		if err := errors.Join(os.Mkdir(dir, 0o755), put(filepath.Join(dir, "io.weight"), "9000"), os.Remove(dir)); err != nil {
			return err
		}
	}
	return nil
}

// changeType makes a cgroup of threads, which has no weight, and its parent the root of
// such ones.
func changeType(own string) error {
	dir := filepath.Join(own, "threads")
	inner := filepath.Join(dir, "docker-"+idNeighbour+".scope")
	return errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(inner, 0o755), put(filepath.Join(inner, "cgroup.type"), "threaded"))
}

// stallMetrics asks for metrics a hundred times and reads no answer. The connections
// stay open until the tenant ends.
func stallMetrics(string) error {
	for range 100 {
		c, err := net.Dial("tcp", attackPort)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n"); err != nil {
			return err
		}
		stalled = append(stalled, c)
	}
	return nil
}

var stalled []net.Conn

// tenant is the running process.
type tenant struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

// startTenant starts one in a cgroup, which it gets as systemd and engines
// delegate one, together with others.
func startTenant(t *testing.T, own string, more ...string) *tenant {
	t.Helper()
	for _, dir := range append([]string{own}, more...) {
		for _, file := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
			must(t, os.Chown(filepath.Join(dir, file), tenantID, tenantID))
		}
	}
	dir, err := os.Open(own)
	must(t, err)
	defer dir.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), tenantOf+"="+own)
	all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: tenantID, Size: 65536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		UseCgroupFD: true, CgroupFD: int(dir.Fd()),
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{Uid: 0, Gid: 0},
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the tenant: %v", err)
		}
	})
	return &tenant{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
}

// begin has the tenant do something.
func (a *tenant) begin(what string) {
	a.t.Helper()
	_, err := fmt.Fprintln(a.in, what)
	must(a.t, err)
}

// end waits until that is done.
func (a *tenant) end(t *testing.T, what string) {
	t.Helper()
	if !a.out.Scan() {
		t.Fatalf("%s: the tenant's process has ended: %v", what, a.out.Err())
	}
	if answer := a.out.Text(); answer != "done" {
		t.Errorf("%s: %s", what, answer)
	}
}

func (a *tenant) does(t *testing.T, what string) {
	t.Helper()
	a.begin(what)
	a.end(t, what)
}

// removeBelow removes the cgroups below a directory, however deep.
func removeBelow(dir int) error {
	names, err := namesOf(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		below, err := unix.Openat(dir, name, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err == nil {
			err = errors.Join(removeBelow(below), unix.Close(below))
		}
		if err == nil {
			err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}

func namesOf(dir int) ([]string, error) {
	again, err := unix.Openat(dir, ".", unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(again), "cgroup")
	defer f.Close()
	return f.Readdirnames(-1)
}

// Light containers hold tags with requests that are throttled. However many they are, the heavy one finds a
// tag whenever it may go.
func TestLightTenantsLeaveTags(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	for _, nr := range []int{24, 40} {
		t.Run(fmt.Sprint(nr), func(t *testing.T) {
			d := newModelDisk(t, []string{
				"model=fixed", "fixed/parallel=32", "fixed/read_ns=8000000", "fixed/write_ns=8000000", "fixed/other_ns=8000000",
				"size_mib=256", "tags=64", "memory_backed=0", "write_cache=0",
			})
			d.use(t, elevator)
			write(t, d.queue("nr_requests"), "64")
			heavy := newGroup(t, "heavy")
			write(t, filepath.Join(heavy, weightFile), "1000")
			startFio(t, d, heavy, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=32").untilBusy(t)
			all := []string{heavy}
			for i := range nr {
				light := newGroup(t, fmt.Sprint("light", i))
				write(t, filepath.Join(light, weightFile), "10")
				startFio(t, d, light, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=4", "--thread", "--alloc-size=2048").untilBusy(t)
				all = append(all, light)
			}
			time.Sleep(time.Second)

			before, allBefore := readBytes(t, heavy, d), totalReadBytes(t, d, all)
			time.Sleep(4 * time.Second)
			had, total := readBytes(t, heavy, d)-before, totalReadBytes(t, d, all)-allBefore
			share := float64(had) / float64(total)
			due := 1000.0 / float64(1000+10*nr)
			t.Logf("%.3f of all reads, %.3f by weight; %d reads a second", share, due, total/4096/4)
			if share < 0.97*due {
				d.logState(t)
				t.Errorf("%.3f of all reads, want %.3f", share, due)
			}
			if most := 4000; total/4096/4 < most*9/10 {
				d.logState(t)
				t.Errorf("%d reads a second, want nine tenths of %d", total/4096/4, most)
			}
		})
	}
}
