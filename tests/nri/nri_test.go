// SPDX-License-Identifier: MIT

// Package nri tests the daemon against a real containerd: Debian's, in a chroot, which
// is asked for pods as a kubelet asks. The daemon works on a tree of files that
// stands for cgroup v2, with containerd's NRI socket in it: the protocol and its
// order are what is tested, not shares. It is a module of its own, so that the
// runtime's interface (CRI) and gRPC are not among the product's.
package nri

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"isolio/tests/nri/oci"
)

const (
	build = "../../build"
	image = "isolio.test/pause:1"
	// parent is where the test's pods lie on this host; what containerd makes there is
	// removed.
	parent = "/isolio-nri-test"
	// unset is what the tree's files hold until the daemon writes.
	unset = "default 100"
)

// bench is a containerd with a daemon.
type bench struct {
	t      *testing.T
	dir    string // /t for containerd
	root   string // the daemon's machine
	pods   cri.RuntimeServiceClient
	daemon *exec.Cmd
	log    string
	ended  chan error // of inside.sh
}

func TestContainerd(t *testing.T) {
	b := setUp(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	version, err := b.pods.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %s", version.RuntimeName, version.RuntimeVersion)

	// A pod before the daemon.
	web := b.pod(ctx, "web", map[string]string{"isolio.dev/weight": "300", "isolio.dev/weight.main": "20"})
	b.container(ctx, web)
	b.start()
	b.becomes(web.group, "300")
	b.becomes(web.scope, "20")

	// A pod after it. RunPodSandbox is answered when the plugins were.
	db := b.pod(ctx, "db", map[string]string{"isolio.dev/weight": "500", "isolio.dev/weight.main": "30"})
	t.Logf("the pod's weight is there %v after RunPodSandbox", b.becomes(db.group, "500"))
	if before := b.container(ctx, db); before != unset {
		t.Errorf("a container's weight was %q before it started", before)
	}
	t.Logf("the container's weight is there %v after StartContainer", b.becomes(db.scope, "30"))

	// A bad annotation: the pod runs, the default holds, the log says what is allowed.
	bad := b.pod(ctx, "bad", map[string]string{"isolio.dev/weight": "\x1b[2Jhigh"})
	b.container(ctx, bad)
	b.says(`\"\\x1b[2Jhigh\" is not a weight; allowed: an integer 1..10000`)
	if got := b.weight(bad.group); got != unset {
		t.Errorf("the pod with a bad annotation has %q", got)
	}

	// The daemon is killed; a pod goes and another comes meanwhile.
	b.stop()
	b.remove(ctx, web)
	late := b.pod(ctx, "late", map[string]string{"isolio.dev/weight": "250"})
	b.start()
	b.becomes(late.group, "250")
	if pods := b.report(); strings.Contains(pods, `"web"`) || !strings.Contains(pods, `"late"`) || !strings.Contains(pods, `"db"`) {
		t.Errorf("the daemon knows of %s", pods)
	}

	// containerd is killed, and what it told holds. It is started again.
	b.kill(ctx)
	b.says("the runtime ended the connection")
	if pods := b.report(); !strings.Contains(pods, `"late"`) {
		t.Errorf("the daemon knows of %s", pods)
	}
	again := b.pod(ctx, "again", map[string]string{"isolio.dev/weight": "150"})
	b.becomes(again.group, "150")
	for _, one := range []*pod{db, late} {
		if got := b.weight(one.group); got == unset {
			t.Errorf("%s lost its weight", one.name)
		}
	}

	// A process that is stopped altogether answers nothing. containerd does without it
	// after its limit for plugins, 2 s; the pod runs, and has its weight later.
	if err := b.daemon.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	frozen := b.pod(ctx, "frozen", map[string]string{"isolio.dev/weight": "350"})
	b.container(ctx, frozen)
	took := time.Since(began)
	t.Logf("with the daemon's process stopped, a pod and its container took %v", took)
	if took > 30*time.Second {
		t.Errorf("a stopped daemon held a pod back for %v", took)
	}
	if err := b.daemon.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.becomes(frozen.group, "350")
	if text := b.logged(); strings.Contains(text, "panic") {
		t.Errorf("the daemon's log:\n%s", text)
	}
}

// setUp starts containerd, or skips the test and says why.
func setUp(t *testing.T) *bench {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: containerd takes root")
	}
	tree, err := filepath.Abs(filepath.Join(build, "containerd/tree"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(tree, "usr/bin/containerd")); err != nil {
		t.Skip("SKIPPED: there is no build/containerd/tree: scripts/containerd makes it")
	}
	if text, err := exec.Command("unshare", "--mount", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: no namespaces can be had here: %v: %s", err, text)
	}
	// Paths of sockets have a limit, so not t.TempDir.
	dir, err := os.MkdirTemp("", "nri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bench{t: t, dir: dir, root: filepath.Join(dir, "root"), log: filepath.Join(dir, "daemon.log")}
	b.machine()
	b.put("config.toml", `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "`+image+`"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "/t/root/var/run/nri/nri.sock"
[grpc]
  address = "/t/containerd.sock"
`)
	b.image()

	inside := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "./inside.sh", tree, dir)
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	inside.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := inside.Start(); err != nil {
		t.Fatal(err)
	}
	b.ended = make(chan error, 1)
	go func() { b.ended <- inside.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := exec.Command("tail", "-40", filepath.Join(dir, "containerd.log")).Output()
			t.Logf("the end of containerd's log:\n%s\nthe daemon's log:\n%s", text, b.logged())
		}
		_ = syscall.Kill(-inside.Process.Pid, syscall.SIGKILL)
		removeCgroups(t)
	})
	b.wait("containerd is ready", func() bool { return b.there("ready") && b.there("imported") })
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "containerd.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	b.pods = cri.NewRuntimeServiceClient(conn)
	return b
}

