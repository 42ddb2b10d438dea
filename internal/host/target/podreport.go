// SPDX-License-Identifier: MIT

package target

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// PodReportFile is where the daemon keeps what a runtime told it of its pods, for the
// other commands, and for itself after a restart. Only root may read it: labels
// are the tenants'.
const PodReportFile = "run/isolio/pods.json"

// PodReport is what a runtime told of its pods.
type PodReport struct {
	// Engine is as in Container.
	Engine string `json:"engine"`
	// Pods are in the order in which they were told, the last one last.
	Pods []ReportedPod `json:"pods"`
}

// ReportedPod is a pod, whose ID is that of its sandbox.
type ReportedPod struct {
	ID        string `json:"id"`
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// CgroupsPath is the sandbox's, as in an OCI specification, and CgroupParent the
	// pod's: a slice of systemd or a path. A runtime may tell just one of them, and a
	// sandbox need not have a cgroup of its own.
	CgroupsPath  string `json:"cgroups_path,omitempty"`
	CgroupParent string `json:"cgroup_parent,omitempty"`
	// Stopped is true after its processes ended, until the runtime removes the sandbox. A
	// runtime does not tell of it again after a restart.
	Stopped     bool                `json:"stopped,omitempty"`
	Labels      map[string]string   `json:"labels,omitempty"`
	Annotations map[string]string   `json:"annotations,omitempty"`
	Containers  []ReportedContainer `json:"containers,omitempty"`
}

// ReportedContainer is a container of a pod.
type ReportedContainer struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	CgroupsPath string            `json:"cgroups_path,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Write keeps the report below root, "" for /. The file is replaced at once.
func (r PodReport) Write(root string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	name := filepath.Join("/", root, PodReportFile)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// Tell has the Finder take a report in place of the one in the file; nil is none
// again.
func (f *Finder) Tell(r *PodReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report = r
}

// reported are the containers that a runtime told of, in the report or in the file. It is not sure
// if that is there, and cannot be read.
func (d *disk) reported(r *PodReport) (all []Container, sure bool) {
	if r != nil {
		return r.containers(d.kept), true
	}
	return of(d, d.path(PodReportFile), func(text []byte) ([]Container, error) {
		r, err := unmarshal[PodReport](text)
		if err != nil {
			return nil, fmt.Errorf("is damaged: %w; pods keep the weights that they have until the runtime tells of them", err)
		}
		return r.containers(d.kept), nil
	})
}

// containers are those of the report, and the sandboxes of its pods. Each has the
// labels and annotations of its pod, too, as far as they are kept.
func (r PodReport) containers(kept func(map[string]string) map[string]string) []Container {
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
