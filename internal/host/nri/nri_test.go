// SPDX-License-Identifier: MIT

package nri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"

	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/must"
)

// A machine is a root directory with a place for the runtime's socket.
func machine(t *testing.T) (root, socket string) {
	t.Helper()
	root = t.TempDir()
	socket = filepath.Join(root, Socket)
	must.OK(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	return root, socket
}

// engine is the runtime's side of the library, as containerd and CRI-O have it.
type engine struct {
	*adaptation.Adaptation
	t *testing.T

	listener net.Listener

	mu         sync.Mutex
	pods       []*api.PodSandbox
	containers []*api.Container
	conns      []net.Conn
}

// start has a runtime that knows of these pods and containers listen.
func start(t *testing.T, socket string, pods []*api.PodSandbox, containers []*api.Container) *engine {
	t.Helper()
	e := &engine{t: t, pods: pods, containers: containers}
	sync := func(ctx context.Context, tell adaptation.SyncCB) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		_, err := tell(ctx, e.pods, e.containers)
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil }
	none := t.TempDir()
	behind := filepath.Join(none, "nri.sock")
	runtime, err := adaptation.New("containerd", "v2.1.9", sync, update,
		adaptation.WithSocketPath(behind), adaptation.WithPluginPath(none), adaptation.WithPluginConfigPath(none))
	must.OK(t, err)
	must.OK(t, runtime.Start())
	e.Adaptation = runtime
	// The library leaves it to the end of the process to close connections, so the
	// plugin reaches it through one that can be closed.
	e.listener = unix(t, socket)
	go e.forward(behind)
	t.Cleanup(e.end)
	return e
}

// forward passes on what plugins and the runtime say to each other.
func (e *engine) forward(to string) {
	for {
		plugin, err := e.listener.Accept()
		if err != nil {
			return
		}
		runtime, err := net.Dial("unix", to)
		if err != nil {
			plugin.Close()
			return
		}
		e.mu.Lock()
		e.conns = append(e.conns, plugin, runtime)
		e.mu.Unlock()
		for from, to := range map[net.Conn]net.Conn{plugin: runtime, runtime: plugin} {
			go func() {
				_, _ = io.Copy(to, from)
				from.Close()
				to.Close()
			}()
		}
	}
}

// end is the end of the runtime's process.
func (e *engine) end() {
	e.listener.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, conn := range e.conns {
		conn.Close()
	}
	e.Stop()
}

// Runtimes have a plugin synchronized while no pod is about to start.

func (e *engine) run(pod *api.PodSandbox) {
	e.t.Helper()
	defer e.BlockPluginSync().Unblock()
	must.OK(e.t, e.RunPodSandbox(context.Background(), &api.RunPodSandboxRequest{Pod: pod}))
}

// stopPod is the end of a pod, whose sandbox is still there.
func (e *engine) stopPod(pod *api.PodSandbox) {
	e.t.Helper()
	defer e.BlockPluginSync().Unblock()
	must.OK(e.t, e.StopPodSandbox(context.Background(), &api.StopPodSandboxRequest{Pod: pod}))
}

// create does all that comes before the start of a container's program.
func (e *engine) create(pod *api.PodSandbox, c *api.Container) {
	e.t.Helper()
	defer e.BlockPluginSync().Unblock()
	ctx := context.Background()
	adjust, err := e.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: c})
	if err != nil || len(adjust.GetAdjust().GetLinux().GetResources().GetUnified()) != 0 || len(adjust.GetUpdate()) != 0 {
		e.t.Fatalf("CreateContainer: %+v, %v", adjust, err)
	}
	must.OK(e.t, e.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: pod, Container: c}))
	must.OK(e.t, e.StartContainer(ctx, &api.StartContainerRequest{Pod: pod, Container: c}))
}

func aPod(name string, annotations map[string]string) *api.PodSandbox {
	uid := fmt.Sprintf("%08x-1111-1111-1111-111111111111", len(name))
	return &api.PodSandbox{
		Id: "sandbox-" + name, Name: name, Uid: uid, Namespace: "shop", Annotations: annotations, Labels: map[string]string{"app": name, "other": "x"},
		Linux: &api.LinuxPodSandbox{CgroupsPath: "kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice:cri-containerd:sandbox-" + name},
	}
}

