// SPDX-License-Identifier: MIT

package kubernetes

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// cluster is a control plane on the loopback, without any node.
type cluster struct {
	t      *testing.T
	bin    string
	dir    string
	config *rest.Config
	client *kubernetes.Clientset
	// pids are the control plane's processes, by program.
	pids map[string]int
}

// start runs one of the control plane's programs until the test ends.
func (c *cluster) start(program string, args ...string) {
	c.t.Helper()
	log, err := os.Create(filepath.Join(c.dir, program+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(c.bin, program), args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, c.dir
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.pids[program] = cmd.Process.Pid
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && c.t.Failed() {
			lines := strings.Split(string(text), "\n")
			c.t.Logf("%s:\n%s", program, strings.Join(lines[max(len(lines)-15, 0):], "\n"))
		}
	})
}

func port(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (c *cluster) file(name, text string) string {
	c.t.Helper()
	name = filepath.Join(c.dir, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return name
}

func (c *cluster) until(what string, limit time.Duration, is func() bool) time.Duration {
	c.t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > limit {
			c.t.Fatalf("%s: not within %s", what, limit)
		}
		time.Sleep(200 * time.Millisecond)
	}
	return time.Since(began)
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	bin := os.Getenv("KUBERNETES")
	if bin == "" {
		t.Skip("KUBERNETES names no directory with Kubernetes' programs: make vm T=kubernetes")
	}
	c := &cluster{t: t, bin: bin, dir: t.TempDir(), pids: map[string]int{}}
	store, peer, api := port(t), port(t), port(t)
	at := fmt.Sprintf("http://127.0.0.1:%d", store)
	peers := fmt.Sprintf("http://127.0.0.1:%d", peer)
	c.start("etcd", "--data-dir", filepath.Join(c.dir, "data"), "--unsafe-no-fsync", "--listen-client-urls", at, "--advertise-client-urls", at,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--log-level", "error")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signing := c.file("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	tokens := c.file("tokens.csv", "admin-token,admin,1,system:masters\n")
	c.start("kube-apiserver", "--etcd-servers="+at, fmt.Sprintf("--secure-port=%d", api), "--bind-address=127.0.0.1", "--cert-dir="+filepath.Join(c.dir, "certs"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+signing, "--service-account-signing-key-file="+signing,
		"--allow-privileged=true", "--service-cluster-ip-range=10.96.0.0/16", "--token-auth-file="+tokens, "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		"--max-requests-inflight=0", "--max-mutating-requests-inflight=0", "--enable-priority-and-fairness=false")
	kubeconfig := c.file("kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%d", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: admin-token}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, api))
	if c.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		t.Fatal(err)
	}
	c.config.QPS, c.config.Burst = 1000, 1000
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	t.Logf("the API server is ready after %s", c.until("the API server", 3*time.Minute, func() bool {
		text, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(context.Background())
		return err == nil && string(text) == "ok"
	}).Round(time.Millisecond))
	version, err := c.client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Kubernetes %s", version)
	connection := "clientConnection: {kubeconfig: " + kubeconfig + ", qps: 1000, burst: 1000}\n"
	scheduler := c.file("scheduler.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}\n"+connection)
	c.start("kube-scheduler", "--config="+scheduler, fmt.Sprintf("--secure-port=%d", port(t)), "--bind-address=127.0.0.1")
	c.start("kube-controller-manager", "--kubeconfig="+kubeconfig, "--leader-elect=false", fmt.Sprintf("--secure-port=%d", port(t)), "--bind-address=127.0.0.1",
		"--controllers=resourceclaim-controller,resourcequota-controller", "--kube-api-qps=1000", "--kube-api-burst=1000", "--use-service-account-credentials=false")
	return c
}

// kubectl runs it, with text as its input.
func (c *cluster) kubectl(text string, args ...string) (string, error) {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(c.bin, "kubectl"), append([]string{"--kubeconfig", filepath.Join(c.dir, "kubeconfig")}, args...)...)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *cluster) apply(text string, args ...string) {
	c.t.Helper()
	if out, err := c.kubectl(text, append([]string{"apply", "--server-side", "-f", "-"}, args...)...); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
}

