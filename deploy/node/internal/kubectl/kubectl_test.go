// SPDX-License-Identifier: MIT

package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"isolio/deploy/node/internal/disk"
	"isolio/deploy/node/internal/driver"
	"isolio/internal/cli"
	"isolio/internal/host/block"
)

const webUID = "11111111-2222-3333-4444-555555555555"

func sliceOf(node string, disks ...disk.Disk) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{ObjectMeta: meta.ObjectMeta{Name: node}, Spec: resourceapi.ResourceSliceSpec{
		Driver: disk.Driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node}, Devices: disk.Resources(disks),
	}}
}

func diskOf(name string) disk.Disk {
	return disk.Disk{Info: block.Info{Name: name, Model: "P4500", SizeBytes: 2e12, Scheduler: "kyber-fairness"}, Device: "wwid-" + name, Kubelet: name == "nvme0n1"}
}

func claimOf(name, class string, asks, given int64, pods ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "disk", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"share": *resource.NewQuantity(asks, resource.DecimalSI)}},
	}}}
	for _, pod := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod})
	}
	if given > 0 {
		c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
			Request: "disk", Driver: disk.Driver, Pool: "n1", Device: "wwid-nvme0n1", ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"share": *resource.NewQuantity(given, resource.DecimalSI)},
		}}}}
	}
	return c
}

func classOf(name, selector string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}},
	}}
}

func selecting(c *resourceapi.ResourceClaim, selector string) *resourceapi.ResourceClaim {
	c.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}}
	return c
}

func podOf(name, claimName string, annotations map[string]string) *core.Pod {
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: name, UID: webUID, Annotations: annotations}}
	if claimName != "" {
		p.Spec.ResourceClaims = []core.PodResourceClaim{{Name: "disk", ResourceClaimName: &claimName}}
	}
	return p
}

// rules are those of the chart, and a limit.
func rules() *core.ConfigMap {
	return &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Namespace: "isolio-system", Name: "isolio-rules"}, Data: map[string]string{"isolio.toml": "[[rule]]\npod = \"shop/*\"\nmax_weight = 200\n"}}
}

// gold is a DiskShareClass of the cluster.
func gold() *fakedynamic.FakeDynamicClient {
	kinds := map[schema.GroupVersionResource]string{driver.ShareClasses: "DiskShareClassList"}
	return fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "isolio.dev/v1alpha1", "kind": "DiskShareClass", "metadata": map[string]any{"name": "gold"}, "spec": map[string]any{"weight": int64(150)},
	}})
}

func isolio(t *testing.T, cluster *fake.Clientset, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return isolioWith(t, cluster, gold(), args...)
}

func isolioWith(t *testing.T, cluster *fake.Clientset, objects dynamic.Interface, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("KUBECONFIG", "/none")
	var out, errs bytes.Buffer
	code = cli.Run(context.Background(), New(cluster, objects), args, nil, &out, &errs)
	return code, out.String(), errs.String()
}

func TestStatus(t *testing.T) {
	foreign := sliceOf("n3", diskOf("sda"))
	foreign.Spec.Driver = "gpu.example.com"
	// The scheduler counts nothing of a disk for administrative access.
	admin, yes := claimOf("c4", disk.Driver, 100, 100, "watcher"), true
	admin.Status.Allocation.Devices.Results[0].AdminAccess = &yes
	cluster := fake.NewClientset(sliceOf("n2", diskOf("sda")), sliceOf("n1", diskOf("nvme0n1")), foreign, admin,
		claimOf("c1", disk.Driver, 300, 300, "web-0", "web-1"), claimOf("c2", disk.Driver, 600, 600, "db-0"), claimOf("c3", disk.Driver, 300, 0, "late"))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"status"}, `NODE  DISK     MODEL  SIZE  GIVEN  LEFT  CLAIMS  KUBELET
n1    nvme0n1  P4500  2 TB    900     0       2  yes
n2    sda      P4500  2 TB      0   900       0
`},
		{[]string{"status", "n1", "--pods"}, `NODE  DISK     SHARES  NAMESPACE  CLAIM  PODS
n1    nvme0n1     300  shop       c1     web-0, web-1
n1    nvme0n1     600  shop       c2     db-0
`},
	} {
		if code, out, errs := isolio(t, cluster, tt.args...); code != 0 || out != tt.want {
			t.Errorf("%q: %d\n%s%s\nwant\n%s", tt.args, code, out, errs, tt.want)
		}
	}
	_, out, _ := isolio(t, cluster, "status", "--json")
	var doc struct {
		Schema int
		Disks  []Disk
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Schema != 1 || len(doc.Disks) != 2 || doc.Disks[0].Left != 0 || len(doc.Disks[0].Has) != 2 {
		t.Errorf("%v, %s", err, out)
	}
	if _, out, _ := isolio(t, fake.NewClientset(), "status"); out != "no node offers a disk; kubectl -n isolio-system get pods shows whether isolio runs\n" {
		t.Error(out)
	}
}