func aContainer(pod *api.PodSandbox, name string) *api.Container {
	return &api.Container{
		Id: pod.Id + "-" + name, PodSandboxId: pod.Id, Name: name, Env: []string{"SECRET=1"}, Labels: map[string]string{"app": "none of the pod's"},
		Linux: &api.LinuxContainer{CgroupsPath: "kubepods-pod" + strings.ReplaceAll(pod.Uid, "-", "_") + ".slice:cri-containerd:" + name},
	}
}

// keeps has rules ask for the label app and for all of isolio's annotations.
func keeps(key string) bool { return key == "app" || strings.HasPrefix(key, "isolio.dev/") }

// listen has a source run until the test, or stop, ends it.
func listen(t *testing.T, root string) (s *Source, stop func()) {
	t.Helper()
	s = New(root, Socket, keeps)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	stop = func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Error("the source does not end")
		}
	}
	t.Cleanup(stop)
	return s, stop
}

// until waits for a report, taking it when the source says that there is one.
func until(t *testing.T, s *Source, what string, is func(r *state.PodReport, err error) bool) *state.PodReport {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		r, err := s.Report()
		if is(r, err) {
			return r
		}
		select {
		case <-s.Changed():
		case <-limit:
			t.Fatalf("%q: not within 20 s; the report has %q, %v", what, said(r), err)
		}
	}
}

// has waits until the runtime told of just these pods.
func has(t *testing.T, s *Source, names ...string) *state.PodReport {
	t.Helper()
	return until(t, s, strings.Join(names, " "), func(r *state.PodReport, err error) bool {
		return err == nil && said(r) == strings.Join(names, " ")
	})
}

// said are the names of pods and, with a slash, of their containers.
func said(r *state.PodReport) string {
	if r == nil {
		return ""
	}
	var all []string
	for _, p := range r.Pods {
		all = append(all, p.Name)
		for _, c := range p.Containers {
			all = append(all, p.Name+"/"+c.Name)
		}
	}
	return strings.Join(all, " ")
}

func TestAPodBeforeThePlugin(t *testing.T) {
	root, socket := machine(t)
	pod := aPod("web", map[string]string{"isolio.dev/weight": "300", "note": "not kept"})
	start(t, socket, []*api.PodSandbox{pod}, []*api.Container{aContainer(pod, "nginx")})
	s, _ := listen(t, root)
	r := has(t, s, "web", "web/nginx")
	p := r.Pods[0]
	if r.Engine != "containerd" || p.Namespace != "shop" || p.UID != pod.Uid || p.CgroupsPath != pod.Linux.CgroupsPath ||
		p.Containers[0].CgroupsPath == "" || fmt.Sprint(p.Annotations, p.Labels) != "map[isolio.dev/weight:300] map[app:web]" {
		t.Errorf("report %+v", r)
	}
}

func TestAPodAfterThePlugin(t *testing.T) {
	root, socket := machine(t)
	s, _ := listen(t, root)
	e := start(t, socket, nil, nil) // a socket that comes later is found
	has(t, s)
	web, db := aPod("web", nil), aPod("db-0", map[string]string{"isolio.dev/weight": "7"})
	e.run(web)
	has(t, s, "web")
	e.create(web, aContainer(web, "nginx"))
	has(t, s, "web", "web/nginx")
	e.run(db)
	e.create(db, aContainer(db, "postgres"))
	if r := has(t, s, "web", "web/nginx", "db-0", "db-0/postgres"); r.Pods[1].Annotations["isolio.dev/weight"] != "7" {
		t.Errorf("report %+v", r)
	}
	ctx := context.Background()
	must.OK(t, e.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: web, Container: aContainer(web, "nginx")}))
	has(t, s, "web", "db-0", "db-0/postgres")
	e.stopPod(web)
	until(t, s, "that web ended", func(r *state.PodReport, _ error) bool {
		return len(r.Pods) == 2 && r.Pods[0].Stopped && !r.Pods[1].Stopped
	})
	for _, pod := range []*api.PodSandbox{web, db} { // the container of the second is not removed before
		must.OK(t, e.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: pod}))
	}
	has(t, s)
}

