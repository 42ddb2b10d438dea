// SPDX-License-Identifier: MIT

// Package driver gives pods the shares of disks that Kubernetes' scheduler gave their
// claims. It publishes a node's disks, keeps what pods were given where the daemon reads
// it, and tells the authors of pods what is wrong.
//
// What is kept is a file. It is read again for each change, so that another process of
// the same node may change it as well, as while the DaemonSet is upgraded. Kubelet does
// not tell again what it told before a restart: what is not in the file is read from the
// API server, a pod at a time.
package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"isolio/deploy/node/internal/disk"
	"isolio/deploy/node/internal/volume"
	"isolio/internal/host/block"
	"isolio/internal/host/state"
)

// Driver is a node's.
type Driver struct {
	// Root is the node's root directory, "" for /.
	Root string
	// Node is the node's name in the cluster.
	Node string
	// KubeletDir is the kubelet's directory, and Mounts the file with the node's table of
	// mounts, both below Root.
	KubeletDir, Mounts string
	// Rules is the file of the daemon's rules.
	Rules string
	// Failures are the files, below Root, of what enable could not do before.
	Failures []string
	// Extended has a request for the extended resource count as a share of each disk.
	Extended bool
	Client   kubernetes.Interface
	// Objects has the cluster's ShareClasses; nil where they are not used.
	Objects dynamic.Interface
	Log     *slog.Logger
	// Metrics are told of what is done; nil for none.
	Metrics *Metrics
	// Fatal is called with an error after which the program should end.
	Fatal func(error)

	mu sync.Mutex
	// published are the disks of the last look.
	published []disk.Disk
	// offered is true if they were given to a publisher, offeredAt when.
	offered   bool
	offeredAt time.Time
	activity  Activity
	// failed is true if the publisher could not write them since, and may wait for long.
	failed bool
	// confirmedAt is when the API server was asked last whether it has them.
	confirmedAt time.Time
	// seen are the devices that were ever published by this process.
	seen map[string]bool
	// learned are the pods of which the API server told, by UID.
	learned map[string]learned
	// again has all of them asked for again, at the next look that is not before againAt: where
	// what is learned cannot be written, each look would ask.
	again   bool
	againAt time.Time
	// waiting are pods that have a part of a claim of others, and that the runtime does not
	// know, by UID. It is the looks' alone.
	waiting map[string]try
	// doubted are claims on more of a disk than is for sale. It is the looks' alone.
	doubted map[part]try
	// saw is what a daemon told last that sees pods, and sawAt when.
	saw   state.PodSight
	sawAt time.Time
	// noMounts is why the table of mounts could not be read, which is logged once.
	noMounts string
	// told are the events that were written, by the UIDs of pods that are there, so that
	// each is once.
	told map[string]map[string]try
	// toldNode is when those of the node were forgotten last, so that they are written again.
	toldNode time.Time
}

// try is a request of the API server: done, or the time of the next one.
type try struct {
	done  bool
	again time.Time
	pause time.Duration
}

// Pauses between tries.
const (
	firstPause = 2 * time.Second
	lastPause  = 5 * time.Minute
)

// due reports whether it is to be made now.
func (t try) due(now time.Time) bool { return !t.done && !now.Before(t.again) }

// later is the next one, after twice the pause.
func (t try) later(now time.Time) try {
	t.pause = min(max(2*t.pause, firstPause), lastPause)
	t.again = now.Add(t.pause)
	return t
}

// part is what a claim, by its UID, is given of a device.
type part struct{ claim, device string }

// learned is what is known of a pod.
type learned struct {
	try
	pod Pod
	// ended is true if all of its sandboxes have.
	ended bool
	// answered is true if the API server told of it, also that there is none.
	answered bool
	// unplaced is what is known of it until the disks of its volumes are known, and
	// whyUnplaced why they are not, which is logged once.
	unplaced    *found
	whyUnplaced string
}

// locked is the name of the lock around the file of what pods were given, and lockWait how
// long another process may hold it.
const (
	locked   = "claims"
	lockWait = 10 * time.Second
)

func (d *Driver) system() block.System { return block.System{Root: d.Root} }

