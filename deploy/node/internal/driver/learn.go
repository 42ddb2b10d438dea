// SPDX-License-Identifier: MIT

package driver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"isolio/deploy/node/internal/disk"
	"isolio/deploy/node/internal/volume"
	"isolio/internal/host/policy"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
)

// ExtendedResource is what pods request where the cluster has no claims: shares of each
// disk of the node.
const ExtendedResource core.ResourceName = "isolio.dev/disk-share"

// Component is the source of events.
const Component = "isolio-node"

// Reasons of events. They are stable: others may search for them.
const (
	BadAnnotation     = "BadDiskWeight"
	VolumeOnOtherDisk = "VolumeOnOtherDisk"
	BadDefault        = "BadDefaultDiskWeight"
	BadClass          = "BadDiskShareClass"
	NotEnabled        = "DiskNotEnabled" // of the node
	NotEnforced       = "DiskSharesNotEnforced"
	VolumeNotShared   = "VolumeNotShared"
	ShareNotOffered   = "DiskShareNotOffered"
	ShareTooSmall     = "DiskShareTooSmall"
)

// ownAnnotation is how the annotations of isolio begin.
const ownAnnotation = "isolio.dev/"

// every is how often the driver looks for other disks and pods. A look reads files alone.
const every = 2 * time.Second

// askingTime limits how long one look asks the API server about pods. The driver sees no change
// of a disk meanwhile. Pods that are left are asked for at the next look.
const askingTime = 20 * time.Second

// againEvery is how often all pods may be asked for again.
const againEvery = time.Minute

// extendedEvery is how often the extended resource is offered again: a node that was made
// anew in the API server does not have it.
const extendedEvery = time.Minute

// failedEvery is how often disks are published again that could not be. The library waits twice as
// long after each failure, up to a quarter of an hour, also if the API server is back.
const failedEvery = 30 * time.Second

// Publisher publishes a node's disks.
type Publisher interface {
	PublishResources(ctx context.Context, resources resourceslice.DriverResources) error
}

var _ Publisher = (*kubeletplugin.Helper)(nil)

// Run looks after disks and pods until ctx ends. A nil publisher publishes nothing.
func (d *Driver) Run(ctx context.Context, to Publisher) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := d.Look(ctx, to); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			d.Log.ErrorContext(ctx, "look", "error", err.Error())
			d.Metrics.failed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Activity is what the driver has done by now.
type Activity struct {
	// Published is true once the API server had disks of the node.
	Published bool
	// Looked is when the last look ended, and Succeeded when the last one did without an error.
	Looked, Succeeded time.Time
}

// Limits of asking whether slices are published: how often, and how long one request takes.
const (
	confirmEvery = 200 * time.Millisecond
	confirmTime  = 5 * time.Second
)

// Looked is when the last look ended. It asks no API server: kubelet waits for the answer.
func (d *Driver) Looked() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.activity.Looked
}

