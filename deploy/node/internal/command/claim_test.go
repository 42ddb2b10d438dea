// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"

	"isolio/deploy/node/internal/disk"
	"isolio/deploy/node/internal/driver"
	"isolio/internal/cli"
	"isolio/internal/host/state"
)

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

// Administrative access, as a program has that watches disks, is to a disk and to no share of it,
// also where the disk is not shared by weight.
func TestAClaimForAdministration(t *testing.T) {
	admin, yes, id := claimOf("c1", nvme, 100, webUID), true, types.UID("share-2")
	results := &admin.Status.Allocation.Devices.Results
	(*results)[0].AdminAccess = &yes
	second := (*results)[0]
	second.Request, second.Device, second.ShareID, second.ConsumedCapacity = "other", "sda", &id, nil
	*results = append(*results, second)
	n := newNode(t, admin, podOf("shop", "pod-1", webUID, admin.Name))
	n.start()
	r, err := prepare(t, n.kubelet(), admin)
	if err != nil || r.Error != "" || len(r.Devices) != 2 || r.Devices[0].DeviceName != nvme || r.Devices[1].DeviceName != "sda" {
		t.Fatalf("%+v, %v", r, err)
	}
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "pod-1"})
	n.until("its default", func() bool { b := n.book(); return b.Find(webUID) != nil && b.Find(webUID).Default == 50 })
	n.given(webUID, 0)
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
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "pod-1"}, state.ReportedPod{ID: "s2", UID: other, Namespace: "shop", Name: "pod-2", Stopped: true})
	n.given(webUID, 300)
	// Its sandbox is made anew.
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "pod-1"}, state.ReportedPod{ID: "s3", UID: other, Namespace: "shop", Name: "pod-2"})
	n.given(webUID, 150)
	n.given(other, 150)
}

// A claim on fewer shares than it has pods is not sold twice: the pod that comes last has none of it,
// and is told so.
func TestASharedClaimThatIsTooSmall(t *testing.T) {
	other := "2" + webUID[1:]
	c := claimOf("c1", nvme, 1, other)
	n := newNode(t, c, podOf("shop", "pod-1", webUID, "claim-c1"), podOf("shop", "pod-2", other, "claim-c1"))
	n.start()
	k := n.kubelet()
	if r, err := prepare(t, k, c); err != nil || r.Error != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	n.given(other, 1)
	both := claimOf("c1", nvme, 1, webUID, other)
	if _, err := n.cluster.ResourceV1().ResourceClaims("shop").Update(context.Background(), both, meta.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "pod-1"}, state.ReportedPod{ID: "s2", UID: other, Namespace: "shop", Name: "pod-2"})
	const want = "pod-1 DiskShareTooSmall claim claim-c1 is on 1 shares of nvme0n1, and more pods have it together: this one has none; to do: a claim on more shares, or one for each pod"
	n.until("the event", func() bool { return slices.Contains(n.events(), want) })
	n.given(other, 1)
	n.given(webUID, 0)
}

// A pod that was deleted has no part of a claim that others have: neither where no program was
// there to see it go, nor where its sandbox was never made.
func TestASharedClaimOfAPodThatIsGone(t *testing.T) {
	other, waiting := "2"+webUID[1:], "3"+webUID[1:]
	c := claimOf("c1", nvme, 300, webUID, other, waiting)
	n := newNode(t, c, podOf("shop", "pod-1", webUID, c.Name), podOf("shop", "pod-3", waiting, c.Name))
	b := state.Claims{}
	for uid, name := range map[string]string{webUID: "pod-1", other: "pod-2", waiting: "pod-3"} {
		b.Set(state.PodClaims{UID: uid, Namespace: "shop", Name: name, Shares: []state.ClaimedShare{{Claim: c.Name, ClaimUID: "c1", Device: nvme, Disk: "nvme0n1", MajMin: "259:0", Claimed: 300}}})
	}
	if err := b.Write(n.root); err != nil {
		t.Fatal(err)
	}
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "pod-1"})
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