// What happened while no plugin was there is told by the next Synchronize.
func TestThePluginRestarts(t *testing.T) {
	root, socket := machine(t)
	web, db := aPod("web", nil), aPod("db", nil)
	e := start(t, socket, []*api.PodSandbox{web}, nil)
	s, stop := listen(t, root)
	has(t, s, "web")
	stop()
	e.run(db) // no plugin is there: the runtime does not wait
	e.mu.Lock()
	e.pods = []*api.PodSandbox{db}
	e.mu.Unlock()
	again, _ := listen(t, root)
	has(t, again, "db")
}

// A runtime that tells of all pods tells of those that have ended, too, and does not say so.
func TestPodsThatEndedStayEnded(t *testing.T) {
	root, socket := machine(t)
	web, db := aPod("web", nil), aPod("db", nil)
	both := []*api.PodSandbox{web, db}
	ended := func(r *state.PodReport, err error) bool {
		return err == nil && len(r.Pods) == 2 && r.Pods[0].Stopped && !r.Pods[1].Stopped
	}
	first := start(t, socket, both, nil)
	s, stop := listen(t, root)
	has(t, s, "web", "db")
	first.stopPod(web)
	until(t, s, "that web ended", ended)
	first.end()
	until(t, s, "the end", func(_ *state.PodReport, err error) bool { return err != nil })
	start(t, socket, both, nil)
	text, err := json.Marshal(until(t, s, "that web has ended, of the next runtime", ended))
	must.OK(t, err)
	stop()
	// The daemon writes the report to a file, for others and for the next one.
	file := filepath.Join(root, state.PodReportFile)
	must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o600)))
	again, _ := listen(t, root)
	until(t, again, "that web has ended, of the next daemon", ended)
}

// While the runtime is away, what it told holds. When it is back, just what it tells
// then does.
func TestTheRuntimeRestarts(t *testing.T) {
	root, socket := machine(t)
	web, db := aPod("web", nil), aPod("db", nil)
	first := start(t, socket, []*api.PodSandbox{web}, nil)
	s, _ := listen(t, root)
	has(t, s, "web")
	first.end()
	until(t, s, "the end", func(r *state.PodReport, err error) bool { return err != nil && said(r) == "web" })
	second := start(t, socket, []*api.PodSandbox{db}, nil)
	has(t, s, "db")
	second.run(web)
	has(t, s, "db", "web")
}

// A runtime that offers nothing is normal, and costs nothing but a try now and then.
func TestNoRuntime(t *testing.T) {
	root, _ := machine(t)
	s, stop := listen(t, root)
	until(t, s, "the fault", func(r *state.PodReport, err error) bool {
		return r == nil && err != nil && strings.Contains(err.Error(), "no such file")
	})
	stop()
}

// Other rules ask for other labels: the runtime tells again.
func TestOtherRules(t *testing.T) {
	root, socket := machine(t)
	start(t, socket, []*api.PodSandbox{aPod("web", nil)}, nil)
	s, _ := listen(t, root)
	has(t, s, "web")
	s.Keep(func(key string) bool { return key == "other" })
	until(t, s, "the other label", func(r *state.PodReport, err error) bool {
		return err == nil && len(r.Pods) == 1 && fmt.Sprint(r.Pods[0].Labels) == "map[other:x]"
	})
}

// peer is a runtime that speaks the protocol word by word.
type peer struct {
	t        *testing.T
	mux      multiplex.Mux
	plugin   api.PluginService
	register chan struct{}
}

func (p *peer) RegisterPlugin(context.Context, *api.RegisterPluginRequest) (*api.Empty, error) {
	p.register <- struct{}{}
	return &api.Empty{}, nil
}

func (p *peer) UpdateContainers(context.Context, *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	p.t.Error("the plugin asks for updates of containers")
	return &api.UpdateContainersResponse{}, nil
}