// Activity is the driver's. The library publishes slices in the background, and repeats that
// without an end, so the API server is asked whether it has one, until it has.
func (d *Driver) Activity(ctx context.Context) Activity {
	d.mu.Lock()
	activity := d.activity
	ask := d.offered && !activity.Published && time.Since(d.confirmedAt) > confirmEvery
	if ask {
		d.confirmedAt = time.Now()
	}
	d.mu.Unlock()
	if !ask {
		return activity
	}
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	list, err := d.Client.ResourceV1().ResourceSlices().List(ctx, meta.ListOptions{
		FieldSelector:   resourceapi.ResourceSliceSelectorDriver + "=" + disk.Driver + "," + resourceapi.ResourceSliceSelectorNodeName + "=" + d.Node,
		ResourceVersion: "0", // of the API server's cache
	})
	if err != nil {
		return activity // the library tells of its own errors
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.activity.Published = d.activity.Published || len(list.Items) > 0
	return d.activity
}

// Look publishes the disks if they are others than before, and brings what pods were given
// up to date.
func (d *Driver) Look(ctx context.Context, to Publisher) error {
	err := d.update(ctx, to)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.activity.Looked = time.Now()
	if err == nil {
		d.activity.Succeeded = d.activity.Looked
	}
	return err
}

// update is Look.
func (d *Driver) update(ctx context.Context, to Publisher) error {
	disks, changed, err := d.look()
	if err != nil {
		return err
	}
	d.mu.Lock()
	age := time.Since(d.offeredAt)
	isDue := to != nil && (changed || d.Extended && age > extendedEvery || d.failed && age > failedEvery)
	d.failed = d.failed && !isDue
	d.mu.Unlock()
	if isDue {
		err := to.PublishResources(ctx, Resources(d.Node, disks))
		d.mu.Lock()
		d.offered, d.offeredAt = err == nil, time.Now()
		d.activity.Published = d.activity.Published || d.offered && d.Extended
		d.mu.Unlock()
		if err != nil {
			return err
		}
		d.Log.InfoContext(ctx, "publish", "disks", len(disk.Resources(disks)))
	}
	report, err := d.report()
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, askingTime)
	defer cancel()
	d.lacks(asking, disks)
	pods, gone := d.learn(asking, report, disks, changed)
	gone = append(gone, d.left(asking, report)...)
	resold := d.resold(asking, disks)
	err = d.change(ctx, func(b *state.Claims) error {
		for _, uid := range gone {
			b.Set(state.PodClaims{UID: uid})
		}
		for _, p := range pods {
			p.update(b)
		}
		for at, n := range resold {
			b.Correct(at.claim, at.device, n)
		}
		tidy(b, report, disks)
		b.Incomplete = b.Incomplete && !(report != nil && d.answered())
		return nil
	})
	if err != nil {
		d.forget()
	}
	d.refuse(asking, report)
	d.tooSmall(asking, report)
	return err
}

// report is what the runtime told the daemon of its pods, nil for nothing.
func (d *Driver) report() (*state.PodReport, error) {
	r, there, err := state.ReadPodReport(d.Root)
	if err != nil || !there {
		return nil, err
	}
	return &r, nil
}

// tidy gives shares the numbers that their disks have now. Of pods that the runtime does not
// know it keeps claims alone: kubelet has those prepared before the runtime hears of the pod.
//
// A pod that ended keeps its claims, as its sandbox may be made anew. Kubelet does not take a
// claim back from one of several pods.
func tidy(b *state.Claims, report *state.PodReport, disks []disk.Disk) {
	for _, p := range slices.Clone(b.Pods) {
		shares := slices.Clone(p.Shares)
		for i := range shares {
			if on, ok := disk.Find(disks, shares[i].Device); ok {
				shares[i].Disk, shares[i].MajMin = on.Name, on.MajMin
			} else {
				shares[i].MajMin = "" // another disk may have the number now
			}
		}
		there := report != nil && knows(report, p.UID)
		if there {
			p.Ended = !runs(report, p.UID)
		}
		if report != nil && !there {
			p.Default, p.Why = 0, ""
			shares = slices.DeleteFunc(shares, func(s state.ClaimedShare) bool { return s.ClaimUID == "" })
		}
		p.Shares = shares
		b.Set(p)
	}
}

// found is what is used of what the API server told of a pod. The pod itself may have more than a
// megabyte, and a node 110 of them.
type found struct {
	state.PodClaims
	// claimed are the shares of each claim, by its UID.
	claimed map[string][]state.ClaimedShare
	// isAnnotated is true if it has an annotation of isolio.
	isAnnotated bool
	volumes     []volume.Declared
}

func (f *found) update(b *state.Claims) {
	pod := f.PodClaims
	if old := b.Find(f.UID); old != nil {
		for _, s := range old.Shares {
			if _, now := f.claimed[s.ClaimUID]; s.ClaimUID != "" && !now {
				pod.Shares = append(pod.Shares, s)
			}
		}
	}
	for _, uid := range slices.Sorted(keys(f.claimed)) {
		pod.Shares = append(pod.Shares, f.claimed[uid]...)
	}
	b.Set(pod)
}