// TestCluster is what takes a real API server and a real scheduler.
func TestCluster(t *testing.T) {
	c := newCluster(t)
	t.Run("manifests", func(t *testing.T) { c.on(t).manifests() })
	t.Run("roles", func(t *testing.T) { c.on(t).roles() })
	t.Run("limits", func(t *testing.T) { c.on(t).limits() })
	t.Run("classes", func(t *testing.T) { c.on(t).classes() })
	t.Run("node", func(t *testing.T) { c.on(t).node() })
	t.Run("fleet", func(t *testing.T) {
		nodes := number(t, "FLEET", 500)
		c.on(t).fleet(nodes, number(t, "PODS", nodes*16/5))
	})
}

// number is a variable's, of nodes or pods.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: allowed: a number, 1 and more", name, text)
	}
	return n
}

// on is the cluster for a part of the test.
func (c *cluster) on(t *testing.T) *cluster {
	one := *c
	one.t = t
	return &one
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// manifests: the API server takes what the chart makes, and the examples.
func (c *cluster) manifests() {
	c.t.Helper()
	c.apply(read(c.t, manifest))
	c.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
	for _, file := range []string{"quota.yaml", "first-pod.yaml"} {
		c.apply(read(c.t, filepath.Join("../../deploy/kubernetes", file)), "--dry-run=server")
	}
	for name, v := range map[string]values{"everything": everything, "before claims": {"extendedResource": true}} {
		docs, err := render(c.t, v)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, doc := range docs {
			if strings.Contains(doc, "monitoring.coreos.com") {
				continue // its definitions are not there
			}
			if out, err := c.kubectl(doc, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"); err != nil {
				c.t.Errorf("%s: %v: %s\n%s", name, err, out, doc)
			}
		}
	}
}

// as is a client of the service account's on a node.
func (c *cluster) as(node string) *kubernetes.Clientset {
	c.t.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:isolio-system:isolio-node", Groups: []string{"system:serviceaccounts", "system:authenticated"},
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

func sliceOf(node, device string) *resourceapi.ResourceSlice {
	many := true
	q := func(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }
	yes := true
	return &resourceapi.ResourceSlice{ObjectMeta: meta.ObjectMeta{Name: node + "-disks"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "disk.isolio.dev", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{
			Name: device, AllowMultipleAllocations: &many, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kubelet": {BoolValue: &yes}},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"share": {Value: *q(900), RequestPolicy: &resourceapi.CapacityRequestPolicy{
				Default: q(100), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: q(1), Max: q(900), Step: q(1)}}}},
		}},
	}}
}

