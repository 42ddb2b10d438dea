// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	core "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"isolio/deploy/node/internal/disk"
	"isolio/deploy/node/internal/driver"
	"isolio/internal/cli"
	"isolio/internal/host/state"
)

const (
	webUID    = "11111111-2222-3333-4444-555555555555"
	nvme      = "wwid-eui-1"
	rootMount = "30 21 259:1 / / rw - xfs /dev/nvme0n1p1 rw\n"
	mounts    = rootMount + "41 30 8:0 / /var/lib/kubelet/pods/" + webUID + "/volumes/kubernetes.io~csi/pv-1/mount rw - ext4 /dev/sda rw\n"
	timeout   = 30 * time.Second
)

// node is a machine of files with a kubelet on it, and a cluster around.
type node struct {
	t       *testing.T
	root    string
	cluster *fake.Clientset
	objects dynamic.Interface
	// address is where it tells of itself, and podsAddress where it tells of pods.
	address, podsAddress string
}

// classOf is a DiskShareClass, as the chart defines it.
func classOf(name string, weight any, namespaces ...any) *unstructured.Unstructured {
	spec := map[string]any{"weight": weight}
	if namespaces != nil {
		spec["namespaces"] = namespaces
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "isolio.dev/v1alpha1", "kind": "DiskShareClass", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func classes(all ...runtime.Object) dynamic.Interface {
	kinds := map[schema.GroupVersionResource]string{driver.ShareClasses: "DiskShareClassList"}
	return fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, all...)
}

// daemon is held by a daemon that runs until the test, or what comes, ends it.
func (n *node) daemon() (stop func()) {
	n.t.Helper()
	release, err := state.Lock(n.t.Context(), n.root, state.DaemonLock, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	stop = sync.OnceFunc(release)
	n.t.Cleanup(stop)
	return stop
}

// sees has the daemon tell why it sees no pods, "" where it does.
func (n *node) sees(unseen string) {
	n.t.Helper()
	if err := (state.PodSight{Unseen: unseen}).Write(n.root); err != nil {
		n.t.Fatal(err)
	}
}

func newNode(t *testing.T, objects ...runtime.Object) *node {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "n") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	n := &node{t: t, root: root}
	n.daemon()
	n.sees("")
	n.put("sys/block/nvme0n1/dev", "259:0")
	n.put("sys/block/nvme0n1/size", "2097152")
	n.put("sys/block/nvme0n1/queue/scheduler", "none [kyber-fairness]")
	n.put("sys/block/nvme0n1/wwid", "eui.1")
	n.put("sys/block/nvme0n1/nvme0n1p1/dev", "259:1")
	n.put("sys/block/nvme0n1/nvme0n1p1/partition", "1")
	n.put("sys/block/sda/dev", "8:0")
	n.put("sys/block/sda/size", "8")
	n.put("sys/block/sda/queue/scheduler", "[none] kyber-fairness")
	n.put("proc/1/mountinfo", mounts)
	for _, dir := range []string{"plugins_registry", "plugins"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/kubelet", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	objects = append(objects,
		&core.Node{ObjectMeta: meta.ObjectMeta{Name: "n1", UID: "node-uid"}},
		&core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "shop", Annotations: map[string]string{"isolio.dev/default-weight": "50"}}},
		&core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "bad", Annotations: map[string]string{"isolio.dev/default-weight": "much"}}},
		&scheduling.PriorityClass{ObjectMeta: meta.ObjectMeta{Name: "gold", Annotations: map[string]string{"isolio.dev/default-weight": "500"}}},
	)
	n.cluster = fake.NewClientset(objects...)
	n.objects = classes()
	n.serves("resource.k8s.io/v1")
	return n
}

func (n *node) serves(groups ...string) {
	var lists []*meta.APIResourceList
	for _, g := range groups {
		lists = append(lists, &meta.APIResourceList{GroupVersion: g})
	}
	n.cluster.Discovery().(*fakediscovery.FakeDiscovery).Resources = lists
}

func (n *node) put(file, text string) {
	n.t.Helper()
	name := filepath.Join(n.root, file)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text+"\n"), 0o644); err != nil {
		n.t.Fatal(err)
	}
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

// free is an address of the loopback that nothing listens on.
func (n *node) free() string {
	n.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// start runs the program until the test, or stop, ends it.
func (n *node) start(args ...string) (stop func()) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	var text log
	n.address, n.podsAddress = n.free(), n.free()
	args = append([]string{"--root", n.root, "--node", "n1", "--listen", n.address, "--listen-pods", n.podsAddress}, args...)
	go func() { ended <- cli.Run(ctx, New(n.cluster, n.objects), args, nil, io.Discard, &text) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case code := <-ended:
				if code != 0 || n.t.Failed() {
					n.t.Errorf("the program ended with %d:\n%s", code, &text)
				}
			case <-time.After(timeout):
				n.t.Errorf("the program does not end:\n%s", &text)
			}
		})
	}
	n.t.Cleanup(stop)
	return stop
}

func (n *node) until(what string, is func() bool) {
	n.t.Helper()
	for end := time.Now().Add(timeout); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("%s: not within %s; pods were given %+v", what, timeout, n.book())
		}
	}
}

func (n *node) book() state.Claims {
	n.t.Helper()
	b, err := state.ReadClaims(n.root)
	if err != nil {
		n.t.Fatal(err)
	}
	return b
}