// accept waits for a plugin and its registration.
func accept(t *testing.T, listener net.Listener) *peer {
	t.Helper()
	conn, err := listener.Accept()
	must.OK(t, err)
	p := &peer{t: t, mux: multiplex.Multiplex(conn, multiplex.WithBlockedRead()), register: make(chan struct{}, 1)}
	t.Cleanup(func() { p.mux.Close() })
	to, err := p.mux.Open(multiplex.PluginServiceConn)
	must.OK(t, err)
	p.plugin = api.NewPluginClient(ttrpc.NewClient(to))
	server, err := ttrpc.NewServer()
	must.OK(t, err)
	api.RegisterRuntimeService(server, p)
	from, err := p.mux.Listen(multiplex.RuntimeServiceConn)
	must.OK(t, err)
	go func() { _ = server.Serve(context.Background(), from) }()
	t.Cleanup(func() { server.Close() })
	p.mux.Unblock()
	select {
	case <-p.register:
	case <-time.After(10 * time.Second):
		t.Fatal("the plugin does not register")
	}
	return p
}

func unix(t *testing.T, socket string) net.Listener {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	must.OK(t, err)
	t.Cleanup(func() { listener.Close() })
	return listener
}

// synchronize configures the plugin, and tells it of pods in parts.
func (p *peer) synchronize(name string, parts ...[]*api.PodSandbox) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := p.plugin.Configure(ctx, &api.ConfigureRequest{RuntimeName: name}); err != nil {
		p.t.Fatal(err)
	}
	for i, part := range parts {
		more := i < len(parts)-1
		r, err := p.plugin.Synchronize(ctx, &api.SynchronizeRequest{Pods: part, More: more})
		if err != nil || r.GetMore() != more || len(r.GetUpdate()) != 0 {
			p.t.Fatalf("Synchronize: %+v, %v", r, err)
		}
	}
}

// A runtime that ends at any moment of the beginning is tried again.
func TestARuntimeThatEndsEarly(t *testing.T) {
	root, socket := machine(t)
	listener := unix(t, socket)
	s, _ := listen(t, root)
	conn, err := listener.Accept() // before registration
	must.OK(t, err)
	conn.Close()
	accept(t, listener).mux.Close() // before Configure
	third := accept(t, listener)
	if _, err := third.plugin.Configure(context.Background(), &api.ConfigureRequest{RuntimeName: "containerd"}); err != nil {
		t.Fatal(err)
	}
	if _, err := third.plugin.Synchronize(context.Background(), &api.SynchronizeRequest{Pods: []*api.PodSandbox{aPod("half", nil)}, More: true}); err != nil {
		t.Fatal(err)
	}
	third.mux.Close() // amid Synchronize: what it told is no answer
	accept(t, listener).synchronize("CRI-O", []*api.PodSandbox{aPod("web", nil)}, nil, []*api.PodSandbox{aPod("db", nil)})
	if r := has(t, s, "web", "db"); r.Engine != "cri-o" {
		t.Errorf("the runtime is %q", r.Engine)
	}
}

// Runtimes up to containerd 2.1 tell of most events in another way.
func TestAnOlderRuntime(t *testing.T) {
	root, socket := machine(t)
	listener := unix(t, socket)
	s, _ := listen(t, root)
	p := accept(t, listener)
	p.synchronize("containerd", nil)
	web := aPod("web", nil)
	for _, one := range []struct {
		event api.Event
		c     *api.Container
		want  string
	}{
		{api.Event_RUN_POD_SANDBOX, nil, "web"},
		{api.Event_POST_CREATE_CONTAINER, aContainer(web, "nginx"), "web web/nginx"},
		{api.Event_START_CONTAINER, aContainer(web, "nginx"), "web web/nginx"},
		{api.Event_STOP_POD_SANDBOX, nil, "web web/nginx"},
		{api.Event_REMOVE_CONTAINER, aContainer(web, "nginx"), "web"},
		{api.Event_REMOVE_POD_SANDBOX, nil, ""},
		{api.Event_UNKNOWN, nil, ""},
	} {
		if _, err := p.plugin.StateChange(context.Background(), &api.StateChangeEvent{Event: one.event, Pod: web, Container: one.c}); err != nil {
			t.Fatal(err)
		}
		if r, _ := s.Report(); said(r) != one.want {
			t.Errorf("after %v: %q, want %q", one.event, said(r), one.want)
		}
	}
}

