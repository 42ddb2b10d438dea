// SPDX-License-Identifier: MIT

package state

import "fmt"

// PodReportFile is where the daemon keeps what a runtime told it of its pods, for the
// other commands, and for itself after a restart. Only root may read it: labels
// are the tenants'.
const PodReportFile = "run/isolio/pods.json"

// podReportSchema is the version of that file.
const podReportSchema = 1

// PodReport is what a runtime told of its pods.
type PodReport struct {
	// Schema is 0 in files of versions before it.
	Schema int `json:"schema"`
	// Engine is the name of the container engine, such as "containerd".
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
	r.Schema = podReportSchema
	return writeJSON(pathOf(root, PodReportFile), r, 0o600)
}

// ReadPodReport reads the report below root; there is false if there is none.
func ReadPodReport(root string) (r PodReport, there bool, err error) {
	text, there, err := read(pathOf(root, PodReportFile))
	if err != nil || !there {
		return PodReport{}, false, err
	}
	if r, err = ParsePodReport(text); err != nil {
		return PodReport{}, true, fmt.Errorf("/%s: %w", PodReportFile, err)
	}
	return r, true, nil
}

// ParsePodReport reads the text of the file.
func ParsePodReport(text []byte) (r PodReport, err error) {
	if err := unmarshal(text, &r); err != nil {
		return PodReport{}, err
	}
	if r.Schema > podReportSchema {
		return PodReport{}, errSchema(r.Schema, podReportSchema)
	}
	return r, nil
}

// podSightFile says whether the daemon sees the pods of its machine.
const podSightFile = "run/isolio/podsight.json"

// podSightSchema is the version of that file.
const podSightSchema = 1

// PodSight is what the daemon tells isolio-node of the shares that it may sell.
type PodSight struct {
	Schema int `json:"schema"`
	// Unseen is why no daemon gives their weights to pods that come, "" where one does.
	Unseen string `json:"unseen"`
	// ByRules are the shares of disks that rules give pods, by "MAJ:MIN".
	ByRules map[string]int `json:"by_rules,omitempty"`
}

// Write keeps it below root.
func (s PodSight) Write(root string) error {
	s.Schema = podSightSchema
	return writeJSON(pathOf(root, podSightFile), s, 0o644)
}

// ReadPodSight is what the daemon told last. Root alone can tell whether it runs.
func ReadPodSight(root string) PodSight {
	if held, known := Locked(root, DaemonLock); known && !held {
		return PodSight{Unseen: "no isolio daemon runs"}
	}
	text, there, err := read(pathOf(root, podSightFile))
	if err == nil && !there {
		return PodSight{Unseen: "the isolio daemon has not looked at pods yet, or is older than isolio-node"}
	}
	var s PodSight
	if err == nil {
		err = unmarshal(text, &s)
	}
	if err == nil && s.Schema != podSightSchema {
		err = errSchema(s.Schema, podSightSchema)
	}
	if err != nil {
		return PodSight{Unseen: fmt.Sprintf("/%s: %v", podSightFile, err)}
	}
	return s
}

// RemovePodReport forgets what a runtime told, if it told anything.
func RemovePodReport(root string) error { return remove(pathOf(root, PodReportFile)) }
