// SPDX-License-Identifier: MIT

package command

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
	"k8s.io/client-go/util/watchlist"
)

// owning is a client that makes ResourceSlices for the Node object that there is now. The library
// looks the UID of that object up once, and names it as the owner of each slice. A node that is
// deleted and registers again has another UID. The garbage collector then removes the slices, and
// the library would make them anew with the old UID, to be removed again.
type owning struct{ kubernetes.Interface }

// IsWatchListSemanticsUnSupported is asked for by client-go's reflector.
func (c owning) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(c.Interface)
}

func (c owning) ResourceV1() resourceclient.ResourceV1Interface {
	return owningResources{c.Interface.ResourceV1(), c.Interface}
}

type owningResources struct {
	resourceclient.ResourceV1Interface
	client kubernetes.Interface
}

func (r owningResources) ResourceSlices() resourceclient.ResourceSliceInterface {
	return owningSlices{r.ResourceV1Interface.ResourceSlices(), r.client}
}

type owningSlices struct {
	resourceclient.ResourceSliceInterface
	client kubernetes.Interface
}

// Create makes a slice, which is rare: at the first start on a node, and when slices were removed.
func (s owningSlices) Create(ctx context.Context, slice *resourceapi.ResourceSlice, options meta.CreateOptions) (*resourceapi.ResourceSlice, error) {
	slice = slice.DeepCopy()
	for i := range slice.OwnerReferences {
		owner := &slice.OwnerReferences[i]
		if owner.Kind != "Node" {
			continue
		}
		node, err := s.client.CoreV1().Nodes().Get(ctx, owner.Name, meta.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("node %s, the owner of the slice: %w", owner.Name, err)
		}
		owner.UID = node.UID
	}
	return s.ResourceSliceInterface.Create(ctx, slice, options)
}