func keys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// learn asks the API server about pods that are new. There is no watch: a pod is asked
// for once, as its node's runtime tells when it comes.
//
// gone are the pods that were there at the last look. What they had is dropped, also if
// kubelet took it back before. A pod that comes again, as with a new sandbox, is asked for again.
//
// changed has pods asked for at once that failed: a claim may be on a disk that is offered by now.
func (d *Driver) learn(ctx context.Context, report *state.PodReport, disks []disk.Disk, changed bool) (all []*found, gone []string) {
	if report == nil {
		return nil, nil
	}
	now, next, defaults, mounts := time.Now(), map[string]learned{}, d.defaults(), sync.OnceValues(d.mounts)
	d.mu.Lock()
	known, again := d.learned, d.again && now.After(d.againAt)
	if again {
		d.again, d.againAt = false, now.Add(againEvery)
	}
	d.mu.Unlock()
	for _, p := range report.Pods {
		state := known[p.UID]
		if again {
			state = learned{}
		}
		if changed {
			state.again = time.Time{}
		}
		if p.UID == "" || !state.due(now) {
			d.place(ctx, &state, mounts, disks)
			next[p.UID] = state
			continue
		}
		if ctx.Err() != nil {
			next[p.UID] = state // at the next look
			continue
		}
		one, err := d.ask(ctx, p, disks, defaults)
		if err == nil && one == nil && runs(report, p.UID) {
			// Kubelet may start a static pod before it makes the mirror pod.
			err = errNoPod
		}
		last := try{done: true}
		if err != nil {
			last = state.later(now)
			d.Log.WarnContext(ctx, "pod", "pod", p.Namespace+"/"+p.Name, "error", err.Error(), "again in", last.pause.String())
		}
		if err != nil && one == nil {
			state.try, state.answered = last, state.answered || errors.Is(err, errNoPod)
			next[p.UID] = state
			continue
		}
		state = learned{try: last, unplaced: one, answered: true}
		if one != nil {
			state.pod = Pod{Namespace: one.Namespace, Name: one.Name}
			all = append(all, one)
		}
		d.place(ctx, &state, mounts, disks)
		next[p.UID] = state
	}
	for uid, state := range next {
		state.ended = !runs(report, uid)
		next[uid] = state
	}
	for uid := range known {
		if _, there := next[uid]; !there {
			gone = append(gone, uid)
		}
	}
	d.mu.Lock()
	d.learned = next
	for _, uid := range gone {
		delete(d.told, uid)
	}
	d.mu.Unlock()
	return all, gone
}

// left are pods that are gone, and have a part of a claim of others still: those that went
// while this program was away, or before they had a sandbox. Kubelet takes a claim back from
// its last pod alone, so the API server is asked.
func (d *Driver) left(ctx context.Context, report *state.PodReport) (gone []string) {
	book, err := state.ReadClaims(d.Root)
	if err != nil {
		return nil // it is made anew
	}
	pods := map[part]int{}
	for _, p := range book.Pods {
		for _, s := range p.Shares {
			pods[part{s.ClaimUID, s.Device}]++
		}
	}
	now, next := time.Now(), map[string]try{}
	for _, p := range book.Pods {
		isShared := slices.ContainsFunc(p.Shares, func(s state.ClaimedShare) bool { return s.ClaimUID != "" && pods[part{s.ClaimUID, s.Device}] > 1 })
		if !isShared || report != nil && knows(report, p.UID) {
			continue
		}
		state := d.waiting[p.UID]
		next[p.UID] = state
		if !state.due(now) || ctx.Err() != nil {
			continue
		}
		next[p.UID] = state.later(now)
		pod, err := d.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, meta.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && string(pod.UID) != p.UID, err == nil && (pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed):
			gone = append(gone, p.UID)
		case err != nil:
			d.Log.WarnContext(ctx, "pod", "pod", p.Namespace+"/"+p.Name, "error", err.Error(), "again in", next[p.UID].pause.String())
		}
	}
	d.waiting = next
	return gone
}

