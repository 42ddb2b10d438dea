// SPDX-License-Identifier: MIT

// Package disk makes devices for Kubernetes of a node's disks: the shares of each that
// are for sale, which the scheduler gives to pods.
package disk

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"isolio/deploy/node/internal/volume"
	"isolio/internal/host/block"
	"isolio/internal/host/state"
	"isolio/internal/host/usage"
	"isolio/internal/host/weight"
)

// Driver is the name of the driver, in whose domain the attributes of devices are.
const Driver = "disk.isolio.dev"

// Share is the capacity of a device that claims ask for.
const Share = "share"

// Disk is a disk of the node.
type Disk struct {
	block.Info
	// Device is its name in the cluster. It lasts over boots: the kernel may give the name
	// nvme0n1 to another disk at the next one, while a claim is for this disk.
	Device string
	// Kubelet is true if the kubelet's directory lies on it, where emptyDir volumes are.
	Kubelet bool
	// Unseen is why the weight of a pod that comes would not be written on this node, "" where it is.
	Unseen string
	// ByRules are the shares that rules give pods of the node.
	ByRules int
}

// ForSale are the shares that claims may have together.
func (d Disk) ForSale() int {
	if !d.Enabled() || d.Unseen != "" {
		return 0
	}
	return max(state.SharesForSale-d.ByRules, 0)
}

// Enabled reports whether weights act on it.
func (d Disk) Enabled() bool { return d.Scheduler == usage.Scheduler }

// List are the disks that can have a scheduler, sorted by their names. dir is the kubelet's
// directory.
func List(sys block.System, mounts volume.Table, dir string) ([]Disk, error) {
	all, err := sys.All()
	if err != nil {
		return nil, err
	}
	var under []string
	if m, ok := mounts.At(path.Clean(dir)); ok {
		under = sys.Beneath(m)
	}
	ids, err := block.DiskIDs(sys)
	if err != nil {
		return nil, err
	}
	var disks []Disk
	for _, info := range all {
		// The paths of a multipath device are one disk, and its requests wait above them.
		if info.Unfit() != "" {
			continue
		}
		id, there := ids[info.Name]
		if !there {
			continue // it went meanwhile
		}
		// A virtual disk has no identity: its name is all that there is.
		disks = append(disks, Disk{Info: info, Device: label(cmp.Or(id, info.Name)), Kubelet: slices.Contains(under, info.Name)})
	}
	return disks, nil
}

// longestLabel is how long the name of a device may be, and sumLength how long the sum in it.
const (
	longestLabel = 63
	sumLength    = 12
)

var (
	notInLabel = regexp.MustCompile(`[^a-z0-9]+`)
	// isLabel are the texts that are names as they are.
	isLabel = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	// numbered are identities of the kernel's usual form, such as wwid-eui.0025385b71b0a1c2, and
	// the names of these. Another identity that has such a name as it is takes a sum.
	numbered = regexp.MustCompile(`^(wwid-(?:eui|naa|nvme|uuid))\.(.+)$`)
	asNumber = regexp.MustCompile(`^wwid-(eui|naa|nvme|uuid)-`)
	// summed are names that have a sum at their end, or look so.
	summed = regexp.MustCompile(fmt.Sprintf(`(^|-)[0-9a-f]{%d}$`, sumLength))
)

// label makes a DNS label of a disk's identity. It is a function of the identity alone: claims
// are for a device of this name, whichever other disks come and go. No two identities have the
// same name, or their shares would be given twice. So an identity that does not follow from the
// name has a sum at the name's end: one that is cut, or has capitals or other characters.
func label(text string) string {
	name, isKept := text, !asNumber.MatchString(text)
	if m := numbered.FindStringSubmatch(text); m != nil {
		name, isKept = m[1]+"-"+m[2], true
	}
	if isKept && len(name) <= longestLabel && isLabel.MatchString(name) && !summed.MatchString(name) {
		return name
	}
	name = strings.Trim(notInLabel.ReplaceAllString(strings.ToLower(text), "-"), "-")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:sumLength]
	return strings.Trim(strings.Trim(name[:min(len(name), longestLabel-sumLength-1)], "-")+"-"+sum, "-")
}

// longestString is how long a text in an attribute may be.
const longestString = 64

// Resource is the disk for Kubernetes. Claims on it may be many, of the shares for sale together. Each
// disk has all attributes: a selector that asks a disk for one that it lacks fails, and the
// scheduler then places the pod on no node at all.
func (d Disk) Resource() resourceapi.Device {
	many := true
	quantity := func(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }
	attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	text := func(key resourceapi.QualifiedName, value string) {
		value = strings.ToValidUTF8(strings.TrimSpace(value), "")
		value = strings.ToValidUTF8(value[:min(len(value), longestString)], "")
		attributes[key] = resourceapi.DeviceAttribute{StringValue: &value}
	}
	flag := func(key resourceapi.QualifiedName, value bool) {
		attributes[key] = resourceapi.DeviceAttribute{BoolValue: &value}
	}
	text("name", d.Name)
	text("model", d.Model)
	text("serial", d.Serial)
	text("wwn", d.WWN)
	text("kind", string(d.Kind))
	text("scheduler", d.Scheduler)
	flag("rotational", d.Rotational)
	flag("kubelet", d.Kubelet)
	size, shares := d.SizeBytes, int64(d.ForSale())
	attributes["sizeBytes"] = resourceapi.DeviceAttribute{IntValue: &size}
	return resourceapi.Device{
		Name: d.Device, AllowMultipleAllocations: &many, Attributes: attributes,
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{Share: {
			Value: *quantity(shares),
			RequestPolicy: &resourceapi.CapacityRequestPolicy{
				Default:    quantity(min(weight.Default, shares)),
				ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity(weight.Min), Max: quantity(shares), Step: quantity(1)},
			},
		}},
	}
}

// Resources are the devices of those disks of which shares are for sale.
func Resources(disks []Disk) []resourceapi.Device {
	all := []resourceapi.Device{}
	for _, d := range disks {
		if d.ForSale() > 0 {
			all = append(all, d.Resource())
		}
	}
	return all
}

// IsForAdmin reports whether a claim was given a disk for administrative access. That takes none of
// the disk's shares, though the result names some.
func IsForAdmin(r resourceapi.DeviceRequestAllocationResult) bool {
	return r.AdminAccess != nil && *r.AdminAccess
}

// Find is the disk with a name in the cluster.
func Find(disks []Disk, device string) (Disk, bool) {
	i := slices.IndexFunc(disks, func(d Disk) bool { return d.Device == device })
	if i < 0 {
		return Disk{}, false
	}
	return disks[i], true
}
