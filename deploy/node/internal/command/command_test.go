// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"context"
	"encoding/json"
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
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"isolio/deploy/node/internal/disk"
	"isolio/deploy/node/internal/driver"
	"isolio/internal/cli"
	"isolio/internal/host/claim"
	"isolio/internal/host/container"
)

const (
	webUID  = "11111111-2222-3333-4444-555555555555"
	nvme    = "wwid-eui-1"
	mounts  = "30 21 259:1 / / rw - xfs /dev/nvme0n1p1 rw\n41 30 8:0 / /var/lib/kubelet/pods/" + webUID + "/volumes/kubernetes.io~csi/pv-1/mount rw - ext4 /dev/sda rw\n"
	timeout = 30 * time.Second
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

func newNode(t *testing.T, objects ...runtime.Object) *node {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "n") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	n := &node{t: t, root: root}
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

func (n *node) book() claim.Book {
	n.t.Helper()
	b, err := claim.Read(n.root)
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
			return p == nil || len(p.Shares) == 0
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
func (n *node) report(pods ...container.ReportedPod) {
	n.t.Helper()
	if err := (container.Report{Engine: "containerd", Pods: pods}).Write(n.root); err != nil {
		n.t.Fatal(err)
	}
}

func TestAClaim(t *testing.T) {
	c := claimOf("c1", nvme, 300, webUID)
	n := newNode(t, c)
	stop := n.start()
	k := n.kubelet()
	for range 2 { // kubelet may ask again
		r, err := prepare(t, k, c)
		if err != nil || r.Error != "" || len(r.Devices) != 1 || r.Devices[0].DeviceName != nvme || r.Devices[0].PoolName != "n1" || r.Devices[0].GetShareId() != "share-c1" {
			t.Fatalf("%+v, %v", r, err)
		}
		n.given(webUID, 300)
	}
	// Another process finds it as it was.
	stop()
	n.given(webUID, 300)
	n.start()
	k = n.kubelet()
	n.given(webUID, 300)
	unprepare(t, k, c)
	n.given(webUID, 0)
	unprepare(t, k, c) // that it has none is no error
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

// Kubelet waits before it tries a path again that failed, so none is used twice, and those of
// processes that were killed go. Those of others stay.
func TestSocketsOfEarlierProcesses(t *testing.T) {
	n := newNode(t)
	old := []string{n.leave("plugins_registry/" + disk.Driver + "-reg.sock"), n.leave("plugins_registry/" + disk.Driver + "-1-reg.sock"), n.leave("plugins/" + disk.Driver + "/dra-1.sock")}
	others := []string{n.leave("plugins_registry/gpu.example.com-reg.sock"), n.leave("plugins/gpu.example.com/dra.sock")}
	stop := n.start()
	n.kubelet()
	for _, path := range old {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range others {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	first := n.sockets()
	// A second process, as while the DaemonSet is upgraded, leaves the first its socket.
	stopSecond := n.start()
	n.until("a second socket", func() bool { return len(n.sockets()) == len(first)+1 })
	for _, path := range first {
		if !slices.Contains(n.sockets(), path) {
			t.Errorf("%s went", path)
		}
	}
	stop()
	stopSecond()
	if left := n.sockets(); len(left) != 1 || filepath.Base(left[0]) != "gpu.example.com-reg.sock" {
		t.Errorf("left is %q", left)
	}
}

// The longest directory that is allowed has room for the sockets, and they are swept.
func TestALongKubeletDirectory(t *testing.T) {
	n := newNode(t)
	dir := func(length int) string { return "/" + strings.Repeat("k", length-len(n.root)-1) }
	var stderr bytes.Buffer
	args := []string{"--root", n.root, "--node", "n1", "--kubelet-dir"}
	if code := cli.Run(context.Background(), New(n.cluster, n.objects), append(args, dir(longestKubelet+1)), nil, io.Discard, &stderr); code != 2 || !strings.Contains(stderr.String(), "since the path of a socket has at most 107") {
		t.Errorf("%d: %s", code, &stderr)
	}
	for _, sub := range []string{"plugins_registry", "plugins"} {
		if err := os.MkdirAll(filepath.Join(n.root, dir(longestKubelet), sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(n.root, dir(longestKubelet)), filepath.Join(n.root, "link")); err != nil {
		t.Fatal(err)
	}
	old := n.leave("../../../link/plugins_registry/" + disk.Driver + "-abcdefgh-reg.sock")
	n.start("--kubelet-dir", dir(longestKubelet))
	n.until("the sockets", func() bool {
		all, err := filepath.Glob(filepath.Join(n.root, dir(longestKubelet), "plugins*", "*"+disk.Driver+"*"))
		return err == nil && len(all) == 2 && !slices.Contains(all, filepath.Join(n.root, dir(longestKubelet), "plugins_registry", filepath.Base(old)))
	})
	// Earlier versions had a UUID there, and no socket of the plugin where the directory was longer.
	const longestWithUUID = longestSocket - len("/plugins/"+disk.Driver+"/dra-"+webUID+".sock")
	for uid, length := range map[types.UID]int{"12345678": longestKubelet, types.UID(webUID): longestWithUUID} {
		name := kubeletplugin.RollingUpdateRegistrarSocketFile(filepath.Join("/"+strings.Repeat("k", length-1), registrations), disk.Driver, uid)
		if matched, err := filepath.Match(disk.Driver+"-*reg.sock", name); err != nil || !matched {
			t.Errorf("%s is not swept: %v", name, err)
		}
	}
}

// A claim may have several shares of a disk, one for each of its requests.
func TestAClaimOfTwoRequests(t *testing.T) {
	c := claimOf("c1", nvme, 100, webUID)
	second, id := c.Status.Allocation.Devices.Results[0], types.UID("share-2")
	second.Request, second.ShareID = "more", &id
	second.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"share": *resource.NewQuantity(200, resource.DecimalSI)}
	c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, second)
	n := newNode(t, c)
	n.start()
	r, err := prepare(t, n.kubelet(), c)
	if err != nil || r.Error != "" || len(r.Devices) != 2 || r.Devices[0].GetShareId() != "share-c1" || r.Devices[1].GetShareId() != "share-2" {
		t.Fatalf("%+v, %v", r, err)
	}
	n.given(webUID, 300)
}

// Pods that have a claim together have it once; the second one was never prepared.
func TestASharedClaim(t *testing.T) {
	other := "2" + webUID[1:]
	c := claimOf("c1", nvme, 300, webUID, other)
	n := newNode(t, c, podOf("shop", "pod-2", other, "claim-c1"))
	n.start()
	k := n.kubelet()
	if r, err := prepare(t, k, c); err != nil || r.Error != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	n.given(webUID, 150)
	n.given(other, 150)
	// Kubelet takes nothing back from the one that completed while the other runs.
	n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "pod-1"}, container.ReportedPod{ID: "s2", UID: other, Namespace: "shop", Name: "pod-2", Stopped: true})
	n.given(webUID, 300)
	// Its sandbox is made anew.
	n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "pod-1"}, container.ReportedPod{ID: "s3", UID: other, Namespace: "shop", Name: "pod-2"})
	n.given(webUID, 150)
	n.given(other, 150)
}

// A pod that was deleted has no part of a claim that others have: neither where no program was
// there to see it go, nor where its sandbox was never made.
func TestASharedClaimOfAPodThatIsGone(t *testing.T) {
	other, waiting := "2"+webUID[1:], "3"+webUID[1:]
	c := claimOf("c1", nvme, 300, webUID, other, waiting)
	n := newNode(t, c, podOf("shop", "pod-1", webUID, c.Name), podOf("shop", "pod-3", waiting, c.Name))
	b := claim.Book{}
	for uid, name := range map[string]string{webUID: "pod-1", other: "pod-2", waiting: "pod-3"} {
		b.Set(claim.Pod{UID: uid, Namespace: "shop", Name: name, Shares: []claim.Share{{Claim: c.Name, ClaimUID: "c1", Device: nvme, Disk: "nvme0n1", MajMin: "259:0", Claimed: 300}}})
	}
	if err := b.Write(n.root); err != nil {
		t.Fatal(err)
	}
	n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "pod-1"})
	n.start()
	n.kubelet()
	n.given(webUID, 150)
	n.given(waiting, 150)
	n.given(other, 0)
	if err := n.cluster.CoreV1().Pods("shop").Delete(context.Background(), "pod-3", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.given(webUID, 300)
	n.given(waiting, 0)
}

