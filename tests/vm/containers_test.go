// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	hosttarget "isolio/internal/host/target"
	"isolio/internal/host/usage"
	"isolio/internal/kmod"
)

// Where the container runtimes are, if this machine has any: `make
// test-containers` brings them. Bundles lie where containerd has them, so that
// what looks for containers finds them as it would on a host.
const (
	runtimes = "/tests/containers"
	bundles  = "/run/containerd/io.containerd.runtime.v2.task/default"
)

// ociContainer is a container that a runtime runs.
type ociContainer struct {
	runtime, name string
	cmd           *exec.Cmd
	out           bytes.Buffer
}

func (c *ociContainer) group() string { return filepath.Join(cgroupRoot, "ctr", c.name) }

// command is the runtime's command line.
func (c *ociContainer) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(runtimes, c.runtime), args...)
	cmd.Dir = filepath.Join(bundles, c.name)
	return cmd
}

// startContainer has the runtime run fio on the disk in a container with this
// --blkio-weight, 0 for none.
func startContainer(t *testing.T, runtime, name string, blkio uint16, d *disk) *ociContainer {
	t.Helper()
	c := &ociContainer{runtime: runtime, name: name}
	bundle := filepath.Join(bundles, name)
	must(t, os.MkdirAll(filepath.Join(bundle, "rootfs"), 0o755))
	text, err := json.Marshal(specOf(name, blkio, d))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o644))
	// The machine's root is an initramfs, which cannot be pivoted.
	c.cmd = c.command("run", "--no-pivot", name)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	must(t, c.cmd.Start())
	t.Cleanup(func() { c.stop(t) })
	return c
}

func specOf(name string, blkio uint16, d *disk) *specs.Spec {
	bind := func(dir string, options ...string) specs.Mount {
		return specs.Mount{Destination: dir, Source: dir, Type: "bind", Options: append([]string{"rbind"}, options...)}
	}
	s := &specs.Spec{
		Version: "1.0.2",
		Process: &specs.Process{
			Cwd: "/", Env: []string{"PATH=/bin", "HOME=/tmp"},
			Args: []string{
				"fio", "--name=load", "--filename=/dev/" + d.name, "--ioengine=libaio", "--direct=1", "--bs=4k", "--rw=randread",
				"--iodepth=32", "--time_based", "--runtime=600", "--thread",
			},
		},
		Root: &specs.Root{Path: "rootfs"},
		Mounts: []specs.Mount{
			bind("/bin", "ro"), bind("/lib", "ro"), bind("/lib64", "ro"), bind("/dev"), bind("/sys", "ro"),
			{Destination: "/proc", Source: "proc", Type: "proc"},
			{Destination: "/tmp", Source: "tmpfs", Type: "tmpfs"},
		},
		Linux: &specs.Linux{
			CgroupsPath: "/ctr/" + name,
			Namespaces:  []specs.LinuxNamespace{{Type: specs.MountNamespace}, {Type: specs.PIDNamespace}},
			Resources: &specs.LinuxResources{
				Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}},
			},
		},
	}
	if blkio > 0 {
		s.Linux.Resources.BlockIO = &specs.LinuxBlockIO{Weight: &blkio}
	}
	return s
}

// stop ends the container; a second stop does nothing.
func (c *ociContainer) stop(t *testing.T) {
	t.Helper()
	if c.cmd.ProcessState != nil {
		return
	}
	if out, err := c.command("kill", c.name, "KILL").CombinedOutput(); err != nil {
		t.Errorf("%s kill: %v: %s%s", c.runtime, err, out, c.out.String())
		_ = c.cmd.Process.Kill()
	}
	_ = c.cmd.Wait() // 137
	_ = c.command("delete", "--force", c.name).Run()
}

