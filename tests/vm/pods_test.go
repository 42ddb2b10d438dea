// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A node without a kubelet: the containerd of Debian 13, which is asked for pods over CRI,
// with cgroups as a kubelet makes them that has the cgroup driver cgroupfs. `make vm T=pods` brings all of it.
const (
	podImage   = "isolio.test/pause:1"
	nodeRoot   = "/node"                           // containerd's, from where pods see the guest's files as /guest
	criSocket  = nodeRoot + "/run/containerd.sock" // as the guest has it
	kubepods   = "kubepods"
	burstable  = "burstable"
	bestEffort = "besteffort"
)

// node is a machine that runs pods.
type node struct {
	t                  *testing.T
	containerd, daemon *exec.Cmd
	own                string // cgroup of containerd and its shims
	nr                 int    // how many pods there have been
}

// pod is one that runs.
type pod struct {
	name  string
	group string // of the pod
	scope string // of its container
}

func newNode(t *testing.T) *node {
	t.Helper()
	if !exists(filepath.Join(runtimes, "containerd")) {
		t.Skip("no containerd here: make vm T=pods")
	}
	n := &node{t: t, own: newGroup(t, "containerd")}
	for _, dir := range []string{"bin", "lib64", "lib/x86_64-linux-gnu", "proc", "sys", "dev", "run", "tmp", "etc", "guest", "opt", "var/lib"} {
		must(t, os.MkdirAll(filepath.Join(nodeRoot, dir), 0o755))
	}
	for _, file := range []string{"etc/hosts", "etc/resolv.conf"} {
		must(t, os.WriteFile(filepath.Join(nodeRoot, file), nil, 0o644))
	}
	files, err := os.ReadDir(runtimes)
	must(t, err)
	for _, file := range files {
		to := "bin"
		switch name := file.Name(); {
		case strings.HasPrefix(name, "ld-linux"):
			to = "lib64"
		case strings.Contains(name, ".so"):
			to = "lib/x86_64-linux-gnu"
		}
		if at := filepath.Join(nodeRoot, to, file.Name()); !exists(at) {
			must(t, os.Link(filepath.Join(runtimes, file.Name()), at))
		}
	}
	mount := func(from, to, kind string, flags uintptr) {
		t.Helper()
		to = filepath.Join(nodeRoot, to)
		must(t, unix.Mount(from, to, kind, flags, ""))
		t.Cleanup(func() { must(t, unix.Unmount(to, unix.MNT_DETACH)) })
	}
	must(t, os.RemoveAll(filepath.Join(nodeRoot, "var/run")))
	must(t, os.Symlink("/run", filepath.Join(nodeRoot, "var/run")))
	// runc makes the pod's root the root, which takes one that is a mount.
	mount(nodeRoot, "", "", unix.MS_BIND)
	mount("proc", "proc", "proc", 0)
	mount("/sys", "sys", "", unix.MS_BIND|unix.MS_REC)
	mount("/dev", "dev", "", unix.MS_BIND)
	mount("/run", "run", "", unix.MS_BIND)
	mount("/", "guest", "", unix.MS_BIND)
	if !exists("/var/run") {
		must(t, os.MkdirAll("/var", 0o755))
		must(t, os.Symlink("/run", "/var/run"))
	}
	must(t, os.WriteFile(filepath.Join(nodeRoot, "etc/containerd.toml"), []byte(`version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "`+podImage+`"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
[grpc]
  address = "/run/containerd.sock"
`), 0o644))
	// What a kubelet makes. The chart's rules are to change their weights.
	for _, group := range []string{kubepods, kubepods + "/" + burstable, kubepods + "/" + bestEffort} {
		dir := filepath.Join(cgroupRoot, group)
		must(t, os.MkdirAll(dir, 0o755))
		write(t, filepath.Join(dir, "cgroup.subtree_control"), "+io")
	}
	t.Cleanup(n.clear)
	n.startContainerd()
	n.inside("ctr", "--address", "/run/containerd.sock", "--namespace", "k8s.io", "image", "import", "--snapshotter", "native", "/bin/image.tar")
	return n
}