// Below the disks are those that could not be enabled, and not those that are enabled by now.
func TestStatusOfDisksThatLack(t *testing.T) {
	event := func(name, kind, node, message string) *core.Event {
		return &core.Event{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: name}, InvolvedObject: core.ObjectReference{Kind: kind, Name: node}, Reason: driver.NotEnabled, Message: message}
	}
	other := event("e", "Node", "n1", "the node is ready")
	other.Reason = "NodeReady"
	events := []runtime.Object{
		event("a", "Node", "n2", driver.Lacking("sdb")+"no module"), event("b", "Node", "n2", driver.Lacking("sdb")+"no module"),
		event("c", "Node", "n1", driver.Lacking("sda")+"no module"), event("d", "Pod", "n1", "text"), other,
	}
	cluster := fake.NewClientset(append(events, sliceOf("n1", diskOf("sda")))...)
	const table = `NODE  DISK  MODEL  SIZE  GIVEN  LEFT  CLAIMS
n1    sda   P4500  2 TB      0   900       0
`
	const lack = "n2: disk sdb is not shared by weight: no module\n"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"status"}, table + lack}, {[]string{"status", "n1"}, table}, {[]string{"status", "n2"}, lack},
	} {
		if code, out, errs := isolio(t, cluster, tt.args...); code != 0 || out != tt.want || errs != "" {
			t.Errorf("%q: %d\n%s%s\nwant\n%s", tt.args, code, out, errs, tt.want)
		}
	}
	if _, out, _ := isolio(t, cluster, "status", "--json"); !strings.Contains(out, `"not_enabled": [`) || !strings.Contains(out, `"why": "disk sdb is not shared by weight: no module"`) {
		t.Error(out)
	}
	cluster.PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("events is forbidden")
	})
	if code, out, errs := isolio(t, cluster, "status"); code != 0 || out != table || !strings.Contains(errs, "disks that could not be enabled are not shown: events is forbidden") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
}

