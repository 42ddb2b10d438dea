// SPDX-License-Identifier: MIT

package container

import "isolio/internal/host/claim"

// given is what the cluster gave pods. It is read whenever it was written: a pod's claim
// is there before its cgroup. It is not sure if the file is there, and never told all of that.
func (d *disk) given() (b *claim.Book, sure bool) {
	now := *d
	now.trust = false
	file := now.path(claim.File)
	book, sure := of(&now, file, claim.ParseWhole)
	if _, told := d.told[file]; !told && d.faults[file] != "" {
		sure = false // too large, which a file of an engine may be
	}
	return &book, sure
}