// resold are the shares that claims are on now, where that is not what their pods were given. A pod that
// was deleted by force runs for its grace still, and the scheduler sells the shares of its claim again.
// It sells no more of a disk than is for sale, so the API server is asked where pods have more.
func (d *Driver) resold(ctx context.Context, disks []disk.Disk) map[part]int {
	book, err := state.ReadClaims(d.Root)
	if err != nil {
		return nil // it is made anew
	}
	now, next, all := time.Now(), map[part]try{}, map[part]int{}
	for _, p := range book.Pods {
		for _, s := range p.Shares {
			on, there := disk.Find(disks, s.Device)
			at := part{s.ClaimUID, s.Device}
			_, asked := next[at]
			if !there || on.ForSale() == 0 || book.Promised(s.Device) <= on.ForSale() || s.ClaimUID == "" || asked {
				continue
			}
			next[at] = d.doubted[at]
			if !next[at].due(now) || ctx.Err() != nil {
				continue
			}
			next[at] = next[at].later(now)
			c, err := d.Client.ResourceV1().ResourceClaims(p.Namespace).Get(ctx, s.Claim, meta.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				d.Log.WarnContext(ctx, "claim", "claim", p.Namespace+"/"+s.Claim, "error", err.Error(), "again in", next[at].pause.String())
				continue
			}
			n := 0
			if err == nil && string(c.UID) == s.ClaimUID {
				n = d.sharesNow(c, s.Device)
			}
			if n != s.Claimed {
				all[at] = n
				d.Log.WarnContext(ctx, "claim", "claim", p.Namespace+"/"+s.Claim, "pod", p.Name, "disk", s.Disk, "given", s.Claimed, "now", n,
					"warning", "the cluster took shares back from a pod that runs, and gave them to others")
			}
		}
	}
	d.doubted = next
	return all
}

// sharesNow are those of a device of this node that a claim is on, 0 for none.
func (d *Driver) sharesNow(c *resourceapi.ResourceClaim, device string) int {
	sum := int64(0)
	if c.Status.Allocation != nil {
		for _, r := range c.Status.Allocation.Devices.Results {
			if r.Driver == disk.Driver && r.Pool == d.Node && r.Device == device && !disk.IsForAdmin(r) {
				n := r.ConsumedCapacity[disk.Share]
				sum += n.Value()
			}
		}
	}
	return int(sum)
}

// knows reports whether the runtime has a pod.
func knows(report *state.PodReport, uid string) bool {
	return slices.ContainsFunc(report.Pods, func(p state.ReportedPod) bool { return p.UID == uid })
}

var errNoPod = errors.New("the pod runs, and the API server has none of this name and UID")

// runs reports whether a sandbox of a pod is not stopped.
func runs(report *state.PodReport, uid string) bool {
	return slices.ContainsFunc(report.Pods, func(p state.ReportedPod) bool { return p.UID == uid && !p.Stopped })
}