// Disks are the node's disks now.
func (d *Driver) Disks() ([]disk.Disk, error) {
	// Without mounts, disks are shared all the same, and none is known to be the kubelet's.
	mounts, err := d.mounts()
	d.mu.Lock()
	if err != nil && d.noMounts != err.Error() {
		d.Log.Warn("mounts", "warning", err.Error()+"; no disk is offered as the kubelet's")
	}
	d.noMounts = ""
	if err != nil {
		d.noMounts = err.Error()
	}
	d.mu.Unlock()
	disks, err := disk.List(d.system(), mounts, d.kubeletDir(mounts))
	sight := d.sight()
	for i := range disks {
		disks[i].Unseen, disks[i].ByRules = sight.Unseen, sight.ByRules[disks[i].MajMin]
	}
	return disks, err
}

// unseenGrace is how long the daemon may be away, as while it is updated, before no share is for
// sale. Kubelet repeats a call that failed, and slices that come and go have pods placed elsewhere.
const unseenGrace = 30 * time.Second

// sight is what the daemon tells, or told before it went.
func (d *Driver) sight() state.PodSight {
	now := state.ReadPodSight(d.Root)
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Unseen == "" {
		d.saw, d.sawAt = now, time.Now()
	} else if time.Since(d.sawAt) < unseenGrace {
		return d.saw
	}
	return now
}

// ownMounts is the file with the mounts of this process, below Root.
const ownMounts = "proc/self/mountinfo"

// kubeletDir is the kubelet's directory as the node's table of mounts has it, without symbolic
// links: /var/lib/kubelet is one where a node keeps it on a disk for data. A container has the
// plugin's directory mounted, which tells where kubelet's lies. Elsewhere the links can be read.
func (d *Driver) kubeletDir(mounts volume.Table) string {
	const plugin = "plugins/" + disk.Driver
	dir := filepath.Clean(d.KubeletDir)
	if own, err := volume.Read(filepath.Join("/", d.Root, ownMounts)); err == nil {
		if at, ok := mounts.Real(own, filepath.Join(dir, plugin)); ok && strings.HasSuffix(at, "/"+plugin) {
			return filepath.Dir(filepath.Dir(at))
		}
	}
	root := filepath.Join("/", d.Root)
	if at, err := filepath.EvalSymlinks(filepath.Join(root, dir)); err == nil {
		if below, err := filepath.Rel(root, at); err == nil && filepath.IsLocal(below) {
			return filepath.Join("/", below)
		}
	}
	return dir
}

// mounts is the node's table of mounts.
func (d *Driver) mounts() (volume.Table, error) {
	return volume.Read(filepath.Join("/", d.Root, d.Mounts))
}

// change changes what pods were given, if it changes anything.
func (d *Driver) change(ctx context.Context, how func(b *state.Claims) error) error {
	release, err := state.Lock(ctx, d.Root, locked, lockWait)
	if err != nil {
		return fmt.Errorf("what pods were given: %w", err)
	}
	defer release()
	b, err := state.ReadClaims(d.Root)
	switch {
	case errors.Is(err, state.ErrDamaged):
		// Nothing but this program writes it: what it had is read from the API server again.
		// The file itself is there until the new one is: without one the daemon would take away
		// what pods have.
		kept, errKeep := state.SetAside(d.Root, state.ClaimsFile)
		if errKeep != nil {
			return fmt.Errorf("what pods were given: %w; %w", err, errKeep)
		}
		d.Log.WarnContext(ctx, "claims", "warning", err.Error()+"; it is made anew, and kept as "+kept)
		b = state.Claims{Incomplete: true}
		d.forget()
	case err != nil:
		return fmt.Errorf("what pods were given: %w", err)
	}
	before, err := b.Text()
	if err != nil {
		return err
	}
	if err := how(&b); err != nil {
		return err
	}
	b.Split()
	after, err := b.Text()
	if err != nil {
		return err
	}
	d.Metrics.promised(b, d.disks())
	if string(before) == string(after) && !d.Lost() {
		return nil
	}
	if err := b.Write(d.Root); err != nil {
		return fmt.Errorf("what pods were given: %w", err)
	}
	return nil
}

