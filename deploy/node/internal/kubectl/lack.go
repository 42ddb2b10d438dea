// SPDX-License-Identifier: MIT

package kubectl

import (
	"cmp"
	"context"
	"slices"
	"strings"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isolio/deploy/node/internal/driver"
)

// Lack is a disk that a node was to share by weight, and could not.
type Lack struct {
	Node string `json:"node"`
	Why  string `json:"why"`
}

// lacks are those of which nodes tell in their events, without disks that are offered by now:
// an event stays for an hour.
func (p *plugin) lacks(ctx context.Context, offered []Disk) ([]Lack, error) {
	list, err := p.client.CoreV1().Events(meta.NamespaceDefault).List(ctx, meta.ListOptions{FieldSelector: "involvedObject.kind=Node,reason=" + driver.NotEnabled})
	if err != nil {
		return nil, err
	}
	var all []Lack
	for i := range list.Items {
		e := &list.Items[i]
		isOffered := slices.ContainsFunc(offered, func(d Disk) bool {
			return d.Node == e.InvolvedObject.Name && strings.HasPrefix(e.Message, driver.Lacking(d.Name))
		})
		one := Lack{Node: e.InvolvedObject.Name, Why: e.Message}
		if e.Reason == driver.NotEnabled && e.InvolvedObject.Kind == "Node" && !isOffered && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b Lack) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Why, b.Why)) })
	return all, nil
}