// A pod that has completed is none of those that a claim is reserved for, and has no part of it,
// also where the file is lost.
func TestAClaimThatACompletedPodHad(t *testing.T) {
	other := "2" + webUID[1:]
	n := newNode(t, claimOf("c1", nvme, 300, webUID), podOf("shop", "web", webUID, "claim-c1"), podOf("shop", "done", other, "claim-c1"))
	n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"}, container.ReportedPod{ID: "s2", UID: other, Namespace: "shop", Name: "done", Stopped: true})
	n.start()
	n.kubelet()
	n.given(webUID, 300)
	n.given(other, 0)
}

// A claim may be reserved for a PodGroup, which names no pod: its pods have parts of it, and one of
// another group that names the claim has none.
func TestAClaimOfAPodGroup(t *testing.T) {
	uids := []string{webUID, "2" + webUID[1:], "3" + webUID[1:]}
	c := claimOf("c1", nvme, 300)
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "training", UID: "group-uid"}}
	objects, told := []runtime.Object{c}, []container.ReportedPod{}
	for i, group := range []string{"training", "training", "other"} {
		name := fmt.Sprint("pod-", i)
		pod := podOf("shop", name, uids[i], "claim-c1")
		pod.Spec.SchedulingGroup = &core.PodSchedulingGroup{PodGroupName: &group}
		objects = append(objects, pod)
		told = append(told, container.ReportedPod{ID: "s" + name, UID: uids[i], Namespace: "shop", Name: name})
	}
	n := newNode(t, objects...)
	n.start()
	if r, err := prepare(t, n.kubelet(), c); err != nil || r.Error != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	n.report(told...)
	n.given(uids[0], 150)
	n.given(uids[1], 150)
	n.given(uids[2], 0)
}