// Each volume has its disk, and what the claims of its pod have of that.
func TestVolumes(t *testing.T) {
	runs := func(name, node string) *core.Pod {
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "isolio-system", Name: name, Labels: map[string]string{"app.kubernetes.io/name": "isolio"}}}
		p.Spec.NodeName = node
		p.Spec.Containers = []core.Container{{Name: "daemon", Ports: []core.ContainerPort{{Name: "metrics", ContainerPort: 9105}}}, {Name: "node", Ports: []core.ContainerPort{{Name: "node-metrics", ContainerPort: 9106}, {Name: "node-pods", ContainerPort: 9107}}}}
		return p
	}
	cluster := fake.NewClientset(sliceOf("n1", diskOf("nvme0n1")), sliceOf("n2", diskOf("nvme0n1")), claimOf("c1", disk.Driver, 300, 300, "web", "web-1"), runs("a", "n1"), runs("b", "n2"))
	type answer struct {
		text string
		err  error
	}
	answers := map[string]answer{
		"a": {text: `{"schema":1,"pods":[{"namespace":"shop","name":"web","volumes":[{"name":"scratch","disk":"nvme0n1","on":["dm-0","nvme0n1"]},{"name":"nfs","disk":""}]},{"namespace":"shop","name":"none","volumes":[]}]}`},
		"b": {text: `{"schema":1,"pods":[{"namespace":"shop","name":"db","volumes":[{"name":"data","disk":"nvme0n1","on":["nvme0n1"]}]}]}`},
	}
	isolio := func(args ...string) (code int, stdout, stderr string) {
		t.Setenv("KUBECONFIG", "/none")
		var out, errs bytes.Buffer
		p := &plugin{client: cluster, objects: gold(), ask: func(_ context.Context, pod string, port int, path string) ([]byte, error) {
			if port != 9107 || path != driver.PodsPath {
				t.Errorf("asked at port %d for %s", port, path)
			}
			return []byte(answers[pod].text), answers[pod].err
		}}
		code = cli.Run(context.Background(), command(p), args, nil, &out, &errs)
		return code, out.String(), errs.String()
	}
	const one = `NODE  NAMESPACE  POD  VOLUME   DISK     SHARES  ON
n1    shop       web  scratch  nvme0n1     150  dm-0, nvme0n1
n1    shop       web  nfs      none
`
	if code, out, errs := isolio("status", "n1", "--volumes"); code != 0 || out != one {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if code, out, errs := isolio("status", "--volumes"); code != 0 || !strings.Contains(out, "n2    shop       db   data     nvme0n1       0  nvme0n1\n") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	_, out, _ := isolio("status", "--volumes", "--json")
	var doc struct {
		Schema  int
		Volumes []Volume
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Schema != 1 || len(doc.Volumes) != 3 || doc.Volumes[0].Share != 150 || doc.Volumes[0].Disk != "nvme0n1" {
		t.Errorf("%v, %s", err, out)
	}
	// A node that does not answer does not hide the others.
	answers["b"] = answer{err: errors.New("no route to the node")}
	if code, out, errs := isolio("status", "--volumes"); code != 1 || !strings.Contains(out, "scratch") || !strings.Contains(errs, "node n2: pod b: volumes: no route to the node") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
}

func TestExplain(t *testing.T) {
	space := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "shop", Annotations: map[string]string{"isolio.dev/default-weight": "50"}}}
	event := func(component, text string) *core.Event {
		return &core.Event{ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: component}, InvolvedObject: core.ObjectReference{Name: "web", UID: webUID}, Reason: "VolumeOnOtherDisk", Message: text, Source: core.EventSource{Component: component}}
	}
	for _, tt := range []struct {
		name string
		more []runtime.Object
		want []string
	}{
		{"a claim", []runtime.Object{podOf("web", "c1", nil), claimOf("c1", disk.Driver, 300, 300, "web"), event(driver.Component, "elsewhere"), event("kubelet", "of-kubelet")}, []string{
			"shop/web on no node yet", "claim   c1: 300 of 1000 shares of nvme0n1 on n1", "weight  50: namespace shop: 50",
			"weight  300: on nvme0n1, claim c1: 300 of 1000 shares of nvme0n1", "event   VolumeOnOtherDisk: elsewhere"}},
		{"a claim of two pods", []runtime.Object{podOf("web", "c1", nil), claimOf("c1", disk.Driver, 300, 300, "web", "web-2")}, []string{
			"which 2 pods have together: 150", "weight  150: on nvme0n1"}},
		{"a claim of more pods than shares", []runtime.Object{podOf("web", "c1", nil), claimOf("c1", disk.Driver, 1, 1, "web", "web-2")}, []string{
			"which 2 pods have together: 1 for the first 1 of them"}},
		{"an annotation that is too much", []runtime.Object{podOf("web", "", map[string]string{"isolio.dev/weight": "300"})}, []string{
			"claim    none", "refused  shop/web: annotation isolio.dev/weight: 300; 200 is the most by rule 1", "weight   200: annotation isolio.dev/weight: 300"}},
		{"a claim that waits", []runtime.Object{podOf("web", "c9", nil), claimOf("c9", disk.Driver, 500, 0), claimOf("c1", disk.Driver, 900, 900, "db")}, []string{
			"c9 waits: it asks for 500 shares of a disk of class disk.isolio.dev; the most are left of nvme0n1 on n1: 0"}},
		{"a claim with room", []runtime.Object{podOf("web", "c9", nil), claimOf("c9", disk.Driver, 500, 0)}, []string{
			"the most are left of nvme0n1 on n1: 900, so another need of the pod keeps it away from that node"}},
		{"a class that takes a part of the disks", []runtime.Object{podOf("web", "c9", nil), claimOf("c9", "kubelet."+disk.Driver, 500, 0), claimOf("c1", disk.Driver, 900, 900, "db"), sliceOf("n2", diskOf("sda"))}, []string{
			"c9 waits: it asks for 500 shares of a disk of class kubelet.disk.isolio.dev; the most are left of nvme0n1 on n1: 0"}},
		{"a claim whose selector takes none", []runtime.Object{podOf("web", "c9", nil), selecting(claimOf("c9", disk.Driver, 500, 0), `device.attributes["disk.isolio.dev"].name == "sdz"`)}, []string{
			"take none of the 1 disks that nodes offer; to do: kubectl isolio enable NODE DISK for one that they take"}},
		{"a claim with a selector that fails", []runtime.Object{podOf("web", "c9", nil), selecting(claimOf("c9", disk.Driver, 500, 0), `device.attributes["disk.isolio.dev"].colour == "1"`)}, []string{
			`the selector "device.attributes[\"disk.isolio.dev\"].colour == \"1\"" fails with nvme0n1 on n1: `}},
		{"a claim of a class that is not there", []runtime.Object{podOf("web", "c9", nil), claimOf("c9", "gone."+disk.Driver, 500, 0)}, []string{
			"of class gone.disk.isolio.dev, and there is no such class; to do: kubectl get deviceclasses"}},
		{"a class by another name", []runtime.Object{podOf("web", "c9", nil), claimOf("c9", "fast", 500, 0), classOf("fast", `device.driver == "disk.isolio.dev"`)}, []string{
			"c9 waits: it asks for 500 shares of a disk of class fast"}},
		{"a class of another's devices", []runtime.Object{podOf("web", "c9", nil), claimOf("c9", "gpu", 500, 0), classOf("gpu", `device.driver == "gpu.example.com"`)}, []string{
			"claim   none: unclaimed pods share what claims leave"}},
		{"a class of the cluster", []runtime.Object{podOf("web", "", map[string]string{"isolio.dev/class": "gold"})}, []string{
			"claim   none", "weight  150: DiskShareClass gold: 150"}},
		{"a class that is not there", []runtime.Object{podOf("web", "", map[string]string{"isolio.dev/class": "brass"})}, []string{
			`class   annotation isolio.dev/class: there is no DiskShareClass "brass", and no rule for it; to do: kubectl get diskshareclasses`, "weight  50: namespace shop: 50"}},
		{"a claim that is not there", []runtime.Object{podOf("web", "c9", nil)}, []string{"claim   c9 is not there yet"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cluster := fake.NewClientset(append(tt.more, space, rules(), sliceOf("n1", diskOf("nvme0n1")),
				classOf(disk.Driver, `device.driver == "disk.isolio.dev"`),
				classOf("kubelet."+disk.Driver, `device.driver == "disk.isolio.dev" && device.attributes["disk.isolio.dev"].kubelet`))...)
			for _, args := range [][]string{{"explain", "web", "-n", "shop"}, {"explain", "shop/web"}} {
				code, out, errs := isolio(t, cluster, args...)
				for _, want := range tt.want {
					if code != 0 || !strings.Contains(out, want) {
						t.Errorf("%d: no %q in:\n%s%s", code, want, out, errs)
					}
				}
				if strings.Contains(out, "of-kubelet") {
					t.Errorf("another component's event: %s", out)
				}
			}
		})
	}
	_, out, _ := isolio(t, fake.NewClientset(podOf("web", "", nil)), "explain", "shop/web")
	if !strings.Contains(out, "100: no weight is asked for") || !strings.Contains(out, "there is no ConfigMap isolio-rules in isolio-system") {
		t.Error(out)
	}
}

