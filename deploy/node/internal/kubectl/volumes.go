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
	"sync"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isolio/deploy/node/internal/driver"
	"isolio/internal/failure"
	"isolio/internal/table"
)

// port is the one on the loopback of isolio-node's pods that tells of pods, by its name in the
// DaemonSet.
const port = "node-pods"

// atOnce is how many nodes are asked at a time.
const atOnce = 16

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
	type node struct {
		pod *core.Pod
		at  int
		of  driver.Pods
		err error
	}
	var asked []*node
	for i := range set.Items {
		pod := &set.Items[i]
		at := portOf(pod)
		if at == 0 || pod.Spec.NodeName == "" || len(nodes) > 0 && !slices.Contains(nodes, pod.Spec.NodeName) {
			continue
		}
		asked = append(asked, &node{pod: pod, at: at})
	}
	var wait sync.WaitGroup
	limit := make(chan struct{}, atOnce)
	for _, n := range asked {
		limit <- struct{}{}
		wait.Go(func() {
			defer func() { <-limit }()
			text, err := p.ask(ctx, n.pod.Name, n.at, driver.PodsPath)
			if err == nil {
				err = json.Unmarshal(text, &n.of)
			}
			n.err = err
		})
	}
	wait.Wait()
	all := []Volume{}
	var failed []error
	for _, n := range asked {
		on := n.pod.Spec.NodeName
		if n.err != nil {
			failed = append(failed, fmt.Errorf("node %s: pod %s: volumes: %w", on, n.pod.Name, n.err))
			continue
		}
		for _, one := range n.of.Pods {
			for _, v := range one.Volumes {
				all = append(all, Volume{Node: on, Namespace: one.Namespace, Pod: one.Name, Volume: v, Share: shareOf(disks, on, one, v.Disk)})
			}
		}
	}
	if len(asked) == 0 {
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

// portOf is the number of the port that a pod of isolio-node tells of pods on, 0 for another pod.
func portOf(pod *core.Pod) int {
	for i := range pod.Spec.Containers {
		for _, at := range pod.Spec.Containers[i].Ports {
			if at.Name == port {
				return int(at.ContainerPort)
			}
		}
	}
	return 0
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