// roles: the account may do what the program does, and nothing else.
func (c *cluster) roles() {
	c.t.Helper()
	ctx := context.Background()
	n1 := c.as("n1")
	own := sliceOf("n1", "sda")
	// Roles and policies take a moment to hold.
	c.until("its own slice", time.Minute, func() bool {
		_, err := n1.ResourceV1().ResourceSlices().Create(ctx, own, meta.CreateOptions{})
		return err == nil
	})
	c.until("the policy", time.Minute, func() bool {
		other := sliceOf("n2", "sda")
		_, err := n1.ResourceV1().ResourceSlices().Create(ctx, other, meta.CreateOptions{})
		if err == nil {
			_ = c.client.ResourceV1().ResourceSlices().Delete(ctx, other.Name, meta.DeleteOptions{})
			return false
		}
		return strings.Contains(err.Error(), "isolio-node of n1 may only change slices of its own disks")
	})
	if err := c.as("n2").ResourceV1().ResourceSlices().Delete(ctx, own.Name, meta.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "of its own disks") {
		c.t.Errorf("another node removes the slice: %v", err)
	}
	if err := n1.ResourceV1().ResourceSlices().Delete(ctx, own.Name, meta.DeleteOptions{}); err != nil {
		c.t.Error(err)
	}
	_, secrets := n1.CoreV1().Secrets("kube-system").List(ctx, meta.ListOptions{})
	_, pods := n1.CoreV1().Pods("").List(ctx, meta.ListOptions{})
	_, claims := n1.ResourceV1().ResourceClaims("").List(ctx, meta.ListOptions{})
	_, node := n1.CoreV1().Nodes().Patch(ctx, "n1", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`), meta.PatchOptions{})
	for what, err := range map[string]error{"secrets": secrets, "pods": pods, "claims": claims, "nodes": node} {
		if !apierrors.IsForbidden(err) {
			c.t.Errorf("%s: %v, want forbidden", what, err)
		}
	}
	if _, err := n1.CoreV1().Pods("default").Get(ctx, "none", meta.GetOptions{}); !apierrors.IsNotFound(err) {
		c.t.Errorf("a pod: %v", err)
	}
}

// limits: pods that ask for more than their namespace may have are refused.
func (c *cluster) limits() {
	c.t.Helper()
	docs, err := render(c.t, values{"limits": values{"namespaces": values{"shop": 300}}})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, doc := range docs {
		if strings.Contains(doc, "name: isolio-weights") {
			c.apply(doc)
		}
	}
	try := func(namespace, weight string) error {
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{GenerateName: "p-", Namespace: namespace, Annotations: map[string]string{"isolio.dev/weight": weight}},
			Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Image: "x"}}}}
		_, err := c.client.CoreV1().Pods(namespace).Create(context.Background(), p, meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
		return err
	}
	var refused error
	c.until("the policy", time.Minute, func() bool { refused = try("shop", "301"); return refused != nil })
	if !strings.Contains(refused.Error(), "annotation isolio.dev/weight: 301 is more than pods of namespace shop may have; allowed: 1..300") {
		c.t.Error(refused)
	}
	for _, ok := range [][2]string{{"shop", "300"}, {"shop", "lots"}, {"default", "9000"}} {
		if err := try(ok[0], ok[1]); err != nil {
			c.t.Errorf("%q: %v", ok, err)
		}
	}
}

// classes: the API server takes the definition and classes of it, refuses what is no weight, and
// pods of namespaces that a class is not for.
func (c *cluster) classes() {
	c.t.Helper()
	ctx := context.Background()
	docs, err := render(c.t, values{"diskShareClasses": true})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, doc := range docs {
		if (strings.Contains(doc, "disk-share-classes") || strings.Contains(doc, "diskshareclasses")) && !strings.Contains(doc, "kind: DaemonSet") {
			c.apply(doc)
		}
	}
	class := func(name, spec string) string {
		return "apiVersion: isolio.dev/v1alpha1\nkind: DiskShareClass\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
	}
	c.until("the definition", time.Minute, func() bool {
		_, err := c.kubectl(class("gold", "{weight: 400, namespaces: [shop], description: for databases}"), "apply", "--server-side", "-f", "-")
		return err == nil
	})
	c.apply(class("silver", "{weight: 200}"))
	for _, bad := range []string{"{weight: 0}", "{weight: 10001}", "{weight: much}", "{}", "{weight: 5, most: 7}", "{weight: 5, namespaces: [shop, shop]}"} {
		if out, err := c.kubectl(class("bad", bad), "apply", "--server-side", "--validate=strict", "-f", "-"); err == nil {
			c.t.Errorf("%s is a class: %s", bad, out)
		}
	}
	if out, err := c.kubectl("", "get", "dsc", "gold", "--no-headers"); err != nil || !strings.Contains(out, "400") || !strings.Contains(out, "shop") {
		c.t.Errorf("%v: %s", err, out)
	}
	// The account of a node may read one class by its name, and list none.
	path := "/apis/isolio.dev/v1alpha1/diskshareclasses"
	n1 := c.as("n1").RESTClient()
	c.until("the role", time.Minute, func() bool { return n1.Get().AbsPath(path+"/gold").Do(ctx).Error() == nil })
	if err := n1.Get().AbsPath(path).Do(ctx).Error(); !apierrors.IsForbidden(err) {
		c.t.Errorf("a list: %v", err)
	}
	try := func(namespace, name string) error {
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{GenerateName: "p-", Namespace: namespace, Annotations: map[string]string{"isolio.dev/class": name}},
			Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Image: "x"}}}}
		_, err := c.client.CoreV1().Pods(namespace).Create(ctx, p, meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
		return err
	}
	var refused error
	c.until("the policy", time.Minute, func() bool { refused = try("default", "gold"); return refused != nil })
	if !strings.Contains(refused.Error(), "DiskShareClass gold is not for pods of namespace default") {
		c.t.Error(refused)
	}
	for _, ok := range [][2]string{{"shop", "gold"}, {"default", "silver"}, {"default", "none"}} {
		if err := try(ok[0], ok[1]); err != nil {
			c.t.Errorf("%q: %v", ok, err)
		}
	}
}

// watches is how many watches the API server has open, by resource.
func (c *cluster) watches() map[string]int {
	c.t.Helper()
	text, err := c.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	open := map[string]int{}
	line := regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{.*[{,]resource="([^"]*)".*verb="WATCH".*\} (\S+)$`)
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			c.t.Fatal(err)
		}
		open[m[1]] += int(n)
	}
	return open
}