// given waits until a pod has just these shares of this disk.
func (n *node) given(uid string, want int) {
	n.t.Helper()
	n.until(fmt.Sprintf("%d shares", want), func() bool {
		b := n.book()
		p := b.Find(uid)
		switch {
		case want == 0:
			return p == nil || len(p.Shares) == 0 || p.Shares[0].Share == 0
		case p == nil || len(p.Shares) != 1:
			return false
		}
		return p.Shares[0].Share == want && p.Shares[0].MajMin == "259:0" && p.Shares[0].Disk == "nvme0n1"
	})
}

// sockets are those that kubelet finds.
func (n *node) sockets() []string {
	n.t.Helper()
	all, err := filepath.Glob(filepath.Join(n.root, "var/lib/kubelet/plugins_registry/*"))
	if err != nil {
		n.t.Fatal(err)
	}
	return all
}

// kubelet calls as a kubelet does.
func (n *node) kubelet() dra.DRAPluginClient {
	n.t.Helper()
	return dra.NewDRAPluginClient(n.plugin())
}

// plugin is the connection that kubelet makes: it finds the socket, and asks what it is.
func (n *node) plugin() *grpc.ClientConn {
	n.t.Helper()
	endpoint := n.register()
	n.until("/healthz", func() bool { return n.get("/healthz") == http.StatusOK })
	if code := n.get("/livez"); code != http.StatusOK {
		n.t.Errorf("/livez: %d", code)
	}
	return n.dial(endpoint)
}

// register has kubelet find the plugin and register it; what comes is the path for its calls.
func (n *node) register() string {
	n.t.Helper()
	var socket string
	// Its file is there a moment before it takes a connection.
	n.until("the socket for registration", func() bool {
		for _, socket = range n.sockets() {
			conn, err := net.Dial("unix", socket)
			if err == nil {
				conn.Close()
				return true
			}
		}
		return false
	})
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r := registration.NewRegistrationClient(n.dial(socket))
	info, err := r.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil || info.Type != registration.DRAPlugin || info.Name != disk.Driver || !slices.Contains(info.SupportedVersions, dra.DRAPluginService) {
		n.t.Fatalf("%+v, %v", info, err)
	}
	if code := n.get("/healthz"); code != http.StatusServiceUnavailable {
		n.t.Errorf("/healthz before registration: %d", code)
	}
	if _, err := r.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		n.t.Fatal(err)
	}
	return info.Endpoint
}

func (n *node) get(path string) int {
	n.t.Helper()
	r, err := http.Get("http://" + n.address + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer r.Body.Close()
	return r.StatusCode
}

func (n *node) dial(socket string) *grpc.ClientConn {
	n.t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	return conn
}

// prepare has claims prepared, and returns the error of the one.
func prepare(t *testing.T, k dra.DRAPluginClient, c *resourceapi.ResourceClaim) (*dra.NodePrepareResourceResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r, err := k.NodePrepareResources(ctx, &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}})
	if err != nil {
		return nil, err
	}
	return r.Claims[string(c.UID)], nil
}

func unprepare(t *testing.T, k dra.DRAPluginClient, c *resourceapi.ResourceClaim) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r, err := k.NodeUnprepareResources(ctx, &dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}})
	if err != nil || r.Claims[string(c.UID)] == nil || r.Claims[string(c.UID)].Error != "" {
		t.Fatalf("%+v, %v", r, err)
	}
}

// claimOf is a claim that was given a number of shares, for pods.
func claimOf(uid, device string, share int64, pods ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: "claim-" + uid, UID: types.UID(uid)}}
	id := types.UID("share-" + uid)
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "disk", Driver: disk.Driver, Pool: "n1", Device: device, ShareID: &id, ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"share": *resource.NewQuantity(share, resource.DecimalSI)}},
		{Request: "gpu", Driver: "gpu.example.com", Pool: "n1", Device: "gpu0"},
	}}}
	for _, pod := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "pod-" + pod[:1], UID: types.UID(pod)})
	}
	return c
}

// podOf is a pod, which has the claim if that is one.
func podOf(namespace, name, uid, claimName string) *core.Pod {
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}, Spec: core.PodSpec{NodeName: "n1"}}
	if claimName != "" {
		p.Spec.ResourceClaims = []core.PodResourceClaim{{Name: "disk", ResourceClaimName: &claimName}}
	}
	return p
}

// report is what the daemon was told of pods.
func (n *node) report(pods ...state.ReportedPod) {
	n.t.Helper()
	if err := (state.PodReport{Engine: "containerd", Pods: pods}).Write(n.root); err != nil {
		n.t.Fatal(err)
	}
}

// leave makes a socket, and ends without removing it, as a process that is killed.
func (n *node) leave(file string) string {
	n.t.Helper()
	path := filepath.Join(n.root, "var/lib/kubelet", file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		n.t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listener.Close()
	return path
}

// events are those of the cluster: "POD REASON TEXT".
func (n *node) events() []string {
	n.t.Helper()
	list, err := n.cluster.CoreV1().Events("").List(context.Background(), meta.ListOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	var all []string
	for _, e := range list.Items {
		all = append(all, e.InvolvedObject.Name+" "+e.Reason+" "+e.Message)
	}
	slices.Sort(all)
	return all
}

// pods is what the program tells of the node's pods, or why it does not.
func (n *node) pods() string {
	r, err := http.Get("http://" + n.podsAddress + "/pods") //nolint:noctx // of a test's own
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return strings.TrimSpace(string(text))
}
