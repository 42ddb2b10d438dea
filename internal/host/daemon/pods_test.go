// SPDX-License-Identifier: MIT

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/must"
	"isolio/internal/plan"
)

// A runtime is the library's own side of NRI on the host's socket.
type runtimeSide struct {
	*adaptation.Adaptation
	h *host

	mu   sync.Mutex
	pods []*api.PodSandbox
}

func (h *host) runtime(pods ...*api.PodSandbox) *runtimeSide {
	h.t.Helper()
	r := &runtimeSide{h: h, pods: pods}
	sync := func(ctx context.Context, tell adaptation.SyncCB) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		_, err := tell(ctx, r.pods, nil)
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil }
	none := h.t.TempDir()
	side, err := adaptation.New("containerd", "v2.1.9", sync, update, adaptation.WithSocketPath(filepath.Join(h.Root, "var/run/nri/nri.sock")),
		adaptation.WithPluginPath(none), adaptation.WithPluginConfigPath(none))
	must.OK(h.t, err)
	must.OK(h.t, side.Start())
	h.t.Cleanup(side.Stop)
	r.Adaptation = side
	return r
}

// run starts a pod as a runtime does: a plugin that connects meanwhile is told of the
// pod either by this or by what there is.
func (r *runtimeSide) run(ctx context.Context, pod *api.PodSandbox) error {
	block := r.BlockPluginSync()
	defer block.Unblock()
	if err := r.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: pod}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = append(r.pods, pod)
	return nil
}

// podOf makes a pod's cgroups, and is what the runtime tells of it.
func (h *host) podOf(n int, annotations map[string]string) (pod *api.PodSandbox, group string) {
	h.t.Helper()
	id := fmt.Sprintf("%064x", n)
	slice := fmt.Sprintf("kubepods-besteffort-pod%08x_1111_1111_1111_111111111111.slice", n)
	group = "kubepods.slice/kubepods-besteffort.slice/" + slice
	h.group(group, 100)
	h.group(group+"/cri-containerd-"+id+".scope", 100)
	return &api.PodSandbox{
		Id: id, Name: fmt.Sprintf("pod-%d", n), Namespace: "shop", Uid: fmt.Sprintf("%08x-1111-1111-1111-111111111111", n), Annotations: annotations,
		Linux: &api.LinuxPodSandbox{CgroupsPath: slice + ":cri-containerd:" + id},
	}, group
}

// start runs the daemon until the test ends.
func (h *host) start() (stop func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				h.t.Error(err)
			}
		})
	}
	h.t.Cleanup(stop)
	return stop
}