// Who may not read classes is told so, and sees the rest.
func TestExplainForbidden(t *testing.T) {
	space := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "shop", Annotations: map[string]string{"isolio.dev/default-weight": "50"}}}
	objects := gold()
	objects.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(driver.ShareClasses.GroupResource(), "gold", errors.New("no"))
	})
	code, out, errs := isolioWith(t, fake.NewClientset(podOf("web", "", map[string]string{"isolio.dev/class": "gold"}), space, rules()), objects, "explain", "shop/web")
	if code != 0 || !strings.Contains(out, "class   not known: you may not read diskshareclasses") || !strings.Contains(out, "weight  50: namespace shop: 50") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
}

func set() *apps.DaemonSet {
	d := &apps.DaemonSet{ObjectMeta: meta.ObjectMeta{Namespace: "isolio-system", Name: "isolio-node"}}
	d.Spec.Template.Spec.Containers = []core.Container{{Name: "node", Image: "isolio:1"}}
	d.Spec.Template.Spec.InitContainers = []core.Container{{Command: []string{"/usr/bin/isolio", "enable", "--all", "--module", "/mods"}}}
	return d
}

func TestEnable(t *testing.T) {
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "n1"}}
	for _, tt := range []struct {
		name    string
		status  core.PodStatus
		code    int
		out, to string
	}{
		{"done", core.PodStatus{Phase: core.PodSucceeded}, 0, "fake logs\n", ""},
		{"refused", core.PodStatus{Phase: core.PodFailed, ContainerStatuses: []core.ContainerStatus{{State: core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: 3, Message: "isolio: device sdx: there is no such disk\n"}}}}},
			1, "", "isolio: node n1: device sdx: there is no such disk\n"},
		{"no image", core.PodStatus{Phase: core.PodPending, ContainerStatuses: []core.ContainerStatus{{State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ErrImagePull"}}}}}, 1, "", "is Pending still: context deadline exceeded; ErrImagePull"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cluster := fake.NewClientset(node, set())
			var made *core.Pod
			cluster.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				made = a.(clienttesting.CreateAction).GetObject().(*core.Pod).DeepCopy()
				made.Name, made.Status = "isolio-enable-x", tt.status
				return true, made, cluster.Tracker().Add(made)
			})
			code, out, errs := isolio(t, cluster, "enable", "n1", "nvme1n1", "--timeout", "1s")
			if code != tt.code || out != tt.out || !strings.Contains(errs, tt.to) {
				t.Errorf("%d, %q, %q", code, out, errs)
			}
			c := made.Spec.Containers[0]
			if made.Spec.NodeName != "n1" || c.Image != "isolio:1" || strings.Join(c.Command, " ") != "/usr/bin/isolio enable nvme1n1 --module /mods" || !*c.SecurityContext.Privileged {
				t.Errorf("%+v", made.Spec)
			}
			if !slices.ContainsFunc(made.Spec.Volumes, func(v core.Volume) bool {
				return v.HostPath != nil && v.HostPath.Path == "/sys" && slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.Name == v.Name && m.MountPath == "/sys" && !m.ReadOnly })
			}) {
				t.Errorf("it sets a scheduler in a /sys of the pod's own, which is read-only: %+v", made.Spec)
			}
			if !slices.ContainsFunc(made.Spec.Volumes, func(v core.Volume) bool {
				return v.HostPath != nil && v.HostPath.Path == "/run/udev/data" && *v.HostPath.Type == core.HostPathDirectoryOrCreate &&
					slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool {
						return m.Name == v.Name && m.MountPath == "/run/udev/data" && m.ReadOnly
					})
			}) {
				t.Errorf("it finds no disk by a serial number that udev knows: %+v", made.Spec)
			}
			if left, err := cluster.CoreV1().Pods("isolio-system").List(context.Background(), meta.ListOptions{}); err != nil || len(left.Items) != 0 {
				t.Errorf("the pod is left: %v", err)
			}
		})
	}
	cluster := fake.NewClientset(node, set())
	if code, out, _ := isolio(t, cluster, "enable", "n1", "nvme1n1", "--dry-run"); code != 0 || !strings.Contains(out, "generateName: isolio-enable-") || !strings.Contains(out, "kind: Pod") {
		t.Errorf("%d: %s", code, out)
	}
	for _, a := range cluster.Actions() {
		if a.GetVerb() != "get" {
			t.Errorf("--dry-run: %s", a.GetVerb())
		}
	}
}

