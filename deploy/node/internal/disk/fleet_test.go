// SPDX-License-Identifier: MIT

package disk

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"sigs.k8s.io/yaml"

	"isolio/internal/host/block"
	"isolio/internal/host/state"
)

// classes are those of the manifest.
type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("there is no DeviceClass %s", name)
}

func manifestClasses(t *testing.T) classes {
	t.Helper()
	text, err := os.ReadFile("../../../kubernetes/isolio.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all classes
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		if !strings.Contains(doc, "kind: DeviceClass") {
			continue
		}
		class := &resourceapi.DeviceClass{}
		if err := yaml.UnmarshalStrict([]byte(doc), class); err != nil {
			t.Fatal(err)
		}
		all = append(all, class)
	}
	return all
}

// fleet is a cluster whose scheduler is asked for one claim after the other.
type fleet struct {
	t       *testing.T
	classes classes
	nodes   []*core.Node
	slices  map[string][]*resourceapi.ResourceSlice
	state   structured.AllocatedState
	cache   *cel.Cache
	given   map[string]int64
}

func newFleet(t *testing.T, nodes int, disks ...Disk) *fleet {
	t.Helper()
	f := &fleet{t: t, classes: manifestClasses(t), slices: map[string][]*resourceapi.ResourceSlice{}, given: map[string]int64{}, cache: cel.NewCache(10, cel.Features{EnableConsumableCapacity: true})}
	f.state = structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for i := range nodes {
		name := fmt.Sprintf("node-%03d", i)
		f.nodes = append(f.nodes, &core.Node{ObjectMeta: meta.ObjectMeta{Name: name}})
		f.slices[name] = []*resourceapi.ResourceSlice{{
			ObjectMeta: meta.ObjectMeta{Name: name},
			Spec:       resourceapi.ResourceSliceSpec{Driver: Driver, NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}, Devices: Resources(disks)},
		}}
	}
	return f
}

// place is what the scheduler does with a pod that has one claim: it asks its allocator
// for each node until one has room, beginning behind the last one.
func (f *fleet) place(nr int, class, share string, selectors ...string) (device string) {
	f.t.Helper()
	request := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
	if share != "" {
		request.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{Share: resource.MustParse(share)}}
	}
	for _, expression := range selectors {
		request.Selectors = append(request.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	c := &resourceapi.ResourceClaim{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprint(nr), UID: types.UID(fmt.Sprint(nr))}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "disk", Exactly: request}}
	for i := range f.nodes {
		node := f.nodes[(nr+i)%len(f.nodes)]
		a, err := structured.NewAllocator(context.Background(), structured.Features{ConsumableCapacity: true}, f.state, f.classes, f.slices[node.Name], f.cache)
		if err != nil {
			f.t.Fatal(err)
		}
		results, err := a.Allocate(context.Background(), node, []*resourceapi.ResourceClaim{c})
		if err != nil {
			f.t.Fatal(err)
		}
		if results == nil {
			continue
		}
		r := results[0].Devices.Results[0]
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		f.state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
		f.state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		n := r.ConsumedCapacity[Share]
		f.given[r.Pool+"/"+r.Device] += n.Value()
		return r.Device
	}
	return ""
}

func enabled(name string, kubelet bool) Disk {
	return Disk{Info: block.Info{Name: name, SizeBytes: 1 << 40, Scheduler: "kyber-fairness"}, Device: name, Kubelet: kubelet}
}

// The scheduler's own allocator never gives more of a disk than it has: of 1,600 pods that
// ask for 300 of the disks of 500 nodes, 1,500 are placed.
func TestAFleetIsNotOversold(t *testing.T) {
	f := newFleet(t, 500, enabled("nvme0n1", true))
	placed := 0
	for nr := range 1600 {
		if f.place(nr, Driver, "300") != "" {
			placed++
		}
	}
	if placed != 1500 || len(f.given) != 500 {
		t.Errorf("%d placed on %d disks; want 1500 on 500", placed, len(f.given))
	}
	for disk, n := range f.given {
		if n != 900 {
			t.Errorf("%s: %d shares were given", disk, n)
		}
	}
}

// What is left is given in any size; without a number a claim has 100.
func TestTheRestIsGiven(t *testing.T) {
	f := newFleet(t, 1, enabled("nvme0n1", true))
	for nr, tt := range []struct {
		share  string
		placed bool
	}{{"850", true}, {"51", false}, {"", false}, {"49", true}, {"1", true}, {"1", false}, {"901", false}} {
		if got := f.place(nr, Driver, tt.share); (got != "") != tt.placed {
			t.Errorf("claim %d on %q: %q", nr, tt.share, got)
		}
	}
	if f.given["node-000/nvme0n1"] != state.SharesForSale {
		t.Errorf("%v", f.given)
	}
	f = newFleet(t, 1, enabled("nvme0n1", true))
	f.place(0, Driver, "")
	if f.given["node-000/nvme0n1"] != 100 {
		t.Errorf("without a number: %v", f.given)
	}
}

// The two classes choose disks as their names say; one that is not enabled is not chosen.
func TestClasses(t *testing.T) {
	off := enabled("sdb", true)
	off.Scheduler = "none"
	f := newFleet(t, 1, off, enabled("sda", false), enabled("nvme0n1", true))
	if got := f.place(0, Driver, "10"); got != "sda" {
		t.Errorf("any disk: %q", got)
	}
	if got := f.place(1, "kubelet."+Driver, "10"); got != "nvme0n1" {
		t.Errorf("the kubelet's: %q", got)
	}
}

// A selector of the document chooses among disks of which some have no model, no serial number and
// no WWN. Where one of them failed it, the scheduler would place the pod on none of the nodes.
func TestSelectors(t *testing.T) {
	named := enabled("nvme0n1", false)
	named.Model, named.Serial, named.WWN = "SSDPE2KX", "PHLJ0001", "eui.1"
	f := newFleet(t, 1, enabled("vda", true), named)
	for i, selector := range []string{`model == "SSDPE2KX"`, `serial == "PHLJ0001"`, `wwn == "eui.1"`} {
		if got := f.place(i, Driver, "10", `device.attributes["disk.isolio.dev"].`+selector); got != "nvme0n1" {
			t.Errorf("%s: %q", selector, got)
		}
	}
}