// ask asks the API server about one pod; nil if that is gone. With an error, what is found is all
// but the claims that the error is about.
func (d *Driver) ask(ctx context.Context, p state.ReportedPod, disks []disk.Disk, defaults *Defaults) (*found, error) {
	pod, err := d.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, meta.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(pod.UID) != p.UID {
		// A static pod's UID is another one in the API server, where its mirror is.
		if err == nil && pod.Annotations[core.MirrorPodAnnotationKey] == p.UID {
			pod.UID = types.UID(p.UID)
		} else {
			return nil, nil //nolint:nilnil // it is gone
		}
	}
	if err != nil {
		return nil, err
	}
	f := &found{PodClaims: state.PodClaims{UID: p.UID, Namespace: p.Namespace, Name: p.Name}, claimed: map[string][]state.ClaimedShare{}, volumes: volume.In(pod)}
	for key := range pod.Annotations {
		f.isAnnotated = f.isAnnotated || strings.HasPrefix(key, ownAnnotation)
	}
	var unmet error
	// Where the node offers a number no claim is for its disks, and this program may read none.
	if !d.Extended {
		if unmet, err = d.askClaims(ctx, pod, f, disks); err != nil {
			return nil, err
		}
	}
	switch n := requested(pod); {
	case n == 0:
	case d.Extended:
		f.Shares = append(f.Shares, state.ClaimedShare{Claimed: n})
	default:
		// The node's status has the number of earlier, which the scheduler counts still.
		d.tell(ctx, f.subject(), ShareNotOffered, fmt.Sprintf("the pod requests %s: %d, and node %s gives shares by claims: it has none by the request; to do: a claim in its place", ExtendedResource, n, d.Node))
	}
	f.Default, f.Why, err = defaults.Of(ctx, pod, func(reason, text string) { d.tell(ctx, f.subject(), reason, text) })
	if err != nil {
		return nil, err
	}
	return f, unmet
}

// askClaims reads what the pod's claims were given. Kubelet had it prepared, and this
// program may not have been there, or another pod may have had the claim before. unmet are claims
// on disks that the node does not have now, or that are not shared by weight.
func (d *Driver) askClaims(ctx context.Context, pod *core.Pod, f *found, disks []disk.Disk) (unmet, err error) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue // it is not made yet, or none is needed
		}
		c, err := d.Client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, *name, meta.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, err
		}
		// A pod that has completed gives its part to the others. Static pods have no claims. The
		// pods of a PodGroup may have a claim together that is reserved for the group.
		if !resourceclaim.IsReservedForPod(pod, c, true) {
			continue
		}
		shares, _, err := d.sharesOf(c, disks)
		if err != nil {
			unmet = errors.Join(unmet, err)
			continue
		}
		if len(shares) > 0 {
			f.claimed[string(c.UID)] = shares
		}
	}
	return unmet, nil
}

// requested is what the containers of a pod request of the extended resource, together. Those
// that end before the others begin are not counted.
func requested(pod *core.Pod) int {
	sum := int64(0)
	add := func(c *core.Container) {
		q := c.Resources.Requests[ExtendedResource]
		sum += q.Value()
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == core.ContainerRestartPolicyAlways {
			add(c) // a sidecar
		}
	}
	return int(min(sum, weight.Max))
}

// place finds the disks of a pod's volumes, once the API server told of it. It reads files alone,
// so where that fails each look tries again.
func (d *Driver) place(ctx context.Context, state *learned, mounts func() (volume.Table, error), disks []disk.Disk) {
	f := state.unplaced
	if f == nil {
		return
	}
	table, err := mounts()
	var volumes []Volume
	if err == nil {
		volumes = d.volumesOf(f, table, disks)
	}
	if err != nil {
		if state.whyUnplaced != err.Error() {
			state.whyUnplaced = err.Error()
			d.Log.WarnContext(ctx, "volumes", "pod", f.Namespace+"/"+f.Name, "error", err.Error(), "again in", every.String())
		}
		return
	}
	state.pod.Volumes, state.unplaced, state.whyUnplaced = volumes, nil, ""
	d.checkVolumes(ctx, f, volumes)
	if wants(f) {
		d.checkDisks(ctx, f, volumes, disks)
	}
}

