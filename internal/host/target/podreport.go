// SPDX-License-Identifier: MIT

package target

import (
	"fmt"
	"maps"

	"isolio/internal/host/state"
)

// Tell has the Finder take a report in place of the one in the file; nil is none
// again.
func (f *Finder) Tell(r *state.PodReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report = r
}

// reported are the containers that a runtime told of, in the report or in the file. It is not sure
// if that is there, and cannot be read.
func (d *disk) reported(r *state.PodReport) (all []Container, sure bool) {
	if r != nil {
		return reportedContainers(*r, d.kept), true
	}
	return of(d, d.path(state.PodReportFile), func(text []byte) ([]Container, error) {
		r, err := state.ParsePodReport(text)
		if err != nil {
			return nil, fmt.Errorf("%w; pods keep the weights that they have until the runtime tells of them", err)
		}
		return reportedContainers(r, d.kept), nil
	})
}

// reportedContainers are those of the report, and the sandboxes of its pods. Each has the
// labels and annotations of its pod, too, as far as they are kept.
func reportedContainers(r state.PodReport, kept func(map[string]string) map[string]string) []Container {
	var all []Container
	add := func(id, cgroupsPath string, who identity, labels, annotations map[string]string) *Container {
		c := Container{ID: id, Engine: r.Engine, Cgroup: groupOf(cgroupsPath), Labels: kept(labels), Annotations: kept(annotations), asCRIO: who}
		if c.Labels == nil {
			c.Labels = map[string]string{} // they are known, and there are none of use
		}
		c.is(who)
		all = append(all, c)
		return &all[len(all)-1]
	}
	for turn, p := range r.Pods {
		who := identity{namespace: p.Namespace, pod: p.Name, podUID: p.UID}
		pause := who
		pause.sandbox = true
		sandbox := add(p.ID, p.CgroupsPath, pause, p.Labels, p.Annotations)
		sandbox.podAt, sandbox.turn = parentOf(p.CgroupParent), turn
		for _, c := range p.Containers {
			who.name = c.Name
			add(c.ID, c.CgroupsPath, who, merged(maps.Clone(c.Labels), p.Labels), merged(maps.Clone(c.Annotations), p.Annotations))
		}
	}
	return all
}
