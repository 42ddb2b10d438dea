// SPDX-License-Identifier: MIT

package driver

import (
	"cmp"
	"slices"
)

// PodsPath is where the program tells of its node's pods over HTTP on its loopback, as Pods.
const PodsPath = "/pods"

// Pods are those of a node that the runtime told of.
type Pods struct {
	Schema int   `json:"schema"` // 1
	Pods   []Pod `json:"pods"`
}

// Pod is one of them.
type Pod struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Volumes   []Volume `json:"volumes"`
}

// Volume is one of a pod's that may lie on a disk. Disk is the one whose scheduler shares
// it, "" for a volume in memory or on a network, and On all of its chain, such as of LVM.
type Volume struct {
	Name string   `json:"name"`
	Disk string   `json:"disk"`
	On   []string `json:"on,omitempty"`
}

// Pods are the node's pods as of the last look, by namespace and name, without those that
// ended. Volumes are as they were when the pod came.
func (d *Driver) Pods() Pods {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := Pods{Schema: 1, Pods: []Pod{}}
	for _, l := range d.learned {
		if l.pod.Name != "" && !l.ended {
			all.Pods = append(all.Pods, l.pod)
		}
	}
	slices.SortFunc(all.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}