// volumesOf are the volumes of a pod that may lie on disks, each once, in the order of the pod.
func (d *Driver) volumesOf(f *found, mounts volume.Table, disks []disk.Disk) []Volume {
	var all []Volume
	for _, v := range mounts.Of(f.UID, f.volumes, d.kubeletDir(mounts)) {
		on := d.system().Beneath(v.Mount)
		one := Volume{Name: v.Name, On: on}
		if len(on) > 0 {
			one.Disk = lowest(on, disks)
		}
		at := slices.IndexFunc(all, func(other Volume) bool { return other.Name == v.Name })
		switch {
		case at < 0:
			all = append(all, one)
		case all[at].Disk == "":
			all[at] = one
		}
	}
	return all
}

// checkVolumes tells of a claim on a disk that none of the pod's volumes lies on.
func (d *Driver) checkVolumes(ctx context.Context, f *found, volumes []Volume) {
	var where []string
	for _, v := range volumes {
		if v.Disk != "" {
			where = append(where, v.Name+" on "+v.Disk)
		}
	}
	for _, uid := range slices.Sorted(keys(f.claimed)) {
		for _, s := range f.claimed[uid] {
			if len(where) == 0 || slices.ContainsFunc(volumes, func(v Volume) bool { return slices.Contains(v.On, s.Disk) }) {
				continue
			}
			d.tell(ctx, f.subject(), VolumeOnOtherDisk, fmt.Sprintf("claim %s is for a share of %s, and no volume of the pod lies there: %s; select the disk in the claim, such as by device.attributes[%q].kubelet",
				s.Claim, s.Disk, strings.Join(where, ", "), disk.Driver))
		}
	}
}

// wants reports whether a pod asks for a part of a disk itself, by a claim, a request or an
// annotation.
func wants(f *found) bool { return len(f.claimed) > 0 || len(f.Shares) > 0 || f.isAnnotated }

// checkDisks tells of volumes on disks that could share by weight and do not, such as those that
// were attached after the node's disks were enabled. One event is about one disk.
func (d *Driver) checkDisks(ctx context.Context, f *found, volumes []Volume, disks []disk.Disk) {
	for _, on := range disks {
		if len(weight.Acting(on.Scheduler, false)) > 0 {
			continue
		}
		var there []string
		for _, v := range volumes {
			if v.Disk == on.Name {
				there = append(there, v.Name)
			}
		}
		if len(there) > 0 {
			d.tell(ctx, f.subject(), VolumeNotShared, fmt.Sprintf("%sits scheduler is %s, and volumes of the pod lie there: %s; to do: kubectl isolio enable %s %s",
				Lacking(on.Name), on.Scheduler, strings.Join(there, ", "), d.Node, on.Name))
		}
	}
}

// lowest is the disk of a chain that a scheduler works on.
func lowest(chain []string, disks []disk.Disk) string {
	for _, name := range chain {
		if slices.ContainsFunc(disks, func(d disk.Disk) bool { return d.Name == name }) {
			return name
		}
	}
	return chain[0]
}

// refuse tells the authors of pods which annotations do nothing, and what is allowed. The
// daemon decides on them by the same rules.
func (d *Driver) refuse(ctx context.Context, report *state.PodReport) {
	if report == nil {
		return
	}
	config, err := rule.Load(d.Root, d.Rules)
	if err != nil {
		config = rule.Config{} // the daemon says so
	}
	for _, p := range report.Pods {
		for _, text := range refused(config, p) {
			d.tell(ctx, subject{"Pod", p.Namespace, p.Name, p.UID}, BadAnnotation, text)
		}
	}
}

// tooSmall tells of claims on fewer shares than they have pods, of which some have none.
func (d *Driver) tooSmall(ctx context.Context, report *state.PodReport) {
	book, err := state.ReadClaims(d.Root)
	if err != nil || report == nil {
		return
	}
	for _, p := range book.Pods {
		for _, s := range p.Shares {
			if s.Share == 0 && runs(report, p.UID) {
				d.tell(ctx, subject{"Pod", p.Namespace, p.Name, p.UID}, ShareTooSmall, fmt.Sprintf(
					"claim %s is on %d shares of %s, and more pods have it together: this one has none; to do: a claim on more shares, or one for each pod", s.Claim, s.Claimed, s.Disk))
			}
		}
	}
}