// A pod that was deleted by force runs for its grace still, and its claim is free. Once the scheduler has sold
// its shares to another pod, it has none. The API server is asked again after an answer that failed.
func TestAClaimThatIsSoldAgain(t *testing.T) {
	next, third := "2"+webUID[1:], "3"+webUID[1:]
	for _, tt := range []struct {
		name string
		now  func(c *resourceapi.ResourceClaim) // nil: it is gone
		want int
	}{
		{"it is gone", nil, 0},
		{"another has its name", func(c *resourceapi.ResourceClaim) { c.UID = "c9" }, 0},
		{"it is free", func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} }, 0},
		{"it is on another node", func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Pool = "n2" }, 0},
		{"it is on another disk", func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Device = "sda" }, 0},
		{"it is on fewer shares", func(c *resourceapi.ResourceClaim) { *c = *claimOf("c1", nvme, 100, webUID) }, 100},
		{"it is on as many", func(*resourceapi.ResourceClaim) {}, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old, sold, small := claimOf("c1", nvme, 500, webUID), claimOf("c2", nvme, 600, next), claimOf("c3", nvme, 100, third)
			n := newNode(t, old, sold, small, podOf("shop", "pod-1", webUID, old.Name), podOf("shop", "pod-2", next, sold.Name), podOf("shop", "pod-3", third, small.Name))
			n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "pod-1"}, state.ReportedPod{ID: "s3", UID: third, Namespace: "shop", Name: "pod-3"})
			var asked atomic.Int32
			n.cluster.PrependReactor("get", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
				isOld := a.(clienttesting.GetAction).GetName() == old.Name
				return isOld && asked.Add(1) == 2, nil, errors.New("the API server is away")
			})
			n.start()
			k := n.kubelet()
			n.given(webUID, 500)
			n.given(third, 100)
			ctx := context.Background()
			if err := n.cluster.CoreV1().Pods("shop").Delete(ctx, "pod-1", meta.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			now, err := old.DeepCopy(), error(nil)
			if tt.now == nil {
				err = n.cluster.ResourceV1().ResourceClaims("shop").Delete(ctx, old.Name, meta.DeleteOptions{})
			} else {
				tt.now(now)
				_, err = n.cluster.ResourceV1().ResourceClaims("shop").Update(ctx, now, meta.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			if r, err := prepare(t, k, sold); err != nil || r.Error != "" {
				t.Fatalf("%+v, %v", r, err)
			}
			n.until("it is asked for again", func() bool { return asked.Load() >= 3 })
			n.given(webUID, tt.want)
			n.given(next, 600)
			n.given(third, 100)
			unprepare(t, k, old)
			n.given(webUID, 0)
		})
	}
}

// A pod that has completed is none of those that a claim is reserved for, and has no part of it,
// also where the file is lost.
func TestAClaimThatACompletedPodHad(t *testing.T) {
	other := "2" + webUID[1:]
	n := newNode(t, claimOf("c1", nvme, 300, webUID), podOf("shop", "web", webUID, "claim-c1"), podOf("shop", "done", other, "claim-c1"))
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"}, state.ReportedPod{ID: "s2", UID: other, Namespace: "shop", Name: "done", Stopped: true})
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
	objects, told := []runtime.Object{c}, []state.ReportedPod{}
	for i, group := range []string{"training", "training", "other"} {
		name := fmt.Sprint("pod-", i)
		pod := podOf("shop", name, uids[i], "claim-c1")
		pod.Spec.SchedulingGroup = &core.PodSchedulingGroup{PodGroupName: &group}
		objects = append(objects, pod)
		told = append(told, state.ReportedPod{ID: "s" + name, UID: uids[i], Namespace: "shop", Name: name})
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
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "static"})
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
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
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
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
	stop := n.start()
	n.given(webUID, 300)
	if p := n.book().Pods[0]; p.Default != 50 || p.Why != "namespace shop: 50" {
		t.Errorf("%+v", p)
	}
	stop()
	n.put(state.ClaimsFile, "{half")
	n.start()
	n.until("the file", func() bool { b, err := state.ReadClaims(n.root); return err == nil && len(b.Pods) == 1 })
	n.given(webUID, 300)
	// The pod's sandbox is made anew.
	n.report()
	n.until("it is forgotten", func() bool { b := n.book(); return b.Find(webUID) == nil })
	n.report(state.ReportedPod{ID: "s2", UID: webUID, Namespace: "shop", Name: "web"})
	n.given(webUID, 300)
}