// cost is what the control plane's programs have of memory, and had of the CPU so far.
type cost struct {
	mib  map[string]float64
	cpuS map[string]float64
}

func (c *cluster) cost() cost {
	c.t.Helper()
	now := cost{map[string]float64{}, map[string]float64{}}
	const hz = 100 // of /proc, on all of Linux's machines here
	for program, pid := range c.pids {
		status := read(c.t, fmt.Sprintf("/proc/%d/status", pid))
		if m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindStringSubmatch(status); m != nil {
			kib, _ := strconv.ParseFloat(m[1], 64) // digits
			now.mib[program] = kib / 1024
		}
		_, after, _ := strings.Cut(read(c.t, fmt.Sprintf("/proc/%d/stat", pid)), ") ")
		fields := strings.Fields(after) // from the third on
		for _, ticks := range fields[11:13] {
			n, _ := strconv.ParseFloat(ticks, 64) // digits
			now.cpuS[program] += n / hz
		}
	}
	return now
}

// tell logs what a part of the test cost.
func (c *cluster) tell(what string, before cost) {
	c.t.Helper()
	now := c.cost()
	var parts []string
	for _, program := range slices.Sorted(maps.Keys(now.mib)) {
		parts = append(parts, fmt.Sprintf("%s %.0f MiB, %.1f s", program, now.mib[program], now.cpuS[program]-before.cpuS[program]))
	}
	c.t.Logf("%s: memory, and CPU for it: %s", what, strings.Join(parts, "; "))
}

