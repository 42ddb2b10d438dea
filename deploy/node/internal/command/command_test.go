// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"isolio/deploy/node/internal/disk"
	"isolio/internal/cli"
	"isolio/internal/host/state"
)

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

// Authors of pods are told what is wrong, once, also by a program that was started again.
func TestEvents(t *testing.T) {
	bad, rich, db := "2"+webUID[1:], "3"+webUID[1:], "4"+webUID[1:]
	gold := podOf("bad", "db", db, "")
	gold.Spec.PriorityClassName = "gold"
	n := newNode(t, claimOf("c1", nvme, 300, webUID), podOf("shop", "web", webUID, "claim-c1"), podOf("bad", "bad", bad, ""), podOf("shop", "rich", rich, ""), gold)
	n.report(
		state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"},
		state.ReportedPod{ID: "s2", UID: bad, Namespace: "bad", Name: "bad", Annotations: map[string]string{"isolio.dev/weight": "high"}},
		state.ReportedPod{ID: "s3", UID: rich, Namespace: "shop", Name: "rich", Annotations: map[string]string{"isolio.dev/weight": "400", "isolio.dev/weight.main": "0"},
			Containers: []state.ReportedContainer{{ID: "c3", Name: "main"}}},
		state.ReportedPod{ID: "s4", UID: db, Namespace: "bad", Name: "db"},
	)
	n.put("etc/isolio.toml", "[[rule]]\npod = \"shop/*\"\nmax_weight = 300\n")
	// The volume that web has lies on sda, its claim is on nvme0n1.
	want := []string{
		`bad BadDefaultDiskWeight namespace bad: annotation isolio.dev/default-weight: "much" is not a weight; allowed: an integer 1..10000`,
		`bad BadDiskWeight bad/bad: annotation isolio.dev/weight: "high" is not a weight; allowed: an integer 1..10000`,
		`rich BadDiskWeight shop/rich/main: annotation isolio.dev/weight.main: "0" is not a weight; allowed: an integer 1..10000`,
		`rich BadDiskWeight shop/rich: annotation isolio.dev/weight: 400; 300 is the most by rule 1`,
		`web VolumeNotShared disk sda is not shared by weight: its scheduler is none, and volumes of the pod lie there: pv-1; to do: kubectl isolio enable n1 sda`,
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

// A volume may come with a disk that was attached after the others were enabled. Pods that ask for a
// part of a disk are told of it, once, and no others.
func TestVolumesOnDisksThatAreNotShared(t *testing.T) {
	uid := func(i int) string { return fmt.Sprint(i) + webUID[1:] }
	claims := claimOf("c1", nvme, 300, uid(1))
	var objects []runtime.Object
	var told []state.ReportedPod
	table := rootMount
	add := func(i int, name, claim, device string, annotations map[string]string) {
		pod := podOf("shop", name, uid(i), claim)
		pod.Annotations = annotations
		pod.Spec.Volumes = []core.Volume{{Name: "scratch", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}}}
		objects = append(objects, pod)
		told = append(told, state.ReportedPod{ID: "s" + name, UID: uid(i), Namespace: "shop", Name: name, Annotations: annotations})
		table += fmt.Sprintf("4%d 30 %s / /var/lib/kubelet/pods/%s/volumes/kubernetes.io~csi/pv-%d/mount rw - ext4 /dev/x rw\n", i, device, uid(i), i)
	}
	const sda, bfq, late = "8:0", "8:16", "8:32"
	add(1, "claims", claims.Name, sda, nil)
	add(2, "weighs", "", sda, map[string]string{"isolio.dev/weight": "300"})
	add(3, "plain", "", sda, map[string]string{"example.com/weight": "300"})
	add(4, "shared", "", bfq, map[string]string{"isolio.dev/weight": "300"})
	add(5, "late", "", late, map[string]string{"isolio.dev/weight.main": "300"})
	n := newNode(t, append(objects, claims)...)
	n.put("sys/block/sdb/dev", bfq)
	n.put("sys/block/sdb/size", "8")
	n.put("sys/block/sdb/queue/scheduler", "none [bfq] kyber-fairness")
	n.put("proc/1/mountinfo", table)
	n.report(told[:4]...)
	const text = " is not shared by weight: its scheduler is none, and volumes of the pod lie there: "
	want := []string{"claims VolumeNotShared disk sda" + text + "pv-1; to do: kubectl isolio enable n1 sda", "weighs VolumeNotShared disk sda" + text + "pv-2; to do: kubectl isolio enable n1 sda"}
	stop := n.start()
	n.kubelet()
	n.until("the events", func() bool { return slices.Equal(n.events(), want) })
	n.put("sys/block/sdc/dev", late)
	n.put("sys/block/sdc/size", "8")
	n.put("sys/block/sdc/queue/scheduler", "[none] kyber-fairness")
	n.report(told...)
	want = slices.Insert(want, 1, "late VolumeNotShared disk sdc"+text+"pv-5; to do: kubectl isolio enable n1 sdc")
	n.until("the event of the later disk", func() bool { return slices.Equal(n.events(), want) })
	stop()
	n.start()
	n.kubelet()
	n.until("the pods", func() bool { return strings.Contains(n.pods(), "pv-5") })
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
	var told []state.ReportedPod
	var want []string
	for i, p := range pods {
		name := fmt.Sprint("p", i)
		pod := podOf(p.namespace, name, uid(i), "")
		pod.Annotations = map[string]string{"isolio.dev/class": p.class}
		objects = append(objects, pod)
		told = append(told, state.ReportedPod{ID: "s" + name, UID: uid(i), Namespace: p.namespace, Name: name, Annotations: pod.Annotations})
		if p.event != "" {
			want = append(want, name+" BadDiskShareClass "+p.event)
		}
	}
	want = append(want, `p1 BadDefaultDiskWeight namespace bad: annotation isolio.dev/default-weight: "much" is not a weight; allowed: an integer 1..10000`)
	slices.Sort(want)
	n := newNode(t, objects...)
	n.put("proc/1/mountinfo", rootMount)
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
	n.put("proc/1/mountinfo", rootMount)
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
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"}, state.ReportedPod{ID: "s2", UID: db, Namespace: "shop", Name: "db"})
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
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web", Stopped: true}, state.ReportedPod{ID: "s2", UID: db, Namespace: "shop", Name: "db", Stopped: true},
		state.ReportedPod{ID: "s3", UID: db, Namespace: "shop", Name: "db"})
	n.start()
	n.kubelet()
	n.until("one pod", func() bool { return strings.Contains(n.pods(), `"db"`) && !strings.Contains(n.pods(), `"web"`) })
	n.given(webUID, 300) // its share is taken back when its sandbox is removed
}