// Lost reports whether the node has no file of what pods were given, or none that can be read.
func (d *Driver) Lost() bool {
	if _, err := os.Stat(filepath.Join("/", d.Root, state.ClaimsFile)); err != nil {
		return true
	}
	_, err := state.ReadClaims(d.Root)
	return err != nil
}

func (d *Driver) disks() []disk.Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.published)
}

// answered reports whether the API server told of each pod of the last look.
func (d *Driver) answered() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, l := range d.learned {
		if uid != "" && !l.answered {
			return false
		}
	}
	return !d.again
}

// forget has all pods asked for again; that they were there is known still.
func (d *Driver) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.again = true
}

// PrepareResourceClaims gives the pods of claims their shares. A claim that was prepared
// before is prepared again the same.
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	disks, err := d.Disks()
	if err != nil {
		return nil, err
	}
	results := map[types.UID]kubeletplugin.PrepareResult{}
	err = d.change(ctx, func(b *state.Claims) error {
		for _, c := range claims {
			shares, devices, err := d.sharesOf(c, disks)
			if err != nil {
				results[c.UID] = kubeletplugin.PrepareResult{Err: err}
				continue
			}
			for _, user := range c.Status.ReservedFor {
				if user.APIGroup == "" && user.Resource == "pods" {
					give(b, state.PodClaims{UID: string(user.UID), Namespace: c.Namespace, Name: user.Name}, c, shares)
				}
			}
			results[c.UID] = kubeletplugin.PrepareResult{Devices: devices}
		}
		return nil
	})
	if err != nil {
		for _, c := range claims {
			results[c.UID] = kubeletplugin.PrepareResult{Err: err}
		}
	}
	for uid, r := range results {
		d.Metrics.prepared(r.Err)
		if r.Err != nil {
			d.Log.ErrorContext(ctx, "prepare", "claim", string(uid), "error", r.Err.Error())
		}
	}
	return results, nil
}

// give adds shares to what a pod has, in place of those of the same claim.
func give(b *state.Claims, pod state.PodClaims, c *resourceapi.ResourceClaim, shares []state.ClaimedShare) {
	if old := b.Find(pod.UID); old != nil {
		pod = *old
	}
	pod.Shares = slices.DeleteFunc(slices.Clone(pod.Shares), func(s state.ClaimedShare) bool { return s.ClaimUID == string(c.UID) })
	pod.Shares = append(pod.Shares, shares...)
	b.Set(pod)
}

// sharesOf are what a claim was given of this node's disks, one of each. Administrative access, as
// for monitoring, is to a disk and to no share of it: the scheduler gives that share to others.
func (d *Driver) sharesOf(c *resourceapi.ResourceClaim, disks []disk.Disk) ([]state.ClaimedShare, []kubeletplugin.Device, error) {
	var shares []state.ClaimedShare
	devices := []kubeletplugin.Device{}
	if c.Status.Allocation == nil {
		return nil, devices, nil
	}
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.Driver != disk.Driver || r.Pool != d.Node {
			continue
		}
		on, there := disk.Find(disks, r.Device)
		device := kubeletplugin.Device{Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, ShareID: r.ShareID}
		switch {
		case !there:
			return nil, nil, fmt.Errorf("claim %s/%s: node %s has no disk %s any more; delete the pod, so that it is placed anew", c.Namespace, c.Name, d.Node, r.Device)
		case disk.IsForAdmin(r):
			devices = append(devices, device)
			continue
		case !on.Enabled():
			return nil, nil, fmt.Errorf("claim %s/%s: disk %s of node %s is not shared by weight now: its scheduler is %s; to do: kubectl isolio enable %s %s",
				c.Namespace, c.Name, on.Name, d.Node, on.Scheduler, d.Node, on.Name)
		}
		if on.Unseen != "" {
			return nil, nil, fmt.Errorf("claim %s/%s: node %s cannot give it a share of disk %s: %s", c.Namespace, c.Name, d.Node, on.Name, on.Unseen)
		}
		n, ok := r.ConsumedCapacity[disk.Share]
		if !ok {
			return nil, nil, fmt.Errorf("claim %s/%s: it was given disk %s without a number of shares; needed: the feature DRAConsumableCapacity in the scheduler, on by default since Kubernetes 1.36", c.Namespace, c.Name, on.Name)
		}
		// Requests of a claim may have the same disk.
		at := slices.IndexFunc(shares, func(s state.ClaimedShare) bool { return s.Device == r.Device })
		if at < 0 {
			at = len(shares)
			shares = append(shares, state.ClaimedShare{Claim: c.Name, ClaimUID: string(c.UID), Device: r.Device, Disk: on.Name, MajMin: on.MajMin})
		}
		shares[at].Claimed += int(n.Value())
		devices = append(devices, device)
	}
	return shares, devices, nil
}