// machine is what the daemon needs to find.
func (b *bench) machine() {
	b.put("root/sys/fs/cgroup/cgroup.controllers", "io\n")
	b.put("root/sys/fs/cgroup/cgroup.subtree_control", "io\n")
	b.put("root/sys/block/sda/dev", "8:0\n")
	b.put("root/sys/block/sda/size", "8388608\n")
	b.put("root/sys/block/sda/queue/scheduler", "none [kyber-fairness]\n")
	b.put("root/var/run/nri/.keep", "")
}

func (b *bench) put(name, text string) {
	b.t.Helper()
	file := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) there(name string) bool {
	_, err := os.Stat(filepath.Join(b.dir, name))
	return err == nil
}

func (b *bench) wait(what string, is func() bool) time.Duration {
	b.t.Helper()
	began := time.Now()
	for !is() {
		select {
		case err := <-b.ended:
			b.t.Fatalf("%s: inside.sh ended: %v", what, err)
		case <-time.After(time.Millisecond):
		}
		if time.Since(began) > 2*time.Minute {
			b.t.Fatalf("%s: not within two minutes", what)
		}
	}
	return time.Since(began)
}

// image makes an archive of an image with one program, from bytes that are always
// the same.
func (b *bench) image() {
	b.t.Helper()
	program := filepath.Join(b.dir, "pause")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "./pause")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("go build: %v: %s", err, text)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		b.t.Fatal(err)
	}
	b.put("image.tar", string(oci.Archive(image, text)))
}

