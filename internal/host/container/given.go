// SPDX-License-Identifier: MIT

package container

import "isolio/internal/host/claim"

// given is what the cluster gave pods. It is read whenever it was written: a pod's claim
// is there before its cgroup.
func (d *disk) given() *claim.Book {
	now := *d
	now.trust = false
	b, _ := of(&now, now.path(claim.File), claim.Parse)
	return &b
}