// UnprepareResourceClaims takes shares back. A claim that has none is none the worse.
func (d *Driver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	err := d.change(ctx, func(b *state.Claims) error {
		for _, c := range claims {
			b.Drop(string(c.UID))
			results[c.UID] = nil
		}
		return nil
	})
	return results, err
}

// HandleError notes an error of what runs beside: publishing, or a server that ended.
func (d *Driver) HandleError(ctx context.Context, err error, msg string) {
	d.Log.ErrorContext(ctx, "kubelet plugin", "what", msg, "error", err.Error())
	d.Metrics.failed()
	if !errors.Is(err, kubeletplugin.ErrRecoverable) && d.Fatal != nil {
		d.Fatal(fmt.Errorf("%s: %w", msg, err))
	}
	// Fields that the API server drops it would drop again.
	if dropped := (*resourceslice.DroppedFieldsError)(nil); !errors.As(err, &dropped) {
		d.mu.Lock()
		d.failed = true
		d.mu.Unlock()
	}
}

// healthEvery is how often health is told: kubelet takes it for unknown after 30 s.
const healthEvery = 10 * time.Second

// WatchHealthStatus tells kubelet of each disk that was ever published whether weights act
// on it.
func (d *Driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		report, err := d.health()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case reports <- report:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (d *Driver) health() (kubeletplugin.DeviceHealthReport, error) {
	disks, err := d.Disks()
	if err != nil {
		return kubeletplugin.DeviceHealthReport{}, err
	}
	d.mu.Lock()
	var names []string
	for name := range d.seen {
		names = append(names, name)
	}
	d.mu.Unlock()
	slices.Sort(names)
	var report kubeletplugin.DeviceHealthReport
	for _, name := range names {
		one := kubeletplugin.DeviceHealth{PoolName: d.Node, DeviceName: name, LastUpdated: time.Now(), Health: kubeletplugin.HealthStatusHealthy}
		switch on, there := disk.Find(disks, name); {
		case !there:
			one.Health, one.Message = kubeletplugin.HealthStatusUnhealthy, "the disk is gone"
		case on.Enabled() && on.Unseen != "":
			one.Health, one.Message = kubeletplugin.HealthStatusUnhealthy, on.Unseen
		case !on.Enabled():
			one.Health, one.Message = kubeletplugin.HealthStatusUnhealthy, fmt.Sprintf("%s has the scheduler %s: weights do not act on it", on.Name, on.Scheduler)
		}
		report.Devices = append(report.Devices, one)
	}
	return report, nil
}

// Resources are what is published of disks: a pool with the node's name.
func Resources(node string, disks []disk.Disk) resourceslice.DriverResources {
	// A slice has room for 128 devices.
	var slicesOf []resourceslice.Slice
	for part := range slices.Chunk(disk.Resources(disks), resourceapi.ResourceSliceMaxDevices) {
		slicesOf = append(slicesOf, resourceslice.Slice{Devices: part})
	}
	if slicesOf == nil {
		slicesOf = []resourceslice.Slice{{}} // the driver is there, and has no disk
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: slicesOf}}}
}

// look finds out which disks there are, and reports whether something else is to be
// published than was.
func (d *Driver) look() (disks []disk.Disk, changed bool, err error) {
	if disks, err = d.Disks(); err != nil {
		return nil, false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	changed = !d.offered || !reflect.DeepEqual(disk.Resources(d.published), disk.Resources(disks))
	if d.seen == nil {
		d.seen = map[string]bool{}
	}
	for _, one := range disks {
		if one.Enabled() {
			d.seen[one.Device] = true
		}
	}
	d.published = disks
	return disks, changed, nil
}