// removeCgroups removes what containerd made, once its processes are gone.
func removeCgroups(t *testing.T) {
	for range 50 {
		dirs, _ := filepath.Glob("/sys/fs/cgroup" + parent)
		v1, _ := filepath.Glob("/sys/fs/cgroup/*" + parent)
		dirs = append(dirs, v1...)
		if len(dirs) == 0 {
			return
		}
		for _, dir := range dirs {
			_ = exec.Command("find", dir, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run()
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("cgroups are left at %s", parent)
}

// pod is one that was asked for, with its cgroups in the daemon's tree.
type pod struct {
	name, id     string
	config       *cri.PodSandboxConfig
	group, scope string
}

var pods int

// pod asks for a sandbox.
func (b *bench) pod(ctx context.Context, name string, annotations map[string]string) *pod {
	b.t.Helper()
	pods++
	uid := fmt.Sprintf("%08x-1111-1111-1111-111111111111", pods)
	p := &pod{name: name, group: parent + "/kubepods/burstable/pod" + uid}
	host := &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}
	p.config = &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: name, Uid: uid, Namespace: "shop"}, Annotations: annotations, LogDirectory: "/t/pods/" + uid,
		Linux: &cri.LinuxPodSandboxConfig{CgroupParent: p.group, SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: host}},
	}
	b.cgroup(p.group) // as a kubelet makes it
	b.wait("containerd answers", func() bool { _, err := b.pods.Version(ctx, &cri.VersionRequest{}); return err == nil })
	r, err := b.pods.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		b.t.Fatalf("RunPodSandbox %s: %v", name, err)
	}
	p.id = r.PodSandboxId
	return p
}

// container starts the pod's container, and returns what its weight was when its
// cgroup was made.
func (b *bench) container(ctx context.Context, p *pod) string {
	b.t.Helper()
	host := &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}
	r, err := b.pods.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: p.id, SandboxConfig: p.config, Config: &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "main"}, Image: &cri.ImageSpec{Image: image}, LogPath: "main.log",
		Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: host}},
	}})
	if err != nil {
		b.t.Fatalf("CreateContainer %s: %v", p.name, err)
	}
	p.scope = p.group + "/" + r.ContainerId
	b.cgroup(p.scope)
	was := b.weight(p.scope)
	if _, err := b.pods.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: r.ContainerId}); err != nil {
		b.t.Fatalf("StartContainer %s: %v", p.name, err)
	}
	return was
}

func (b *bench) remove(ctx context.Context, p *pod) {
	b.t.Helper()
	if _, err := b.pods.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.id}); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.pods.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.id}); err != nil {
		b.t.Fatal(err)
	}
}

// kill ends containerd at once, and waits until it is back.
func (b *bench) kill(ctx context.Context) {
	b.t.Helper()
	b.put("kill", "")
	b.wait("containerd is killed", func() bool { return !b.there("kill") })
	b.wait("containerd is back", func() bool { return b.there("ready") })
	b.wait("containerd answers", func() bool { _, err := b.pods.Version(ctx, &cri.VersionRequest{}); return err == nil })
}

// cgroup makes one in the daemon's tree.
func (b *bench) cgroup(name string) {
	b.put(filepath.Join("root/sys/fs/cgroup", name, "io.kyber.weight"), unset+"\n")
}

func (b *bench) weight(group string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.root, "sys/fs/cgroup", group, "io.kyber.weight"))
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func (b *bench) becomes(group, want string) time.Duration {
	b.t.Helper()
	return b.wait(group+" has "+want, func() bool { return b.weight(group) == want })
}

// start runs the daemon, which looks at everything once in an hour only.
func (b *bench) start() {
	b.t.Helper()
	log, err := os.OpenFile(b.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	b.daemon = exec.Command(filepath.Join(build, "isolio"), "daemon", "--root", b.root, "--every", "1h")
	b.daemon.Stderr = log
	if err := b.daemon.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.stop)
}

// stop kills the daemon.
func (b *bench) stop() {
	if b.daemon != nil {
		_ = b.daemon.Process.Kill()
		_ = b.daemon.Wait()
		b.daemon = nil
	}
}

func (b *bench) logged() string {
	text, _ := os.ReadFile(b.log)
	return string(text)
}

func (b *bench) says(text string) {
	b.t.Helper()
	b.wait("the daemon's log has "+text, func() bool { return strings.Contains(b.logged(), text) })
}

func (b *bench) report() string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.root, "run/isolio/pods.json"))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}