// node: the program itself offers its disk, and the API server takes that.
func (c *cluster) node() {
	c.t.Helper()
	ctx := context.Background()
	program, err := filepath.Abs("../../build/node/isolio-node")
	if err != nil {
		c.t.Fatal(err)
	}
	root, err := os.MkdirTemp("/tmp", "n") // a socket's path is short
	if err != nil {
		c.t.Fatal(err)
	}
	defer os.RemoveAll(root)
	for file, text := range map[string]string{
		"sys/block/nvme0n1/dev": "259:0", "sys/block/nvme0n1/size": "2097152", "sys/block/nvme0n1/queue/scheduler": "none [kyber-fairness]", "sys/block/nvme0n1/wwid": "eui.1",
		"proc/1/mountinfo": "30 21 259:0 / / rw - xfs /dev/nvme0n1 rw", "var/lib/kubelet/plugins_registry/x": "",
	} {
		name := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	if _, err := c.client.CoreV1().Nodes().Create(ctx, &core.Node{ObjectMeta: meta.ObjectMeta{Name: "real"}}, meta.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	before := c.watches()
	var log bytes.Buffer
	cmd := exec.Command(program, "--root", root, "--node", "real", "--kubeconfig", filepath.Join(c.dir, "kubeconfig"))
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.until("its slice", time.Minute, func() bool {
		list, err := c.client.ResourceV1().ResourceSlices().List(ctx, meta.ListOptions{FieldSelector: "spec.nodeName=real"})
		return err == nil && len(list.Items) == 1 && len(list.Items[0].Spec.Devices) == 1 && list.Items[0].Spec.Devices[0].Name == "wwid-eui-1" && *list.Items[0].Spec.Devices[0].Attributes["kubelet"].BoolValue
	})
	more := map[string]int{}
	for resource, n := range c.watches() {
		if n -= before[resource]; n != 0 {
			more[resource] = n
		}
	}
	if !maps.Equal(more, map[string]int{"resourceslices": 1}) {
		c.t.Errorf("watches of a node: %v", more)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "VmRSS") {
				c.t.Logf("isolio-node: %s", strings.Join(strings.Fields(line), " "))
			}
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		c.t.Errorf("%v:\n%s", err, &log)
	}
	if err := c.client.CoreV1().Nodes().Delete(ctx, "real", meta.DeleteOptions{}); err != nil {
		c.t.Error(err)
	}
	if err := c.client.ResourceV1().ResourceSlices().DeleteCollection(ctx, meta.DeleteOptions{}, meta.ListOptions{}); err != nil {
		c.t.Error(err)
	}
}

// each does something so many times, some at a time.
func (c *cluster) each(n int, do func(i int) error) {
	c.t.Helper()
	var wait sync.WaitGroup
	work := make(chan int)
	for range 16 {
		wait.Go(func() {
			for i := range work {
				if err := do(i); err != nil {
					c.t.Error(err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wait.Wait()
}

// pods makes pods of the name's prefix, with a claim by a template or "" for none, and waits until as
// many have a node as can, and the scheduler has said of the others that they cannot.
func (c *cluster) pods(prefix, template string, pods, want int, limit time.Duration) {
	c.t.Helper()
	ctx := context.Background()
	began, before := time.Now(), c.cost()
	c.each(pods, func(i int) error {
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprintf("%s-%05d", prefix, i), Namespace: "default"}, Spec: core.PodSpec{
			Containers: []core.Container{{Name: "c", Image: "x"}},
		}}
		if template != "" {
			p.Spec.ResourceClaims = []core.PodResourceClaim{{Name: "disk", ResourceClaimTemplateName: &template}}
			p.Spec.Containers[0].Resources.Claims = []core.ResourceClaim{{Name: "disk"}}
		}
		_, err := c.client.CoreV1().Pods("default").Create(ctx, p, meta.CreateOptions{})
		return err
	})
	count := func() (placed, refused int) {
		list, err := c.client.CoreV1().Pods("default").List(ctx, meta.ListOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			if p.Spec.NodeName != "" {
				placed++
				continue
			}
			for _, condition := range p.Status.Conditions {
				if condition.Type == core.PodScheduled && condition.Reason == core.PodReasonUnschedulable {
					refused++
				}
			}
		}
		return placed, refused
	}
	c.until("the pods", limit, func() bool {
		time.Sleep(time.Duration(pods) * time.Millisecond / 4) // a list takes the API server as long
		placed, refused := count()
		return placed >= want && placed+refused >= pods
	})
	c.tell(fmt.Sprintf("%d %s after %s", pods, prefix, time.Since(began).Round(time.Second)), before)
	if placed, refused := count(); placed != want || refused != pods-want {
		c.t.Errorf("%d pods are placed, %d wait; want %d and %d", placed, refused, want, pods-want)
	}
}

// fleet: pods that ask for 300 shares, more than there is room for; and before, as many that ask for
// none on nodes that offer none, to compare what both cost.
func (c *cluster) fleet(nodes, pods int) {
	c.t.Helper()
	ctx := context.Background()
	limit := max(10*time.Minute, time.Duration(nodes)*2*time.Second)
	name := func(i int) string { return fmt.Sprintf("node-%04d", i) }
	before := c.cost()
	c.each(nodes, func(i int) error {
		room := core.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("128Gi"), "pods": resource.MustParse("110")}
		n := &core.Node{ObjectMeta: meta.ObjectMeta{Name: name(i)}, Status: core.NodeStatus{Capacity: room, Allocatable: room}}
		_, err := c.client.CoreV1().Nodes().Create(ctx, n, meta.CreateOptions{})
		return err
	})
	c.tell(fmt.Sprintf("%d nodes", nodes), before)
	c.pods("plain", "", pods, pods, limit)
	// A request takes a minute at most, in which the API server deletes some 10,000.
	c.until("the pods are deleted", limit, func() bool {
		err := c.client.CoreV1().Pods("default").DeleteCollection(ctx, meta.DeleteOptions{GracePeriodSeconds: new(int64)}, meta.ListOptions{})
		if err != nil {
			c.t.Logf("deleting pods: %v", err)
		}
		return err == nil
	})
	before = c.cost()
	c.each(nodes, func(i int) error {
		_, err := c.client.ResourceV1().ResourceSlices().Create(ctx, sliceOf(name(i), "nvme0n1"), meta.CreateOptions{})
		return err
	})
	c.tell(fmt.Sprintf("%d slices", nodes), before)
	example, _, _ := strings.Cut(read(c.t, "../../deploy/kubernetes/first-pod.yaml"), "\n---\n")
	c.apply(example)
	c.pods("claiming", "disk-300", pods, min(pods, 3*nodes), limit)
	claims, err := c.client.ResourceV1().ResourceClaims("default").List(ctx, meta.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	given := map[string]int64{}
	for i := range claims.Items {
		if a := claims.Items[i].Status.Allocation; a != nil {
			for _, r := range a.Devices.Results {
				q := r.ConsumedCapacity["share"]
				given[r.Pool] += q.Value()
			}
		}
	}
	for node, n := range given {
		if n > 900 {
			c.t.Errorf("%s: %d shares are given", node, n)
		}
	}
	if pods >= 3*nodes && len(given) != nodes {
		c.t.Errorf("disks of %d nodes are used", len(given))
	}
}