// A damaged file is kept, and what takes its place says that it is not complete until the API server
// was asked about each pod: the daemon has pods keep their weights until then.
func TestTheFileIsDamaged(t *testing.T) {
	other := "2" + webUID[1:]
	n := newNode(t, claimOf("c1", nvme, 300, webUID), claimOf("c2", nvme, 200, other), podOf("shop", "web", webUID, "claim-c1"), podOf("shop", "db", other, "claim-c2"))
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"}, state.ReportedPod{ID: "s2", UID: other, Namespace: "shop", Name: "db"})
	var away atomic.Bool
	n.cluster.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return away.Load() && a.(clienttesting.GetAction).GetName() == "db", nil, errors.New("the API server is away")
	})
	n.start()
	n.given(webUID, 300)
	n.given(other, 200)
	if n.book().Incomplete {
		t.Error("the first file is not complete")
	}
	away.Store(true)
	const damaged = `{"schema": 1, "pods": [{"uid"`
	n.put(state.ClaimsFile, damaged)
	n.until("it is made anew", func() bool { b, err := state.ReadClaims(n.root); return err == nil && b.Find(webUID) != nil })
	if b := n.book(); !b.Incomplete || b.Find(other) != nil {
		t.Errorf("without an answer about a pod: %+v", b)
	}
	if text, err := os.ReadFile(filepath.Join(n.root, state.ClaimsFile+".damaged")); err != nil || strings.TrimSpace(string(text)) != damaged {
		t.Errorf("what was damaged: %q, %v", text, err)
	}
	away.Store(false)
	n.given(other, 200)
	n.until("it is complete", func() bool { return !n.book().Incomplete })
}

// A file of a newer version stays as it is, and no claim is prepared.
func TestTheFileIsOfANewerVersion(t *testing.T) {
	c := claimOf("c1", nvme, 300, webUID)
	n := newNode(t, c)
	const newer = `{"schema": 2, "pods": []}`
	n.put(state.ClaimsFile, newer)
	n.report()
	n.start()
	if r, err := prepare(t, dra.NewDRAPluginClient(n.dial(n.register())), c); err != nil || !strings.Contains(r.Error, "claims.json: schema 2 is not known; known: 1; update isolio") {
		t.Errorf("%+v, %v", r, err)
	}
	if text, err := os.ReadFile(filepath.Join(n.root, state.ClaimsFile)); err != nil || strings.TrimSpace(string(text)) != newer {
		t.Errorf("%q, %v", text, err)
	}
	if code := n.get("/healthz"); code != http.StatusServiceUnavailable {
		t.Errorf("/healthz: %d", code)
	}
}

// A pod that is prepared is unknown to the runtime still. What is left of one that went
// while no program was there is its claim, which kubelet takes back.
func TestBeforeTheRuntimeKnows(t *testing.T) {
	c := claimOf("c1", nvme, 300, webUID)
	n := newNode(t, c)
	b := state.Claims{}
	b.Set(state.PodClaims{UID: "old", Namespace: "shop", Name: "old", Default: 50, Why: "namespace shop: 50"})
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
	p.Spec.ResourceClaims = podOf("", "", "", "gpu").Spec.ResourceClaims
	n := newNode(t, p)
	n.serves()
	n.cluster.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "gpu", errors.New("the chart's role has none"))
	})
	var stderr bytes.Buffer
	if code := cli.Run(context.Background(), New(n.cluster, n.objects), []string{"--root", n.root, "--node", "n1"}, nil, io.Discard, &stderr); code != 3 || !strings.Contains(stderr.String(), "does not serve resource.k8s.io/v1, which came with 1.34; use --extended-resource") {
		t.Errorf("%d: %s", code, &stderr)
	}
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
	n.start("--extended-resource")
	n.until("the share", func() bool {
		b := n.book()
		return b.Find(webUID) != nil && len(b.Find(webUID).Shares) == 1 && b.Find(webUID).Shares[0] == state.ClaimedShare{Share: 250, Claimed: 250}
	})
	node, err := n.cluster.CoreV1().Nodes().Get(context.Background(), "n1", meta.GetOptions{})
	if q := node.Status.Allocatable["isolio.dev/disk-share"]; err != nil || q.Value() != state.SharesForSale {
		t.Errorf("%v, %v", q, err)
	}
}

