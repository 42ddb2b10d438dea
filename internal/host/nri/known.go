// SPDX-License-Identifier: MIT

package nri

import (
	"maps"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
)

// What is taken down has limits, as a pod's author chooses annotations and labels,
// and the memory is the daemon's. Kubernetes' own are far below: a name has 253
// bytes, and a node 110 pods, or some hundreds.
const (
	longestName    = 1024
	longestPath    = 4096
	mostPods       = 2000
	mostContainers = 8000
	// mostKept is how much is kept of all annotations of one pod, and of its labels.
	mostKept = 8 << 10
)

// known is what a runtime told.
type known struct {
	engine     string
	pods       map[string]podOf       // by ID
	containers map[string]containerOf // by ID
	turn       int
}

// podOf is a pod, and when it was told of.
type podOf struct {
	state.ReportedPod
	turn int
}

// containerOf is a container, and the ID of its pod.
type containerOf struct {
	state.ReportedContainer
	pod string
}

func (k *known) clear() {
	*k = known{engine: k.engine, pods: map[string]podOf{}, containers: map[string]containerOf{}}
}

func (k *known) addPod(p *api.PodSandbox, keep func(string) bool) {
	k.turn++
	pod := podOf{turn: k.turn, ReportedPod: state.ReportedPod{
		ID: p.GetId(), UID: p.GetUid(), Namespace: p.GetNamespace(), Name: p.GetName(),
		CgroupsPath: pathOf(p.GetLinux().GetCgroupsPath()), CgroupParent: pathOf(p.GetLinux().GetCgroupParent()),
		Labels: kept(p.GetLabels(), keep), Annotations: kept(p.GetAnnotations(), keep),
	}}
	old, there := k.pods[pod.ID]
	if !there && len(k.pods) >= mostPods || !names(pod.ID, pod.UID, pod.Namespace, pod.Name) {
		return // the runtime's files tell of it
	}
	if there {
		pod.turn, pod.Stopped = old.turn, old.Stopped
	}
	k.pods[pod.ID] = pod
}

// goesOn has pods be stopped that were when the runtime told last: of those it tells without
// that they are.
func (k *known) goesOn(stopped func(id string) bool) {
	for id, pod := range k.pods {
		pod.Stopped = pod.Stopped || stopped(id)
		k.pods[id] = pod
	}
}

func (k *known) stopPod(id string) {
	if pod, there := k.pods[id]; there {
		pod.Stopped = true
		k.pods[id] = pod
	}
}

func (k *known) removePod(id string) {
	delete(k.pods, id)
	maps.DeleteFunc(k.containers, func(_ string, c containerOf) bool { return c.pod == id })
}

func (k *known) addContainer(c *api.Container, keep func(string) bool) {
	one := containerOf{pod: c.GetPodSandboxId(), ReportedContainer: state.ReportedContainer{
		ID: c.GetId(), Name: c.GetName(), CgroupsPath: pathOf(c.GetLinux().GetCgroupsPath()),
		Labels: kept(c.GetLabels(), keep), Annotations: kept(c.GetAnnotations(), keep),
	}}
	if _, there := k.containers[one.ID]; !there && len(k.containers) >= mostContainers || !names(one.ID, one.Name, one.pod) {
		return
	}
	k.containers[one.ID] = one
}

// names reports whether texts can be names: none is too long, and the first is there.
func names(all ...string) bool {
	return all[0] != "" && !slices.ContainsFunc(all, func(name string) bool { return len(name) > longestName })
}

func pathOf(path string) string {
	if len(path) > longestPath {
		return ""
	}
	return path
}

// kept are the labels or annotations that are asked for, within limits. Those of a
// pod come before those of single containers.
func kept(all map[string]string, keep func(string) bool) map[string]string {
	var keys []string
	for key := range all {
		if keep != nil && keep(key) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		if of, other := rule.PerContainer(a) != "", rule.PerContainer(b) != ""; of != other {
			if of {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	var result map[string]string
	size := 0
	for _, key := range keys {
		value := all[key]
		value = value[:min(len(value), target.MaxValueBytes)]
		if size+len(key)+len(value) > mostKept {
			continue
		}
		size += len(key) + len(value)
		if result == nil {
			result = map[string]string{}
		}
		result[strings.Clone(key)] = strings.Clone(value)
	}
	return result
}

// report is a copy of what is known, in the same order each time.
func (k *known) report() *state.PodReport {
	r := &state.PodReport{Engine: k.engine}
	of := map[string][]state.ReportedContainer{}
	for _, id := range slices.Sorted(maps.Keys(k.containers)) {
		c := k.containers[id]
		of[c.pod] = append(of[c.pod], c.ReportedContainer)
	}
	pods := slices.SortedFunc(maps.Values(k.pods), func(a, b podOf) int { return a.turn - b.turn })
	for _, pod := range pods {
		pod.Containers = of[pod.ID]
		r.Pods = append(r.Pods, pod.ReportedPod)
	}
	return r
}