// clear ends what runs, and removes the cgroups of pods. The runtime's own is the test's.
func (n *node) clear() {
	for _, cmd := range []*exec.Cmd{n.daemon, n.containerd} {
		if cmd != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	write(n.t, filepath.Join(n.own, "cgroup.kill"), "1") // the shims
	top := filepath.Join(cgroupRoot, kubepods)
	write(n.t, filepath.Join(top, "cgroup.kill"), "1")
	var dirs []string
	must(n.t, filepath.WalkDir(top, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	}))
	for i := range dirs {
		must(n.t, removeGroup(dirs[len(dirs)-1-i]))
	}
}

// inside runs a program as containerd sees the machine.
func (n *node) inside(name string, args ...string) string {
	n.t.Helper()
	cmd := exec.Command("/bin/"+name, args...)
	cmd.SysProcAttr, cmd.Dir, cmd.Env = &syscall.SysProcAttr{Chroot: nodeRoot}, "/", []string{"PATH=/bin"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s %s: %v: %s\n%s", name, strings.Join(args, " "), err, out, n.log())
	}
	return strings.TrimSpace(string(out))
}

func (n *node) startContainerd() {
	n.t.Helper()
	log, err := os.OpenFile(filepath.Join(nodeRoot, "tmp/containerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(n.t, err)
	defer log.Close()
	own, err := os.Open(n.own)
	must(n.t, err)
	defer own.Close()
	must(n.t, os.RemoveAll(criSocket))
	n.containerd = exec.Command("/bin/containerd", "--config", "/etc/containerd.toml")
	n.containerd.SysProcAttr = &syscall.SysProcAttr{Chroot: nodeRoot, UseCgroupFD: true, CgroupFD: int(own.Fd())}
	n.containerd.Dir, n.containerd.Env = "/", []string{"PATH=/bin"}
	n.containerd.Stdout, n.containerd.Stderr = log, log
	must(n.t, n.containerd.Start())
	n.until("containerd listens", func() bool { return exists(criSocket) })
}

// startDaemon starts it with the rules of the chart.
func (n *node) startDaemon() {
	n.t.Helper()
	log, err := os.OpenFile("/tmp/daemon.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(n.t, err)
	defer log.Close()
	n.daemon = exec.Command("isolio", "daemon", "--every", "1h", "--config", filepath.Join(runtimes, "isolio.toml"))
	n.daemon.Stderr = log
	must(n.t, n.daemon.Start())
}

// kill ends a program as a node's failure would.
func (n *node) kill(cmd *exec.Cmd) {
	n.t.Helper()
	must(n.t, cmd.Process.Kill())
	_ = cmd.Wait()
}

func (n *node) log() string {
	var text strings.Builder
	pods, _ := filepath.Glob(nodeRoot + "/tmp/pods/*/main.log")
	for _, file := range append(pods, nodeRoot+"/tmp/containerd.log", "/tmp/daemon.log") {
		log, _ := os.ReadFile(file)
		lines := strings.Split(string(log), "\n")
		fmt.Fprintf(&text, "the end of %s:\n%s\n", file, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	return text.String()
}

func (n *node) until(what string, is func() bool) {
	n.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("%s: not within a minute\n%s", what, n.log())
		}
	}
}

// run has the runtime start a pod of the QoS class, "" for Guaranteed, with these annotations, whose container has
// the disk and a directory, and runs fio with these arguments; with none it does nothing.
func (n *node) run(class, name string, annotations map[string]string, d *disk, data string, args ...string) *pod {
	n.t.Helper()
	n.nr++
	uid := fmt.Sprintf("%08x-1111-1111-1111-111111111111", n.nr)
	parent := filepath.Join("/", kubepods, class, "pod"+uid)
	p := &pod{name: name, group: filepath.Join(cgroupRoot, parent)}
	must(n.t, os.Mkdir(p.group, 0o755)) // as a kubelet does
	write(n.t, filepath.Join(p.group, "cgroup.subtree_control"), "+io")
	spec := map[string]any{
		"name": name, "uid": uid, "namespace": "shop", "annotations": annotations, "parent": parent,
		"image": podImage, "log": "/tmp/pods/" + uid,
	}
	if len(args) > 0 {
		mounts := map[string]string{"/bin": "/guest/bin", "/lib": "/guest/lib", "/lib64": "/guest/lib64", "/tmp": "/tmp"}
		if data != "" {
			mounts["/data"] = data
		}
		spec["mounts"], spec["device"] = mounts, "/dev/"+d.name
		spec["command"] = append([]string{"/bin/fio", "--name=" + name, "--thread", "--output-format=json"}, args...)
	}
	text, err := json.Marshal(spec)
	must(n.t, err)
	file := filepath.Join("/tmp", name+".json")
	must(n.t, os.WriteFile(file, text, 0o644))
	out, err := exec.Command(filepath.Join(runtimes, "pods"), "run", criSocket, file).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v: %s\n%s", name, err, out, n.log())
	}
	p.scope = filepath.Join(p.group, strings.TrimSpace(string(out)))
	return p
}

func (n *node) remove(p *pod) {
	n.t.Helper()
	if out, err := exec.Command(filepath.Join(runtimes, "pods"), "remove", criSocket, p.name).CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v: %s\n%s", p.name, err, out, n.log())
	}
}

func (n *node) weighs(group, want string) {
	n.t.Helper()
	n.until(fmt.Sprintf("%s weighs %s (%s now)", group, want, strings.TrimSpace(read(n.t, filepath.Join(group, weightFile)))), func() bool {
		return strings.TrimSpace(read(n.t, filepath.Join(group, weightFile))) == "default "+want
	})
}

func (n *node) reads(d *disk, p *pod) {
	n.t.Helper()
	before := readBytes(n.t, p.group, d)
	n.until(p.name+" reads", func() bool { return readBytes(n.t, p.group, d) > before+64*4096 })
}

// reader is what a pod that reads all it can has fio do.
func reader(d *disk) []string {
	return []string{"--filename=/dev/" + d.name, "--ioengine=libaio", "--direct=1", "--bs=4k", "--rw=randread", "--norandommap=1", "--iodepth=32", "--time_based", "--runtime=3600"}
}

func weightOf(text string) map[string]string { return map[string]string{"isolio.dev/weight": text} }

// Pods of three QoS classes, of a real runtime, with the chart's rules: their weights come
// from their annotations over NRI, and they share the disk as if there were no classes.
func TestPodsOfQoSClasses(t *testing.T) {
	comparesRates(t)
	loaded(t)
	d := newDisk(t, slowDisk)
	d.use(t, elevator)
	n := newNode(t)

	web := n.run(burstable, "web", weightOf("300"), d, "", reader(d)...) // before the daemon
	n.startDaemon()
	for _, group := range []string{kubepods, kubepods + "/" + burstable, kubepods + "/" + bestEffort} {
		n.weighs(filepath.Join(cgroupRoot, group), "sum")
	}
	n.weighs(web.group, "300")
	batch := n.run(bestEffort, "batch", weightOf("100"), d, "", reader(d)...)
	n.weighs(batch.group, "100")
	idle := n.run(bestEffort, "idle", weightOf("1000"), d, "")
	n.weighs(idle.group, "1000")
	n.reads(d, web)
	n.reads(d, batch)
	groups := []string{web.group, batch.group}
	expectParts(t, "Burstable 300, BestEffort 100", ratesNow(t, sumSettles, d, groups), []float64{300, 100})

	bank := n.run("", "bank", weightOf("200"), d, "", reader(d)...)
	n.weighs(bank.group, "200")
	n.reads(d, bank)
	groups = append(groups, bank.group)
	expectParts(t, "and Guaranteed 200", ratesNow(t, sumSettles, d, groups), []float64{300, 100, 200})

	// An annotation that is no weight: the pod runs, and the default holds.
	bad := n.run(burstable, "bad", weightOf("much"), d, "", reader(d)...)
	n.reads(d, bad)
	n.weighs(bad.group, "100")
	expectParts(t, "and a bad annotation", ratesNow(t, sumSettles, d, append(groups, bad.group)), []float64{300, 100, 200, 100})
	n.remove(bad)

	// A pod that comes and one that goes while the daemon is away, and a runtime that starts again.
	n.kill(n.daemon)
	late := n.run(bestEffort, "late", weightOf("400"), d, "", reader(d)...)
	n.remove(bank)
	n.startDaemon()
	n.weighs(late.group, "400")
	n.reads(d, late)
	groups = []string{web.group, batch.group, late.group}
	expectParts(t, "after the daemon was away", ratesNow(t, sumSettles, d, groups), []float64{300, 100, 400})
	n.kill(n.containerd)
	n.startContainerd()
	again := n.run(burstable, "again", weightOf("200"), d, "", reader(d)...)
	n.weighs(again.group, "200")
	n.reads(d, again)
	expectParts(t, "after containerd was away", ratesNow(t, sumSettles, d, append(groups, again.group)), []float64{300, 100, 400, 200})
}

// syncs is what fio wrote about its calls of fdatasync.
type syncs struct {
	Jobs []struct {
		Sync struct {
			Lat struct {
				Calls      int                `json:"N"`
				Percentile map[string]float64 `json:"percentile"`
			} `json:"lat_ns"`
		} `json:"sync"`
	} `json:"jobs"`
}

// fsyncs are a pod's calls of fdatasync in ten seconds.
type fsyncs struct {
	calls    int
	p50, p99 time.Duration
}

// etcd runs a pod that writes as etcd writes its log.
func (n *node) etcd(d *disk, name string) fsyncs {
	n.t.Helper()
	out := "/data/" + name + ".json"
	p := n.run("", name, weightOf("1000"), d, "/data", "--directory=/data", "--filename=wal", "--rw=write", "--ioengine=sync", "--fdatasync=1",
		"--bs=2300", "--size=22m", "--time_based", "--runtime=10", "--output="+out)
	n.weighs(p.group, "1000")
	var result syncs
	n.until(name+" has ended", func() bool {
		text, err := os.ReadFile(filepath.Join(nodeRoot, out))
		return err == nil && json.Unmarshal(text, &result) == nil && len(result.Jobs) == 1
	})
	n.remove(p)
	lat := result.Jobs[0].Sync.Lat
	at := func(percentile string) time.Duration { return time.Duration(lat.Percentile[percentile]) }
	f := fsyncs{lat.Calls, at("50.000000"), at("99.000000")}
	n.t.Logf("%s: %d calls of fdatasync, p50 %v, p99 %v", name, f.calls, f.p50, f.p99)
	if f.calls == 0 || f.p50 == 0 || f.p99 == 0 {
		n.t.Fatalf("%s: fio told of no fdatasync:\n%s", name, read(n.t, filepath.Join(nodeRoot, out)))
	}
	return f
}

// A pod that waits for fdatasync, as etcd does, next to one that writes all it can to the same
// filesystem, sixteen requests of 128 KiB at a time. The disk holds what the writer sent before:
// the pod waits for that under any scheduler, but less often and shorter by its weight.
func TestPodThatSyncs(t *testing.T) {
	comparesRates(t)
	withModelDisk(t)
	needFileSystem(t, "ext4")
	d := newModelDisk(t, []string{"model=nvme", "preset=p4500-2tb", "scale=32", "tags=1023", "size_mib=512", "memory_backed=1"})
	n := newNode(t)
	c := &cutDisk{disk: d, fs: fileSystem{kind: "ext4"}, at: filepath.Join(nodeRoot, "data")}
	must(t, os.MkdirAll(c.at, 0o755))
	c.program(t, []string{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"})
	must(t, c.mount())
	t.Cleanup(func() { must(t, unix.Unmount(c.at, unix.MNT_DETACH)) })
	d.use(t, elevator)
	n.startDaemon()

	alone := n.etcd(d, "alone")
	bulk := n.run(bestEffort, "bulk", weightOf("100"), d, "/data", "--directory=/data", "--filename=bulk", "--rw=write", "--ioengine=libaio",
		"--iodepth=16", "--direct=1", "--bs=128k", "--size=128m", "--time_based", "--runtime=3600")
	n.weighs(bulk.group, "100")
	n.until("bulk writes", func() bool { return strings.Contains(read(t, filepath.Join(bulk.group, "io.stat")), d.number) })
	shared := n.etcd(d, "beside")
	d.use(t, "none")
	unshared := n.etcd(d, "unshared")
	for name, f := range map[string]fsyncs{elevator: shared, "none": unshared} {
		t.Logf("beside a writer under %s: p99 is %.1f of alone, p50 %.1f", name, float64(f.p99)/float64(alone.p99), float64(f.p50)/float64(alone.p50))
	}
	if float64(shared.calls) < 1.5*float64(unshared.calls) || shared.p99 > unshared.p99 {
		t.Errorf("%d calls, p99 %v; under none %d and %v: want half as many again, and no longer", shared.calls, shared.p99, unshared.calls, unshared.p99)
	}
}