// Kubelet starts a static pod before the API server has its mirror pod, whose UID is another one.
func TestAStaticPod(t *testing.T) {
	n := newNode(t)
	n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "static"})
	n.start()
	n.kubelet()
	n.until("it is asked for", func() bool {
		return slices.ContainsFunc(n.cluster.Actions(), func(a clienttesting.Action) bool { return a.Matches("get", "pods") })
	})
	mirror := podOf("shop", "static", "mirror-uid", "")
	mirror.Annotations = map[string]string{core.MirrorPodAnnotationKey: webUID}
	if _, err := n.cluster.CoreV1().Pods("shop").Create(context.Background(), mirror, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.until("its default", func() bool { b := n.book(); return b.Find(webUID) != nil && b.Find(webUID).Default == 50 })
}

// A pod that runs has a claim on a disk that lost its scheduler, and what pods were given is lost,
// as after a boot. Once the disk is enabled the pod has its share again, and others do not have it.
func TestAClaimOnADiskThatIsEnabledLater(t *testing.T) {
	n := newNode(t, claimOf("c1", nvme, 300, webUID), podOf("shop", "web", webUID, "claim-c1"))
	n.put("sys/block/nvme0n1/queue/scheduler", "[none] kyber-fairness")
	n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
	n.start()
	n.kubelet()
	n.until("its default", func() bool { b := n.book(); return b.Find(webUID) != nil && b.Find(webUID).Default == 50 })
	n.given(webUID, 0)
	n.put("sys/block/nvme0n1/queue/scheduler", "none [kyber-fairness]")
	n.given(webUID, 300)
}

// What was lost is read from the API server, a pod at a time.
func TestTheFileIsLost(t *testing.T) {
	n := newNode(t, claimOf("c1", nvme, 300, webUID), podOf("shop", "web", webUID, "claim-c1"))
	n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
	stop := n.start()
	n.given(webUID, 300)
	if p := n.book().Pods[0]; p.Default != 50 || p.Why != "namespace shop: 50" {
		t.Errorf("%+v", p)
	}
	stop()
	n.put(claim.File, "{half")
	n.start()
	n.until("the file", func() bool { b, err := claim.Read(n.root); return err == nil && len(b.Pods) == 1 })
	n.given(webUID, 300)
	// The pod's sandbox is made anew.
	n.report()
	n.until("it is forgotten", func() bool { b := n.book(); return b.Find(webUID) == nil })
	n.report(container.ReportedPod{ID: "s2", UID: webUID, Namespace: "shop", Name: "web"})
	n.given(webUID, 300)
}