// A node may have kubelet's directory behind a symbolic link, on another disk than the link. Mounts
// have the directory's own path, and a container sees the plugin's own directory alone.
func TestKubeletBehindALink(t *testing.T) {
	const behind = "30 21 259:1 / / rw - xfs /dev/nvme0n1p1 rw\n31 30 8:0 / /mnt/data rw - ext4 /dev/sda rw\n" +
		"41 31 259:1 / /mnt/data/kubelet/pods/" + webUID + "/volumes/kubernetes.io~csi/pv-1/mount rw - xfs /dev/nvme0n1p1 rw\n"
	pod := podOf("shop", "web", webUID, "")
	pod.Spec.Volumes = []core.Volume{{Name: "scratch", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}}}
	for what, prepare := range map[string]func(n *node){
		"in a container": func(n *node) {
			n.put("proc/self/mountinfo", "50 49 0:70 / / rw - overlay overlay rw\n51 50 8:0 /kubelet/plugins/disk.isolio.dev /var/lib/kubelet/plugins/disk.isolio.dev rw - ext4 /dev/sda rw")
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
			n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
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
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
	n.start()
	n.kubelet()
	n.given(webUID, 300)
	if got, want := n.pods(), `{"schema":1,"pods":[{"namespace":"shop","name":"web","volumes":null}]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	n.put("proc/1/mountinfo", mounts)
	n.until("its volume", func() bool { return strings.Contains(n.pods(), `[{"name":"pv-1","disk":"sda","on":["sda"]}]`) })
	n.until("the events", func() bool { return len(n.events()) == 2 && strings.Contains(n.events()[1], "VolumeOnOtherDisk") })
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

func TestDryRun(t *testing.T) {
	n := newNode(t)
	var stdout, stderr bytes.Buffer
	if code := cli.Run(context.Background(), New(n.cluster, n.objects), []string{"--root", n.root, "--node", "n1", "--dry-run"}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("%d: %s", code, &stderr)
	}
	for _, want := range []string{"# sda is not offered: its scheduler is none; to do: isolio enable sda\n", "kind: ResourceSlice", "name: wwid-eui-1", "value: \"900\"", "nodeName: n1"} {
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
	if _, err := os.Stat(filepath.Join(n.root, state.ClaimsFile)); err == nil {
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