// Where a cluster is changed to claims the node's status has the number still. Pods that request it
// have no share of a disk, and are told so, once. The program leaves the status alone.
func TestARequestAfterClaimsCame(t *testing.T) {
	p := podOf("shop", "web", webUID, "")
	p.Spec.Containers = []core.Container{{Name: "a"}}
	p.Spec.Containers[0].Resources.Requests = core.ResourceList{"isolio.dev/disk-share": resource.MustParse("300")}
	n := newNode(t, p, podOf("shop", "other", "2"+webUID[1:], ""))
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"}, state.ReportedPod{ID: "s2", UID: "2" + webUID[1:], Namespace: "shop", Name: "other"})
	want := []string{"web DiskShareNotOffered the pod requests isolio.dev/disk-share: 300, and node n1 gives shares by claims: it has none by the request; to do: a claim in its place"}
	for range 2 {
		stop := n.start()
		n.kubelet()
		n.until("the event", func() bool { return slices.Equal(n.events(), want) })
		n.given(webUID, 0)
		stop()
	}
	for _, a := range n.cluster.Actions() {
		if a.Matches("patch", "nodes") {
			t.Error("the program writes the node's status")
		}
	}
}

// Where no daemon sees pods, a share would be sold that nothing gives: none is offered, a claim fails
// with the reason, and the node has an Event. All ends when a daemon sees pods.
func TestNobodySeesPods(t *testing.T) {
	const why = "no container runtime tells the isolio daemon of pods over NRI at /var/run/nri/nri.sock"
	c := claimOf("c1", nvme, 300, webUID)
	n := newNode(t, c, podOf("shop", "web", webUID, c.Name))
	n.sees(why)
	n.start()
	// The pool has a slice, so that the driver is known to be there, and no disk in it.
	k := n.kubelet()
	offered := func() int {
		nr := 0
		list, err := n.cluster.ResourceV1().ResourceSlices().List(t.Context(), meta.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Items {
			nr += len(s.Spec.Devices)
		}
		return nr
	}
	if nr := offered(); nr != 0 {
		t.Errorf("%d disks are offered", nr)
	}
	if r, err := prepare(t, k, c); err != nil || !strings.Contains(r.Error, why) {
		t.Errorf("%+v, %v", r, err)
	}
	n.given(webUID, 0)
	n.until("the event", func() bool {
		events, err := n.cluster.CoreV1().Events("default").List(t.Context(), meta.ListOptions{})
		return err == nil && slices.ContainsFunc(events.Items, func(e core.Event) bool {
			return e.Reason == driver.NotEnforced && strings.Contains(e.Message, why)
		})
	})
	n.sees("")
	n.until("a disk", func() bool { return offered() == 1 })
	if r, err := prepare(t, k, c); err != nil || r.Error != "" {
		t.Errorf("%+v, %v", r, err)
	}
	n.given(webUID, 300)
}

// What rules give pods of the node is not for sale.
func TestWhatRulesGiveIsNotSold(t *testing.T) {
	n := newNode(t)
	n.start()
	n.kubelet()
	for _, tt := range []struct{ byRules, sold, byDefault int64 }{{0, 900, 100}, {500, 400, 100}, {850, 50, 50}, {900, 0, 0}, {2000, 0, 0}, {0, 900, 100}} {
		if err := (state.PodSight{ByRules: map[string]int{"259:0": int(tt.byRules)}}).Write(n.root); err != nil {
			t.Fatal(err)
		}
		n.until(fmt.Sprintf("%+v", tt), func() bool {
			list, err := n.cluster.ResourceV1().ResourceSlices().List(t.Context(), meta.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list.Items {
				for _, d := range s.Spec.Devices {
					c := d.Capacity[disk.Share]
					return c.Value.Value() == tt.sold && c.RequestPolicy.Default.Value() == tt.byDefault && c.RequestPolicy.ValidRange.Max.Value() == tt.sold
				}
			}
			return tt.sold == 0
		})
	}
}