// A pod that is prepared is unknown to the runtime still. What is left of one that went
// while no program was there is its claim, which kubelet takes back.
func TestBeforeTheRuntimeKnows(t *testing.T) {
	c := claimOf("c1", nvme, 300, webUID)
	n := newNode(t, c)
	b := claim.Book{}
	b.Set(claim.Pod{UID: "old", Namespace: "shop", Name: "old", Default: 50, Why: "namespace shop: 50"})
	if err := b.Write(n.root); err != nil {
		t.Fatal(err)
	}
	n.report()
	n.start()
	k := n.kubelet()
	if r, err := prepare(t, k, c); err != nil || r.Error != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	time.Sleep(5 * time.Second) // two looks
	n.given(webUID, 300)
	if now := n.book(); now.Find("old") != nil {
		t.Errorf("%+v", now)
	}
	unprepare(t, k, c)
	n.given(webUID, 0)
}

func TestClaimsThatCannotBe(t *testing.T) {
	gone, off := claimOf("c1", "wwid-gone", 300, webUID), claimOf("c2", "sda", 300, webUID)
	old := claimOf("c3", nvme, 300, webUID)
	old.Status.Allocation.Devices.Results[0].ConsumedCapacity = nil
	elsewhere := claimOf("c4", nvme, 300, webUID)
	elsewhere.Status.Allocation.Devices.Results[0].Pool = "n2"
	n := newNode(t, gone, off, old, elsewhere)
	n.start()
	k := n.kubelet()
	for _, tt := range []struct {
		c    *resourceapi.ResourceClaim
		want string
	}{
		{gone, "claim shop/claim-c1: node n1 has no disk wwid-gone any more"},
		{off, "claim shop/claim-c2: disk sda of node n1 is not shared by weight now: its scheduler is none; to do: kubectl isolio enable n1 sda"},
		{old, "without a number of shares; needed: the feature DRAConsumableCapacity"},
		{elsewhere, ""},
	} {
		r, err := prepare(t, k, tt.c)
		if err != nil || !strings.Contains(r.Error, tt.want) || tt.want == "" && r.Error != "" {
			t.Errorf("%s: %+v, %v; want %q", tt.c.Name, r, err, tt.want)
		}
	}
	n.given(webUID, 0)
}

