// SPDX-License-Identifier: MIT

package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isolio/deploy/node/internal/driver"
	"isolio/internal/failure"
	"isolio/internal/table"
)

// port is the one of isolio-node's pods that serves, by its name in the DaemonSet.
const port = "node-metrics"

// Volume is a volume of a pod of the cluster.
type Volume struct {
	Node      string `json:"node"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	driver.Volume
	// Share is what claims of the pod have of the disk.
	Share int `json:"share"`
}

// writeVolumes shows which disk each volume lies on. A node that does not answer is an error,
// after the volumes of the others.
func (p *plugin) writeVolumes(ctx context.Context, out io.Writer, disks []Disk, nodes []string, asJSON bool) error {
	set, err := p.client.CoreV1().Pods(p.system).List(ctx, meta.ListOptions{LabelSelector: "app.kubernetes.io/name=isolio"})
	if err != nil {
		return err
	}
	all, asked := []Volume{}, 0
	var failed []error
	for i := range set.Items {
		pod := &set.Items[i]
		at := portOf(pod)
		if at == "" || pod.Spec.NodeName == "" || len(nodes) > 0 && !slices.Contains(nodes, pod.Spec.NodeName) {
			continue
		}
		asked++
		text, err := p.client.CoreV1().Pods(p.system).ProxyGet("http", pod.Name, at, driver.PodsPath, nil).DoRaw(ctx)
		var of driver.Pods
		if err == nil {
			err = json.Unmarshal(text, &of)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("node %s: pod %s: volumes: %w", pod.Spec.NodeName, pod.Name, err))
			continue
		}
		for _, one := range of.Pods {
			for _, v := range one.Volumes {
				all = append(all, Volume{Node: pod.Spec.NodeName, Namespace: one.Namespace, Pod: one.Name, Volume: v, Share: shareOf(disks, pod.Spec.NodeName, one, v.Disk)})
			}
		}
	}
	if asked == 0 {
		return failure.Usagef("namespace %s: has no pod of isolio-node%s; --system-namespace says where isolio is installed", p.system, strings.Join(slices.Concat(slices.Repeat([]string{" on "}, min(len(nodes), 1)), nodes), ""))
	}
	slices.SortStableFunc(all, func(a, b Volume) int {
		return strings.Compare(a.Node+"\x00"+a.Namespace+"\x00"+a.Pod, b.Node+"\x00"+b.Namespace+"\x00"+b.Pod)
	})
	if asJSON {
		text := json.NewEncoder(out)
		text.SetIndent("", "  ")
		err = text.Encode(map[string]any{"schema": 1, "volumes": all})
	} else {
		err = table.Write(out, volumeColumns, volumeRows(all))
	}
	return errors.Join(append(failed, err)...)
}

// portOf is the number of the port that a pod of isolio-node serves on, "" for another pod.
func portOf(pod *core.Pod) string {
	for i := range pod.Spec.Containers {
		for _, at := range pod.Spec.Containers[i].Ports {
			if at.Name == port {
				return strconv.Itoa(int(at.ContainerPort))
			}
		}
	}
	return ""
}

// shareOf is what claims of a pod have of a disk; pods that have a claim together have equal parts.
func shareOf(disks []Disk, node string, pod driver.Pod, name string) (sum int) {
	for _, d := range disks {
		if d.Node != node || d.Name != name {
			continue
		}
		for _, part := range d.Has {
			if part.Namespace == pod.Namespace && slices.Contains(part.Pods, pod.Name) {
				sum += part.Share / len(part.Pods)
			}
		}
	}
	return sum
}

var volumeColumns = []table.Column{{Head: "NODE"}, {Head: "NAMESPACE"}, {Head: "POD"}, {Head: "VOLUME"}, {Head: "DISK"}, {Head: "SHARES", Right: true}, {Head: "ON"}}

func volumeRows(all []Volume) [][]string {
	var rows [][]string
	for _, v := range all {
		disk, share := v.Disk, strconv.Itoa(v.Share)
		if disk == "" {
			disk, share = "none", "" // memory, or a network
		}
		rows = append(rows, []string{v.Node, v.Namespace, v.Pod, v.Name, disk, share, strings.Join(v.On, ", ")})
	}
	return rows
}