// refused is what is wrong with the annotations of one pod.
func refused(config rule.Config, p state.ReportedPod) []string {
	group := "kubepods/pod" + strings.ToLower(p.UID)
	pod := target.Container{ID: p.ID, Namespace: p.Namespace, Pod: p.Name, PodUID: p.UID, Sandbox: true, Labels: p.Labels, Annotations: p.Annotations, Cgroup: group + "/" + p.ID}
	all := []target.Container{pod}
	for _, c := range p.Containers {
		one := pod
		one.ID, one.Name, one.Sandbox, one.Cgroup = c.ID, c.Name, false, group+"/"+c.ID
		all = append(all, one)
	}
	m := policy.New(config, nil, all)
	if pod.PodGroup() == "" {
		return nil
	}
	var texts []string
	for _, at := range append([]string{group}, cgroups(all)...) {
		if text := m.RefusedOf(at); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

func cgroups(all []target.Container) []string {
	var groups []string
	for i := range all {
		groups = append(groups, all[i].Cgroup)
	}
	return groups
}

// subject is a pod, or the node, that an event is about.
type subject struct{ kind, namespace, name, uid string }

func (f *found) subject() subject { return subject{"Pod", f.Namespace, f.Name, f.UID} }

// itself is the node. Its events are in the namespace default and have its name as UID, as
// those of kubelet: kubectl describe looks for them so.
func (d *Driver) itself() subject { return subject{"Node", meta.NamespaceDefault, d.Node, d.Node} }

func (s subject) reference() core.ObjectReference {
	r := core.ObjectReference{APIVersion: "v1", Kind: s.kind, Namespace: s.namespace, Name: s.name, UID: types.UID(s.uid)}
	if s.kind == "Node" {
		r.Namespace = "" // a node is in none
	}
	return r
}

// longestMessage is how long an event's text may be.
const longestMessage = 1024

// longestSubject is how much of a pod's name the name of an event has.
const longestSubject = 200

// tell writes an event, once. Its name follows from what it says, so that a program that
// was started again does not repeat it.
func (d *Driver) tell(ctx context.Context, about subject, reason, message string) {
	message = message[:min(len(message), longestMessage)]
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(about.uid+"\x00"+reason+"\x00"+message)))[:16]
	d.mu.Lock()
	if d.told == nil {
		d.told = map[string]map[string]try{}
	}
	if d.told[about.uid] == nil {
		d.told[about.uid] = map[string]try{}
	}
	last := d.told[about.uid][sum]
	isDue := last.due(time.Now())
	if isDue {
		d.told[about.uid][sum] = try{done: true}
	}
	d.mu.Unlock()
	if !isDue {
		return
	}
	now := meta.Now()
	_, err := d.Client.CoreV1().Events(about.namespace).Create(ctx, &core.Event{
		ObjectMeta:     meta.ObjectMeta{Name: strings.TrimRight(about.name[:min(len(about.name), longestSubject)], "-.") + "." + sum, Namespace: about.namespace},
		InvolvedObject: about.reference(),
		Reason:         reason, Message: message, Type: core.EventTypeWarning,
		Source: core.EventSource{Component: Component, Host: d.Node}, ReportingController: "isolio.dev/node", ReportingInstance: d.Node,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, meta.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		d.Log.InfoContext(ctx, "event", strings.ToLower(about.kind), about.namespace+"/"+about.name, "reason", reason, "text", message)
		return
	}
	d.Log.WarnContext(ctx, "event", strings.ToLower(about.kind), about.namespace+"/"+about.name, "reason", reason, "text", message, "error", err.Error())
	// What the API server refuses it would refuse again, such as in a namespace that ends.
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) {
		d.mu.Lock()
		d.told[about.uid][sum] = last.later(time.Now())
		d.mu.Unlock()
	}
}