// No request that a runtime may send is an error, which would fail the pod. An empty
// one is no reason either.
func TestNothingFailsAPod(t *testing.T) {
	root, socket := machine(t)
	listener := unix(t, socket)
	s, _ := listen(t, root)
	p := accept(t, listener)
	ctx := context.Background()
	calls := func() error {
		all := []error{}
		try := func(_ any, err error) { all = append(all, err) }
		try(p.plugin.RunPodSandbox(ctx, &api.RunPodSandboxRequest{}))
		try(p.plugin.UpdatePodSandbox(ctx, &api.UpdatePodSandboxRequest{}))
		try(p.plugin.PostUpdatePodSandbox(ctx, &api.PostUpdatePodSandboxRequest{}))
		try(p.plugin.StopPodSandbox(ctx, &api.StopPodSandboxRequest{}))
		try(p.plugin.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{}))
		c, err := p.plugin.CreateContainer(ctx, &api.CreateContainerRequest{})
		if c.GetAdjust() != nil || len(c.GetUpdate()) != 0 || len(c.GetEvict()) != 0 {
			t.Errorf("CreateContainer asks for %+v", c)
		}
		try(c, err)
		try(p.plugin.PostCreateContainer(ctx, &api.PostCreateContainerRequest{}))
		try(p.plugin.StartContainer(ctx, &api.StartContainerRequest{}))
		try(p.plugin.PostStartContainer(ctx, &api.PostStartContainerRequest{}))
		try(p.plugin.UpdateContainer(ctx, &api.UpdateContainerRequest{}))
		try(p.plugin.PostUpdateContainer(ctx, &api.PostUpdateContainerRequest{}))
		try(p.plugin.StopContainer(ctx, &api.StopContainerRequest{}))
		try(p.plugin.RemoveContainer(ctx, &api.RemoveContainerRequest{}))
		try(p.plugin.StateChange(ctx, &api.StateChangeEvent{Event: api.Event_RUN_POD_SANDBOX}))
		try(p.plugin.StateChange(ctx, &api.StateChangeEvent{Event: api.Event_START_CONTAINER}))
		v, err := p.plugin.ValidateContainerAdjustment(ctx, &api.ValidateContainerAdjustmentRequest{})
		if v.GetReject() {
			t.Error("an adjustment is rejected")
		}
		try(v, err)
		for i, err := range all {
			if err != nil {
				return fmt.Errorf("call %d: %w", i, err)
			}
		}
		return nil
	}
	if err := calls(); err != nil {
		t.Errorf("before Configure: %v", err)
	}
	p.synchronize("another runtime", []*api.PodSandbox{nil, {}})
	if err := calls(); err != nil {
		t.Error(err)
	}
	if r := has(t, s); r.Engine != "" {
		t.Errorf("the runtime is %q", r.Engine)
	}
	if _, err := p.plugin.Shutdown(ctx, &api.Empty{}); err != nil {
		t.Error(err)
	}
}

// Whatever a pod's author writes, memory has a limit, and other pods are known.
func TestHostilePods(t *testing.T) {
	root, socket := machine(t)
	many := map[string]string{"isolio.dev/weight": "300", "isolio.dev/class": strings.Repeat("c", 1<<20)}
	for i := range 20000 {
		many[fmt.Sprintf("isolio.dev/weight.%06d", i)] = "1"
	}
	long := aPod("long", map[string]string{"isolio.dev/weight": strings.Repeat("9", 1<<20)})
	escape := aPod("\x1b[2Jweb\n\u202e", map[string]string{"isolio.dev/weight": "\x1b[31m300"})
	tooLong := aPod(strings.Repeat("n", 2000), nil)
	deep := aPod("deep", nil)
	deep.Linux.CgroupsPath = strings.Repeat("../", 100000)
	e := start(t, socket, []*api.PodSandbox{aPod("many", many), long, escape, tooLong, deep, aPod("web", nil)}, nil)
	s, _ := listen(t, root)
	r := has(t, s, "many", "long", escape.Name, "deep", "web")
	for _, p := range r.Pods {
		size := 0
		for key, value := range p.Annotations {
			size += len(key) + len(value)
		}
		if size > mostKept || len(p.CgroupsPath) > longestPath {
			t.Errorf("%q: %d bytes of annotations, a path of %d", p.Name, size, len(p.CgroupsPath))
		}
	}
	if got := r.Pods[0].Annotations; got["isolio.dev/weight"] != "300" || len(got["isolio.dev/class"]) != target.MaxValueBytes {
		t.Errorf("the pod's own annotations are lost: %d", len(got))
	}
	// One more such pod, as an event: 1.5 MB are one message. The runtime ends the
	// connection of a plugin that takes 2 s, and then no report has the pod.
	began := time.Now()
	e.run(aPod("many-more", many))
	t.Logf("RunPodSandbox took %v", time.Since(began))
	has(t, s, "many", "long", escape.Name, "deep", "web", "many-more")
}