// Disks come and go in the cluster as they do on the node.
func TestSlices(t *testing.T) {
	n := newNode(t)
	n.start()
	n.kubelet()
	devices := func() string {
		list, err := n.cluster.ResourceV1().ResourceSlices().List(context.Background(), meta.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range list.Items {
			if s.Spec.Driver != disk.Driver || *s.Spec.NodeName != "n1" || s.Spec.Pool.Name != "n1" {
				t.Errorf("%+v", s.Spec)
			}
			for _, d := range s.Spec.Devices {
				names = append(names, d.Name)
			}
		}
		return strings.Join(names, " ")
	}
	n.until("one disk", func() bool { return devices() == nvme })
	n.put("sys/block/sda/queue/scheduler", "none [kyber-fairness]")
	n.until("a second one", func() bool { return devices() == nvme+" sda" })
	n.put("sys/block/nvme0n1/queue/scheduler", "[none] kyber-fairness")
	n.until("the first one goes", func() bool { return devices() == "sda" })
}

// A node that is deleted and registers again is another object of the same name. Slices that are
// made then belong to that one, or they would be removed with the old one.
func TestANodeThatIsMadeAnew(t *testing.T) {
	n := newNode(t)
	n.start()
	n.kubelet()
	slices := func() []resourceapi.ResourceSlice {
		list, err := n.cluster.ResourceV1().ResourceSlices().List(context.Background(), meta.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	owner := func(uid types.UID) func() bool {
		return func() bool {
			all := slices()
			return len(all) == 1 && len(all[0].OwnerReferences) == 1 && all[0].OwnerReferences[0].Name == "n1" && all[0].OwnerReferences[0].UID == uid
		}
	}
	n.until("a slice of the node", owner("node-uid"))
	ctx := context.Background()
	nodes := n.cluster.CoreV1().Nodes()
	if err := nodes.Delete(ctx, "n1", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// What the garbage collector does.
	if err := n.cluster.ResourceV1().ResourceSlices().Delete(ctx, slices()[0].Name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes.Create(ctx, &core.Node{ObjectMeta: meta.ObjectMeta{Name: "n1", UID: "second-uid"}}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The library makes it anew half a minute later, or with the next change.
	n.put("sys/block/sda/queue/scheduler", "none [kyber-fairness]")
	n.until("a slice of the second node", owner("second-uid"))
}

// A disk that is gone leaves its number to another one, on which its claims are no promise.
func TestAnotherDiskOfTheNumber(t *testing.T) {
	c := claimOf("c1", nvme, 300, webUID)
	n := newNode(t, c)
	n.start()
	if r, err := prepare(t, n.kubelet(), c); err != nil || r.Error != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	n.given(webUID, 300)
	n.put("sys/block/nvme0n1/wwid", "eui.2")
	n.until("it is on no disk", func() bool {
		b := n.book()
		return len(b.Pods) == 1 && len(b.Pods[0].Shares) == 1 && b.Pods[0].Shares[0].Device == nvme && b.Pods[0].Shares[0].MajMin == ""
	})
	n.put("sys/block/nvme0n1/wwid", "eui.1")
	n.given(webUID, 300)
}

// Kubelet is told which disks are well, also of those that were published once.
func TestHealth(t *testing.T) {
	n := newNode(t)
	n.start()
	plugin := n.plugin()
	n.until("the look", func() bool {
		list, err := n.cluster.ResourceV1().ResourceSlices().List(context.Background(), meta.ListOptions{})
		return err == nil && len(list.Items) == 1
	})
	status := func() *health.DeviceHealth {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		stream, err := health.NewDRAResourceHealthClient(plugin).NodeWatchResources(ctx, &health.NodeWatchResourcesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := stream.Recv()
		if err != nil || len(r.Devices) != 1 || r.Devices[0].Device.DeviceName != nvme {
			t.Fatalf("%+v, %v", r, err)
		}
		return r.Devices[0]
	}
	if s := status(); s.Health != health.HealthStatus_HEALTHY {
		t.Errorf("%+v", s)
	}
	n.put("sys/block/nvme0n1/queue/scheduler", "[none] kyber-fairness")
	if s := status(); s.Health != health.HealthStatus_UNHEALTHY || s.Message != "nvme0n1 has the scheduler none: weights do not act on it" {
		t.Errorf("%+v", s)
	}
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

// Authors of pods are told what is wrong, once, also by a program that was started again.
func TestEvents(t *testing.T) {
	bad, rich, db := "2"+webUID[1:], "3"+webUID[1:], "4"+webUID[1:]
	gold := podOf("bad", "db", db, "")
	gold.Spec.PriorityClassName = "gold"
	n := newNode(t, claimOf("c1", nvme, 300, webUID), podOf("shop", "web", webUID, "claim-c1"), podOf("bad", "bad", bad, ""), podOf("shop", "rich", rich, ""), gold)
	n.report(
		container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"},
		container.ReportedPod{ID: "s2", UID: bad, Namespace: "bad", Name: "bad", Annotations: map[string]string{"isolio.dev/weight": "high"}},
		container.ReportedPod{ID: "s3", UID: rich, Namespace: "shop", Name: "rich", Annotations: map[string]string{"isolio.dev/weight": "400", "isolio.dev/weight.main": "0"},
			Containers: []container.ReportedContainer{{ID: "c3", Name: "main"}}},
		container.ReportedPod{ID: "s4", UID: db, Namespace: "bad", Name: "db"},
	)
	n.put("etc/isolio.toml", "[[rule]]\npod = \"shop/*\"\nmost = 300\n")
	// The volume that web has lies on sda, its claim is on nvme0n1.
	want := []string{
		`bad BadDefaultDiskWeight namespace bad: annotation isolio.dev/default-weight: "much" is not a weight; allowed: an integer 1..10000`,
		`bad BadDiskWeight bad/bad: annotation isolio.dev/weight: "high" is not a weight; allowed: an integer 1..10000`,
		`rich BadDiskWeight shop/rich/main: annotation isolio.dev/weight.main: "0" is not a weight; allowed: an integer 1..10000`,
		`rich BadDiskWeight shop/rich: annotation isolio.dev/weight: 400; 300 is the most by rule 1`,
		`web VolumeOnOtherDisk claim claim-c1 is for a share of nvme0n1, and no volume of the pod lies there: pv-1 on sda; select the disk in the claim, such as by device.attributes["disk.isolio.dev"].kubelet`,
	}
	for range 2 {
		stop := n.start()
		n.kubelet()
		n.until("the events", func() bool { return slices.Equal(n.events(), want) })
		n.given(webUID, 300)
		if b := n.book(); b.Find(db) == nil || b.Find(db).Default != 500 || b.Find(db).Why != "PriorityClass gold: 500" {
			t.Errorf("%+v", b)
		}
		stop()
	}
	if got := n.events(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A pod may name a DiskShareClass, whose weight it has if it asks for none.
func TestClasses(t *testing.T) {
	uid := func(i int) string { return fmt.Sprint(i) + webUID[1:] }
	pods := []struct {
		namespace, class string
		why, event       string
	}{
		{"shop", "gold", "DiskShareClass gold: 400", ""},
		{"bad", "gold", "", "DiskShareClass gold is not for pods of namespace bad"},
		{"free", "gold", "", "DiskShareClass gold is not for pods of namespace free"},
		{"free", "silver", "DiskShareClass silver: 200", ""},
		{"shop", "none", "namespace shop: 50", `annotation isolio.dev/class: there is no DiskShareClass "none", and no rule for it; to do: kubectl get diskshareclasses`},
		{"shop", "No/Name", "namespace shop: 50", `annotation isolio.dev/class: there is no DiskShareClass "No/Name", and no rule for it; to do: kubectl get diskshareclasses`},
		{"shop", "ruled", "namespace shop: 50", ""},
		{"shop", "Named", "namespace shop: 50", ""},
		{"shop", "old", "namespace shop: 50", "DiskShareClass old: spec.weight is not a weight; allowed: an integer 1..10000"},
		{"shop", "text", "namespace shop: 50", "DiskShareClass text: spec.weight is not a weight; allowed: an integer 1..10000"},
		{"shop", "", "namespace shop: 50", ""},
	}
	var objects []runtime.Object
	var told []container.ReportedPod
	var want []string
	for i, p := range pods {
		name := fmt.Sprint("p", i)
		pod := podOf(p.namespace, name, uid(i), "")
		pod.Annotations = map[string]string{"isolio.dev/class": p.class}
		objects = append(objects, pod)
		told = append(told, container.ReportedPod{ID: "s" + name, UID: uid(i), Namespace: p.namespace, Name: name, Annotations: pod.Annotations})
		if p.event != "" {
			want = append(want, name+" BadDiskShareClass "+p.event)
		}
	}
	want = append(want, `p1 BadDefaultDiskWeight namespace bad: annotation isolio.dev/default-weight: "much" is not a weight; allowed: an integer 1..10000`)
	slices.Sort(want)
	n := newNode(t, objects...)
	n.objects = classes(classOf("gold", int64(400), "shop", "other"), classOf("silver", int64(200)), classOf("old", int64(20000)), classOf("text", "much"))
	n.put("etc/isolio.toml", "[class.Named]\nweight = 7\n\n[[rule]]\nclass = \"rul*\"\ndefault = 60\n")
	n.report(told...)
	stop := n.start("--disk-share-classes")
	n.kubelet()
	n.until("the events", func() bool { return slices.Equal(n.events(), want) })
	for i, p := range pods {
		n.until(fmt.Sprintf("pod %d: %q", i, p.why), func() bool {
			b := n.book()
			found := b.Find(uid(i))
			return p.why == "" && (found == nil || found.Default == 0) || p.why != "" && found != nil && found.Why == p.why
		})
	}
	stop()
	// Without the option they are not asked for, and there is no event.
	n = newNode(t, objects...)
	n.objects = classes(classOf("gold", int64(400)))
	n.report(told...)
	n.start()
	n.kubelet()
	n.until("a default", func() bool { b := n.book(); return b.Find(uid(0)) != nil && b.Find(uid(0)).Why == "namespace shop: 50" })
	if events := n.events(); len(events) != 1 {
		t.Errorf("%q", events)
	}
}

// It tells which disks the volumes of pods lie on, also after a restart, and of pods without claims.
func TestPods(t *testing.T) {
	db := "4" + webUID[1:]
	plain := podOf("shop", "db", db, "")
	plain.Spec.Volumes = []core.Volume{
		{Name: "scratch", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}},
		{Name: "memory", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{Medium: core.StorageMediumMemory}}},
	}
	n := newNode(t, claimOf("c1", nvme, 300, webUID), podOf("shop", "web", webUID, "claim-c1"), plain)
	n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"}, container.ReportedPod{ID: "s2", UID: db, Namespace: "shop", Name: "db"})
	const want = `{"schema":1,"pods":[{"namespace":"shop","name":"db","volumes":[{"name":"scratch","disk":"nvme0n1","on":["nvme0n1"]}]},` +
		`{"namespace":"shop","name":"web","volumes":[{"name":"pv-1","disk":"sda","on":["sda"]}]}]}`
	for range 2 {
		stop := n.start()
		n.kubelet()
		n.until("the pods", func() bool { return n.pods() == want })
		// Names of pods of all namespaces are nothing that any pod may ask for.
		for path, want := range map[string]int{"/pods": http.StatusNotFound, "/metrics": http.StatusOK} {
			if code := n.get(path); code != want {
				t.Errorf("%s: %d, want %d", path, code, want)
			}
		}
		if text := n.metrics(); strings.Contains(text, "web") {
			t.Errorf("metrics have the name of a pod:\n%s", text)
		}
		stop()
	}
	// A pod that ended is not told of while its sandbox is still there, unless a new one runs.
	n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web", Stopped: true}, container.ReportedPod{ID: "s2", UID: db, Namespace: "shop", Name: "db", Stopped: true},
		container.ReportedPod{ID: "s3", UID: db, Namespace: "shop", Name: "db"})
	n.start()
	n.kubelet()
	n.until("one pod", func() bool { return strings.Contains(n.pods(), `"db"`) && !strings.Contains(n.pods(), `"web"`) })
	n.given(webUID, 300) // its share is taken back when its sandbox is removed
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

// A node may have kubelet's directory behind a symbolic link, on another disk than the link. Mounts
// have the directory's own path, and a container sees its plugins alone.
func TestKubeletBehindALink(t *testing.T) {
	const behind = "30 21 259:1 / / rw - xfs /dev/nvme0n1p1 rw\n31 30 8:0 / /mnt/data rw - ext4 /dev/sda rw\n" +
		"41 31 259:1 / /mnt/data/kubelet/pods/" + webUID + "/volumes/kubernetes.io~csi/pv-1/mount rw - xfs /dev/nvme0n1p1 rw\n"
	pod := podOf("shop", "web", webUID, "")
	pod.Spec.Volumes = []core.Volume{{Name: "scratch", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}}}
	for what, prepare := range map[string]func(n *node){
		"in a container": func(n *node) {
			n.put("proc/self/mountinfo", "50 49 0:70 / / rw - overlay overlay rw\n51 50 8:0 /kubelet/plugins /var/lib/kubelet/plugins rw - ext4 /dev/sda rw")
		},
		"on the node": func(n *node) {
			kubelet := filepath.Join(n.root, "var/lib/kubelet")
			for _, err := range []error{os.MkdirAll(filepath.Join(n.root, "mnt/data"), 0o755), os.Rename(kubelet, filepath.Join(n.root, "mnt/data/kubelet")), os.Symlink("../../mnt/data/kubelet", kubelet)} {
				if err != nil {
					n.t.Fatal(err)
				}
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			n := newNode(t, pod)
			n.put("sys/block/sda/queue/scheduler", "none [kyber-fairness]")
			n.put("proc/1/mountinfo", behind)
			prepare(n)
			n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
			n.start()
			n.kubelet()
			const want = `"volumes":[{"name":"scratch","disk":"sda","on":["sda"]},{"name":"pv-1","disk":"nvme0n1","on":["nvme0n1"]}]`
			n.until("the volumes "+want, func() bool { return strings.Contains(n.pods(), want) })
			n.until("the kubelet's disk", func() bool {
				list, err := n.cluster.ResourceV1().ResourceSlices().List(context.Background(), meta.ListOptions{})
				if err != nil || len(list.Items) != 1 {
					return false
				}
				var on []string
				for _, d := range list.Items[0].Spec.Devices {
					if *d.Attributes["kubelet"].BoolValue {
						on = append(on, d.Name)
					}
				}
				return slices.Equal(on, []string{"sda"})
			})
		})
	}
}

// A pod whose volumes cannot be found has its shares, and its volumes are found once they can
// be. The API server is asked about it once.
func TestVolumesThatCannotBeRead(t *testing.T) {
	n := newNode(t, claimOf("c1", nvme, 300, webUID), podOf("shop", "web", webUID, "claim-c1"))
	n.put("proc/1/mountinfo", "30 21 259:1 / /")
	n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
	n.start()
	n.kubelet()
	n.given(webUID, 300)
	if got, want := n.pods(), `{"schema":1,"pods":[{"namespace":"shop","name":"web","volumes":null}]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	n.put("proc/1/mountinfo", mounts)
	n.until("its volume", func() bool { return strings.Contains(n.pods(), `[{"name":"pv-1","disk":"sda","on":["sda"]}]`) })
	n.until("the event", func() bool { return len(n.events()) == 1 && strings.Contains(n.events()[0], "VolumeOnOtherDisk") })
	asked := 0
	for _, a := range n.cluster.Actions() {
		if a.Matches("get", "pods") {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("the API server was asked about the pod %d times", asked)
	}
}

func TestBeforeClaims(t *testing.T) {
	p := podOf("shop", "web", webUID, "")
	p.Spec.Containers = []core.Container{{Name: "a"}, {Name: "b"}}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Resources.Requests = core.ResourceList{"isolio.dev/disk-share": resource.MustParse("100")}
	}
	always := core.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []core.Container{{Name: "first"}, {Name: "sidecar", RestartPolicy: &always}}
	for i := range p.Spec.InitContainers {
		p.Spec.InitContainers[i].Resources.Requests = core.ResourceList{"isolio.dev/disk-share": resource.MustParse("50")}
	}
	n := newNode(t, p)
	n.serves()
	var stderr bytes.Buffer
	if code := cli.Run(context.Background(), New(n.cluster, n.objects), []string{"--root", n.root, "--node", "n1"}, nil, io.Discard, &stderr); code != 3 || !strings.Contains(stderr.String(), "does not serve resource.k8s.io/v1, which came with 1.34; use --extended-resource") {
		t.Errorf("%d: %s", code, &stderr)
	}
	n.report(container.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
	n.start("--extended-resource")
	n.until("the share", func() bool {
		b := n.book()
		return b.Find(webUID) != nil && len(b.Find(webUID).Shares) == 1 && b.Find(webUID).Shares[0] == claim.Share{Share: 250, Claimed: 250}
	})
	node, err := n.cluster.CoreV1().Nodes().Get(context.Background(), "n1", meta.GetOptions{})
	if q := node.Status.Allocatable["isolio.dev/disk-share"]; err != nil || q.Value() != 1000 {
		t.Errorf("%v, %v", q, err)
	}
}

func TestDryRun(t *testing.T) {
	n := newNode(t)
	var stdout, stderr bytes.Buffer
	if code := cli.Run(context.Background(), New(n.cluster, n.objects), []string{"--root", n.root, "--node", "n1", "--dry-run"}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("%d: %s", code, &stderr)
	}
	for _, want := range []string{"# sda is not offered: its scheduler is none; to do: isolio enable sda\n", "kind: ResourceSlice", "name: wwid-eui-1", "value: 1k", "nodeName: n1"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in:\n%s", want, &stdout)
		}
	}
	if len(n.cluster.Actions()) != 0 {
		t.Errorf("the cluster was asked: %+v", n.cluster.Actions())
	}
	stdout.Reset()
	if code := cli.Run(context.Background(), New(n.cluster, n.objects), []string{"--root", n.root, "--node", "n1", "--dry-run", "--extended-resource"}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("%d: %s", code, &stderr)
	}
	line := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	var patch map[string]any
	if err := json.Unmarshal([]byte(line[len(line)-1]), &patch); err != nil {
		t.Errorf("%q: %v", line, err)
	}
	if _, err := os.Stat(filepath.Join(n.root, claim.File)); err == nil {
		t.Error("it wrote what pods were given")
	}
}

func TestBadInput(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "--node: is missing; allowed: the node's name"},
		{[]string{"--node", "n1", "x"}, "got 1 argument, want 0"},
		{[]string{"--node", "n1", "--root", "/none"}, `--root: "/none" is not a directory`},
		{[]string{"--node", "n1", "--kubelet-dir", "x"}, `--kubelet-dir: "x"; allowed: a path from / on`},
		{[]string{"--node", "n1", "--failures", "x"}, `--failures: "x"; allowed: a path from / on`},
		{[]string{"--node", "n1", "--listen", "9106"}, `--listen: "9106"; allowed: HOST:PORT`},
		{[]string{"--node", "n1", "--listen-pods", ":9107"}, `--listen-pods: ":9107"; allowed: an address of the loopback with a port`},
		{[]string{"--node", "n1", "--listen-pods", "10.0.0.1:9107"}, `--listen-pods: "10.0.0.1:9107"; allowed`},
		{[]string{"--node", "n1", "--listen-pods", "127.0.0.1"}, `--listen-pods: "127.0.0.1"; allowed`},
		{[]string{"--node", "n1", "--bad"}, "unknown flag: --bad"},
	} {
		var stderr bytes.Buffer
		if code := Run(context.Background(), tt.args, nil, io.Discard, &stderr); code != 2 || !strings.Contains(stderr.String(), tt.want) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q: %d: %s; want %q", tt.args, code, &stderr, tt.want)
		}
	}
}
