// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A cluster of one node: a control plane, a kubelet and a containerd as services of systemd,
// on Debian 13. `make vm T=kubernetes` brings all of it. The VM has no network: the node has
// its address, and the API server's service has its own, on the loopback, where pods reach them.
const (
	nodeName    = "node1"
	nodeAddress = "10.0.0.1"
	apiAddress  = "10.96.0.1"
	apiToken    = "admin-token"
	otherToken  = "node2-token" // of the kubelet of a node that there is not
	kubeDir     = "/run/kube"
	kubeconfig  = kubeDir + "/kubeconfig"
	loadImage   = "isolio.test/load:1"
	system      = "isolio-system"
)

// kubernetes is all of its programs, if this machine has them.
const kubernetes = runtimes + "/cluster"

// kubePatience bounds waiting, on the guest's clock: that does not depend on the host.
const kubePatience = 3 * time.Minute

// kube is the cluster.
type kube struct {
	t      *testing.T
	client *http.Client
	disk   *disk // the kubelet's and containerd's
	other  *disk // another one, mounted at otherAt
	// The chart is there with the values that parts begin with. Shared by all parts.
	installed *bool
}

const otherAt = "/srv/disk2"

// kubeUnits are the services, in the order in which they start.
var kubeUnits = []struct{ name, command string }{
	{"etcd", "etcd --data-dir " + kubeDir + "/etcd --unsafe-no-fsync --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 " +
		"--listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster default=http://127.0.0.1:2380 --log-level error"},
	{"kube-apiserver", "kube-apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=443 --bind-address=0.0.0.0 --advertise-address=" + nodeAddress +
		" --cert-dir=" + kubeDir + "/certs --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=" + kubeDir + "/sa.key" +
		" --service-account-signing-key-file=" + kubeDir + "/sa.key --service-cluster-ip-range=10.96.0.0/16 --token-auth-file=" + kubeDir + "/tokens.csv" +
		" --authorization-mode=RBAC,Node --allow-privileged"},
	{"kube-scheduler", "kube-scheduler --kubeconfig=" + kubeconfig + " --leader-elect=false"},
	{"kube-controller-manager", "kube-controller-manager --kubeconfig=" + kubeconfig + " --leader-elect=false --service-account-private-key-file=" + kubeDir + "/sa.key" +
		" --root-ca-file=" + kubeDir + "/certs/apiserver.crt --use-service-account-credentials=false --controllers=" + strings.Join([]string{
		"serviceaccount-controller", "root-ca-certificate-publisher-controller", "namespace-controller", "garbage-collector-controller", "pod-garbage-collector-controller",
		"daemonset-controller", "resourceclaim-controller", "resourcequota-controller", "node-lifecycle-controller", "taint-eviction-controller",
		"persistentvolume-binder-controller", "clusterrole-aggregation-controller",
	}, ",")},
	{"kubelet", "kubelet --config=" + kubeDir + "/kubelet.yaml --kubeconfig=" + kubeconfig + " --hostname-override=" + nodeName + " --node-ip=" + nodeAddress},
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failSwapOn: false
evictionHard: {memory.available: 50Mi}
clusterDNS: [10.96.0.10]
`

const containerdConfig = `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + podImage + `"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = true
[plugins."io.containerd.nri.v1.nri"]
  disable = false
`

const cniConfig = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": {
  "type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`

// on is the cluster for a part of the test.
func (k *kube) on(t *testing.T) *kube {
	one := *k
	one.t = t
	return &one
}

func (k *kube) file(name, text string) {
	k.t.Helper()
	must(k.t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(k.t, os.WriteFile(name, []byte(text), 0o600))
}

// modelDisk is one with a file system at a directory, and with more that it can.
func (k *kube) modelDisk(name, at string, more ...string) *disk {
	k.t.Helper()
	shell(k.t, fmt.Sprintf(`mkdir /sys/kernel/config/modeldisk/%[1]s && cd /sys/kernel/config/modeldisk/%[1]s
echo nvme >model; echo p4500-2tb >preset; echo 2048 >size_mib; echo 1 >memory_backed; echo 1 >queues; echo 128 >tags; for more in %[3]s; do echo 1 >$more; done; echo 1 >power
mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 -O ^has_journal /dev/%[1]s && mkdir -p %[2]s && mount /dev/%[1]s %[2]s`, name, at, strings.Join(more, " ")))
	return &disk{name: name, config: "/sys/kernel/config/modeldisk/" + name, number: strings.TrimSpace(read(k.t, "/sys/block/"+name+"/dev"))}
}

// newKube starts the cluster.
func newKube(t *testing.T) *kube {
	t.Helper()
	if !exists(kubernetes) {
		t.Skip("no Kubernetes here: make vm T=kubernetes")
	}
	k := &kube{t: t, installed: new(bool), client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}} //nolint:gosec // on the loopback
	for _, unit := range kubeUnits {
		must(t, os.Symlink(kubernetes, "/usr/local/bin/"+unit.name))
	}
	must(t, os.Symlink(kubernetes, "/usr/local/bin/kubectl"))
	for _, name := range []string{"helm", "kubectl-isolio", "isolio"} {
		must(t, os.Symlink(filepath.Join(runtimes, name), "/usr/local/bin/"+name))
	}
	must(t, os.Setenv("PATH", "/usr/local/bin:"+os.Getenv("PATH")))
	must(t, os.Setenv("KUBECONFIG", kubeconfig))
	shell(t, "uname -r; containerd --version; runc --version | head -1; grep Mem /proc/meminfo | head -3; stat -f -c %T /")
	shell(t, "modprobe configfs && insmod "+filepath.Join(runtimes, "modeldisk.ko"))
	k.disk = k.modelDisk("disk1", "/srv/disk1")
	k.other = k.modelDisk("disk2", otherAt)
	shell(t, fmt.Sprintf(`systemctl stop containerd
for dir in kubelet containerd; do mkdir -p /srv/disk1/$dir /var/lib/$dir && mount --bind /srv/disk1/$dir /var/lib/$dir; done
ip link set lo up; ip addr add %s/32 dev lo; ip addr add %s/32 dev lo`, nodeAddress, apiAddress))
	k.file("/etc/resolv.conf", "")
	k.file("/etc/hosts", "127.0.0.1 localhost\n"+nodeAddress+" "+nodeName+"\n")
	k.file("/etc/containerd/config.toml", containerdConfig)
	k.file("/etc/cni/net.d/10-pods.conflist", cniConfig)
	k.file(kubeDir+"/kubelet.yaml", kubeletConfig)
	k.file(kubeDir+"/tokens.csv", apiToken+",admin,1,system:masters\n"+otherToken+",system:node:node2,2,system:nodes\n")
	k.file(kubeconfig, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://%s", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, apiAddress, apiToken))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	must(t, err)
	k.file(kubeDir+"/sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	for _, unit := range kubeUnits {
		k.file("/etc/systemd/system/"+unit.name+".service", "[Service]\nEnvironment=PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root\nExecStart=/usr/local/bin/"+unit.command+
			"\nDelegate=yes\nKillMode=process\nTimeoutStopSec=20\n")
	}
	began := time.Now()
	shell(t, "systemctl daemon-reload; systemctl start containerd etcd kube-apiserver")
	shell(t, "for image in pause load isolio; do ctr -n k8s.io images import "+runtimes+"/$image.tar; done; ctr -n k8s.io images ls -q")
	k.until("the API server is ready", func() (bool, string) {
		text, err := k.ask(http.MethodGet, "/readyz", "", nil)
		return err == nil && text == "ok", fmt.Sprint(text, err)
	})
	t.Logf("the API server is ready after %.0f s", time.Since(began).Seconds())
	shell(t, "systemctl start kube-scheduler kube-controller-manager kubelet")
	k.until("the node is ready", func() (bool, string) { return k.ready("/api/v1/nodes/" + nodeName) })
	t.Logf("the node is ready after %.0f s", time.Since(began).Seconds())
	k.until("pods have an account", func() (bool, string) { // a controller makes it
		text, err := k.ask(http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", "", nil)
		return err == nil, fmt.Sprint(text, err)
	})
	return k
}

// ask asks the API server. An answer that is not 2xx is an error.
func (k *kube) ask(method, path, kind string, body []byte) (string, error) {
	return k.askBy(apiToken, method, path, kind, body)
}

// askBy is the same by the owner of a token.
func (k *kube) askBy(token, method, path, kind string, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(k.t.Context(), method, "https://"+apiAddress+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return string(text), err
}

// get reads an object; false if there is none.
func (k *kube) get(path string, into any) bool {
	k.t.Helper()
	text, err := k.ask(http.MethodGet, path, "", nil)
	if err != nil {
		return false
	}
	must(k.t, json.Unmarshal([]byte(text), into))
	return true
}

// ready is whether an object has the condition Ready, and what it has.
func (k *kube) ready(path string) (bool, string) {
	k.t.Helper()
	var object struct {
		Status struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
	}
	if !k.get(path, &object) {
		return false, "it is not there"
	}
	for _, c := range object.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True", fmt.Sprint(c)
		}
	}
	return false, "it has no condition"
}

// until waits until it is so, and shows the node's logs if it does not become so.
func (k *kube) until(what string, is func() (bool, string)) {
	k.t.Helper()
	var now string
	for end := time.Now().Add(kubePatience); ; time.Sleep(time.Second) {
		ok, text := is()
		if ok {
			return
		}
		now = text
		if time.Now().After(end) {
			break
		}
	}
	k.explain()
	k.t.Fatalf("%s: not within %s: %s", what, kubePatience, now)
}

// explain logs what a user would look at.
func (k *kube) explain() {
	k.t.Helper()
	_, _ = tried(k.t, `kubectl get nodes,pods,resourceclaims,resourceslices -A -o wide; kubectl get events -A --sort-by=.lastTimestamp | cut -c1-300 | tail -30
for c in enable-all daemon node; do kubectl -n `+system+` logs ds/isolio-node -c $c --tail=20; done
for unit in etcd kube-apiserver kube-scheduler kube-controller-manager kubelet containerd; do echo "== $unit"; journalctl --no-pager -o cat -u $unit | tail -10 | cut -c1-300; done; grep Mem /proc/meminfo; systemctl --failed`)
}

// apply applies manifests.
func (k *kube) apply(text string) {
	k.t.Helper()
	cmd := exec.Command("kubectl", "apply", "--validate=false", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("%v: %s\n%s", err, out, text)
	}
}

// kubePod is what is asked about a pod.
type kubePod struct {
	Metadata struct{ Name, Namespace, UID string }
	Status   struct {
		Phase, QOSClass   string
		PodIP             string
		Conditions        []struct{ Type, Status, Reason, Message string }
		ContainerStatuses []struct {
			Name         string
			RestartCount int
		}
	}
}

// group is the pod's cgroup.
func (p *kubePod) group() string {
	class := map[string]string{"Burstable": "-burstable", "BestEffort": "-besteffort"}[p.Status.QOSClass]
	at := filepath.Join(cgroupRoot, "kubepods.slice")
	if class != "" {
		at = filepath.Join(at, "kubepods"+class+".slice")
	}
	return filepath.Join(at, "kubepods"+class+"-pod"+strings.ReplaceAll(p.Metadata.UID, "-", "_")+".slice")
}

// podSpec is a pod to be made.
type podSpec struct {
	name        string
	annotations map[string]string
	requests    string            // "" for BestEffort, a quantity of CPU for Burstable
	limits      string            // of CPU and memory as YAML, for Guaranteed
	claims      map[string]string // ResourceClaimTemplates, by the name in the pod
	volumes     string            // YAML of its volume data; "" is an emptyDir
	idle        bool              // it does nothing
}

func (s *podSpec) manifest() string {
	annotations, err := json.Marshal(s.annotations)
	if err != nil {
		panic(err)
	}
	var claims, uses []string
	for name, template := range s.claims {
		claims = append(claims, fmt.Sprintf("{name: %s, resourceClaimTemplateName: %s}", name, template))
		uses = append(uses, "{name: "+name+"}")
	}
	resources := "claims: [" + strings.Join(uses, ", ") + "]"
	if s.requests != "" {
		resources += ", requests: {cpu: " + s.requests + "}"
	}
	if s.limits != "" {
		resources += ", requests: " + s.limits + ", limits: " + s.limits
	}
	command := "[/bin/fio, --name=load, --directory=/data, --filename=load, --size=16m, --ioengine=libaio, --direct=1, --bs=4k, --rw=randread, --norandommap=1, --iodepth=32, --time_based, --runtime=360000]"
	if s.idle {
		command = "[/bin/pause]"
	}
	volume := s.volumes
	if volume == "" {
		volume = "emptyDir: {}"
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, annotations: %s}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  resourceClaims: [%s]
  containers:
    - name: main
      image: %s
      command: %s
      resources: {%s}
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, %s}]
---
`, s.name, annotations, strings.Join(claims, ", "), loadImage, command, resources, volume)
}

// run makes pods and waits until they run.
func (k *kube) run(specs ...*podSpec) []*kubePod {
	k.t.Helper()
	var text strings.Builder
	for _, s := range specs {
		text.WriteString(s.manifest())
	}
	k.apply(text.String())
	var pods []*kubePod
	for _, s := range specs {
		pods = append(pods, k.runs(s.name))
	}
	return pods
}

// runs waits until a pod runs.
func (k *kube) runs(name string) *kubePod {
	k.t.Helper()
	path := "/api/v1/namespaces/default/pods/" + name
	k.until(name+" runs", func() (bool, string) { return k.ready(path) })
	p := &kubePod{}
	k.get(path, p)
	return p
}

// weighs waits until a cgroup has these lines of weights: "default 300", "8:0 300".
func (k *kube) weighs(what, group string, want ...string) {
	k.t.Helper()
	k.until(what+" weighs "+strings.Join(want, ", "), func() (bool, string) {
		text, err := os.ReadFile(filepath.Join(group, weightFile))
		if err != nil {
			return false, err.Error()
		}
		return strings.TrimSpace(string(text)) == strings.Join(want, "\n"), string(text)
	})
}

// isolioReady waits until the DaemonSet's pod is ready, with the generation that was asked for.
func (k *kube) isolioReady() {
	k.t.Helper()
	k.until("the DaemonSet is ready", func() (bool, string) {
		var set struct {
			Metadata struct{ Generation int }
			Status   struct{ ObservedGeneration, UpdatedNumberScheduled, NumberReady, DesiredNumberScheduled int }
		}
		if !k.get("/apis/apps/v1/namespaces/"+system+"/daemonsets/isolio-node", &set) {
			return false, "it is not there"
		}
		s := set.Status
		return s.ObservedGeneration == set.Metadata.Generation && s.DesiredNumberScheduled == 1 && s.UpdatedNumberScheduled == 1 && s.NumberReady == 1, fmt.Sprint(set)
	})
}

// shares waits until all pods read, and compares what they read.
func (k *kube) shares(what string, d *disk, pods []*kubePod, want []float64) {
	k.t.Helper()
	var groups []string
	for _, p := range pods {
		groups = append(groups, p.group())
	}
	for i, group := range groups {
		before := readBytes(k.t, group, d)
		k.until(pods[i].Metadata.Name+" reads", func() (bool, string) {
			now := readBytes(k.t, group, d)
			return now > before+64*4096, fmt.Sprint(now)
		})
	}
	time.Sleep(sumSettles)
	before := make([]int, len(groups))
	for i, group := range groups {
		before[i] = readBytes(k.t, group, d)
	}
	time.Sleep(5 * time.Second)
	rates := make([]float64, len(groups))
	for i, group := range groups {
		rates[i] = float64(readBytes(k.t, group, d) - before[i])
	}
	expectParts(k.t, what, rates, want)
}