// A node full of pods with all the annotations that Kubernetes lets them have.
func TestMemoryIsBounded(t *testing.T) {
	root, socket := machine(t)
	listener := unix(t, socket)
	s, _ := listen(t, root)
	p := accept(t, listener)
	const pods, each = 500, 256 << 10
	annotations := map[string]string{}
	for i := range each >> 10 {
		annotations[fmt.Sprintf("isolio.dev/weight.%04d", i)] = strings.Repeat("1", 1000)
	}
	var parts [][]*api.PodSandbox
	for i := range pods / 10 {
		var part []*api.PodSandbox
		for j := range 10 {
			part = append(part, aPod(fmt.Sprintf("pod-%d-%d", i, j), annotations))
		}
		parts = append(parts, part)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	p.synchronize("containerd", parts...)
	runtime.GC()
	runtime.ReadMemStats(&after)
	r, err := s.Report()
	if err != nil || len(r.Pods) != pods {
		t.Fatalf("%d pods, %v", len(r.Pods), err)
	}
	kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d KB are kept of %d", kept>>10, pods*each>>10)
	if kept > 16<<20 {
		t.Errorf("%d KB are kept", kept>>10)
	}
	for i := range mostPods {
		if _, err := p.plugin.RunPodSandbox(context.Background(), &api.RunPodSandboxRequest{Pod: aPod(fmt.Sprintf("more-%d", i), nil)}); err != nil {
			t.Fatal(err)
		}
	}
	if r, _ := s.Report(); len(r.Pods) != mostPods {
		t.Errorf("%d pods are known", len(r.Pods))
	}
	runtime.KeepAlive(s)
}

// While the daemon takes no reports, the runtime does not wait for it.
func TestNobodyTakesReports(t *testing.T) {
	root, socket := machine(t)
	e := start(t, socket, nil, nil)
	s, _ := listen(t, root)
	has(t, s)
	began := time.Now()
	for i := range 500 {
		pod := aPod(fmt.Sprintf("pod-%03d", i), map[string]string{"isolio.dev/weight": "300"})
		e.run(pod)
		e.create(pod, aContainer(pod, "c"))
	}
	took := time.Since(began) / 500
	t.Logf("%v a pod", took)
	if took > 100*time.Millisecond {
		t.Errorf("%v a pod", took)
	}
	if r, _ := s.Report(); len(r.Pods) != 500 {
		t.Errorf("%d pods are known", len(r.Pods))
	}
}

// A connection leaves nothing behind.
func TestConnectionsEnd(t *testing.T) {
	root, socket := machine(t)
	listener := unix(t, socket)
	s, stop := listen(t, root)
	accept(t, listener).synchronize("containerd", nil)
	has(t, s)
	before := runtime.NumGoroutine()
	for range 20 {
		s.Keep(keeps)
		p := accept(t, listener)
		p.synchronize("containerd", nil)
	}
	has(t, s)
	// Each of the test's own runtimes has some: those of the source are to be gone.
	stop()
	limit := time.Now().Add(10 * time.Second)
	for {
		stacks := make([]byte, 1<<20)
		text := string(stacks[:runtime.Stack(stacks, true)])
		if nr := strings.Count(text, "nri.(*Source).connection"); nr == 0 {
			break
		} else if time.Now().After(limit) {
			t.Fatalf("%d goroutines of connections, %d before:\n%s", nr, before, text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
