// SPDX-License-Identifier: MIT

package target

import "isolio/internal/host/state"

// given is what the cluster gave pods. It is read whenever it was written: a pod's claim
// is there before its cgroup. It is not sure if the file is there, and never told all of that.
func (d *disk) given() (b *state.Claims, sure bool) {
	now := *d
	now.trust = false
	file := now.path(state.ClaimsFile)
	book, sure := of(&now, file, state.ParseWholeClaims)
	if _, told := d.told[file]; !told && d.faults[file] != "" {
		sure = false // too large, which a file of an engine may be
	}
	return &book, sure
}