// becomes waits until a cgroup has a weight, and returns how long that took.
func (h *host) becomes(group, want string) time.Duration {
	h.t.Helper()
	began := time.Now()
	for h.weights(group) != want {
		if time.Since(began) > 20*time.Second {
			h.t.Fatalf("%s has %s after 20 s, want %s", group, h.weights(group), want)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// log is one that is read while it is written.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A pod has its weight before its first container is created: the runtime is asked
// for the pod, then for the image, then for the container.
func TestPodsOverNRI(t *testing.T) {
	h := newHost(t, "[[rule]]\npod = \"shop/*\"\nmax_weight = 400\n")
	var text log
	h.Log = slog.New(slog.NewTextHandler(&text, nil))
	before, groupOfBefore := h.podOf(1, map[string]string{"isolio.dev/weight": "300"})
	r := h.runtime(before)
	h.start()
	h.becomes(groupOfBefore, "300")

	pod, group := h.podOf(2, map[string]string{"isolio.dev/weight": "500", "isolio.dev/weight.db": "20"})
	block := r.BlockPluginSync()
	began := time.Now()
	must.OK(t, r.RunPodSandbox(context.Background(), &api.RunPodSandboxRequest{Pod: pod}))
	answered := time.Since(began)
	t.Logf("answered after %v; the weight is there %v later", answered, h.becomes(group, "400"))

	// A container's cgroup is there when it starts.
	id := strings.Repeat("d", 64)
	scope := group + "/cri-containerd-" + id + ".scope"
	c := &api.Container{Id: id, PodSandboxId: pod.Id, Name: "db", Linux: &api.LinuxContainer{CgroupsPath: filepath.Base(group) + ":cri-containerd:" + id}}
	must.OK(t, r.PostCreateContainer(context.Background(), &api.PostCreateContainerRequest{Pod: pod, Container: c}))
	h.group(scope, 100)
	must.OK(t, r.StartContainer(context.Background(), &api.StartContainerRequest{Pod: pod, Container: c}))
	block.Unblock()
	t.Logf("a container's after %v", h.becomes(scope, "20"))
	if now := h.health.now(); !now.hearing || now.problems != 0 || now.refused != 1 {
		t.Errorf("health %+v", now)
	}

	// Other commands, and a daemon that starts, know the same from the file.
	info, err := os.Stat(filepath.Join(h.Root, state.PodReportFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	found, err := target.ListContainers(h.Root, []string{group, scope})
	if err != nil || len(found) != 1 || found[0].DisplayName() != "shop/pod-2/db" || found[0].Engine != "containerd" {
		t.Errorf("from the file: %+v, %v", found, err)
	}
	if want := `msg=annotation of=` + group + ` warning="shop/pod-2: annotation isolio.dev/weight: 500; 400 is the most by rule 1"`; strings.Count(text.String(), want) != 1 {
		t.Errorf("not once: %s\n%s", want, &text)
	}
}

// A daemon that starts while the runtime is away keeps what pods have.
func TestPodsOutliveDaemonAndRuntime(t *testing.T) {
	h := newHost(t, "")
	pod, group := h.podOf(1, map[string]string{"isolio.dev/weight": "300"})
	r := h.runtime(pod)
	stop := h.start()
	h.becomes(group, "300")
	stop()
	r.Stop()
	if err := os.Remove(filepath.Join(h.Root, "var/run/nri/nri.sock")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	next := &host{t: t, Daemon: &Daemon{Root: h.Root, RuleFile: h.RuleFile, Every: 100 * time.Millisecond, Log: h.Log}}
	must.OK(t, next.Open())
	stop = next.start()
	for next.health.now().reconciles < 5 {
		time.Sleep(10 * time.Millisecond)
	}
	if got := h.weights(group); got != "300" {
		t.Errorf("weight %s without a runtime", got)
	}
	// The runtime is back, and the pod has another sandbox, with other annotations.
	pod.Annotations = map[string]string{"isolio.dev/weight": "200"}
	h.runtime(pod)
	h.becomes(group, "200")
	stop()
}

// Without NRI there is nothing that the annotations of a pod do.
func TestNRIIsSwitchedOff(t *testing.T) {
	h := newHost(t, "")
	pod, group := h.podOf(1, map[string]string{"isolio.dev/weight": "300"})
	h.runtime(pod)
	stop := h.start()
	h.becomes(group, "300")
	h.put("etc/isolio.toml", "nri = \"off\"\n")
	must.OK(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	h.becomes(group, "100")
	if _, err := os.Stat(filepath.Join(h.Root, state.PodReportFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
	stop()
	h.put("sys/fs/cgroup/"+group+"/io.kyber.weight", "default 100\n")
	h.put("etc/isolio.toml", "")
	must.OK(t, h.Reload())
	h.NoNRI = true
	h.start()
	for h.health.now().reconciles < 3 {
		time.Sleep(10 * time.Millisecond)
		h.put("sys/fs/cgroup/idle/io.weight", "default 100\n") // something to look at
	}
	if got := h.weights(group); got != "100" {
		t.Errorf("weight %s with --no-nri", got)
	}
}

// Rules that ask for other labels have the runtime tell them.
func TestARuleForALabelOfAPod(t *testing.T) {
	h := newHost(t, "")
	pod, group := h.podOf(1, nil)
	pod.Labels = map[string]string{"tier": "gold"}
	h.runtime(pod)
	h.start()
	for !h.health.now().hearing {
		time.Sleep(time.Millisecond)
	}
	h.put("etc/isolio.toml", "[[rule]]\npod = \"*\"\nlabel = \"tier=gold\"\nweight = 600\n")
	must.OK(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	h.becomes(group, "600")
}

// stuck is a machine on which a write takes as long as the test wants.
type stuck struct {
	plan.OS
	entered, leave chan struct{}
}

func (s stuck) Write(file, text string) error {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	<-s.leave
	return s.OS.Write(file, text)
}

// A daemon that hangs in a write holds no pod back, and does what it missed.
func TestAStuckDaemonDelaysNoPod(t *testing.T) {
	h := newHost(t, "")
	s := stuck{entered: make(chan struct{}, 1), leave: make(chan struct{})}
	r := h.runtime()
	stop := h.start()
	for !h.health.now().hearing {
		time.Sleep(time.Millisecond)
	}
	stop()
	h.kernel = s
	ctx := context.Background()
	pod, group := h.podOf(1, map[string]string{"isolio.dev/weight": "300"})
	r.mu.Lock()
	r.pods = []*api.PodSandbox{pod}
	r.mu.Unlock()
	h.put("sys/fs/cgroup/docker/"+idA+"/io.kyber.weight", "default 100\n")
	h.start()
	<-s.entered // the first look of the daemon hangs now
	var groups []string
	began := time.Now()
	for n := range 20 {
		pod, group := h.podOf(100+n, map[string]string{"isolio.dev/weight": fmt.Sprint(200 + n)})
		groups = append(groups, group)
		must.OK(t, r.run(ctx, pod))
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("20 pods took %v", took)
	}
	close(s.leave)
	h.becomes(group, "300")
	for n, group := range groups {
		h.becomes(group, fmt.Sprint(200+n))
	}
}

// refuse is a machine that takes no weight until it is mended.
type refuse struct {
	plan.OS
	tries chan struct{}
}

func (r refuse) Write(file, text string) error {
	select {
	case <-r.tries:
		return syscall.ENODEV
	default:
		return r.OS.Write(file, text)
	}
}

// A weight that the kernel does not take yet is tried again.
func TestAWeightOfAPodIsTriedAgain(t *testing.T) {
	h := newHost(t, "")
	h.Every = 100 * time.Millisecond
	tries := make(chan struct{}, 2)
	tries <- struct{}{}
	tries <- struct{}{}
	pod, group := h.podOf(1, map[string]string{"isolio.dev/weight": "300"})
	for _, other := range []string{"docker/" + idA, "system.slice/backup.service"} {
		h.put("sys/fs/cgroup/"+other+"/io.weight", "default 100\n")
	}
	h.kernel = refuse{tries: tries}
	h.runtime(pod)
	h.start()
	h.becomes(group, "300")
	if len(tries) != 0 {
		t.Error("no write was refused")
	}
}

// A report that cannot be kept in its file counts all the same.
func TestWithoutAPlaceForTheReport(t *testing.T) {
	h := newHost(t, "")
	must.OK(t, os.MkdirAll(filepath.Join(h.Root, state.PodReportFile, "in-the-way"), 0o755))
	pod, group := h.podOf(1, map[string]string{"isolio.dev/weight": "300"})
	h.runtime(pod)
	h.start()
	h.becomes(group, "300")
	for h.health.now().problems == 0 {
		time.Sleep(time.Millisecond)
	}
}

// A socket that is not there is normal, and a fault where the rules name it. It is
// told once.
func TestNoSocket(t *testing.T) {
	for rules, want := range map[string]struct {
		problems int
		line     string
	}{
		"":                           {0, "level=INFO msg=nri socket="},
		"nri = \"/run/none.sock\"\n": {1, "level=WARN msg=nri of="},
	} {
		h := newHost(t, rules)
		h.Every = 100 * time.Millisecond
		var text log
		h.Log = slog.New(slog.NewTextHandler(&text, nil))
		stop := h.start()
		for !strings.Contains(text.String(), want.line) {
			time.Sleep(time.Millisecond)
		}
		for before := h.health.now().reconciles; h.health.now().reconciles < before+5; {
			time.Sleep(10 * time.Millisecond)
		}
		if now := h.health.now(); now.problems != want.problems || now.hearing {
			t.Errorf("%q: health %+v", rules, now)
		}
		if nr := strings.Count(text.String(), "msg=nri"); nr != 1 {
			t.Errorf("%q: told %d times:\n%s", rules, nr, &text)
		}
		stop()
	}
}

// isolio-node knows whether a runtime, or its files, tell of pods: else claims would be sold that the
// daemon gives no weight.
func TestWhetherPodsAreSeen(t *testing.T) {
	h := newHost(t, "[[rule]]\nname = \"x\"\nweight = 20\n")
	h.Every = 50 * time.Millisecond
	sees := func(want bool) {
		t.Helper()
		var why string
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if why = state.ReadPodSight(h.Root).Unseen; (why == "") == want {
				return
			}
		}
		t.Fatalf("20 s: %q", why)
	}
	if why := state.ReadPodSight(h.Root).Unseen; why != "no isolio daemon runs" {
		t.Errorf("before a daemon: %q", why)
	}
	stop := h.start()
	sees(false)
	pod, _ := h.podOf(1, nil)
	h.runtime(pod)
	sees(true)
	must.OK(t, os.Remove(filepath.Join(h.Root, "var/run/nri/nri.sock"))) // the library keeps connections
	stop()
	sees(false)
	next := &host{t: t, Daemon: &Daemon{Root: h.Root, RuleFile: h.RuleFile, Every: h.Every, Log: h.Log}}
	must.OK(t, next.Open())
	stop = next.start()
	sees(false)
	scope := "kubepods.slice/kubepods-pod00000003_1111_1111_1111_111111111111.slice/cri-containerd-" + strings.Repeat("3", 64) + ".scope"
	h.group(scope, 100)
	h.put("run/containerd/io.containerd.runtime.v2.task/k8s.io/"+strings.Repeat("3", 64)+"/config.json", `{"linux":{"cgroupsPath":"kubepods-pod00000003_1111_1111_1111_111111111111.slice:cri-containerd:`+
		strings.Repeat("3", 64)+`"},"annotations":{"io.kubernetes.cri.container-type":"sandbox","io.kubernetes.cri.sandbox-name":"p","io.kubernetes.cri.sandbox-namespace":"n","io.kubernetes.cri.sandbox-uid":"u"}}`)
	sees(true)
	stop()
	if why := state.ReadPodSight(h.Root).Unseen; why != "no isolio daemon runs" {
		t.Errorf("after it: %q", why)
	}
}