// untilReads waits until the container has read more than so many bytes from the
// disk.
func (c *ociContainer) untilReads(t *testing.T, d *disk, bytes int) {
	t.Helper()
	for range 3000 {
		if exists(c.group()) && readBytes(t, c.group(), d) > bytes {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: container %s reads nothing: %s", c.runtime, c.name, c.out.String())
}

// expectShares compares what containers have of the disk in some seconds, as
// `isolio top` shows it, with what was asked for.
func expectShares(t *testing.T, what string, asked map[string]float64) {
	t.Helper()
	sampler := &usage.Sampler{Containers: func(groups []string) ([]hosttarget.Container, error) { return hosttarget.ListContainers("", groups) }}
	_, err := sampler.Sample()
	must(t, err)
	time.Sleep(4 * time.Second)
	sample, err := sampler.Sample()
	must(t, err)
	sum := 0.0
	for _, weight := range asked {
		sum += weight
	}
	seen := 0
	for _, r := range usage.Fold(sample.Rows) {
		weight, ok := asked[r.Name]
		if !ok {
			continue
		}
		seen++
		want := weight / sum
		t.Logf("%s: %s has %.2f %% of the disk, entitled to %.2f %%, asked for %.2f %%", what, r.Name, 100*r.Actual, 100*r.Entitled, 100*want)
		if math.Abs(r.Actual/want-1) > 0.03 || math.Abs(r.Entitled/want-1) > 0.001 {
			t.Errorf("%s: %s has %.2f %% of the disk, entitled to %.2f %%; asked for %.2f %%", what, r.Name, 100*r.Actual, 100*r.Entitled, 100*want)
		}
	}
	if seen != len(asked) {
		t.Errorf("%s: %d containers seen, want %d: %+v", what, seen, len(asked), sample.Rows)
	}
}

// The runtimes of Debian write weights on two scales, by whether bfq is loaded;
// the daemon makes of both what was asked for.
func TestContainers(t *testing.T) {
	if !exists(filepath.Join(runtimes, "crun")) {
		t.Skip("no container runtimes here: make vm T=containers")
	}
	loaded(t)
	// A runtime starts itself again without an environment, so its libraries
	// must be where they are looked for.
	libraries, err := filepath.Glob(filepath.Join(runtimes, "*.so.*"))
	must(t, err)
	for _, library := range libraries {
		if link := filepath.Join("/lib/x86_64-linux-gnu", filepath.Base(library)); !exists(link) {
			must(t, os.Symlink(library, link))
		}
	}
	d := newDisk(t, []string{"irqmode=2", "completion_nsec=10000000", "hw_queue_depth=8", "submit_queues=1", "size=256"})
	d.use(t, elevator)
	startDaemon(t, time.Hour)
	for _, bfq := range []string{"with bfq", "without bfq"} {
		if bfq == "without bfq" {
			must(t, kmod.Unload("bfq"))
		}
		for _, runtime := range []string{"crun", "runc"} {
			t.Run(runtime+" "+bfq, func(t *testing.T) { followsContainers(t, runtime, d) })
		}
	}
}

func followsContainers(t *testing.T, runtime string, d *disk) {
	names := []string{"web", "db", "batch", "plain"}
	asked := map[string]float64{"web": 1000, "db": 500, "batch": 250, "plain": 100}
	running := map[string]*ociContainer{}
	for i, weight := range []uint16{1000, 500, 250, 0} {
		running[names[i]] = startContainer(t, runtime, names[i], weight, d)
	}
	ready := func() {
		for _, name := range names {
			c := running[name]
			c.untilReads(t, d, 0)
			untilWeights(t, c.group(), fmt.Sprint("default ", asked[name]))
		}
		// All of them have all their requests outstanding, with these weights.
		for _, name := range names {
			c := running[name]
			c.untilReads(t, d, readBytes(t, c.group(), d)+64*4096)
		}
	}
	ready()
	expectShares(t, "as started", asked)

	if out, err := running["db"].command("update", "--blkio-weight", "750", "db").CombinedOutput(); err != nil {
		t.Fatalf("%s update: %v: %s", runtime, err, out)
	}
	asked["db"] = 750
	ready()
	expectShares(t, "updated", asked)

	running["web"].stop(t)
	running["web"] = startContainer(t, runtime, "web", 300, d)
	asked["web"] = 300
	ready()
	expectShares(t, "another one of the same name", asked)
}