func TestBadInput(t *testing.T) {
	cluster := fake.NewClientset(&core.Node{ObjectMeta: meta.ObjectMeta{Name: "n1"}}, sliceOf("n1", diskOf("sda")))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"stats"}, `unknown command "stats"; did you mean status?`},
		{[]string{"status", "n7"}, "node n7: offers no disk; those that do: n1"},
		{[]string{"status", "--pods", "--volumes"}, "--pods and --volumes: allowed: one of them"},
		{[]string{"status", "--volumes"}, "namespace isolio-system: has no pod of isolio-node; --system-namespace"},
		{[]string{"status", "n1", "--volumes"}, "namespace isolio-system: has no pod of isolio-node on n1; --system-namespace"},
		{[]string{"explain"}, "got 0 arguments, want 1"},
		{[]string{"explain", "web"}, "pod default/web: there is none; allowed: a pod's name"},
		{[]string{"enable", "n7", "sda"}, "node n7: there is none"},
		{[]string{"enable", "n1", "sda"}, "namespace isolio-system: has no DaemonSet isolio-node"},
		{[]string{"enable", "n1", "--", "-x"}, `disk "-x": is not a name`},
		{[]string{"enable", "n1", "sda", "--timeout", "0s"}, "--timeout: 0s; allowed: more than 0"},
		{[]string{"enable", "n1", "sda", "--timeout", "x"}, `--timeout: "x"; allowed: a number with its unit`},
	} {
		if code, _, errs := isolio(t, cluster, tt.args...); code != 2 || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: %d: %s; want %q", tt.args, code, errs, tt.want)
		}
	}
	if code := Run(context.Background(), []string{"status", "--kubeconfig", "/none"}, nil, &bytes.Buffer{}, &bytes.Buffer{}); code != 2 {
		t.Errorf("a configuration that is not there: %d", code)
	}
}

// A cluster of many nodes is asked about each in seconds.
func TestRate(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`)
	}))
	defer server.Close()
	p := plugin{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":"` + server.URL + `"}}]}`
	if err := os.WriteFile(p.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.connect(); err != nil {
		t.Fatal(err)
	}
	const nodes = 200
	begin := time.Now()
	for range nodes {
		if _, err := p.client.CoreV1().Pods("shop").Get(t.Context(), "web", meta.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("%d requests took %s", nodes, took)
	}
}
