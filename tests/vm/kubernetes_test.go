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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A cluster of one node: a control plane, a kubelet and a containerd as services of systemd,
// on Debian 13. `make test-kubernetes` brings all of it. The VM has no network: the node has
// its address, and the API server's service has its own, on the loopback, where pods reach them.
const (
	nodeName    = "node1"
	nodeAddress = "10.0.0.1"
	apiAddress  = "10.96.0.1"
	apiToken    = "admin-token"
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
		"persistentvolume-binder-controller",
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

// modelDisk is one with a file system at a directory.
func (k *kube) modelDisk(name, at string) *disk {
	k.t.Helper()
	shell(k.t, fmt.Sprintf(`mkdir /sys/kernel/config/modeldisk/%[1]s && cd /sys/kernel/config/modeldisk/%[1]s
echo nvme >model; echo p4500-2tb >preset; echo 2048 >size_mib; echo 1 >memory_backed; echo 1 >queues; echo 128 >tags; echo 1 >power
mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 -O ^has_journal /dev/%[1]s && mkdir -p %[2]s && mount /dev/%[1]s %[2]s`, name, at))
	return &disk{name: name, config: "/sys/kernel/config/modeldisk/" + name, number: strings.TrimSpace(read(k.t, "/sys/block/"+name+"/dev"))}
}

// newKube starts the cluster.
func newKube(t *testing.T) *kube {
	t.Helper()
	if !exists(kubernetes) {
		t.Skip("no Kubernetes here: make test-kubernetes")
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
	k.file(kubeDir+"/tokens.csv", apiToken+",admin,1,system:masters\n")
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
	req, err := http.NewRequestWithContext(k.t.Context(), method, "https://"+apiAddress+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+apiToken)
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

// TestKubernetes is a cluster's life with isolio, in the order of its parts. Each part makes
// what it begins with, unless the one before has left it, so one that fails hides no other,
// and -run may choose some.
func TestKubernetes(t *testing.T) {
	k := newKube(t)
	for _, part := range []struct {
		name string
		does func(k *kube)
		bare bool // it begins without isolio
	}{
		{"no-module", (*kube).lacksModule, true},
		{"install", (*kube).installs, true},
		{"classes", (*kube).classes, false},
		{"annotations", (*kube).refuses, false},
		{"claims", (*kube).claims, false},
		{"disks", (*kube).disks, false},
		{"new-disk", (*kube).followsDisks, false},
		{"kubelet", (*kube).kubeletRestarts, false},
		{"containerd", (*kube).containerdRestarts, false},
		{"plugin", (*kube).pluginRestarts, false},
		{"away", (*kube).deletesWhileAway, false},
		{"drain", (*kube).drains, false},
		{"upgrade", (*kube).upgrades, false},
		{"uninstall", (*kube).uninstalls, false},
	} {
		t.Run(part.name, func(t *testing.T) {
			began := time.Now()
			k := k.on(t)
			defer func() {
				t.Logf("%.0f s", time.Since(began).Seconds())
				if t.Failed() {
					*k.installed = false
				}
			}()
			if !part.bare {
				k.begins()
			}
			part.does(k)
		})
	}
}

// begins makes it so that isolio is there, and that two pods read all they can, and no other.
func (k *kube) begins() {
	k.t.Helper()
	// A fast disk would take all of the CPU.
	write(k.t, filepath.Join(k.disk.config, "scale"), "256")
	if *k.installed {
		k.readers()
		return
	}
	k.helm("upgrade --install --create-namespace --reset-values")
	k.isolioReady()
	shell(k.t, "kubectl delete pods --all --wait=false")
	k.until("all pods are gone", func() (bool, string) {
		var list struct{ Items []any }
		return k.get("/api/v1/namespaces/default/pods", &list) && len(list.Items) == 0, fmt.Sprint(list)
	})
	k.apply(template("half", kubeletClass, "", 600))
	web, batch := k.readers()
	k.weighs("web", web.group(), "default 300")
	k.weighs("batch", batch.group(), "default 100")
	*k.installed = true
}

// readers are two pods, of two QoS classes, that share a disk by their annotations alone.
func (k *kube) readers() (web, batch *kubePod) {
	k.t.Helper()
	pods := k.run(
		&podSpec{name: "web", annotations: weightOf("300"), requests: "10m"},
		&podSpec{name: "batch", annotations: weightOf("100")},
	)
	return pods[0], pods[1]
}

// helm runs it with the chart, this image and more values.
func (k *kube) helm(command string, more ...string) {
	k.t.Helper()
	shell(k.t, "helm "+command+" -n "+system+" shares "+runtimes+"/chart.tgz --set image.tag=$(cat "+runtimes+"/version) "+strings.Join(more, " "))
}

// Two pods that are older than isolio.
var (
	earlyPod     = &podSpec{name: "early", annotations: weightOf("300"), requests: "10m", idle: true}
	meanwhilePod = &podSpec{name: "meanwhile", annotations: weightOf("300"), idle: true}
)

// lacksModule: an image without a module for this kernel. Pods run as they do without isolio, and the reason
// is where docs/kubernetes.md says. One of them is there before isolio.
func (k *kube) lacksModule() {
	k.run(earlyPod)
	k.helm("install --create-namespace", "--set modules.directory=/opt/lib")
	const reason = "/opt/lib: has no kyber-fairness-iosched.ko for kernel "
	k.until("the node has an event with the reason", func() (bool, string) {
		var list struct {
			Items []struct{ Reason, Message string }
		}
		if !k.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind=Node", &list) {
			return false, "no events"
		}
		for _, e := range list.Items {
			if e.Reason == "DiskNotEnabled" {
				k.t.Log(e.Message)
				return strings.Contains(e.Message, reason), e.Message
			}
		}
		return false, fmt.Sprint(list)
	})
	// Claims of pods could not be taken back by a program that does not run.
	k.isolioReady()
	if text, err := tried(k.t, "kubectl isolio status"); err != nil || !strings.Contains(text, reason) {
		k.t.Errorf("kubectl isolio status: %v: %s", err, text)
	}
	k.run(meanwhilePod)
	if _, active := k.disk.schedulers(k.t); active == elevator {
		k.t.Errorf("%s has the scheduler %s without a module", k.disk.name, active)
	}
}

// installs installs the chart over the one that had no module.
func (k *kube) installs() {
	pods := k.run(earlyPod, meanwhilePod)
	k.helm("upgrade --install --create-namespace", "--set modules.directory=/opt/lib/modules")
	k.isolioReady()
	for _, d := range []*disk{k.disk, k.other} {
		if _, active := d.schedulers(k.t); active != elevator {
			k.t.Errorf("%s has the scheduler %s", d.name, active)
		}
	}
	for _, slice := range []string{"kubepods.slice", "kubepods.slice/kubepods-burstable.slice", "kubepods.slice/kubepods-besteffort.slice"} {
		k.weighs(slice, filepath.Join(cgroupRoot, slice), "default sum")
	}
	for _, p := range pods {
		k.weighs(p.Metadata.Name, p.group(), "default 300")
	}
	shell(k.t, "kubectl isolio status; isolio status")
	k.removes("early", "meanwhile")
}

// removes deletes pods, and waits until they are gone.
func (k *kube) removes(names ...string) {
	k.t.Helper()
	shell(k.t, "kubectl delete pod --wait=false "+strings.Join(names, " "))
	for _, name := range names {
		k.until(name+" is gone", func() (bool, string) {
			text, err := k.ask(http.MethodGet, "/api/v1/namespaces/default/pods/"+name, "", nil)
			return err != nil && strings.Contains(err.Error(), "404"), text
		})
	}
}

// classes: pods of three QoS classes share a disk by their annotations alone.
func (k *kube) classes() {
	web, batch := k.readers()
	pods := []*kubePod{web, batch}
	k.shares("Burstable 300, BestEffort 100", k.disk, pods, []float64{300, 100})
	bank := k.run(&podSpec{name: "bank", annotations: weightOf("200"), limits: "{cpu: 200m, memory: 100Mi}"})
	k.weighs("bank", bank[0].group(), "default 200")
	k.shares("and Guaranteed 200", k.disk, append(pods, bank...), []float64{300, 100, 200})
	k.removes("bank")
}

// event waits for one about a pod.
func (k *kube) event(pod, reason string, wants ...string) {
	k.t.Helper()
	k.until("an event "+reason+" of "+pod, func() (bool, string) {
		var list struct {
			Items []struct{ Reason, Message string }
		}
		if !k.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name="+pod, &list) {
			return false, "no events"
		}
		for _, e := range list.Items {
			has := e.Reason == reason
			for _, want := range wants {
				has = has && strings.Contains(e.Message, want)
			}
			if has {
				k.t.Logf("%s: %s: %s", pod, e.Reason, e.Message)
				return true, ""
			}
		}
		return false, fmt.Sprint(list)
	})
}

// refuses: an annotation that is no weight. The pod runs, the default holds, and it has an event.
func (k *kube) refuses() {
	bad := k.run(&podSpec{name: "bad", annotations: weightOf("lots"), idle: true})
	k.event("bad", "BadDiskWeight", "lots", "1..10000")
	k.weighs("bad", bad[0].group(), "default 100")
	k.removes("bad")
}

// template is a ResourceClaimTemplate for shares of a class's disk; where is a CEL expression.
func template(name, class, where string, n int) string {
	selectors := ""
	if where != "" {
		selectors = fmt.Sprintf("selectors: [{cel: {expression: '%s'}}], ", where)
	}
	return fmt.Sprintf(`apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %s, namespace: default}
spec: {spec: {devices: {requests: [{name: disk, exactly: {deviceClassName: %s, %scapacity: {requests: {share: "%d"}}}}]}}}
---
`, name, class, selectors, n)
}

const (
	kubeletClass = "kubelet.disk.isolio.dev"
	anyClass     = "disk.isolio.dev"
	onOther      = `device.attributes["disk.isolio.dev"].name == "disk2"`
	onThird      = `device.attributes["disk.isolio.dev"].name == "disk3"`
)

// claims: a pod's weight is what its claim was given, pods without one share the rest, and
// the scheduler sells no disk twice.
func (k *kube) claims() {
	k.apply(template("more", kubeletClass, "", 500))
	on := k.disk.number
	db := k.run(&podSpec{name: "db", requests: "10m", claims: map[string]string{"disk": "half"}})[0]
	k.weighs("db", db.group(), "default 100", on+" 600")
	// 600 shares leave 400 to weights of 300, 100, and the 100 of isolio's own pod.
	web, batch := k.runs("web"), k.runs("batch")
	k.weighs("web", web.group(), "default 300", on+" 240")
	k.weighs("batch", batch.group(), "default 100", on+" 80")
	k.shares("a claim on 600, and weights of 300 and 100", k.disk, []*kubePod{db, web, batch}, []float64{600, 240, 80})

	k.apply((&podSpec{name: "greedy", requests: "10m", claims: map[string]string{"disk": "more"}, idle: true}).manifest())
	k.event("greedy", "FailedScheduling", "cannot allocate all claims")
	if text := shell(k.t, "kubectl isolio explain greedy"); !strings.Contains(text, "waits: it asks for 500 shares") {
		k.t.Errorf("explain does not say how many it asks for")
	}
	k.removes("db")
	greedy := k.runs("greedy")
	k.weighs("greedy", greedy.group(), "default 100", on+" 500")
	k.weighs("web", web.group(), "default 300")
	shell(k.t, "kubectl isolio status --volumes; cat /run/isolio/claims.json")
	k.removes("greedy")
}

// disks: claims on the second disk, by pods with volumes there and elsewhere; and a claim on
// a disk that is not enabled.
func (k *kube) disks() {
	k.apply(template("other", anyClass, onOther, 400))
	there := map[string]string{"disk": "other"}
	logs := k.run(&podSpec{name: "logs", claims: there, volumes: "hostPath: {path: " + otherAt + "}", idle: true})[0]
	k.weighs("logs", logs.group(), "default 100", k.other.number+" 400")
	wrong := k.run(&podSpec{name: "wrong", claims: there, idle: true})[0]
	k.event("wrong", "VolumeOnOtherDisk", "is for a share of disk2", "data on disk1")
	k.weighs("wrong", wrong.group(), "default 100", k.other.number+" 400")
	if text := shell(k.t, "kubectl isolio status --volumes"); !strings.Contains(text, "logs") {
		k.t.Errorf("status does not name the pod")
	}
	k.removes("wrong", "logs")

	shell(k.t, "isolio disable disk2")
	k.offers("disk2", false)
	k.apply((&podSpec{name: "waits", claims: there, idle: true}).manifest())
	k.event("waits", "FailedScheduling", "cannot allocate all claims")
	if text := shell(k.t, "kubectl isolio explain waits"); !strings.Contains(text, "kubectl isolio enable") {
		k.t.Errorf("explain does not say what to do")
	}
	shell(k.t, "kubectl isolio enable "+nodeName+" disk2")
	waits := k.runs("waits")
	k.weighs("waits", waits.group(), "default 100", k.other.number+" 400")
	k.removes("waits")
}

// offers waits until the node's slices have a disk, or have it no more. They have disk1 all the time.
func (k *kube) offers(disk string, want bool) {
	k.t.Helper()
	k.until(fmt.Sprintf("%s is offered: %t", disk, want), func() (bool, string) {
		text, err := k.ask(http.MethodGet, "/apis/resource.k8s.io/v1/resourceslices", "", nil)
		return err == nil && strings.Contains(text, `"disk1"`) && strings.Contains(text, fmt.Sprintf("%q", disk)) == want, text
	})
}

// followsDisks: a disk comes to the node while isolio runs, as that of a volume does, and a pod has
// its share of it through a PersistentVolume; then the disk goes.
func (k *kube) followsDisks() {
	k.helm("upgrade", "--reset-values --set followDisks=true")
	k.isolioReady()
	third := k.modelDisk("disk3", "/srv/disk3")
	began := time.Now()
	k.until("disk3 has the scheduler", func() (bool, string) {
		_, active := third.schedulers(k.t)
		return active == elevator, active
	})
	k.t.Logf("disk3 has the scheduler %.1f s after it was mounted", time.Since(began).Seconds())
	k.offers("disk3", true)
	k.apply(template("third", anyClass, onThird, 400) + `apiVersion: v1
kind: PersistentVolume
metadata: {name: third}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: manual
  local: {path: /srv/disk3}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [` + nodeName + `]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: third, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: manual, volumeName: third, resources: {requests: {storage: 1Gi}}}
`)
	write(k.t, filepath.Join(third.config, "scale"), "256")
	volume := "persistentVolumeClaim: {claimName: third}"
	pods := k.run(
		&podSpec{name: "new-db", requests: "10m", claims: map[string]string{"disk": "third"}, volumes: volume},
		&podSpec{name: "new-web", annotations: weightOf("300"), requests: "10m", volumes: volume},
		&podSpec{name: "new-batch", annotations: weightOf("100"), volumes: volume},
	)
	k.weighs("new-db", pods[0].group(), "default 100", third.number+" 400")
	if text := shell(k.t, "kubectl isolio status --volumes; kubectl isolio explain new-db"); !strings.Contains(text, "400 of 1000 shares of disk3") {
		k.t.Errorf("explain does not tell the claim")
	}
	// 600 shares are left to weights of 300 and 100 here, of 300 and 100 on the other disk, and the
	// 100 of isolio's own pod.
	k.weighs("new-web", pods[1].group(), "default 300", third.number+" 200")
	k.weighs("new-batch", pods[2].group(), "default 100", third.number+" 66")
	k.shares("on the new disk", third, pods, []float64{400, 200, 66})
	k.removes("new-db", "new-web", "new-batch")

	shell(k.t, "kubectl delete pvc,pv --wait=false third; umount /srv/disk3")
	must(k.t, os.Remove(third.config))
	k.offers("disk3", false)
	k.helm("upgrade", "--reset-values")
	k.isolioReady()
	k.holds("a disk came and went")
}

// restarts is how often a pod's container was started again.
func (p *kubePod) restarts() (n int) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// holds: what web and batch have is as before, and they were not started again.
func (k *kube) holds(after string) {
	k.t.Helper()
	pods := []*kubePod{k.runs("web"), k.runs("batch")}
	k.weighs("web", pods[0].group(), "default 300")
	k.weighs("batch", pods[1].group(), "default 100")
	k.shares("after "+after, k.disk, pods, []float64{300, 100})
	for _, p := range pods {
		if n := p.restarts(); n != 0 {
			k.t.Errorf("%s was started again %d times", p.Metadata.Name, n)
		}
	}
}

// newcomer: a new pod with a claim has its weight.
func (k *kube) newcomer(name string) {
	k.t.Helper()
	p := k.run(&podSpec{name: name, claims: map[string]string{"disk": "half"}, idle: true})[0]
	k.weighs(name, p.group(), "default 100", k.disk.number+" 600")
	k.removes(name)
}

func (k *kube) kubeletRestarts() {
	shell(k.t, "systemctl kill -s KILL kubelet; sleep 1; systemctl reset-failed kubelet; systemctl start kubelet")
	k.newcomer("after-kubelet")
	k.holds("kubelet was killed")
}

func (k *kube) containerdRestarts() {
	shell(k.t, "systemctl kill -s KILL --kill-whom=main containerd; sleep 1; systemctl restart containerd")
	k.newcomer("after-containerd")
	k.holds("containerd was killed")
}

// isolioPod is the DaemonSet's.
func (k *kube) isolioPod() string {
	k.t.Helper()
	var list struct{ Items []kubePod }
	k.get("/api/v1/namespaces/"+system+"/pods", &list)
	for _, p := range list.Items {
		if strings.HasPrefix(p.Metadata.Name, "isolio-node-") {
			return p.Metadata.Name
		}
	}
	return ""
}

// killAll kills the processes whose command lines begin so; there must be one of each.
func (k *kube) killAll(commands ...string) {
	k.t.Helper()
	killed := map[string]int{}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(k.t, err)
	for _, file := range files {
		text, _ := os.ReadFile(file) // the process may have ended
		line := strings.ReplaceAll(string(text), "\x00", " ")
		for _, command := range commands {
			if strings.HasPrefix(line, command+" ") {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				must(k.t, err)
				must(k.t, syscall.Kill(pid, syscall.SIGKILL))
				killed[command]++
			}
		}
	}
	if len(killed) != len(commands) {
		k.t.Fatalf("killed: %v", killed)
	}
}

// pluginRestarts: both programs are killed, and then their pod is made anew.
func (k *kube) pluginRestarts() {
	k.killAll("/usr/bin/isolio-node", "/usr/bin/isolio daemon")
	k.newcomer("after-kill")
	k.holds("the plugin was killed")
	old := k.isolioPod()
	shell(k.t, "kubectl -n "+system+" delete pod "+old)
	k.isolioReady()
	k.newcomer("after-delete")
	k.holds("the plugin's pod was deleted")
}

// deletesWhileAway: a pod with a claim goes, and one with an annotation comes, while there is no plugin.
func (k *kube) deletesWhileAway() {
	db := k.run(&podSpec{name: "db", requests: "10m", claims: map[string]string{"disk": "half"}, idle: true})[0]
	k.weighs("db", db.group(), "default 100", k.disk.number+" 600")
	k.helm("upgrade", "--reuse-values --set nodeSelector.nowhere=yes")
	k.until("isolio's pod is gone", func() (bool, string) { name := k.isolioPod(); return name == "", name })
	k.weighs("db", db.group(), "default 100", k.disk.number+" 600")
	shell(k.t, "kubectl delete pod --wait=false db")
	late := k.run(&podSpec{name: "late", annotations: weightOf("400"), idle: true})[0]
	shell(k.t, "sleep 30; kubectl get pods; cat /run/isolio/claims.json")
	k.helm("upgrade", "--reset-values") // a null beside --reuse-values leaves the selector's key
	k.isolioReady()
	k.until("db is gone", func() (bool, string) {
		text, err := k.ask(http.MethodGet, "/api/v1/namespaces/default/pods/db", "", nil)
		return err != nil && strings.Contains(err.Error(), "404"), text
	})
	k.weighs("late", late.group(), "default 400")
	k.until("what db had is taken back", func() (bool, string) {
		text, err := os.ReadFile("/run/isolio/claims.json")
		return err == nil && !strings.Contains(string(text), db.Metadata.UID), string(text)
	})
	k.newcomer("after-away") // 600 of 1000: there is room only if db's are free
	k.removes("late")
	k.holds("the plugin was away")
}

// drains: the node is drained and comes back. isolio's pod stays, pods' shares are taken back, and one that
// waits for as many has them then.
func (k *kube) drains() {
	db := k.run(&podSpec{name: "db", requests: "10m", claims: map[string]string{"disk": "half"}, idle: true})[0]
	k.weighs("db", db.group(), "default 100", k.disk.number+" 600")
	own := k.isolioPod()
	shell(k.t, "kubectl drain "+nodeName+" --ignore-daemonsets --delete-emptydir-data --force --timeout=120s")
	if now := k.isolioPod(); now != own {
		k.t.Errorf("isolio's pod is %q, and %q before", now, own)
	}
	k.isolioReady()
	k.until("what db had is taken back", func() (bool, string) {
		text, err := os.ReadFile("/run/isolio/claims.json")
		return err == nil && !strings.Contains(string(text), db.Metadata.UID), string(text)
	})
	k.offers(k.disk.name, true) // to those that wait for the node
	k.apply((&podSpec{name: "next", requests: "10m", claims: map[string]string{"disk": "half"}, idle: true}).manifest())
	k.event("next", "FailedScheduling", "unschedulable")
	shell(k.t, "kubectl isolio status; kubectl uncordon "+nodeName)
	next := k.runs("next")
	k.weighs("next", next.group(), "default 100", k.disk.number+" 600")
	k.removes("next")
	k.readers()
	k.holds("the node was drained")
}

// upgrades: no weight changes while the DaemonSet's pods are made anew, and the new rules hold.
func (k *kube) upgrades() {
	db := k.run(&podSpec{name: "db", requests: "10m", claims: map[string]string{"disk": "half"}, idle: true})[0]
	want := "default 100\n" + k.disk.number + " 600"
	k.weighs("db", db.group(), "default 100", k.disk.number+" 600")
	web := k.runs("web")
	stop, seen := make(chan bool), make(chan map[string]int)
	go func() {
		other := map[string]int{}
		for {
			select {
			case <-stop:
				seen <- other
				return
			case <-time.After(100 * time.Millisecond):
				text, err := os.ReadFile(filepath.Join(db.group(), weightFile))
				if got := strings.TrimSpace(string(text)); err != nil || got != want {
					other[got]++
				}
			}
		}
	}()
	k.file("/tmp/values.yaml", `daemon:
  rules: |
    [[rule]]
    unit = "kubepods.slice"
    weight = "sum"

    [[rule]]
    unit = "kubepods-burstable.slice"
    weight = "sum"

    [[rule]]
    unit = "kubepods-besteffort.slice"
    weight = "sum"

    [[rule]]
    pod = "default/web"
    weight = 700
`)
	old := k.isolioPod()
	k.helm("upgrade", "--reuse-values -f /tmp/values.yaml")
	k.isolioReady()
	if now := k.isolioPod(); now == old {
		k.t.Errorf("the pod is %s as before", now)
	}
	k.until("web has the rule's weight", func() (bool, string) {
		text := read(k.t, filepath.Join(web.group(), weightFile))
		return strings.HasPrefix(text, "default 700\n"), text
	})
	close(stop)
	if other := <-seen; len(other) > 0 {
		k.t.Errorf("db weighed otherwise meanwhile: %v", other)
	}
	k.removes("db")
	k.weighs("web", web.group(), "default 700")
}

// uninstalls: pods go on with their weights, and nothing of the chart stays in the cluster.
func (k *kube) uninstalls() {
	web, batch := k.runs("web"), k.runs("batch")
	was := []string{read(k.t, filepath.Join(web.group(), weightFile)), read(k.t, filepath.Join(batch.group(), weightFile))}
	shell(k.t, "helm uninstall -n "+system+" shares")
	k.until("isolio's pod is gone", func() (bool, string) { name := k.isolioPod(); return name == "", name })
	k.until("no slice is left", func() (bool, string) {
		var list struct{ Items []any }
		return k.get("/apis/resource.k8s.io/v1/resourceslices", &list) && len(list.Items) == 0, fmt.Sprint(list)
	})
	if left := shell(k.t, "kubectl get daemonsets,configmaps,serviceaccounts,clusterroles,clusterrolebindings,deviceclasses,validatingadmissionpolicies,validatingadmissionpolicybindings -A -l app.kubernetes.io/name=isolio -o name"); strings.TrimSpace(left) != "" {
		k.t.Errorf("left: %s", left)
	}
	for i, p := range []*kubePod{web, batch} {
		if is := read(k.t, filepath.Join(p.group(), weightFile)); is != was[i] {
			k.t.Errorf("%s weighs %q, and %q before", p.Metadata.Name, is, was[i])
		}
	}
	if _, active := k.disk.schedulers(k.t); active != elevator {
		k.t.Errorf("%s has the scheduler %s", k.disk.name, active)
	}
	k.shares("after the chart is gone", k.disk, []*kubePod{web, batch}, []float64{weighed(k.t, was[0]), weighed(k.t, was[1])})
	shell(k.t, "isolio disable disk1; isolio disable disk2")
	k.removes("web", "batch")
}

// weighed is the weight in a file's text, of a cgroup without weights by disk.
func weighed(t *testing.T, text string) (weight float64) {
	t.Helper()
	if _, err := fmt.Sscanf(text, "default %g\n", &weight); err != nil || strings.Count(text, "\n") > 1 {
		t.Fatalf("%q: %v", text, err)
	}
	return weight
}
